"""Cancelling a flow and its members, the backlog of members to cancel, and sibling cancels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.model.flow import (
    CancelFlowArgs,
    CancelFlowPolicy,
    EdgeGroup,
    Flow,
    FlowAlreadyTerminal,
    Reconciled,
)
from flowfabric.model.state import ENDED_PHASES
from flowfabric.plan import (
    Absent,
    Add,
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
    Values,
    Wake,
)
from flowfabric.rules.columns import by_row, from_args
from flowfabric.rules.decision import Commit, Return
from flowfabric.rules.executions.operator_actions import cancel_plan
from flowfabric.rules.flows.edge_forms import CANCEL_QUEUE
from flowfabric.rules.flows.edges import named_group
from flowfabric.rules.flows.flow_fields import encode_fields, fields_of
from flowfabric.rules.flows.flow_forms import (
    FLOW,
    FLOW_KEY,
    FLOW_OWNED,
    FLOW_UNCHANGED,
    GROUP,
    GROUP_KEY,
    GROUP_UNCHANGED,
)
from flowfabric.rules.flows.flows import named_flow
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
_BACKLOG = {
    **FLOW_OWNED,
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
CANCEL_FLOW_HEADER_WITH_BACKLOG = Form(
    "cancel_flow_and_owe",
    _FLIPPED,
    Upsert(BACKLOG, _BACKLOG, {"requested_at_ms": Once(Now())}),
    _REQUESTED,
    _RECONCILED,
)
_IN_PAGES = Upsert(
    BACKLOG,
    {**_BACKLOG, "status": "listing"},
    {
        "requested_at_ms": Once(Now()),
        "status": "listing",
        **from_args("grace_until_ms", "cancellation_policy"),
    },
)
"""While a backlog has this status, all members that the policy selects are in it."""
CANCEL_FLOW_IN_PAGES = Form("cancel_flow_in_pages", _FLIPPED, _IN_PAGES, _RECONCILED)
CANCEL_FLOW_HEADER_IN_PAGES = Form(
    "cancel_flow_header_in_pages", _FLIPPED, _IN_PAGES, _REQUESTED, _RECONCILED
)
LEAVE_PAGES = Form(
    "leave_cancel_pages",
    Update(BACKLOG, (*FLOW_KEY, Cond("status", "=", "listing")), {"status": "pending"}),
)
ADD_BACKLOG_MEMBER = Form(
    "owe_cancel_member", Insert(BACKLOG_MEMBER, {**FLOW_OWNED, "execution_id": Arg("execution_id")})
)
REMOVE_BACKLOG_MEMBER = Form(
    "ack_cancel_member",
    Delete(BACKLOG_MEMBER, (*FLOW_KEY, Cond("execution_id", "=", Arg("execution_id")))),
)
FORGET_BACKLOG = Form(
    "forget_cancel_backlog",
    Delete(BACKLOG, (*FLOW_KEY, Cond("status", "=", "pending"), Absent(BACKLOG_MEMBER, FLOW_KEY))),
)


class CancelSnapshot(Struct, frozen=True):
    """A flow and its members as they were read.

    `others` counts, by phase, the members of a large flow that were not read.
    """

    now_ms: int
    flow: Flow
    members: Sequence[Execution]
    others: Mapping[str, int] = {}


class FlowCancel(Struct, frozen=True):
    """`head` cancels the flow. `owing` does so and stores a backlog, to cancel members in pages.

    `members` are the executions to cancel, each with its plan. `told`: emit each lease's end.
    """

    head: list[Plan]
    owing: list[Plan]
    members: list[tuple[Execution, Plan]]
    reason: str
    by: str
    told: bool = False


def wanted_policy(text: str) -> str:
    """The policy of a text; an unknown one cancels no members."""
    known = text in (CancelFlowPolicy.CANCEL_ALL, CancelFlowPolicy.CANCEL_PENDING)
    return text if known else CancelFlowPolicy.FLOW_ONLY


def members_to_cancel(members: Sequence[Execution], policy: str) -> list[Execution]:
    wanted = wanted_policy(policy)
    return [member for member in members if _is_wanted(member.lifecycle_phase, wanted)]


def _is_wanted(phase: str, policy: str) -> bool:
    if policy == CancelFlowPolicy.CANCEL_ALL:
        return phase not in ENDED_PHASES
    return policy == CancelFlowPolicy.CANCEL_PENDING and phase in _PENDING_PHASES


def cancel_flow(
    snapshot: CancelSnapshot, policy: str, now_ms: int | None = None, *, reason: str = ""
) -> FlowCancel:
    flow = snapshot.flow
    now = snapshot.now_ms if now_ms is None else now_ms
    fields = {**fields_of(flow), "cancellation_policy": policy, "last_mutation_at_ms": now}
    if reason:
        fields.setdefault("cancel_reason", reason)
    values = {**named_flow(flow), "now": now, "raw_fields": encode_fields(fields)}
    chosen = members_to_cancel(snapshot.members, policy)
    reason, by = reason or "flow_cancelled", "cancel_flow"
    plans = [
        (member, cancel_plan(member, reason, by, now, always_revoked=True)) for member in chosen
    ]
    owing = CANCEL_FLOW_IN_PAGES(**values, **_owed(reason, policy, now))
    return FlowCancel([CANCEL_FLOW(**values)], [owing], plans, reason, by, told=True)


def cancel_flow_header(snapshot: CancelSnapshot, args: CancelFlowArgs) -> FlowCancel | None:
    """None when the flow has ended: the first cancel wins."""
    flow, policy, by = snapshot.flow, args.cancellation_policy, "cancel_flow_header"
    if flow.is_terminal:
        return None
    now = snapshot.now_ms if args.now is None else args.now
    fields = {
        **fields_of(flow),
        "cancellation_policy": policy,
        "cancel_reason": args.reason,
        "last_mutation_at_ms": now,
    }
    chosen, wanted = members_to_cancel(snapshot.members, policy), wanted_policy(policy)
    others = sum(n for phase, n in snapshot.others.items() if _is_wanted(phase, wanted))
    details = {
        "flow_id": str(flow.flow_id),
        "cancellation_policy": policy,
        "reason": args.reason,
        "member_count": len(chosen) + others,
    }
    values = {
        **named_flow(flow),
        "now": now,
        "raw_fields": encode_fields(fields),
        "details": json.dumps(details, separators=(",", ":"), ensure_ascii=False),
        "namespace": fields.get("namespace", "default"),
    }
    if wanted == CancelFlowPolicy.FLOW_ONLY:
        head = [CANCEL_FLOW_HEADER(**values)]
        return FlowCancel(head, head, [], args.reason, by)
    values |= _owed(args.reason, policy, now)
    head = [CANCEL_FLOW_HEADER_WITH_BACKLOG(**values)]
    head += add_backlog_members(flow.flow_id, [member.id for member in chosen])
    owing = [CANCEL_FLOW_HEADER_IN_PAGES(**values)]
    plans = [(member, cancel_plan(member, args.reason, by, now)) for member in chosen]
    return FlowCancel(head, owing, plans, args.reason, by)


def with_plans(cancel: FlowCancel, *plans: Plan) -> FlowCancel:
    """The same cancel with further plans."""
    return structs.replace(cancel, head=[*cancel.head, *plans], owing=[*cancel.owing, *plans])


def _owed(reason: str, policy: str, now: int) -> dict[str, object]:
    return {"reason": reason, "cancellation_policy": policy, "grace_until_ms": now + GRACE_MS}


def add_backlog_members(flow_id: UUID, members: Sequence[ExecutionId]) -> list[Plan]:
    """Adds members to the backlog, so that another process can finish this cancel."""
    return [
        ADD_BACKLOG_MEMBER(
            partition_key=member.partition_index, flow_id=flow_id, execution_id=str(member)
        )
        for member in members
    ]


def already_terminal(flow: Flow, members: Sequence[ExecutionId]) -> FlowAlreadyTerminal:
    fields = fields_of(flow)
    return FlowAlreadyTerminal(
        fields.get("cancellation_policy"), fields.get("cancel_reason"), list(members)
    )


def ack(flow_id: UUID, member: ExecutionId) -> tuple[Plan, Plan]:
    """Removes a member from the backlog, and the backlog when it is empty."""
    at = member.partition_index
    owner = {"partition_key": at, "flow_id": flow_id}
    return REMOVE_BACKLOG_MEMBER(**owner, execution_id=str(member)), FORGET_BACKLOG(**owner)


def leave_pages(partition: int, flow_id: UUID) -> tuple[Plan, Plan]:
    """No member is left but those in the backlog. Removes the backlog when it is empty."""
    owner = {"partition_key": partition, "flow_id": flow_id}
    return LEAVE_PAGES(**owner), FORGET_BACKLOG(**owner)


def forget_backlog(partition: int, flow_id: UUID) -> Plan:
    return FORGET_BACKLOG(partition_key=partition, flow_id=flow_id)


# ---- siblings of a group that has fired

_CLEARED = {
    "cancel_siblings_pending_flag": 0,
    "cancel_siblings_pending_members": "[]",
    "version": Add(1),
}
_OUT_OF_QUEUE = Delete(CANCEL_QUEUE, by_row("partition_key", "flow_id", "downstream_eid"))
DRAIN_GROUP = Form("drain_sibling_cancels", Update(GROUP, GROUP_UNCHANGED, _CLEARED), _OUT_OF_QUEUE)
LEAVE_QUEUE = Form("leave_cancel_queue", Delete(CANCEL_QUEUE, GROUP_KEY))
ENTER_QUEUE = Form(
    "enter_cancel_queue",
    Insert(
        CANCEL_QUEUE,
        {**FLOW_OWNED, "downstream_eid": Arg("downstream_eid"), "enqueued_at_ms": Arg("now")},
    ),
    Wake("cancel_groups", at=Arg("now")),
)


def group_key(partition: int, flow_id: UUID, downstream: UUID) -> dict[str, object]:
    return {"partition_key": partition, "flow_id": flow_id, "downstream_eid": downstream}


def leave_queue(partition: int, flow_id: UUID, downstream: UUID) -> Plan:
    return LEAVE_QUEUE(**group_key(partition, flow_id, downstream))


def enter_queue(group: EdgeGroup, now: int) -> Plan:
    key = group_key(group.partition_key, group.flow_id, group.downstream_eid)
    return ENTER_QUEUE(**key, now=now)


def pending_siblings(group: EdgeGroup) -> list[UUID]:
    """The siblings to cancel; ids that cannot be read are skipped."""
    found = []
    for text in json.loads(group.cancel_siblings_pending_members):
        try:
            found.append(UUID(str(text)))
        except ValueError:
            continue
    return found


def drain(group: EdgeGroup) -> Plan:
    return DRAIN_GROUP(**named_group(group))


def drain_if_read(group: EdgeGroup | None) -> Commit | Return:
    return Return() if group is None else Commit(drain(group))


def reconcile(queued: bool, group: EdgeGroup | None, running: bool, key: Values) -> Commit | Return:
    """Removes a queue entry that a dispatcher left; cancels nothing."""
    if not queued:
        return Return(Reconciled("no_op", "not_in_set"))
    if group is None:
        return Commit(LEAVE_QUEUE(**key), Reconciled("sremmed_stale", "missing_edgegroup"))
    if not group.cancel_siblings_pending_flag:
        # Refused if the group fires in between.
        return Commit(drain(group), Reconciled("sremmed_stale", "flag_cleared"))
    if running:
        return Return(Reconciled("no_op", "siblings_running"))
    return Commit(drain(group), Reconciled("completed_drain"))
