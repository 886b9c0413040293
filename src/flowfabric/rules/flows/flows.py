"""Creating and growing flows: members, staged edges, policies, tags, and the summary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct

from flowfabric.errors import (
    Conflict,
    ConflictKind,
    Contention,
    ContentionKind,
    EngineError,
    NotFound,
    ValidationError,
    ValidationKind,
    invalid,
)
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.model.flow import (
    ENDED,
    LOST_JOIN,
    MAX_QUORUM,
    SUCCESS_ONLY,
    Added,
    AddExecutionToFlowArgs,
    AlreadyMember,
    CreateFlowArgs,
    Edge,
    EdgeGroup,
    EdgePolicy,
    Flow,
    OnSatisfied,
    Staged,
    StageDependencyEdgeArgs,
)
from flowfabric.model.flow_links import Member, Parent
from flowfabric.model.flow_views import EdgeSnapshot
from flowfabric.plan import Plan
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.flows.flow_fields import encode_fields, fields_of, namespace_of, number_in
from flowfabric.rules.flows.flow_forms import (
    ADD_MEMBER,
    COUNTED_STATES,
    CREATE_CHILDREN,
    CREATE_FLOW,
    ENDED_STATES,
    PROJECT,
    SET_FIRST_POLICY,
    SET_FLOW_FIELDS,
    SET_POLICY,
    STAGE_EDGE,
)
from flowfabric.rules.states import canonical


def refused(code: str) -> Reject:
    return Reject(ValidationError(ValidationKind.INVALID_INPUT, code))


def named_flow(flow: Flow) -> dict[str, object]:
    """The arguments that name a flow by its key and the version that was read."""
    return {"partition_key": flow.partition_key, "flow_id": flow.flow_id, "version": flow.version}


def member_of(execution: Execution) -> Member:
    return Member(*(getattr(execution, column) for column in Member.__struct_fields__))


def partition_mismatch(expected: int, ident: ExecutionId) -> EngineError | None:
    if ident.partition_index == expected:
        return None
    detail = f"execution partition mismatch: expected {expected}, got {ident.partition_index}"
    return ValidationError(ValidationKind.INVALID_INPUT, detail)


# ---- create and grow


def create_flow(
    args: CreateFlowArgs,
    partition: int,
    now_ms: int,
    nodes: int = 0,
    edges: int = 0,
    tags: Mapping[str, str] | None = None,
    parent: Parent | None = None,
) -> Plan:
    now = now_ms if args.now is None else args.now
    fields: dict[str, object] = {
        "flow_kind": args.flow_kind,
        "namespace": args.namespace,
        "node_count": nodes,
        "edge_count": edges,
        "last_mutation_at_ms": now,
        **(tags or {}),
    }
    values = {
        "partition_key": partition,
        "flow_id": args.flow_id,
        "graph_revision": nodes + edges,
        "now": now,
    }
    if parent is None:
        return CREATE_FLOW(**values, raw_fields=encode_fields(fields))
    fields["waitpoint_key"] = parent.waitpoint_key
    if parent.detached:
        fields["detached"] = [str(ident.uuid) for ident in parent.detached]
    return CREATE_CHILDREN(
        **values,
        raw_fields=encode_fields(fields),
        namespace=args.namespace,
        parent_partition=parent.execution_id.partition_index,
        parent_execution_id=parent.execution_id.uuid,
    )


class GraphSnapshot(Struct, frozen=True):
    """A flow and the rows that a change to its graph concerns."""

    now_ms: int
    partition: int
    flow: Flow | None
    members: Mapping[UUID, Member] = {}
    edge: Edge | None = None
    group: EdgeGroup | None = None
    cyclic: bool = False
    has_edges: bool = False


def _raise_count(flow: Flow, now: int, count: str) -> tuple[str, int]:
    """The encoded fields of a flow with one of its counts raised, and the new count."""
    fields = fields_of(flow)
    number = number_in(fields, count) + 1
    return encode_fields({**fields, count: number, "last_mutation_at_ms": now}), number


def _open_flow(snapshot: GraphSnapshot) -> Flow | Reject:
    if snapshot.flow is None:
        return refused("flow_not_found")
    return refused("flow_already_terminal") if snapshot.flow.is_terminal else snapshot.flow


def add_member(snapshot: GraphSnapshot, args: AddExecutionToFlowArgs) -> Decision:
    ident = args.execution_id
    mismatch = partition_mismatch(snapshot.partition, ident)
    if mismatch is not None:
        return Reject(mismatch)
    flow = _open_flow(snapshot)
    if isinstance(flow, Reject):
        return flow
    member = snapshot.members.get(ident.uuid)
    if member is None:
        return refused("execution_not_found")
    if member.flow_id == flow.flow_id:
        return Return(AlreadyMember(ident, number_in(fields_of(flow), "node_count")))
    if member.flow_id is not None:
        return refused(f"already_member_of_different_flow:{member.flow_id}")
    namespace = namespace_of(flow)
    if member.namespace != namespace:
        wanted = f"an execution of the flow's namespace, {namespace!r}"
        return Reject(invalid("execution_id", wanted, member.namespace))
    now = snapshot.now_ms if args.now is None else args.now
    raw, nodes = _raise_count(flow, now, "node_count")
    plan = ADD_MEMBER(
        **named_flow(flow),
        raw_fields=raw,
        execution_id=ident.uuid,
        member_version=member.version,
        now=now,
    )
    return Commit(plan, Added(ident, nodes))


# ---- edges as staged


def stage_edge(snapshot: GraphSnapshot, args: StageDependencyEdgeArgs) -> Decision:
    up, down = args.upstream_execution_id, args.downstream_execution_id
    for ident in (up, down):
        mismatch = partition_mismatch(snapshot.partition, ident)
        if mismatch is not None:
            return Reject(mismatch)
    flow = _open_flow(snapshot)
    if isinstance(flow, Reject):
        return flow
    if flow.graph_revision != args.expected_graph_revision:
        facts = {"expected": str(args.expected_graph_revision), "stored": str(flow.graph_revision)}
        return Reject(Contention(ContentionKind.STALE_GRAPH_REVISION, **facts))
    ends = (snapshot.members.get(up.uuid), snapshot.members.get(down.uuid))
    if not all(member is not None and member.flow_id == flow.flow_id for member in ends):
        return refused("execution_not_in_flow")
    if snapshot.cyclic:
        return Reject(Conflict(ConflictKind.CYCLE_DETECTED, f"{down} leads to {up} already"))
    if snapshot.edge is not None:
        kind, existing = ConflictKind.DEPENDENCY_ALREADY_EXISTS, edge_snapshot(snapshot.edge)
        return Reject(Conflict(kind, str(args.edge_id), existing=existing))
    now = snapshot.now_ms if args.now is None else args.now
    plan = STAGE_EDGE(
        **named_flow(flow),
        raw_fields=_raise_count(flow, now, "edge_count")[0],
        edge_id=args.edge_id,
        upstream_eid=up.uuid,
        downstream_eid=down.uuid,
        edge_policy=edge_text(args.dependency_kind, args.data_passing_ref, now),
    )
    return Commit(plan, Staged(args.edge_id, flow.graph_revision + 1))


_ANY_END = f'"dependency_kind":"{ENDED}"'
"""As `edge_text` writes it. Inside a caller's text, JSON would escape the quotes."""


