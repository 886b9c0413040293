"""Renews leases in a thread with its own connection, so that a blocked event loop loses none."""

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

RENEWALS_PER_TTL = 3
TICKS_PER_TTL = 12
CHECK_S = 0.3
"""A lease counts as lost when two checks in a row find it lost: the task may be giving it up itself
during the first one. A lease revoked right after its claim is found lost after two to three
checks."""
MAX_CHECKED = 500


class _Held(Struct):
    """Times are those of `time.monotonic`, in seconds."""

    handle: Handle
    due: float
    expires: float
    lost: Callable[[], None]
    since: float
    suspected: bool = False


class LeaseRenewer:
    """`hold` and `let_go` are called on the worker's event loop; renewals happen in the thread.

    An engine in memory cannot be used from another thread and is renewed on the worker's loop.
    """

    def __init__(self, app: App, ttl_ms: int) -> None:
        self._app, self._ttl_s = app, ttl_ms / 1_000
        self._period_s, self._tick_s = self._ttl_s / RENEWALS_PER_TTL, self._ttl_s / TICKS_PER_TTL
        self._held: dict[bytes, _Held] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._checker: asyncio.Task[None] | None = None
        self.failures = 0

    def hold(self, handle: Handle, lost: Callable[[], None]) -> None:
        """Keeps the lease until `let_go`. `lost` is called on this event loop if it is lost."""
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
            self._task = asyncio.create_task(self._renew_on_loop(), name="flowfabric-renewer")
            return
        self._thread = threading.Thread(target=self._run, name="flowfabric-renewer", daemon=True)
        self._thread.start()

    async def _renew_on_loop(self) -> None:
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
        """A cancelled run stops within a second. One call covers all leases older than a check."""
        engine = await self._app.engine()
        while True:
            await asyncio.sleep(CHECK_S)
            before = time.monotonic() - CHECK_S
            older = [held for held in tuple(self._held.values()) if held.since <= before]
            for at in range(0, len(older), MAX_CHECKED):
                await self._check(engine, older[at : at + MAX_CHECKED])

    async def _check(self, engine: EngineProtocol, batch: list[_Held]) -> None:
        try:
            async with asyncio.timeout(self._ttl_s):
                answers = await engine.are_held([held.handle for held in batch])
        except (EngineError, TimeoutError):
            return  # the next renewal decides
        except Exception:
            log.exception("leases could not be checked; trying again")
            return
        for held, is_held in zip(batch, answers, strict=True):
            if not is_held and held.suspected:
                self._lose(held)
            held.suspected = not is_held

    # ---- in the thread

    def _run(self) -> None:
        """No connection is opened before the first lease is due."""
        while not self._stop.wait(self._tick_s):
            if self._due():
                try:
                    asyncio.run(self._renew_in_thread())
                except Exception:
                    log.warning("leases could not be renewed; trying again", exc_info=True)
                    self._drop_expired()

    def _due(self) -> list[_Held]:
        now = time.monotonic()
        return [held for held in tuple(self._held.values()) if held.due <= now]

    async def _renew_in_thread(self) -> None:
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
        self._drop_expired()

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
                log.warning(
                    "a lease could not be renewed; trying again",
                    extra={"reason": str(error) or "no answer"},
                )
            return
        except Exception:
            self.failures += 1
            log.exception("a lease could not be renewed; trying again")
            return
        held.due, held.expires = began + self._period_s, began + self._ttl_s

    def _drop_expired(self) -> None:
        """An expired lease may belong to another worker, even if the store cannot be asked."""
        now = time.monotonic()
        for held in tuple(self._held.values()):
            if held.expires <= now:
                self._lose(held)

    def _lose(self, held: _Held) -> None:
        if self._held.pop(held.handle.opaque, None) is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(held.lost)
