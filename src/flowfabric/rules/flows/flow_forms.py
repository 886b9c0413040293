"""Forms that create flows, grow their graphs, and store what their members add up to."""

from __future__ import annotations

from flowfabric.plan import Add, Arg, Cond, Form, Insert, Present, Update, Upsert
from flowfabric.rules.columns import by_args, from_args
from flowfabric.rules.fragments import EXEC, KEY

FLOW, EDGE, GROUP, SUMMARY = "ff_flow_core", "ff_edge", "ff_edge_group", "ff_flow_summary"
FLOW_KEY = by_args("partition_key", "flow_id")
FLOW_UNCHANGED = by_args("partition_key", "flow_id", "version")
GROUP_KEY = by_args("partition_key", "flow_id", "downstream_eid")
GROUP_UNCHANGED = (*GROUP_KEY, *by_args("version"))
FLOW_OWNED = from_args("partition_key", "flow_id")

_FLOW_ROW = {
    **FLOW_OWNED,
    "graph_revision": Arg("graph_revision"),
    "created_at_ms": Arg("now"),
    "raw_fields": Arg("raw_fields"),
}
CREATE_FLOW = Form("create_flow", Insert(FLOW, _FLOW_ROW))
_LIVE = ("submitted", "runnable", "pending", "blocked", "eligible", "active", "suspended")
_PARENT_LIVES = Present(
    EXEC,
    (
        Cond("partition_key", "=", Arg("parent_partition")),
        Cond("execution_id", "=", Arg("parent_execution_id")),
        Cond("namespace", "=", Arg("namespace")),
        Cond("lifecycle_phase", "in", _LIVE),
    ),
)
CREATE_CHILDREN = Form(
    "create_children_flow",
    Insert(
        FLOW,
        {**_FLOW_ROW, **from_args("parent_partition", "parent_execution_id")},
        (_PARENT_LIVES,),
    ),
)
_GRAPH_CHANGED = Update(
    FLOW,
    FLOW_UNCHANGED,
    {
        "version": Add(1),
        "graph_revision": Add(1),
        "raw_fields": Arg("raw_fields"),
        "settled_at_ms": None,
    },
)
ADD_MEMBER = Form(
    "add_member",
    _GRAPH_CHANGED,
    Update(
        EXEC,
        (*KEY, Cond("version", "=", Arg("member_version"))),
        {"flow_id": Arg("flow_id"), "version": Add(1), "last_mutation_at": Arg("now")},
    ),
)
EDGE_ROW = {
    **FLOW_OWNED,
    **from_args("edge_id", "upstream_eid", "downstream_eid"),
    "policy": Arg("edge_policy"),
}
STAGE_EDGE = Form("stage_edge", _GRAPH_CHANGED, Insert(EDGE, EDGE_ROW))
_TOUCH_FLOW = Update(FLOW, FLOW_UNCHANGED, {"version": Add(1)})
_POLICY = from_args("policy", "k_target")
SET_FIRST_POLICY = Form(
    "set_first_edge_policy",
    _TOUCH_FLOW,
    Insert(GROUP, {**FLOW_OWNED, "downstream_eid": Arg("downstream_eid"), **_POLICY}),
)
SET_POLICY = Form(
    "set_edge_policy",
    _TOUCH_FLOW,
    Update(
        GROUP,
        (*GROUP_KEY, Cond("version", "=", Arg("group_version"))),
        {
            **_POLICY,
            **dict.fromkeys(("success_count", "fail_count", "skip_count", "running_count"), 0),
            "group_state": "pending",
            "version": Add(1),
        },
    ),
)
SET_FLOW_FIELDS = Form(
    "set_flow_fields",
    Update(FLOW, FLOW_UNCHANGED, {"version": Add(1), "raw_fields": Arg("raw_fields")}),
)

ENDED_STATES = ("completed", "failed", "cancelled", "expired", "skipped")
COUNTED_STATES = (
    *ENDED_STATES,
    "active",
    "suspended",
    "waiting",
    "delayed",
    "rate_limited",
    "waiting_children",
)
_SUMMARY = {
    **from_args(
        *(f"members_{state}" for state in COUNTED_STATES),
        "total_members",
        "sampled_members",
        "public_flow_state",
    ),
    "last_summary_update_at": Arg("now"),
}
PROJECT = Form(
    "project_flow_summary",
    Update(FLOW, FLOW_UNCHANGED, {"settled_at_ms": Arg("settled_at_ms")}),
    Upsert(SUMMARY, {**FLOW_OWNED, **_SUMMARY}, _SUMMARY),
)
