"""Cancelling a flow and its members, the backlog that remembers who is owed, and the siblings of a group that has fired."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CancelExecutionArgs, Execution
from flowfabric.model.flow import (
    CancelFlowArgs,
    CancelFlowPolicy,
    EdgeGroup,
    Flow,
    FlowAlreadyTerminal,
    Reconciled,
)
from flowfabric.model.state import ENDED_PHASES, OPERATOR_OVERRIDE
from flowfabric.plan import (
    Absent,
    Add,
    After,
    Arg,
    Cond,
    Delete,
    Form,
    Insert,
    Now,
    Once,
    Plan,
    Update,
    Upsert,
    Wake,
)
from flowfabric.rules.decision import Commit, Return, Snapshot
from flowfabric.rules.executions.operator_actions import cancel
from flowfabric.rules.flows.edges import CANCEL_QUEUE, GROUP_UNCHANGED, named_group
from flowfabric.rules.flows.flow_fields import encode_fields, fields_of
from flowfabric.rules.flows.flows import (
    FLOW,
    FLOW_KEY,
    FLOW_UNCHANGED,
    GROUP,
    GROUP_KEY,
    named_flow,
)
from flowfabric.rules.fragments import flow_event

BACKLOG, BACKLOG_MEMBER = "ff_cancel_backlog", "ff_cancel_backlog_member"
GRACE_MS = 30_000
_PENDING_PHASES = ("submitted", "runnable", "pending", "blocked", "eligible")

_FLIPPED = Update(
    FLOW,
    FLOW_UNCHANGED,
    {
        "version": Add(1),
        "public_flow_state": "cancelled",
        "terminal_at_ms": Once(Arg("now")),
        "raw_fields": Arg("raw_fields"),
        "settled_at_ms": None,
    },
)
CANCEL_FLOW = Form("cancel_flow", _FLIPPED)
_OWNER = {"partition_key": Arg("partition_key"), "flow_id": Arg("flow_id")}
_OWED = {
    **_OWNER,
    "requested_at_ms": Arg("now"),
    "requester": "",
    "reason": Arg("reason"),
    "grace_until_ms": Arg("grace_until_ms"),
    "cancellation_policy": Arg("cancellation_policy"),
    "status": "pending",
}
_REQUESTED = flow_event("flow_cancel_requested", Arg("details"), Arg("namespace"))
_RECONCILED = Wake("cancel_backlog", at=Arg("grace_until_ms"))
CANCEL_FLOW_HEADER = Form("cancel_flow_header", _FLIPPED, _REQUESTED)
CANCEL_FLOW_AND_OWE = Form(
    "cancel_flow_and_owe",
    _FLIPPED,
    Upsert(BACKLOG, _OWED, {"requested_at_ms": Once(Now())}),
    _REQUESTED,
    _RECONCILED,
)
OWE_AND_CANCEL_FLOW = Form(
    "owe_and_cancel_flow",
    _FLIPPED,
    Upsert(BACKLOG, _OWED, {"requested_at_ms": Once(Now())}),
    _RECONCILED,
)
OWE_MEMBER = Form(
    "owe_cancel_member", Insert(BACKLOG_MEMBER, {**_OWNER, "execution_id": Arg("execution_id")})
)
ACK_MEMBER = Form(
    "ack_cancel_member",
    Delete(BACKLOG_MEMBER, (*FLOW_KEY, Cond("execution_id", "=", Arg("execution_id")))),
)
FORGET_BACKLOG = Form(
    "forget_cancel_backlog", Delete(BACKLOG, (*FLOW_KEY, Absent(BACKLOG_MEMBER, FLOW_KEY)))
)


class Cancelling(Struct, frozen=True):
    """A flow with the members it had when it was read, and those owed a cancel already."""

    now_ms: int
    flow: Flow
    members: Sequence[Execution]
    owed: frozenset[str] = frozenset()


class FlowCancel(Struct, frozen=True):
    """`head` flips the flow; `owing` does so too and notes whom it owes a cancel, for when members follow one by one.

    `members` are the executions to cancel, each with the plan that does it. `told`: of a lease's end in any case.
    """

    head: list[Plan]
    owing: list[Plan]
    members: list[tuple[Execution, Plan]]
    reason: str
    by: str
    told: bool = False


def wanted_policy(text: str) -> str:
    """The policy that a text stands for; what is not known does the least."""
    return (
        text
        if text in (CancelFlowPolicy.CANCEL_ALL, CancelFlowPolicy.CANCEL_PENDING)
        else CancelFlowPolicy.FLOW_ONLY
    )


def selected(members: Sequence[Execution], policy: str) -> list[Execution]:
    wanted = wanted_policy(policy)
    if wanted == CancelFlowPolicy.FLOW_ONLY:
        return []
    alive = [member for member in members if member.lifecycle_phase not in ENDED_PHASES]
    if wanted == CancelFlowPolicy.CANCEL_ALL:
        return alive
    return [member for member in alive if member.lifecycle_phase in _PENDING_PHASES]


def cancel_member(
    member: Execution, reason: str, by: str, now_ms: int, *, told: bool = False
) -> Plan:
    """As an operator's cancel; what is over has been left out already. `told`: of a lease's end in any case."""
    args = CancelExecutionArgs(
        execution_id=member.id, reason=reason, source=OPERATOR_OVERRIDE, now=now_ms
    )
    decision = cancel(Snapshot(now_ms, member), args, by=by, told=told)
    assert isinstance(decision, Commit)
    return decision.plan


def cancel_flow(around: Cancelling, policy: str, now_ms: int | None = None) -> FlowCancel:
    flow = around.flow
    now = around.now_ms if now_ms is None else now_ms
    fields = {**fields_of(flow), "cancellation_policy": policy, "last_mutation_at_ms": now}
    values = {**named_flow(flow), "now": now, "raw_fields": encode_fields(fields)}
    chosen = selected(around.members, policy)
    reason, by = "flow_cancelled", "cancel_flow"
    plans = [(member, cancel_member(member, reason, by, now, told=True)) for member in chosen]
    owing = OWE_AND_CANCEL_FLOW(**values, **_owed(reason, policy, now))
    return FlowCancel(
        [CANCEL_FLOW(**values)],
        [owing, *_owe_members(around, chosen)],
        plans,
        reason,
        by,
        told=True,
    )


def cancel_flow_header(around: Cancelling, args: CancelFlowArgs) -> FlowCancel | None:
    """None when the flow is over already: then what was said first stands."""
    flow, policy, by = around.flow, args.cancellation_policy, "cancel_flow_header"
    if flow.is_terminal:
        return None
    now = around.now_ms if args.now is None else args.now
    fields = fields_of(flow)
    said = {"cancellation_policy": policy, "cancel_reason": args.reason, "last_mutation_at_ms": now}
    chosen = selected(around.members, policy)
    details = {
        "flow_id": str(flow.flow_id),
        "cancellation_policy": policy,
        "reason": args.reason,
        "member_count": len(chosen),
    }
    values = {
        **named_flow(flow),
        "now": now,
        "raw_fields": encode_fields({**fields, **said}),
        "details": json.dumps(details, separators=(",", ":"), ensure_ascii=False),
        "namespace": fields.get("namespace", "default"),
    }
    if wanted_policy(policy) == CancelFlowPolicy.FLOW_ONLY:
        head = [CANCEL_FLOW_HEADER(**values)]
    else:
        head = [CANCEL_FLOW_AND_OWE(**values, **_owed(args.reason, policy, now))]
        head += _owe_members(around, chosen)
    plans = [(member, cancel_member(member, args.reason, by, now)) for member in chosen]
    return FlowCancel(head, head, plans, args.reason, by)


def beside(cancel: FlowCancel, *plans: Plan) -> FlowCancel:
    """The same, and these with it."""
    return structs.replace(cancel, head=[*cancel.head, *plans], owing=[*cancel.owing, *plans])


def _owed(reason: str, policy: str, now: int) -> dict[str, Any]:
    return {"reason": reason, "cancellation_policy": policy, "grace_until_ms": now + GRACE_MS}


def _owe_members(around: Cancelling, members: Sequence[Execution]) -> list[Plan]:
    """Remembers who is to be cancelled, so that somebody else can finish what this process began."""
    at = around.flow.partition_key
    owner = {"partition_key": at, "flow_id": around.flow.flow_id}
    wanted = [str(member.id) for member in members]
    return [OWE_MEMBER(**owner, execution_id=ident) for ident in wanted if ident not in around.owed]


def already_terminal(flow: Flow, members: Sequence[ExecutionId]) -> FlowAlreadyTerminal:
    fields = fields_of(flow)
    return FlowAlreadyTerminal(
        fields.get("cancellation_policy"), fields.get("cancel_reason"), list(members)
    )


def ack(flow_id: UUID, member: ExecutionId) -> tuple[Plan, Plan]:
    """The member's row, and the header once nobody is owed."""
    at = member.partition_index
    owner = {"partition_key": at, "flow_id": flow_id}
    return ACK_MEMBER(**owner, execution_id=str(member)), FORGET_BACKLOG(**owner)


