"""Children: tasks that a task starts and waits for, without holding a worker's slot.

The children and one execution that depends on all of them, the join, form a flow whose id follows
from the parent's id. The join wakes the parent when the last child has ended; if the join itself
was cancelled, the engine wakes the parent. No wake-up is lost: the parent creates its waitpoint
before it reads the children's states for the last time, and the join looks for waitpoints after
the last child has ended. The flow names its parent, so the engine cancels the children when the
parent ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4, uuid5

from msgspec import Raw, Struct, structs

from flowfabric.errors import NotFound, StateError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs, ReplayExecutionArgs
from flowfabric.model.flow import ENDED, GraphEdge, SubmitFlowArgs
from flowfabric.model.flow_links import Member, Parent
from flowfabric.model.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.model.waitpoint import ConditionMet, ReasonCode, Single, SuspendArgs, UsePending
from flowfabric.sdk.exceptions import ChildFailed, Retry, StepError
from flowfabric.sdk.options import Options, capability_of
from flowfabric.sdk.serialization import sealed, to_json, unsealed
from flowfabric.sdk.session import Session

if TYPE_CHECKING:
    from flowfabric.sdk.app import App
    from flowfabric.sdk.task import Task

CHILDREN = "children"
JOIN = "flowfabric.children"
"""The task name of the join."""
MAX_CHILDREN = 1_000
KEPT_BYTES = 524_288
"""Results of this size together are copied to the parent; larger ones stay with the children."""
READ_AT_ONCE = 32
PARENT_ENDED = "parent_ended"
"""The cancel reason of a child whose parent has ended."""
JOIN_RETRY = Retry(max=1_000_000, base="1s", cap="1m")
_NOTHING = Raw()


class Call(Struct, frozen=True):
    """A task with its arguments, for `ctx.children(...)`. Made by `task.call(...)`."""

    task: Task[..., Any]
    payload: bytes
    options: Options
    detached: bool = False


class Family(Struct, frozen=True):
    """The children of one `ctx.children(...)`."""

    position: int
    name: str
    calls: tuple[Call, ...]
    flow_id: UUID
    ids: tuple[ExecutionId, ...]

    @property
    def join_id(self) -> ExecutionId:
        return _join_id(self.flow_id)

    @property
    def waitpoint(self) -> str:
        """The key of the waitpoint at which the join wakes the parent."""
        return f"{CHILDREN}:{self.position}"


class Ended(Struct, frozen=True, omit_defaults=True):
    """How one child ended. `away` marks a result that is stored with the child only."""

    outcome: str
    reason: str = ""
    value: Raw = _NOTHING
    away: bool = False


def family(parent: ExecutionId, position: int, name: str, calls: tuple[Call, ...]) -> Family:
    """All ids follow from the parent's id and the position: they are the same on every run."""
    flow_id = uuid5(parent.uuid, f"{CHILDREN}:{position}")
    ids = tuple(
        ExecutionId.for_flow(flow_id, uuid5(flow_id, f"{at}:{call.task.name}"))
        for at, call in enumerate(calls)
    )
    return Family(position, name, calls, flow_id, ids)


def _join_id(flow_id: UUID) -> ExecutionId:
    return ExecutionId.for_flow(flow_id, uuid5(flow_id, JOIN))


def check_calls(session: Session, label: str, calls: Sequence[Call]) -> None:
    where = f"task {session.task}: {CHILDREN} {label!r}"
    for call in calls:
        if not isinstance(call, Call) or call.task.app is not session.app:
            raise StepError(f"{where}: calls of this app's tasks, task.call(...), got {call!r:.80}")
    if len(calls) > MAX_CHILDREN:
        raise StepError(f"{where}: at most {MAX_CHILDREN} at once, got {len(calls)}")


async def results(session: Session, wanted: Family, return_exceptions: bool) -> list[Any]:
    try:
        return await _results(session, wanted, return_exceptions)
    finally:
        session.order.left(wanted.position)


