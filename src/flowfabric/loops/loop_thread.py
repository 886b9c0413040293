"""Runs the loops on a thread with its own event loop: blocking user code cannot stall them."""

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
"""Longest time that closing may take after the grace of the cycles."""


class Loops(Protocol):
    @property
    def is_running(self) -> bool: ...

    def start(self) -> None: ...

    async def stop(self, grace_s: float) -> None: ...

    def watched_by(self, listener: Telemetry) -> None: ...


class LoopThread:
    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Loops]]) -> None:
        self._opened = opened
        self.inside: Loops | None = None
        self._listener: Telemetry = NO_TELEMETRY
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

    def watched_by(self, listener: Telemetry) -> None:
        self._listener = listener
        if self.inside is not None:
            self.inside.watched_by(listener)

    def start(self) -> None:
        self._thread.start()
        self._began.wait()

    def end(self, grace_s: float = 0.0) -> None:
        """Asks the thread to end without waiting; safe from any thread."""
        self._grace_s = grace_s
        if self._loop is not None and self._stopping is not None:
            with suppress(RuntimeError):  # the event loop has ended
                self._loop.call_soon_threadsafe(self._stopping.set)

    async def stop(self, grace_s: float) -> None:
        """Lets running cycles finish within the grace, then ends the thread."""
        here, ended = asyncio.get_running_loop(), asyncio.Event()
        self._on_end = lambda: here.call_soon_threadsafe(ended.set)
        self.end(grace_s)
        if self._thread.is_alive():
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s + MARGIN_S):
                    await ended.wait()
                    # `ended` is set just before the thread ends
                    await asyncio.to_thread(self._thread.join, MARGIN_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            log.exception("thread of the background loops failed")
        finally:
            self._began.set()
            with suppress(RuntimeError):  # the waiting event loop is closed
                self._on_end()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with self._opened() as loops:
            loops.watched_by(self._listener)
            loops.start()
            self.inside = loops
            self._began.set()
            await self._stopping.wait()
            await loops.stop(self._grace_s)
