"""Forms that apply edges, store what a group has counted, and release its execution."""

from __future__ import annotations

from flowfabric.model.event import COMPLETION_EVENTS
from flowfabric.model.flow import EdgePolicy
from flowfabric.plan import (
    Add,
    After,
    Among,
    Arg,
    Cond,
    Form,
    Insert,
    Now,
    Once,
    Update,
    UpdateMany,
    Upsert,
    Wake,
)
from flowfabric.rules.columns import from_args
from flowfabric.rules.flows.flow_forms import EDGE, FLOW_KEY, GROUP, GROUP_UNCHANGED
from flowfabric.rules.fragments import EXEC, MOVED, UNCHANGED
from flowfabric.rules.states import entering

CANCEL_QUEUE = "ff_pending_cancel_groups"

_APPLIED = UpdateMany(
    EDGE,
    (*FLOW_KEY, Cond("edge_id", "=", Arg("edge_id"))),
    {"edge_state": "applied", "applied_at_ms": Arg("now"), "dep_state": "unsatisfied"},
)
_BLOCKED = UpdateMany(
    EXEC,
    (
        Cond("partition_key", "=", Arg("partition_key")),
        Cond("execution_id", "=", Arg("downstream_eid")),
        Cond("lifecycle_phase", "in", ("runnable", "submitted")),
        Cond("terminal_outcome", "=", "none"),
    ),
    {
        **entering("DEPS", detail=Arg("blocking_detail")),
        "version": Add(1),
        "last_transition_at": Arg("now"),
        "last_mutation_at": Arg("now"),
    },
)
_ONE_MORE = Update(
    GROUP, GROUP_UNCHANGED, {**from_args("running_count", "group_state"), "version": Add(1)}
)
APPLY_FIRST = Form(
    "apply_first_edge",
    Insert(
        GROUP,
        {
            **from_args("partition_key", "flow_id", "downstream_eid"),
            "policy": EdgePolicy().encoded(),
            "running_count": 1,
        },
    ),
    _APPLIED,
    _BLOCKED,
)
APPLY = Form("apply_edge", _ONE_MORE, _APPLIED, _BLOCKED)
APPLY_LATE = Form("apply_late_edge", _ONE_MORE, _APPLIED)

# ---- counting

COUNTED = (
    "success_count",
    "fail_count",
    "skip_count",
    "running_count",
    "group_state",
    "satisfied_at_ms",
    "cancel_siblings_pending_flag",
    "cancel_siblings_pending_members",
    "cancel_siblings_reason",
)
_COUNT = Update(GROUP, GROUP_UNCHANGED, {**from_args(*COUNTED), "version": Add(1)})


def _resolved(state: str) -> UpdateMany:
    return UpdateMany(
        EDGE,
        (*FLOW_KEY, Among("edge_id", Arg(state))),
        {"dep_state": state, "last_resolved_at_ms": Arg("now")},
    )


_EDGES = (
    _resolved("satisfied"),
    _resolved("impossible"),
    UpdateMany(
        COMPLETION_EVENTS,
        (Among("execution_id", Arg("told")), Cond("dispatched_at_ms", "is null")),
        {"dispatched_at_ms": Now()},
    ),
)
_QUEUED = Upsert(
    CANCEL_QUEUE,
    {
        **{c: After(c) for c in ("partition_key", "flow_id", "downstream_eid")},
        "enqueued_at_ms": Now(),
    },
    {"enqueued_at_ms": Once(Now())},
)
_READY = {
    **MOVED,
    **from_args("eligibility_state", "blocking_reason", "public_state"),
    "ownership_state": "unowned",
    "blocking_detail": "",
}
_CLAIMABLE = (Wake("ready", Arg("lane_id")), Wake("delayed", at=Arg("delayed_until_ms")))

RESOLVE = Form("resolve_edges", _COUNT, *_EDGES)
RESOLVE_AND_RELEASE = Form(
    "resolve_edges_and_release",
    _COUNT,
    *_EDGES,
    UpdateMany(
        EXEC,
        (
            Cond("partition_key", "=", After("partition_key")),
            Cond("execution_id", "=", After("downstream_eid")),
            Cond("lifecycle_phase", "=", "runnable"),
            Cond("eligibility_state", "=", "blocked_by_dependencies"),
        ),
        _READY,
    ),
    *_CLAIMABLE,
)
RESOLVE_AND_QUEUE = Form(
    "resolve_edges_and_queue", _COUNT, *_EDGES, _QUEUED, Wake("cancel_groups", at=Arg("now"))
)
RELEASE = Form("release_blocked", Update(EXEC, UNCHANGED, _READY), *_CLAIMABLE)
RELEASE_WITH_INPUT = Form(
    "release_blocked_with_input",
    Update(EXEC, UNCHANGED, {**_READY, "payload": Arg("payload")}),
    *_CLAIMABLE,
)
GIVE_INPUT = Form(
    "give_input",
    Update(
        EXEC,
        (
            *UNCHANGED,
            Cond("lifecycle_phase", "in", ("submitted", "runnable", "active", "suspended")),
        ),
        {"version": Add(1), "last_mutation_at": Now(), "payload": Arg("payload")},
    ),
)
MARK_DISPATCHED = Form(
    "mark_dispatched",
    Update(
        COMPLETION_EVENTS,
        (Cond("event_id", "=", Arg("event_id")), Cond("dispatched_at_ms", "is null")),
        {"dispatched_at_ms": Now()},
    ),
)
