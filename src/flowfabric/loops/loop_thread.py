"""Loops on a thread with an event loop of their own: code that blocks the caller's event loop does not hold them up."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol

from flowfabric.engine.telemetry import NO_TELEMETRY, Telemetry

log = logging.getLogger("flowfabric.loops")

MARGIN_S = 10.0
"""What closing may take beyond the grace of the passes."""


class Loops(Protocol):
    @property
    def is_running(self) -> bool: ...

    def start(self) -> None: ...

    async def stop(self, grace_s: float) -> None: ...

    def watched_by(self, onlooker: Telemetry) -> None: ...


class LoopThread:
    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Loops]]) -> None:
        self._opened = opened
        self.inside: Loops | None = None
        self._onlooker: Telemetry = NO_TELEMETRY
        self._began = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._grace_s = 0.0
        self._on_end: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="flowfabric-loops", daemon=True)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive() and self.inside is not None and self.inside.is_running

    @property
    def leads(self) -> bool:
        return self.inside is not None and bool(getattr(self.inside, "leads", True))

    def watched_by(self, onlooker: Telemetry) -> None:
        self._onlooker = onlooker
        if self.inside is not None:
            self.inside.watched_by(onlooker)

    def start(self) -> None:
        self._thread.start()
        self._began.wait()

    def end(self, grace_s: float = 0.0) -> None:
        """Asks the thread to end and does not wait; safe from any thread."""
        self._grace_s = grace_s
        if self._loop is not None and self._stopping is not None:
            with suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._stopping.set)

    async def stop(self, grace_s: float) -> None:
        """Lets running passes finish within the grace."""
        here, ended = asyncio.get_running_loop(), asyncio.Event()
        self._on_end = lambda: here.call_soon_threadsafe(ended.set)
        self.end(grace_s)
        if self._thread.is_alive():
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s + MARGIN_S):
                    await ended.wait()
                    await asyncio.to_thread(
                        self._thread.join, MARGIN_S
                    )  # it said so just before its end

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            log.exception("the thread of the loops ended")
        finally:
            self._began.set()
            with suppress(RuntimeError):  # the event loop that waited is closed
                self._on_end()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with self._opened() as loops:
            loops.watched_by(self._onlooker)
            loops.start()
            self.inside = loops
            self._began.set()
            await self._stopping.wait()
            await loops.stop(self._grace_s)