def forget_backlog(partition: int, flow_id: UUID) -> Plan:
    return FORGET_BACKLOG(partition_key=partition, flow_id=flow_id)


# ---- siblings of a group that has fired

_CLEARED = {
    "cancel_siblings_pending_flag": 0,
    "cancel_siblings_pending_members": "[]",
    "version": Add(1),
}
_OUT_OF_QUEUE = Delete(
    CANCEL_QUEUE,
    tuple(Cond(c, "=", After(c)) for c in ("partition_key", "flow_id", "downstream_eid")),
)
DRAIN_GROUP = Form("drain_sibling_cancels", Update(GROUP, GROUP_UNCHANGED, _CLEARED), _OUT_OF_QUEUE)
LEAVE_QUEUE = Form("leave_cancel_queue", Delete(CANCEL_QUEUE, GROUP_KEY))
ENTER_QUEUE = Form(
    "enter_cancel_queue",
    Insert(
        CANCEL_QUEUE,
        {**_OWNER, "downstream_eid": Arg("downstream_eid"), "enqueued_at_ms": Arg("now")},
    ),
    Wake("cancel_groups", at=Arg("now")),
)


def group_key(partition: int, flow_id: UUID, downstream: UUID) -> dict[str, Any]:
    return {"partition_key": partition, "flow_id": flow_id, "downstream_eid": downstream}