async def _results(session: Session, wanted: Family, return_exceptions: bool) -> list[Any]:
    record = await session.found(wanted.position, wanted.name, CHILDREN)
    if record is not None:
        ends = session.value_of(record, list[Ended])
    else:
        ends = await _ends(session, wanted)
        if return_exceptions or all(end.outcome == "success" for end in ends):
            await session.record(wanted.position, wanted.name, _kept(ends), CHILDREN)
    found = [
        _result(call, ident, end)
        for call, ident, end in zip(wanted.calls, wanted.ids, ends, strict=True)
    ]
    for each in found:
        if isinstance(each, ChildFailed) and not return_exceptions:
            raise each
    away = [at for at, end in enumerate(ends) if end.away]
    for at, end in zip(away, await _read(session, [wanted.ids[at] for at in away]), strict=True):
        found[at] = _result(wanted.calls[at], wanted.ids[at], end)
    return found


def _result(call: Call, ident: ExecutionId, end: Ended) -> object:
    if end.outcome != "success":
        return ChildFailed(str(ident), call.task.name, end.outcome, end.reason)
    return None if end.away else call.task.signature.decode_result(bytes(end.value) or None)


def _kept(ends: Sequence[Ended]) -> list[Ended]:
    if sum(len(bytes(end.value)) for end in ends) <= KEPT_BYTES:
        return list(ends)
    return [
        structs.replace(end, value=_NOTHING, away=True) if bytes(end.value) else end for end in ends
    ]


# ---- until all have ended


async def _ends(session: Session, wanted: Family) -> list[Ended]:
    """How the children ended. Parks the parent until all have."""
    if not wanted.calls:
        return []
    if not session.is_first_run:
        await _replay_cancelled(session, wanted)
        if await _are_over(session, wanted):
            return await _read(session, wanted.ids)
    engine, handle, flow = session.engine, session.work.handle, await _flow(session, wanted)
    await session.ask(wanted.name, lambda: engine.submit_flow(flow))
    while True:
        made = await session.ask(
            wanted.name, lambda: engine.create_waitpoint(handle, wanted.waitpoint)
        )
        if await _are_over(session, wanted):
            return await _read(session, wanted.ids)
        args = SuspendArgs(
            suspension_id=uuid4(),
            waitpoints=[UsePending(made.waitpoint_id)],
            resume_condition=Single(wanted.waitpoint),
            reason_code=ReasonCode.WAITING_FOR_CALLBACK,
            continuation_metadata_pointer=wanted.waitpoint,
            idempotency_key=f"{wanted.waitpoint}:{made.waitpoint_id}",
        )
        answer = await session.ask(wanted.name, partial(engine.suspend, handle, args))
        if not isinstance(answer, ConditionMet):
            raise session.park()


async def _members(session: Session, wanted: Family) -> dict[ExecutionId, Member]:
    engine = session.engine
    members = await session.ask(wanted.name, lambda: engine.flow_members(wanted.flow_id))
    return {member.id: member for member in members}


async def _replay_cancelled(session: Session, wanted: Family) -> None:
    """After a replay of the parent: replays the children that its end had cancelled."""
    members = await _members(session, wanted)
    cancelled = [
        ident
        for ident in wanted.ids
        if ident in members and members[ident].terminal_outcome == "cancelled"
    ]
    for ident, end in zip(cancelled, await _read(session, cancelled), strict=True):
        if end.reason == PARENT_ENDED:
            replay = ReplayExecutionArgs(execution_id=ident)
            with suppress(StateError):  # replayed by an earlier run of the parent
                await session.ask(wanted.name, partial(session.engine.replay_execution, replay))


async def _are_over(session: Session, wanted: Family) -> bool:
    """Whether all have ended. Raises if an earlier run submitted other children here."""
    found = await _members(session, wanted)
    if not found:
        return False
    for at, ident in enumerate(wanted.ids):
        if ident not in found:
            raise StepError(
                f"task {session.task}: {CHILDREN} {wanted.name!r}: child {at} (task "
                f"{wanted.calls[at].task.name}) is missing: an earlier run started other children "
                "here, or it has been removed since it ended. Restore the order, or submit a new "
                "run"
            )
    return all(found[ident].is_ended for ident in wanted.ids)


