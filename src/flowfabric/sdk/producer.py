"""Claims executions for the free slots of a worker, which is registered with the engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import EngineError
from flowfabric.model.event import LEASE_EVENTS
from flowfabric.model.lease import MAX_CLAIM_BATCH, ClaimPolicy, Handle, Work
from flowfabric.model.worker import NotRegistered, RegisterWorkerArgs
from flowfabric.sdk.retry import passes
from flowfabric.store.wakeups import WorkWaiter

log = logging.getLogger("flowfabric.worker")

SHORTEST_TTL_MS = 1_000


class Registration(Struct):
    """Who a worker is to the engine, and what it can run."""

    worker_id: str
    instance_id: str
    namespace: str
    lanes: frozenset[str]
    capabilities: tuple[str, ...]
    lease_ms: int

    def policy(self, wait_ms: int | None = None) -> ClaimPolicy:
        return ClaimPolicy(self.worker_id, self.instance_id, self.lease_ms, wait_ms, self.namespace)

    async def add(self, engine: EngineProtocol) -> None:
        await engine.register_worker(
            RegisterWorkerArgs(
                worker_id=self.worker_id,
                worker_instance_id=self.instance_id,
                namespace=self.namespace,
                lanes=self.lanes,
                capabilities=frozenset(self.capabilities),
                liveness_ttl_ms=max(self.lease_ms, SHORTEST_TTL_MS),
            )
        )

    async def remove(self, engine: EngineProtocol) -> None:
        """Capability routing notices at once, instead of after the entry's time to live."""
        with suppress(EngineError):
            await engine.mark_worker_dead(self.instance_id, "stopped", self.namespace)

    async def beat(self, engine: EngineProtocol) -> None:
        """Sends a heartbeat every third of the lease time; registers again after a removal."""
        while True:
            await asyncio.sleep(self.lease_ms / 3_000)
            try:
                answer = await engine.heartbeat_worker(self.instance_id, self.namespace)
                if isinstance(answer, NotRegistered):
                    await self.add(engine)
            except EngineError as error:
                log.warning("heartbeat failed; trying again", extra={"reason": str(error)})
            except Exception:
                log.exception("heartbeat failed; trying again")


POLL_S = 5.0
"""An idle worker looks this often even without a wake-up."""
BATCH_PAUSE_S = 0.02
REMOTE_PAUSE_S = 0.003
FIRST_PAUSE_S, LAST_PAUSE_S = 0.1, 5.0
MAX_COMBINED = 64
"""A larger batch of completions does not claim: the call would hold up the work of all of it."""
CALL_OFF_S = 2.0
"""How long a stopping worker waits for a pending claim on a server to return."""


class Slots:
    """Counts free slots. A claim reserves what it asks for.

    The count is negative for a moment when a completion brings the next execution with it.
    """

    def __init__(self, free: int) -> None:
        self.free = free
        self._reserved = 0
        self._available = asyncio.Event()
        self._available.set()

    @property
    def are_taken(self) -> bool:
        """Whether executions hold every slot, not counting reservations."""
        return self.free + self._reserved <= 0

    def reserve(self, count: int) -> None:
        self._reserved += count
        self.take(count)

    def settle(self, reserved: int, claimed: int) -> None:
        """Ends a reservation, of which `claimed` slots stay taken."""
        self._reserved -= reserved
        self.release(reserved - claimed)

    def take(self, count: int) -> None:
        self.free -= count
        if self.free <= 0:
            self._available.clear()

    def release(self, count: int = 1) -> None:
        self.free += count
        if self.free > 0:
            self._available.set()

    async def wait(self) -> None:
        """Until a slot is free, or `wake` is called."""
        await self._available.wait()

    def wake(self) -> None:
        self._available.set()


