"""Leases are kept by a thread with a connection of its own: a task that blocks the event loop does not lose them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from flowfabric.engine.engine import Engine
from flowfabric.errors import Contention, ContentionKind, EngineError, NotFound, StateError
from flowfabric.model.lease import Handle

if TYPE_CHECKING:
    from flowfabric.sdk.app import App

log = logging.getLogger("flowfabric.worker")

SHARE = 3
"""A lease is renewed when a third of its time has passed."""
TICKS = 12


class _Held(Struct):
    handle: Handle
    due: float
    lost: Callable[[], None]


class Renewer:
    """`hold` and `let_go` are called from the worker's loop; everything else happens in the thread.

    An engine that lives in this process alone is used where it lives.
    """

    def __init__(self, app: App, ttl_ms: int) -> None:
        self._app, self._period_s = app, ttl_ms / SHARE / 1_000
        self._held: dict[bytes, _Held] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self.failures = 0

    def hold(self, handle: Handle, lost: Callable[[], None]) -> None:
        """Until it is let go. `lost` is called on this event loop when the lease is gone."""
        loop = asyncio.get_running_loop()
        due = time.monotonic() + self._period_s
        self._held[handle.opaque] = _Held(handle, due, lambda: _soon(loop, lost))
        if self._thread is None and self._task is None:
            self._start()

    def _start(self) -> None:
        if self._app.is_local:
            self._task = asyncio.create_task(self._renew_here(), name="flowfabric-renewer")
            return
        self._thread = threading.Thread(target=self._run, name="flowfabric-renewer", daemon=True)
        self._thread.start()

    async def _renew_here(self) -> None:
        await self._renew_with(await self._app.engine())

    def let_go(self, handle: Handle) -> None:
        self._held.pop(handle.opaque, None)

    async def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    # ---- in the thread

    def _run(self) -> None:
        """Nothing is opened before the first lease has lived long enough to be renewed."""
        while not self._stop.wait(self._tick_s):
            if self._due():
                asyncio.run(self._renew_on())

    @property
    def _tick_s(self) -> float:
        return self._period_s * SHARE / TICKS

    def _due(self) -> list[_Held]:
        now = time.monotonic()
        return [held for held in tuple(self._held.values()) if held.due <= now]

    async def _renew_on(self) -> None:
        try:
            engine = await self._app.another_engine()
        except EngineError:
            log.warning("leases cannot be renewed: no connection; trying again", exc_info=True)
            return
        try:
            await self._renew_with(engine)
        finally:
            await engine.close()

    async def _renew_with(self, engine: Engine) -> None:
        while not self._stop.is_set():
            await asyncio.gather(*(self._renew(engine, held) for held in self._due()))
            await asyncio.sleep(self._tick_s)

    async def _renew(self, engine: Engine, held: _Held) -> None:
        began = time.monotonic()
        try:
            await engine.renew(held.handle)
        except EngineError as error:
            self.failures += 1
            if _is_lost(error):
                if self._held.pop(held.handle.opaque, None) is not None:
                    held.lost()
                return
            log.warning("a lease could not be renewed (%s); trying again", error)
            return
        held.due = began + self._period_s


def _is_lost(error: EngineError) -> bool:
    if isinstance(error, Contention):
        return error.kind in (ContentionKind.LEASE_CONFLICT, ContentionKind.EXECUTION_NOT_ACTIVE)
    return isinstance(error, StateError | NotFound)


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)