async def _read(session: Session, idents: Sequence[ExecutionId]) -> list[Ended]:
    found: list[Ended] = []
    for at in range(0, len(idents), READ_AT_ONCE):
        found += await asyncio.gather(
            *(_read_one(session, ident) for ident in idents[at : at + READ_AT_ONCE])
        )
    return found


async def _read_one(session: Session, ident: ExecutionId) -> Ended:
    outcome = await session.ask(CHILDREN, lambda: session.engine.read_outcome(ident))
    if outcome is None:
        raise StepError(
            f"task {session.task}: child {ident} has been removed since it ended, and its result "
            "with it. Submit a new run"
        )
    if outcome.terminal_outcome != "success":
        return Ended(outcome.terminal_outcome, outcome.reason)
    if outcome.result is None:
        return Ended("success")
    value = unsealed(session.app.codec, outcome.result, f"the result of {ident}")
    return Ended("success", value=Raw(value))


# ---- submitting


async def _flow(session: Session, wanted: Family) -> SubmitFlowArgs:
    nodes = []
    for call, ident in zip(wanted.calls, wanted.ids, strict=True):
        made = await call.options.dated_by(
            session.engine, call.task.creation(ident, call.payload, call.options)
        )
        nodes.append(structs.replace(made, tags={**made.tags, "parent.run": str(session.id)}))
    return SubmitFlowArgs(
        flow_id=wanted.flow_id,
        nodes=[*nodes, _join(session, wanted)],
        edges=[GraphEdge(ident, wanted.join_id, dependency_kind=ENDED) for ident in wanted.ids],
        flow_kind=CHILDREN,
        namespace=session.app.namespace,
        parent=Parent(
            execution_id=session.id,
            waitpoint_key=wanted.waitpoint,
            detached=tuple(
                ident for call, ident in zip(wanted.calls, wanted.ids, strict=True) if call.detached
            ),
        ),
    )


def _join(session: Session, wanted: Family) -> CreateExecutionArgs:
    """Requires what the parent requires, so that every worker of the parent can run it."""
    payload = to_json({"parent": str(session.id), "mailbox": wanted.waitpoint})
    priority = session.app.tasks[session.task].priority if session.task in session.app.tasks else 0
    return CreateExecutionArgs(
        execution_id=wanted.join_id,
        lane_id=session.lane,
        namespace=session.app.namespace,
        execution_kind=JOIN,
        input_payload=sealed(session.app.codec, payload, f"task {JOIN}: its arguments"),
        payload_encoding="json",
        priority=priority,
        creator_identity=session.app.name,
        tags={"parent.run": str(session.id)},
        policy=ExecutionPolicy(
            priority=priority,
            retry_policy=JOIN_RETRY.policy(),
            routing_requirements=RoutingRequirements(
                required_capabilities=(capability_of(session.task),)
            ),
            retention_policy=session.app.retention,
        ),
    )


# ---- the join


def join_function(app: App) -> Callable[[str, str], Coroutine[object, object, None]]:
    """The function of the task `JOIN`. Its parameter names are part of stored payloads."""

    async def join(parent: str, mailbox: str) -> None:
        """Signals every waitpoint of that key. A parent without one reads the states itself."""
        engine, run, after = await app.engine(), app.run(parent), None
        source = str(_join_id(uuid5(run.id.uuid, mailbox)))
        while True:
            try:
                page = await engine.list_pending_waitpoints(run.id, after)
            except NotFound:
                return
            for waitpoint in page.items:
                if waitpoint.waitpoint_key == mailbox:
                    with suppress(NotFound, StateError):  # the parent has been resumed already
                        await run.signal("ended", source=source, waitpoint=waitpoint.waitpoint_id)
            after = page.next_cursor
            if after is None:
                return

    return join
