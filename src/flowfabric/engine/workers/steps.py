"""Steps of a task, stored with the execution, and reads for callers that wait."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count

from flowfabric.engine import validation
from flowfabric.engine.claims.gated_claims import GatedClaims
from flowfabric.engine.claims.limit_cache import LimitCache
from flowfabric.engine.claims.next_opening import NO_OPENING, NextOpening, Place, QuotaWaiter
from flowfabric.engine.core import Core
from flowfabric.engine.leases.facts import LeaseCache
from flowfabric.engine.snapshots import load_all, load_one
from flowfabric.errors import ResourceExhausted, invalid
from flowfabric.ids import ExecutionId, execution_id, lane_id
from flowfabric.ids import name as checked_name
from flowfabric.model import step as model
from flowfabric.model.event import LEASE_EVENTS
from flowfabric.model.execution import ExecutionOutcome
from flowfabric.model.lease import Handle
from flowfabric.plan import Applied
from flowfabric.rules.limits.limit_scopes import GATES
from flowfabric.rules.limits.quotas import QUOTAS
from flowfabric.rules.workers import steps
from flowfabric.store.port import Get, Scan
from flowfabric.store.wakeups import Topic, Waiter

_COLUMNS = ("position", "name", "kind", "attempt_index", "recorded_at_ms", "value")
_OUTCOME = (
    "public_state",
    "terminal_outcome",
    "result",
    "failure_reason",
    "last_failure_message",
    "cancellation_reason",
    "total_attempt_count",
    "terminal_at_ms",
)


class Steps:
    def __init__(
        self, core: Core, leases: LeaseCache, limit_cache: LimitCache, gated: GatedClaims
    ) -> None:
        self._core, self._store = core, core.store
        self._leases, self._limit_cache, self._gated = leases, limit_cache, gated

    async def record_step(
        self,
        handle: Handle,
        position: int,
        name: str,
        value: bytes | None = None,
        kind: str = "step",
    ) -> model.StepRecord:
        """Stores the result of a step under the lease; returns the stored step if there is one."""
        fields = self._leases.fields(handle)
        if validation.whole(position, "position", 0, 2**31 - 1) >= model.MAX_STEPS:
            raise ResourceExhausted("steps of one execution", model.MAX_STEPS)
        validation.text(name, "name", model.MAX_STEP_NAME_BYTES)
        checked_name(kind, "kind")
        if value is not None and (
            not isinstance(value, bytes) or len(value) > model.MAX_STEP_BYTES
        ):
            raise invalid("value", f"at most {model.MAX_STEP_BYTES} bytes")
        plan = steps.record(fields, position, name, kind, value)
        for tries in count(1):
            answer = await self._store.commit(plan)
            if isinstance(answer, Applied):
                return model.StepRecord(
                    position, name, kind, fields.attempt_index, answer.now_ms, value
                )
            read = Get(steps.STEP, (*fields.execution_id.key, position), _COLUMNS)
            stored = await load_one(self._store, read, model.StepRecord)
            await self._core.check_held(fields)
            if stored is not None:
                return steps.same(stored, name, kind)
            await self._core.pause(tries)
        raise AssertionError("the last pause raises")

    async def read_steps(self, execution: ExecutionId) -> list[model.StepRecord]:
        """The finished steps of an execution, in order."""
        owner = execution_id(execution).owner
        read = Scan("steps", owner, limit=model.MAX_STEPS, columns=_COLUMNS)
        return await load_all(self._store, read, model.StepRecord)

    async def read_last_suspension(self, execution: ExecutionId) -> model.LastSuspension | None:
        """What the latest suspension waits for, and whether it has ended."""
        columns = ("continuation_metadata_pointer", "attempt_index", "close_reason")
        read = Get("ff_suspension_current", execution_id(execution).key, columns)
        return await load_one(self._store, read, model.LastSuspension)

    async def read_outcome(self, execution: ExecutionId) -> ExecutionOutcome | None:
        """The state of an execution and, when it has ended, its outcome."""
        read = Get("ff_exec_core", execution_id(execution).key, _OUTCOME)
        return await load_one(self._store, read, ExecutionOutcome)

    async def work_bell(self, *lanes: str, namespace: str | None = "default") -> Waiter:
        """A waiter for work in the lanes. Enter it, arm it, ask for work, then wait.

        When work of the namespace waits under a limit, the end of any lease wakes it, because
        that may free capacity, and the wait ends when a quota opens.
        """
        checked = [lane_id(lane) for lane in lanes]
        validation.optional_namespace(namespace)
        topics: list[Topic] = [(topic, lane) for lane in checked for topic in ("ready", GATES)]
        limited = [place for lane in checked for place in await self._limited(lane, namespace)]
        if not limited:
            return self._store.hub.waiter(*topics, (QUOTAS, None))
        return QuotaWaiter(
            self._store.hub,
            (*topics, (LEASE_EVENTS, None), (QUOTAS, None)),
            partial(self._later, limited),
        )

    async def _limited(self, lane: str, namespace: str | None) -> list[Place]:
        """The places of a lane where work of the namespace, or of any, may be under a limit."""
        if namespace is None:
            return [(lane, each) for each in await self._limit_cache.gated_namespaces(lane)]
        return [(lane, namespace)] if await self._limit_cache.gates(lane, namespace) else []

    async def _later(self, places: Sequence[Place]) -> NextOpening:
        found = NO_OPENING
        for place in places:
            found = found.combined_with(await self._gated.next_opening(place))
        return found

    async def quotas_open_at(self, *lanes: str, namespace: str = "default") -> int | None:
        """When the first full quota of a namespace in these lanes opens, or None."""
        return (await self._later([(lane_id(lane), namespace) for lane in lanes])).opens_at_ms
