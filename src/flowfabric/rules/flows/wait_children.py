"""Parking an execution until its dependencies have ended, and the replay of a skipped member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowfabric.model.flow import Edge, EdgeGroup
from flowfabric.model.lease import HandleFields
from flowfabric.plan import (
    Add,
    After,
    Arg,
    Cond,
    Delete,
    Form,
    Now,
    Plan,
    Until,
    Update,
    UpdateMany,
    Wake,
)
from flowfabric.rules.columns import by_row
from flowfabric.rules.decision import Commit, Decision, Snapshot
from flowfabric.rules.executions.termination import skip
from flowfabric.rules.fence import check_handle
from flowfabric.rules.flows.edge_forms import CANCEL_QUEUE
from flowfabric.rules.flows.edges import is_waiting, named_group, state_of
from flowfabric.rules.flows.flow_forms import EDGE, GROUP, GROUP_UNCHANGED
from flowfabric.rules.flows.flows import member_of
from flowfabric.rules.fragments import (
    ATTEMPT,
    EXEC,
    HELD,
    MOVED,
    RELEASED,
    THIS_ATTEMPT,
    held_event,
)
from flowfabric.rules.leases.attempts import held_by
from flowfabric.rules.states import entering

TOUCH_GROUP = Form("touch_edge_group", Update(GROUP, GROUP_UNCHANGED, {"version": Add(1)}))
_PARKED: dict[str, Any] = {
    **MOVED,
    **RELEASED,
    "attempt_state": "attempt_interrupted",
    "interrupt_cause": "children",
    "lease_epoch": Add(1),
    "attempt_timeout_remaining_ms": Until("attempt_timeout_at_ms"),
}
_PARKED_ATTEMPT = UpdateMany(
    ATTEMPT,
    THIS_ATTEMPT,
    {
        "attempt_state": "suspended",
        "suspended_at_ms": Now(),
        "suspension_id": "waiting_children",
        "lease_expires_at_ms": None,
        "lease_epoch": After("lease_epoch"),
        "attempt_timeout_remaining_ms": After("attempt_timeout_remaining_ms"),
    },
)
_LEASE_REVOKED = held_event("revoked", "waiting_children")
WAIT_CHILDREN = Form(
    "wait_children",
    Update(
        EXEC,
        HELD,
        {**_PARKED, **entering("DEPS", detail="waiting for child executions to complete")},
    ),
    _PARKED_ATTEMPT,
    _LEASE_REVOKED,
)
CHILDREN_ARE_OVER = Form(
    "children_are_over",
    Update(EXEC, HELD, {**_PARKED, **entering("READY")}),
    _PARKED_ATTEMPT,
    _LEASE_REVOKED,
    Wake("ready", After("lane_id")),
)


def wait_children(snapshot: Snapshot, fields: HandleFields) -> Decision:
    """Parks the execution until its group is decided; a decided group releases or skips it."""
    return check_handle(snapshot, fields) or park(snapshot, fields)


def park(snapshot: Snapshot, fields: HandleFields) -> Commit:
    """Like `wait_children`, for a holder whose fence has been checked."""
    assert snapshot.execution is not None
    states = {state_of(group) for group in snapshot.edge_groups}
    if any(is_waiting(group) for group in snapshot.edge_groups):
        parked = WAIT_CHILDREN(**held_by(fields))
    elif "impossible" in states:
        parked = skip(member_of(snapshot.execution))
    else:
        parked = CHILDREN_ARE_OVER(**held_by(fields))
    return Commit(
        parked, first=tuple(TOUCH_GROUP(**named_group(group)) for group in snapshot.edge_groups)
    )


# ---- replay of a skipped member

RESET_GROUP = Form(
    "reset_edge_group",
    Update(
        GROUP,
        GROUP_UNCHANGED,
        {
            "fail_count": 0,
            "skip_count": 0,
            "running_count": Arg("running_count"),
            "group_state": "pending",
            "satisfied_at_ms": None,
            "cancel_siblings_pending_flag": 0,
            "cancel_siblings_pending_members": "[]",
            "version": Add(1),
        },
    ),
    UpdateMany(
        EDGE,
        (
            *by_row("partition_key", "downstream_eid", "flow_id"),
            Cond("dep_state", "=", "impossible"),
        ),
        {"dep_state": "unsatisfied", "last_resolved_at_ms": None, "reset_at_ms": Arg("now")},
    ),
    Delete(CANCEL_QUEUE, by_row("partition_key", "flow_id", "downstream_eid")),
)


def reset_groups(
    groups: Sequence[EdgeGroup], edges: Sequence[Edge], now: int
) -> tuple[tuple[Plan, ...], int]:
    """Plans that reopen every inbound group, and the number of edges that they wait for."""
    plans, unsatisfied = [], 0
    for group in groups:
        running = sum(1 for edge in edges if edge.flow_id == group.flow_id and _waits_again(edge))
        unsatisfied += running
        plans.append(RESET_GROUP(**named_group(group), running_count=running, now=now))
    return tuple(plans), unsatisfied


def _waits_again(edge: Edge) -> bool:
    return edge.applied_at_ms is not None and edge.dep_state in ("unsatisfied", "impossible")