def leave_queue(partition: int, flow_id: UUID, downstream: UUID) -> Plan:
    return LEAVE_QUEUE(**group_key(partition, flow_id, downstream))


def enter_queue(group: EdgeGroup, now: int) -> Plan:
    return ENTER_QUEUE(
        **group_key(group.partition_key, group.flow_id, group.downstream_eid),
        now=now,
    )


def owed_siblings(group: EdgeGroup) -> list[UUID]:
    """Who is to be cancelled; what cannot be read is nobody."""
    found = []
    for text in json.loads(group.cancel_siblings_pending_members):
        try:
            found.append(UUID(str(text)))
        except ValueError:
            continue
    return found


def drain(group: EdgeGroup) -> Plan:
    return DRAIN_GROUP(**named_group(group))


def drained(group: EdgeGroup | None) -> Commit | Return:
    return Return() if group is None else Commit(drain(group))


def reconcile(
    queued: bool, group: EdgeGroup | None, running: bool, key: dict[str, Any]
) -> Commit | Return:
    """Tidies what a dispatcher left behind; never cancels anything."""
    if not queued:
        return Return(Reconciled("no_op", "not_in_set"))
    if group is None:
        return Commit(
            LEAVE_QUEUE(**key),
            Reconciled("sremmed_stale", "missing_edgegroup"),
        )
    if not group.cancel_siblings_pending_flag:
        return Commit(
            drain(group), Reconciled("sremmed_stale", "flag_cleared")
        )  # unless it fires meanwhile
    if running:
        return Return(Reconciled("no_op", "siblings_running"))
    return Commit(drain(group), Reconciled("completed_drain"))
