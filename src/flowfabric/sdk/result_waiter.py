"""Waits for runs to end: one subscription per app, however many callers wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from uuid import UUID

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import EngineError, NotFound
from flowfabric.ids import ExecutionId
from flowfabric.model.event import ScannerFilter, is_end
from flowfabric.model.execution import ExecutionOutcome
from flowfabric.sdk.retry import persist

log = logging.getLogger("flowfabric.results")

Seen = tuple["asyncio.Task[None] | None", int]
LONG_POLL_MS, MAX_LONG_POLLS = 20_000, 16
NEW_RUN_PAUSE_S = 0.002
"""A server that has just taken a run is not asked for its result before it could hand it out."""
RECHECK_S = 5.0
"""A waiter reads the outcome this often, should an event be lost."""


class ResultWaiter:
    """A waiter registers before it reads the outcome, so an end in between is not missed.

    It hears the ends of one namespace at once, and finds those of others when it rechecks.
    """

    def __init__(
        self, engine: Callable[[], Awaitable[EngineProtocol]], namespace: str = "default"
    ) -> None:
        self._engine, self._wanted = engine, ScannerFilter(namespace)
        self._waiters: dict[UUID, list[asyncio.Future[None]]] = {}
        self._subscriber: asyncio.Task[None] | None = None
        self._subscribed: asyncio.Future[None] | None = None
        self._events = self._long_polls = 0

    @property
    def seen(self) -> Seen:
        """The position of the subscription, if it stands.

        A run created at this position has not ended while the position is the same.
        """
        subscriber, subscribed = self._subscriber, self._subscribed
        if subscriber is None or subscriber.done() or subscribed is None or not subscribed.done():
            return None, self._events
        return subscriber, self._events

    async def outcome(
        self, ident: ExecutionId, timeout_s: float | None, created_at: Seen | None = None
    ) -> ExecutionOutcome:
        """The outcome of a run, once it has ended. `created_at` is `seen` when it was created."""
        async with asyncio.timeout(timeout_s):
            engine = await self._engine()
            if engine.may_wait and self._long_polls < MAX_LONG_POLLS:
                pause_s = 0.0 if created_at is None else NEW_RUN_PAUSE_S
                return await self._long_poll(engine, ident, pause_s)
            while True:
                woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiters.setdefault(ident.uuid, []).append(woken)
                try:
                    await self._subscribe()
                    if created_at is None or created_at != self.seen:
                        outcome = await self._read(ident)
                        if outcome.ended:
                            return outcome
                    created_at = None
                    await asyncio.wait({woken}, timeout=RECHECK_S)
                finally:
                    self._forget(ident.uuid, woken)

    async def _long_poll(
        self, engine: EngineProtocol, ident: ExecutionId, pause_s: float
    ) -> ExecutionOutcome:
        """On a server, a few waiters poll for themselves; further ones share the subscription."""
        self._long_polls += 1
        try:
            await asyncio.sleep(pause_s)
            while True:
                outcome = await persist(lambda: engine.wait_for_outcome(ident, LONG_POLL_MS))
                if outcome is None:
                    raise NotFound("execution", ident)
                if outcome.ended:
                    return outcome
        finally:
            self._long_polls -= 1

    async def _read(self, ident: ExecutionId) -> ExecutionOutcome:
        engine = await self._engine()
        outcome = await persist(lambda: engine.read_outcome(ident))
        if outcome is None:
            raise NotFound("execution", ident)
        return outcome

    def wake(self, ident: UUID) -> None:
        """Has the waiters of this run read its outcome."""
        for woken in self._waiters.pop(ident, ()):
            if not woken.done():
                woken.set_result(None)

    def _forget(self, ident: UUID, woken: asyncio.Future[None]) -> None:
        waiters = self._waiters.get(ident, [])
        if woken in waiters:
            waiters.remove(woken)
        if not waiters:
            self._waiters.pop(ident, None)

    async def _subscribe(self) -> None:
        if self._subscriber is None or self._subscriber.done():
            self._subscribed = asyncio.get_running_loop().create_future()
            self._subscriber = asyncio.create_task(
                self._follow(self._subscribed), name="flowfabric-results"
            )
        assert self._subscribed is not None
        await asyncio.shield(self._subscribed)

    async def _follow(self, subscribed: asyncio.Future[None]) -> None:
        try:
            events = await (await self._engine()).subscribe_completion(wanted=self._wanted)
            subscribed.set_result(None)
            async for event in events:
                self._events += 1
                if is_end(event.outcome):
                    self.wake(event.execution_id.uuid)
        except EngineError as error:  # the next waiter subscribes anew
            log.info(
                "the subscription to completions ended; waiters poll until the next one",
                extra={"reason": str(error)},
            )
        finally:
            if not subscribed.done():
                subscribed.set_result(None)

    async def stop(self) -> None:
        if self._subscriber is not None:
            self._subscriber.cancel()
            with suppress(asyncio.CancelledError):
                await self._subscriber
            self._subscriber = None
