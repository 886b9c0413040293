"""Submitting a whole graph: its checks, and the plans that create it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from uuid import UUID

from flowfabric.errors import (
    Conflict,
    ConflictKind,
    EngineError,
    ValidationError,
    ValidationKind,
    invalid,
)
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import (
    MAX_GRAPH_EDGES,
    MAX_GRAPH_NODES,
    CreateFlowArgs,
    EdgePolicy,
    GraphEdge,
    SubmitFlowArgs,
)
from flowfabric.model.policy import ExecutionPolicy
from flowfabric.model.quota import Attached
from flowfabric.plan import Arg, Form, Insert, Plan, Values, Wake
from flowfabric.rules.columns import from_args
from flowfabric.rules.executions.create import LANE_IS_OPEN, NEW, creation_values
from flowfabric.rules.flows.flow_forms import EDGE, EDGE_ROW, GROUP
from flowfabric.rules.flows.flows import check_policy, create_flow, edge_text, partition_mismatch
from flowfabric.rules.fragments import EXEC
from flowfabric.rules.limits.limit_scopes import NOTHING
from flowfabric.rules.states import entering

_MEMBER = {**NEW, "flow_id": Arg("flow_id")}
_DEADLINE = Wake("deadline", at=Arg("deadline_at_ms"))
CREATE_MEMBER = Form(
    "create_member",
    Insert(EXEC, {**_MEMBER, **entering("READY")}, LANE_IS_OPEN),
    Wake("ready", Arg("lane_id")),
    _DEADLINE,
)
_LATER = {"delay_until_ms": Arg("delay_until_ms")}
CREATE_MEMBER_DELAYED = Form(
    "create_member_delayed",
    Insert(
        EXEC,
        {**_MEMBER, **entering("DELAYED", detail=Arg("blocking_detail")), **_LATER},
        LANE_IS_OPEN,
    ),
    Wake("delayed", at=Arg("delay_until_ms")),
    _DEADLINE,
)
CREATE_MEMBER_BLOCKED = Form(
    "create_member_blocked",
    Insert(
        EXEC, {**_MEMBER, **entering("DEPS", detail=Arg("blocking_detail")), **_LATER}, LANE_IS_OPEN
    ),
    _DEADLINE,
)
CREATE_EDGE = Form(
    "create_edge",
    Insert(
        EDGE,
        {
            **EDGE_ROW,
            "edge_state": "applied",
            "dep_state": "unsatisfied",
            "applied_at_ms": Arg("now"),
        },
    ),
)
CREATE_GROUP = Form(
    "create_edge_group",
    Insert(
        GROUP,
        from_args(
            "partition_key", "flow_id", "downstream_eid", "policy", "k_target", "running_count"
        ),
    ),
)


def check_size(args: SubmitFlowArgs) -> EngineError | None:
    for field, wanted in (("nodes", Sequence), ("edges", Sequence), ("policies", Mapping)):
        if not isinstance(getattr(args, field), wanted):
            return invalid(field, f"a {wanted.__name__.lower()}", getattr(args, field))
    if not 1 <= len(args.nodes) <= MAX_GRAPH_NODES:
        return invalid("nodes", f"1 to {MAX_GRAPH_NODES} nodes", len(args.nodes))
    if len(args.edges) > MAX_GRAPH_EDGES:
        return invalid("edges", f"at most {MAX_GRAPH_EDGES} edges", len(args.edges))
    return None


def check_graph(args: SubmitFlowArgs, partition: int) -> EngineError | None:
    """The first problem of a graph of an acceptable size. The caller has checked each node."""
    nodes: set[ExecutionId] = set()
    for node in args.nodes:
        mismatch = partition_mismatch(partition, node.execution_id)
        if mismatch is not None:
            return mismatch
        if node.idempotency_key:
            accepted = "no idempotency key: the flow's id is the key of the whole graph"
            return invalid("nodes", accepted, node.execution_id)
        if node.namespace != args.namespace:
            accepted = f"executions of the flow's namespace, {args.namespace!r}"
            return invalid("nodes", accepted, node.namespace)
        if node.execution_id in nodes:
            return invalid("nodes", "each execution id once", node.execution_id)
        nodes.add(node.execution_id)
    return (
        _check_edges(args.edges, nodes)
        or _check_policies(args, nodes)
        or _check_cycles(args.edges, nodes)
    )


def _not_in_flow(ident: ExecutionId) -> EngineError:
    detail = f"execution_not_in_flow: {ident} is not among the nodes"
    return ValidationError(ValidationKind.INVALID_INPUT, detail)


def _check_edges(edges: Sequence[GraphEdge], nodes: set[ExecutionId]) -> EngineError | None:
    named: set[UUID] = set()
    for edge in edges:
        if edge.upstream == edge.downstream:
            return ValidationError(ValidationKind.INVALID_INPUT, "self_referencing_edge")
        for end in (edge.upstream, edge.downstream):
            if end not in nodes:
                return _not_in_flow(end)
        if edge.edge_id is not None and edge.edge_id in named:
            return invalid("edges", "each edge id once", edge.edge_id)
        if edge.edge_id is not None:
            named.add(edge.edge_id)
    return None


def _check_policies(args: SubmitFlowArgs, nodes: set[ExecutionId]) -> EngineError | None:
    inbound = Counter(edge.downstream for edge in args.edges)
    for ident, policy in args.policies.items():
        if ident not in nodes:
            return _not_in_flow(ident)
        is_policy = isinstance(policy, EdgePolicy)
        problem = (
            check_policy(policy) if is_policy else invalid("policies", "an EdgePolicy", policy)
        )
        if problem is not None:
            return problem
        if not inbound[ident]:
            return invalid("policies", "a policy only for nodes that wait for others", ident)
        if policy.kind == "quorum" and policy.k > inbound[ident]:
            accepted = f"a quorum of at most the {inbound[ident]} inbound edges of {ident}"
            return invalid("policies", accepted, policy.k)
    return None


def _check_cycles(edges: Sequence[GraphEdge], nodes: set[ExecutionId]) -> EngineError | None:
    """Topological sort: nodes that remain wait for themselves."""
    waits = Counter(edge.downstream for edge in edges)
    leads_to: dict[ExecutionId, list[ExecutionId]] = {}
    for edge in edges:
        leads_to.setdefault(edge.upstream, []).append(edge.downstream)
    free = [node for node in nodes if not waits[node]]
    taken = 0
    while free:
        node = free.pop()
        taken += 1
        for after in leads_to.get(node, ()):
            waits[after] -= 1
            if not waits[after]:
                free.append(after)
    if taken == len(nodes):
        return None
    stuck = min(node for node in nodes if waits[node])
    return Conflict(ConflictKind.CYCLE_DETECTED, f"{stuck} waits for itself")


def submit_graph(
    args: SubmitFlowArgs,
    nodes: Sequence[tuple[CreateExecutionArgs, ExecutionPolicy | None]],
    partition: int,
    now_ms: int,
    limits: Sequence[Attached] = (),
) -> list[Plan]:
    """The flow, its members, its edges and their groups, sorted by form for bulk writes.

    Every edge has an id. `limits` are those of the members in order; empty if no member has limits.
    """
    now = now_ms if args.now is None else args.now
    header = CreateFlowArgs(
        flow_id=args.flow_id, flow_kind=args.flow_kind, namespace=args.namespace, now=args.now
    )
    flow = create_flow(
        header,
        partition,
        now_ms,
        nodes=len(nodes),
        edges=len(args.edges),
        tags=args.tags,
        parent=args.parent,
    )
    inbound = Counter(edge.downstream for edge in args.edges)
    members = [
        _member(args.flow_id, node, policy, inbound[node.execution_id], now_ms, limited)
        for (node, policy), limited in zip(nodes, limits or repeat(NOTHING), strict=False)
    ]
    members.sort(key=lambda plan: plan.form.name)
    owner = {"partition_key": partition, "flow_id": args.flow_id}
    return [
        flow,
        *members,
        *_edges(args.edges, owner, now),
        *_groups(inbound, args.policies, owner),
    ]


def _member(
    flow_id: UUID,
    args: CreateExecutionArgs,
    policy: ExecutionPolicy | None,
    inbound: int,
    now_ms: int,
    limits: Attached,
) -> Plan:
    values, delay_until = creation_values(args, policy, now_ms, limits)
    values["flow_id"] = flow_id
    delayed = delay_until is not None and delay_until > now_ms
    if not inbound and not delayed:
        return CREATE_MEMBER.given(values)
    values["delay_until_ms"] = delay_until if delayed else None
    if inbound:
        return CREATE_MEMBER_BLOCKED(**values, blocking_detail=f"{inbound} dep(s) unresolved")
    return CREATE_MEMBER_DELAYED(**values, blocking_detail=f"delayed until {delay_until}")


def _edges(edges: Sequence[GraphEdge], owner: Values, now: int) -> list[Plan]:
    texts: dict[tuple[str, str | None], str] = {}
    plans = []
    for edge in edges:
        content = (edge.dependency_kind, edge.data_passing_ref)
        if content not in texts:
            texts[content] = edge_text(*content, now)
        values = {
            **owner,
            "edge_id": edge.edge_id,
            "upstream_eid": edge.upstream.uuid,
            "downstream_eid": edge.downstream.uuid,
            "edge_policy": texts[content],
            "now": now,
        }
        plans.append(CREATE_EDGE.given(values))
    return plans


def _groups(
    inbound: Mapping[ExecutionId, int],
    policies: Mapping[ExecutionId, EdgePolicy],
    owner: Values,
) -> list[Plan]:
    plans = []
    for ident, count in inbound.items():
        policy = policies.get(ident, EdgePolicy())
        values = {
            **owner,
            "downstream_eid": ident.uuid,
            "policy": policy.encoded(),
            "k_target": policy.k,
            "running_count": count,
        }
        plans.append(CREATE_GROUP.given(values))
    return plans
