"""Tasks that a task starts and waits for, without a slot: submitted once, however often the parent is run.

The children, and one execution that comes after all of them however they end, are one flow with an id that follows from the
parent's. That last one wakes the parent; should it have ended before, the engine does when the last child ends. The parent makes
its mailbox before it looks for the last time, and the other side looks for mailboxes after the last end: one of the two sees the
other. The flow names its parent, so the engine cancels the children when the parent ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4, uuid5

from msgspec import Raw, Struct, structs

from flowfabric.errors import StateError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs, ExecutionOutcome, ReplayExecutionArgs
from flowfabric.model.flow import ENDED, GraphEdge, SubmitFlowArgs
from flowfabric.model.flow_links import Member, Parent
from flowfabric.model.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.model.waitpoint import ConditionMet, ReasonCode, Single, SuspendArgs, UsePending
from flowfabric.sdk.exceptions import ChildFailed, Retry, StepError
from flowfabric.sdk.serialization import sealed, to_json, unsealed

if TYPE_CHECKING:
    from flowfabric.sdk.context import Context
    from flowfabric.sdk.options import Options
    from flowfabric.sdk.task import Task

CHILDREN = "children"
JOIN = "flowfabric.children"
"""What the last of a flow of children is called: it wakes the parent."""
MAX_CHILDREN = 1_000
KEPT_BYTES = 524_288
"""Up to here results are kept with the parent as well; beyond that they are read from the children each time."""
READ_AT_ONCE = 32
PARENT_ENDED = "parent_ended"
"""The reason of a child that was cancelled because its parent had ended."""
AGAIN = Retry(max=1_000_000, base="1s", cap="1m")
_NOTHING = Raw()


class Call(Struct, frozen=True):
    """A task with its arguments, to be run by `ctx.children(...)`. Made by `task.call(...)`."""

    task: Task[..., Any]
    payload: bytes
    options: Options
    detached: bool = False


class Family(Struct, frozen=True):
    """What one `ctx.children(...)` asks for."""

    position: int
    name: str
    calls: tuple[Call, ...]
    flow_id: UUID
    ids: tuple[ExecutionId, ...]

    @property
    def last(self) -> ExecutionId:
        """Of the one that wakes the parent."""
        return ExecutionId.for_flow(self.flow_id, uuid5(self.flow_id, JOIN))

    @property
    def mailbox(self) -> str:
        """Where the parent is woken."""
        return f"{CHILDREN}:{self.position}"


class Ended(Struct, frozen=True, omit_defaults=True):
    """How one child ended. `away` says that its result is too large to be kept here as well."""

    outcome: str
    reason: str = ""
    value: Raw = _NOTHING
    away: bool = False


def family(parent: ExecutionId, position: int, name: str, calls: tuple[Call, ...]) -> Family:
    """With ids that are the same each time the parent comes here."""
    flow_id = uuid5(parent.uuid, f"{CHILDREN}:{position}")
    ids = tuple(
        ExecutionId.for_flow(flow_id, uuid5(flow_id, f"{at}:{call.task.name}"))
        for at, call in enumerate(calls)
    )
    return Family(position, name, calls, flow_id, ids)


async def results(ctx: Context, wanted: Family, return_exceptions: bool) -> list[Any]:
    record = await ctx._found(wanted.position, wanted.name, CHILDREN)
    if record is not None:
        ends = ctx._stored(record, list[Ended])
    else:
        ends = await _ends(ctx, wanted)
        if return_exceptions or all(end.outcome == "success" for end in ends):
            await ctx._record(wanted.position, wanted.name, _kept(ends), CHILDREN)
    found = [
        _result(ctx, call, ident, end)
        for call, ident, end in zip(wanted.calls, wanted.ids, ends, strict=True)
    ]
    for each in found:
        if isinstance(each, ChildFailed) and not return_exceptions:
            raise each
    away = [at for at, end in enumerate(ends) if end.away]
    for at, end in zip(away, await _read(ctx, [wanted.ids[at] for at in away]), strict=True):
        found[at] = _result(ctx, wanted.calls[at], wanted.ids[at], end)
    return found


def _result(ctx: Context, call: Call, ident: ExecutionId, end: Ended) -> Any:
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


async def _ends(ctx: Context, wanted: Family) -> list[Ended]:
    """How they ended, if they have; else the parent is parked here."""
    if not wanted.calls:
        return []
    if not ctx._first:
        await _replay_cancelled(ctx, wanted)
        if await _are_over(ctx, wanted):
            return await _read(ctx, wanted.ids)
    await ctx.ask(wanted.name, partial(ctx._engine.submit_flow, await _flow(ctx, wanted)))
    while True:
        made = await ctx.ask(
            wanted.name, partial(ctx._engine.create_waitpoint, ctx._work.handle, wanted.mailbox)
        )
        if await _are_over(ctx, wanted):
            return await _read(ctx, wanted.ids)
        args = SuspendArgs(
            suspension_id=uuid4(),
            waitpoints=[UsePending(made.waitpoint_id)],
            resume_condition=Single(wanted.mailbox),
            reason_code=ReasonCode.WAITING_FOR_CALLBACK,
            continuation_metadata_pointer=wanted.mailbox,
            idempotency_key=f"{wanted.mailbox}:{made.waitpoint_id}",
        )
        answer = await ctx.ask(wanted.name, partial(ctx._engine.suspend, ctx._work.handle, args))
        if not isinstance(answer, ConditionMet):
            raise ctx._parking()


async def _replay_cancelled(ctx: Context, wanted: Family) -> None:
    """Starts those again that were cancelled when the parent ended, before it was replayed."""
    members = await ctx.ask(wanted.name, partial(ctx._engine.flow_members, wanted.flow_id))
    ours = set(wanted.ids)
    cancelled = [
        member.id
        for member in members
        if member.id in ours and member.terminal_outcome == "cancelled"
    ]
    for ident, end in zip(cancelled, await _read(ctx, cancelled), strict=True):
        if end.reason == PARENT_ENDED:
            with suppress(StateError):  # another run of the parent has replayed it already
                await ctx.ask(
                    wanted.name,
                    partial(ctx._engine.replay_execution, ReplayExecutionArgs(execution_id=ident)),
                )


async def _are_over(ctx: Context, wanted: Family) -> bool:
    """Whether all have ended. Raises if others were submitted here before: the flow is there whole or not at all."""
    members = await ctx.ask(wanted.name, partial(ctx._engine.flow_members, wanted.flow_id))
    if not members:
        return False
    found: dict[ExecutionId, Member] = {member.id: member for member in members}
    for at, ident in enumerate(wanted.ids):
        if ident not in found:
            raise StepError(
                f"task {ctx.task}: {CHILDREN} {wanted.name!r}: child {at} (task {wanted.calls[at].task.name}) is not there: "
                "others were started here before, or it ended so long ago that it is forgotten. "
                "Submit it anew, or bring the old order back"
            )
    return all(found[ident].is_ended for ident in wanted.ids)


async def _read(ctx: Context, idents: Sequence[ExecutionId]) -> list[Ended]:
    found: list[Ended] = []
    for at in range(0, len(idents), READ_AT_ONCE):
        found += await asyncio.gather(
            *(_read_one(ctx, ident) for ident in idents[at : at + READ_AT_ONCE])
        )
    return found


async def _read_one(ctx: Context, ident: ExecutionId) -> Ended:
    outcome: ExecutionOutcome | None = await ctx.ask(
        CHILDREN, partial(ctx._engine.read_outcome, ident)
    )
    if outcome is None:
        raise StepError(
            f"task {ctx.task}: the result of {ident} is wanted, and it is forgotten. Submit it anew"
        )
    if outcome.terminal_outcome != "success":
        return Ended(outcome.terminal_outcome, outcome.reason)
    if outcome.result is None:
        return Ended("success")
    return Ended(
        "success", value=Raw(unsealed(ctx._app.codec, outcome.result, f"the result of {ident}"))
    )


# ---- submitting


async def _flow(ctx: Context, wanted: Family) -> SubmitFlowArgs:
    last = _last(ctx, wanted)
    nodes = []
    for call, ident in zip(wanted.calls, wanted.ids, strict=True):
        made = await call.options.dated_by(
            ctx._engine, call.task.creation(ident, call.payload, call.options)
        )
        nodes.append(structs.replace(made, tags={**made.tags, "parent.run": str(ctx.execution_id)}))
    return SubmitFlowArgs(
        flow_id=wanted.flow_id,
        nodes=[*nodes, last],
        edges=[GraphEdge(ident, last.execution_id, dependency_kind=ENDED) for ident in wanted.ids],
        flow_kind=CHILDREN,
        namespace=ctx._app.namespace,
        parent=Parent(
            execution_id=ctx.execution_id,
            waitpoint_key=wanted.mailbox,
            detached=tuple(
                ident for call, ident in zip(wanted.calls, wanted.ids, strict=True) if call.detached
            ),
        ),
    )


def _last(ctx: Context, wanted: Family) -> CreateExecutionArgs:
    """It runs where the parent does: whoever can run that one can wake it."""
    from flowfabric.sdk.task import capability_of

    payload = to_json({"parent": str(ctx.execution_id), "mailbox": wanted.mailbox})
    priority = ctx._app.tasks[ctx.task].priority if ctx.task in ctx._app.tasks else 0
    return CreateExecutionArgs(
        execution_id=wanted.last,
        lane_id=ctx.lane,
        namespace=ctx._app.namespace,
        execution_kind=JOIN,
        input_payload=sealed(ctx._app.codec, payload, f"task {JOIN}: its arguments"),
        payload_encoding="json",
        priority=priority,
        creator_identity=ctx._app.name,
        tags={"parent.run": str(ctx.execution_id)},
        policy=ExecutionPolicy(
            priority=priority,
            retry_policy=AGAIN.policy(),
            routing_requirements=RoutingRequirements(
                required_capabilities=(capability_of(ctx.task),)
            ),
            retention_policy=ctx._app.retention,
        ),
    )