class Producer:
    """Claims in a loop until it is stopped, and hands each execution to `start`."""

    def __init__(
        self,
        registration: Registration,
        lanes: list[str],
        slots: Slots,
        start: Callable[[Work, str], None],
    ) -> None:
        self._registration, self._slots, self._start = registration, slots, start
        self.lanes = lanes
        """Rotated, so that every lane comes first in turn."""
        self.stopping = asyncio.Event()
        self.is_crashed = False
        self._waiter: WorkWaiter | None = None

    def stop(self) -> None:
        """Claims nothing more."""
        self.stopping.set()
        self._slots.wake()
        if self._waiter is not None:
            self._waiter.ring()

    async def run(self, engine: EngineProtocol) -> None:
        pause = FIRST_PAUSE_S
        while not self.stopping.is_set():
            try:
                await self._claim_or_wait(engine)
                pause = FIRST_PAUSE_S
            except Exception as error:
                fields = {"pause_s": pause, "reason": str(error)}
                if isinstance(error, EngineError) and passes(error):
                    log.warning("claiming failed; trying again after a pause", extra=fields)
                else:
                    log.exception("claiming failed; trying again after a pause", extra=fields)
                await self._rest(pause)
                pause = min(pause * 2, LAST_PAUSE_S)

    async def _claim_or_wait(self, engine: EngineProtocol) -> None:
        """Waits for a free slot first, so that a claimed execution starts at once."""
        if self._slots.free <= 0:
            engine.telemetry.worker_at_capacity()
            await self._slots.wait()
        if len(self.lanes) == 1 and engine.may_wait:
            await self._claim_on_server(engine)
            return
        namespace = self._registration.namespace
        waiter = self._waiter = await engine.work_bell(*self.lanes, namespace=namespace)
        with waiter:
            # Armed before the claim, so that an execution submitted in between is not missed.
            waiter.arm()
            if self.stopping.is_set():
                return
            taken = await self.claim(engine)
            if self._slots.free > 0:  # the lanes are empty; the pause lets what was claimed start
                await waiter.wait(BATCH_PAUSE_S if taken else POLL_S)
        if not taken and (LEASE_EVENTS, None) in waiter.topics:
            await self._rest(BATCH_PAUSE_S)  # leases end often, and few ends let a run start

    async def _claim_on_server(self, engine: EngineProtocol) -> None:
        """The claim waits on the server for work, and is called off when the worker stops.

        It is not just cancelled: an execution granted at that moment would wait until its lease
        expires.
        """
        claim = asyncio.create_task(self.claim(engine, int(POLL_S * 1_000)))
        stopping = asyncio.create_task(self.stopping.wait())
        taken = 0
        try:
            await asyncio.wait({claim, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not claim.done():
                await self._call_off(engine, claim)
            if claim.done():
                taken = claim.result()
        finally:
            for task in (claim, stopping):
                task.cancel()
            await asyncio.wait({claim, stopping})
        if taken and self._slots.free > 0:
            await self._rest(REMOTE_PAUSE_S)

    async def _call_off(self, engine: EngineProtocol, claim: asyncio.Task[int]) -> None:
        with suppress(EngineError, TimeoutError):
            async with asyncio.timeout(CALL_OFF_S):
                await engine.call_off(self._registration.instance_id)
                await asyncio.wait({claim})

    async def claim(self, engine: EngineProtocol, wait_ms: int | None = None) -> int:
        """Claims from each lane in turn while slots are free. Returns how many were claimed."""
        taken, registration = 0, self._registration
        for lane in tuple(self.lanes):
            if self._slots.free <= 0:
                break
            wanted = min(self._slots.free, MAX_CLAIM_BATCH)
            self._slots.reserve(wanted)
            works: list[Work] = []
            try:
                works = await engine.claim_many(
                    lane, registration.capabilities, registration.policy(wait_ms), wanted
                )
            finally:
                self._slots.settle(wanted, len(works))
            for work in works:
                self._start(work, lane)
            taken += len(works)
        self._rotate()
        return taken

    async def complete(
        self, engine: EngineProtocol, many: Sequence[tuple[Handle, bytes | None]]
    ) -> Sequence[EngineError | None]:
        """When every slot is taken, completes and claims as many in one round trip."""
        if len(many) > MAX_COMBINED or not self._slots.are_taken or self.stopping.is_set():
            return await engine.complete_many(many)
        lane, registration = self.lanes[0], self._registration
        self._rotate()
        answers, works = await engine.complete_and_claim(
            many, lane, registration.capabilities, registration.policy(), len(many)
        )
        if not self.is_crashed:
            self._slots.take(len(works))
            for work in works:
                self._start(work, lane)
        return answers

    def _rotate(self) -> None:
        self.lanes.append(self.lanes.pop(0))

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