def edge_text(kind: str, data_passing_ref: str | None, now: int) -> str:
    """The constant part of an edge as JSON; its mutable parts are columns."""
    fields = {
        "dependency_kind": kind,
        "satisfaction_condition": "all_required",
        "data_passing_ref": data_passing_ref or "",
        "created_at_ms": now,
        "created_by": "engine",
        "staged_at_ms": now,
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def edge_fields(edge: Edge) -> dict[str, Any]:
    try:
        found = json.loads(edge.policy)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        detail = f"edge {edge.edge_id}: policy is not a JSON object"
        raise ValidationError(ValidationKind.CORRUPTION, detail)
    return found


def passes_data(edge: Edge) -> bool:
    """The text is searched first: most edges pass no data, and parsing costs more."""
    empty = '"data_passing_ref":""' in edge.policy
    return not empty and bool(edge_fields(edge).get("data_passing_ref"))


def counted_as(edge: Edge, outcome: str) -> str:
    """The outcome that this edge counts when its upstream ends with the given one."""
    return "success" if _ANY_END in edge.policy else outcome


def edge_snapshot(edge: Edge) -> EdgeSnapshot:
    fields = edge_fields(edge)
    return EdgeSnapshot(
        edge.edge_id,
        edge.flow_id,
        ExecutionId.of(edge.partition_key, edge.upstream_eid),
        ExecutionId.of(edge.partition_key, edge.downstream_eid),
        fields.get("dependency_kind", SUCCESS_ONLY),
        fields.get("satisfaction_condition", "all_required"),
        fields.get("data_passing_ref") or None,
        edge.edge_state,
        fields.get("created_at_ms", 0),
        fields.get("created_by", "engine"),
    )


# ---- policies


def check_policy(policy: EdgePolicy) -> EngineError | None:
    """The first problem of a policy, in words that callers match on."""
    problem = None
    if policy.kind == "quorum" and (type(policy.k) is not int or policy.k < 1):
        problem = "quorum k must be >= 1"
    elif policy.kind == "quorum" and policy.k > MAX_QUORUM:
        problem = "quorum k exceeds supported maximum"
    elif policy.kind not in ("all_of", "any_of", "quorum"):
        problem = "unknown EdgeDependencyPolicy variant"
    elif policy.kind != "all_of" and policy.on_satisfied not in tuple(OnSatisfied):
        problem = "on_satisfied required for any_of/quorum: cancel_remaining | let_run"
    return None if problem is None else ValidationError(ValidationKind.INVALID_INPUT, problem)


def set_edge_policy(
    snapshot: GraphSnapshot, downstream: ExecutionId, policy: EdgePolicy
) -> Decision:
    flow, group = snapshot.flow, snapshot.group
    if flow is None:
        return Reject(NotFound("flow"))
    if snapshot.has_edges:
        return refused("edge_group_policy_already_fixed: dependencies already staged")
    wanted = policy.encoded()
    if group is not None and json.loads(group.policy) == json.loads(wanted):
        return Return("AlreadySet")
    values = {
        **named_flow(flow),
        "downstream_eid": downstream.uuid,
        "policy": wanted,
        "k_target": policy.k,
    }
    if group is None:
        return Commit(SET_FIRST_POLICY(**values), "Set")
    return Commit(SET_POLICY(**values, group_version=group.version), "Set")


# ---- tags


def set_flow_tag(flow: Flow | None, key: str, value: str, now_ms: int) -> Decision:
    if flow is None:
        return Reject(NotFound("flow"))
    fields = {**fields_of(flow), key: value, "last_mutation_at_ms": now_ms}
    return Commit(SET_FLOW_FIELDS(**named_flow(flow), raw_fields=encode_fields(fields)))


# ---- what the members add up to


class MemberState(Struct, frozen=True):
    """The columns of a member that the state of its flow is derived from."""

    execution_id: UUID
    public_state: str
    cancellation_reason: str | None


def derived_state(counts: Mapping[str, int], losers: int = 0) -> str:
    """The public state of a flow, derived from the states of its members.

    `losers` of the cancelled members are no failure: a satisfied join did not need them. Nor is a
    skipped member, because what it was skipped for is a member itself.
    """
    ended = sum(counts.get(state, 0) for state in ENDED_STATES)
    if ended == sum(counts.values()):
        failed = counts.get("failed") or counts.get("expired")
        return "failed" if failed or counts.get("cancelled", 0) > losers else "completed"
    if counts.get("active"):
        return "running"
    waiting = ("suspended", "delayed", "rate_limited", "waiting_children")
    return "blocked" if any(counts.get(state) for state in waiting) else "open"


def count_members(public_states: Iterable[str]) -> Counter[str]:
    return Counter(
        "waiting" if state == "resumable" else canonical("public_state", state)
        for state in public_states
    )


def count_losers(members: Iterable[MemberState | Member]) -> int:
    """How many members were cancelled because a satisfied join did not need them."""
    return sum(
        member.public_state == "cancelled" and member.cancellation_reason == LOST_JOIN
        for member in members
    )


def state_of_members(members: Sequence[MemberState | Member]) -> str:
    """The public state of the flow that has these members."""
    return derived_state(count_members(m.public_state for m in members), count_losers(members))


def project(flow: Flow, members: Sequence[MemberState | Member], now: int) -> Plan:
    """A flow whose members have all ended is settled until one of them starts again."""
    counts, state, total = (
        count_members(member.public_state for member in members),
        state_of_members(members),
        len(members),
    )
    settled = state in ("completed", "failed")
    values = {f"members_{name}": counts.get(name, 0) for name in COUNTED_STATES}
    return PROJECT(
        **named_flow(flow),
        **values,
        total_members=total,
        sampled_members=total,
        public_flow_state=state,
        now=now,
        settled_at_ms=now if settled else None,
    )
