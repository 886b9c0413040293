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

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import EngineError
from flowfabric.model.lease import Handle
from flowfabric.sdk.retry import is_lost

if TYPE_CHECKING:
    from flowfabric.sdk.app import App

log = logging.getLogger("flowfabric.worker")

SHARE = 3
"""A lease is renewed when a third of its time has passed."""
TICKS = 12
CHECK_S = 0.3
"""A lease found lost twice, this far apart, is lost. Once is not enough: the task may be giving it up itself at this moment.
One that is taken away right after its claim is found lost after two to three of these times.
"""
MAX_CHECKED = 500


class _Held(Struct):
    handle: Handle
    due: float
    until: float
    lost: Callable[[], None]
    since: float
    suspected: bool = False


class LeaseRenewer:
    """`hold` and `let_go` are called from the worker's loop; everything else happens in the thread.

    An engine that lives in this process alone is used where it lives.
    """

    def __init__(self, app: App, ttl_ms: int) -> None:
        self._app, self._ttl_s = app, ttl_ms / 1_000
        self._period_s, self._tick_s = self._ttl_s / SHARE, self._ttl_s / TICKS
        self._held: dict[bytes, _Held] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._checker: asyncio.Task[None] | None = None
        self.failures = 0

    def hold(self, handle: Handle, lost: Callable[[], None]) -> None:
        """Until it is let go. `lost` is called on this event loop when the lease is gone."""
        now = time.monotonic()
        self._held[handle.opaque] = _Held(
            handle, now + self._period_s, now + self._ttl_s, lost, now
        )
        if self._checker is None:
            self._checker = asyncio.create_task(self._check_often(), name="flowfabric-lease-checks")
        if self._thread is None and self._task is None:
            self._start()

    def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._app.is_local:
            self._task = asyncio.create_task(self._renew_here(), name="flowfabric-renewer")
            return
        self._thread = threading.Thread(target=self._run, name="flowfabric-renewer", daemon=True)
        self._thread.start()

    async def _renew_here(self) -> None:
        engine = await self._app.engine()
        while True:
            await self._renew_due(engine)
            await asyncio.sleep(self._tick_s)

    def let_go(self, handle: Handle) -> None:
        self._held.pop(handle.opaque, None)

    async def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        for task in (self._task, self._checker):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    # ---- cancels and revokes

    async def _check_often(self) -> None:
        """So that a task hears of its cancel within a second; one call for all, and none while no task runs for long."""
        engine = await self._app.engine()
        while True:
            await asyncio.sleep(CHECK_S)
            before = time.monotonic() - CHECK_S
            old = [held for held in tuple(self._held.values()) if held.since <= before]
            for at in range(0, len(old), MAX_CHECKED):
                await self._check(engine, old[at : at + MAX_CHECKED])

    async def _check(self, engine: EngineProtocol, some: list[_Held]) -> None:
        try:
            async with asyncio.timeout(self._ttl_s):
                answers = await engine.are_held([held.handle for held in some])
        except (EngineError, TimeoutError):
            return  # the renewal finds out
        except Exception:
            log.exception("whether leases are still held could not be asked; trying again")
            return
        for held, is_held in zip(some, answers, strict=True):
            if not is_held and held.suspected:
                self._lose(held)
            held.suspected = not is_held

    # ---- in the thread

    def _run(self) -> None:
        """Nothing is opened before the first lease has lived long enough to be renewed."""
        while not self._stop.wait(self._tick_s):
            if self._due():
                try:
                    asyncio.run(self._renew_on())
                except Exception:
                    log.warning("leases could not be renewed; trying again", exc_info=True)
                    self._give_up()

    def _due(self) -> list[_Held]:
        now = time.monotonic()
        return [held for held in tuple(self._held.values()) if held.due <= now]

    async def _renew_on(self) -> None:
        engine = await self._app.another_engine()
        try:
            while True:
                await self._renew_due(engine)
                if await asyncio.to_thread(self._stop.wait, self._tick_s):
                    return
        finally:
            await engine.close()

    async def _renew_due(self, engine: EngineProtocol) -> None:
        await asyncio.gather(*(self._renew(engine, held) for held in self._due()))
        self._give_up()

    async def _renew(self, engine: EngineProtocol, held: _Held) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._ttl_s):
                await engine.renew(held.handle)
        except (EngineError, TimeoutError) as error:
            self.failures += 1
            if isinstance(error, EngineError) and is_lost(error):
                self._lose(held)
            else:
                log.warning("a lease could not be renewed (%s); trying again", error or "no answer")
            return
        except Exception:
            self.failures += 1
            log.exception("a lease could not be renewed; trying again")
            return
        held.due, held.until = began + self._period_s, began + self._ttl_s

    def _give_up(self) -> None:
        """What could not be renewed in time may be somebody else's by now, whether that can be asked or not."""
        now = time.monotonic()
        for held in tuple(self._held.values()):
            if held.until <= now:
                self._lose(held)

    def _lose(self, held: _Held) -> None:
        if self._held.pop(held.handle.opaque, None) is not None:
            with suppress(RuntimeError):  # that loop is closed
                self._loop.call_soon_threadsafe(held.lost)
