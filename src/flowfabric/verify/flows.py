"""Checks of flows: edges, the edge groups that count them, and the members that wait for them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from math import inf

from flowfabric.model.event import is_end
from flowfabric.model.execution import Execution
from flowfabric.model.flow import ENDED, Edge, EdgeGroup, stored_edge_policy
from flowfabric.model.state import ENDED_PHASES
from flowfabric.verify.snapshot import GroupKey, Key, Snapshot
from flowfabric.verify.violation import Check, Finding, Violation, invariant

STATES = ("pending", "satisfied", "impossible")


def _child(key: GroupKey) -> Key:
    return key[0], key[2]


def _over(execution: Execution) -> bool:
    return execution.lifecycle_phase in ENDED_PHASES


@invariant("groups")
def groups_count_their_edges(snapshot: Snapshot) -> Iterator[Finding]:
    """Groups: a group counts each of its applied edges once, by its result."""
    for key, edges in snapshot.inbound.items():
        applied = [edge for edge in edges if edge.applied_at_ms is not None]
        group = snapshot.groups.get(key)
        if not applied:
            continue
        if group is None:
            yield _child(key), f"{len(applied)} applied edges without a group"
            continue
        states = Counter(edge.dep_state for edge in applied)
        found = (states["satisfied"], states["impossible"], states["unsatisfied"])
        if _counted(group) != found or sum(found) != len(applied):
            says = f"counts {_counted(group)} satisfied, impossible and open edges, found {found}"
            yield _child(key), says


def _counted(group: EdgeGroup) -> tuple[int, int, int]:
    return group.success_count, group.fail_count + group.skip_count, group.running_count


@invariant("groups")
def groups_fired_by_the_rule(snapshot: Snapshot) -> Iterator[Finding]:
    """Groups: the state of a group follows from its counters and its policy."""
    for key, group in snapshot.groups.items():
        if group.group_state not in STATES:
            yield _child(key), f"unknown state: {group.group_state!r}"
        elif not _explained(group, snapshot.inbound.get(key, [])):
            good, lost, open_edges = _counted(group)
            counted = f"{good} satisfied, {lost} impossible, {open_edges} open"
            yield _child(key), f"{group.group_state} with {counted} of {group.policy}"


def _explained(group: EdgeGroup, edges: list[Edge]) -> bool:
    """Whether counters and policy explain the state. An edge applied after it is only counted."""
    policy, (good, lost, open_edges) = stored_edge_policy(group.policy), _counted(group)
    total = good + lost + open_edges
    if policy.kind == "all_of":
        satisfied, impossible = bool(total) and good == total, bool(lost)
    else:
        satisfied, impossible = good >= policy.k, bool(good or lost) and lost > total - policy.k
    if group.group_state == "satisfied":
        return satisfied
    if group.group_state == "pending":
        again = any(edge.reset_at_ms is not None for edge in edges)
        return again or not (satisfied or impossible)
    first = min((e.last_resolved_at_ms or inf for e in edges if e.dep_state), default=inf)
    return impossible or any((e.applied_at_ms or 0) >= first for e in edges)


@invariant("I18")
def waiting_members_are_not_claimable(snapshot: Snapshot) -> Iterator[Finding]:
    """I18: a member without a claim so far is not claimable while it has open edges."""
    for key, group in snapshot.groups.items():
        member = snapshot.executions.get(_child(key))
        if member is None or member.total_attempt_count or member.replay_count:
            continue
        waits = group.group_state == "pending" and group.running_count > 0
        free = member.eligibility_state in ("eligible_now", "not_eligible_until_time")
        ran = member.lifecycle_phase == "active" or member.terminal_outcome == "success"
        if waits and (free or ran):
            says = f"{member.public_state}, though {group.running_count} of its edges are open"
            yield _child(key), says


@invariant("siblings")
def siblings_to_cancel_are_queued(snapshot: Snapshot) -> Iterator[Finding]:
    """Siblings: a group with siblings to cancel is decided, has that policy, and is queued."""
    for key, group in snapshot.groups.items():
        if not group.cancel_siblings_pending_flag:
            continue
        listed = json.loads(group.cancel_siblings_pending_members)
        upstreams = {str(edge.upstream_eid) for edge in snapshot.inbound.get(key, [])}
        wrong = ""
        if key not in snapshot.cancelling:
            wrong = "is not on the queue"
        elif group.group_state == "pending":
            wrong = "is pending"
        elif not stored_edge_policy(group.policy).cancels:
            wrong = "its policy lets them run"
        elif not upstreams.issuperset(listed):
            wrong = "lists executions that are no upstreams"
        if wrong:
            yield _child(key), f"has siblings to cancel, but {wrong}"


@invariant("graphs")
def graphs_are_whole(snapshot: Snapshot) -> Iterator[Finding]:
    """Graphs: edges join members of their flow, events have its id, and it counts its edges."""
    edges: Counter[Key] = Counter()
    for key, several in snapshot.inbound.items():
        edges[key[:2]] += len(several)
        for edge in several:
            for end in (edge.upstream_eid, edge.downstream_eid):
                at = (edge.partition_key, end)
                member = snapshot.executions.get(at)
                if member is not None and member.flow_id != edge.flow_id:
                    yield at, f"edge of flow {edge.flow_id}, it is not a member"
    for flow_key, flow in snapshot.flows.items():
        found = edges[flow_key]
        stored = json.loads(flow.raw_fields).get("edge_count", found)
        if stored != found:
            yield str(flow.flow_id), f"stores {stored} edges, found {found}"
    for exec_key, member in snapshot.executions.items():
        for event in snapshot.completions.get(exec_key, []):
            if event["flow_id"] not in (None, member.flow_id):
                yield exec_key, f"event {event['event_id']} names another flow"


@invariant("I23")
def nothing_refers_to_a_removed_row(snapshot: Snapshot) -> Iterator[Finding]:
    """I23: a member that has not ended still has its flow and its upstreams."""
    for key, member in snapshot.executions.items():
        if member.flow_id is None or _over(member):
            continue
        if (key[0], member.flow_id) not in snapshot.flows:
            yield key, f"is of flow {member.flow_id}, which was removed"
    for group, edges in snapshot.inbound.items():
        downstream = snapshot.executions.get(_child(group))
        if downstream is None or _over(downstream):
            continue
        for edge in edges:
            if (edge.partition_key, edge.upstream_eid) not in snapshot.executions:
                yield _child(group), f"waits for {edge.upstream_eid}, which was removed"


@invariant("I23")
def parents_keep_their_children(snapshot: Snapshot) -> Iterator[Finding]:
    """I23: a parent that has not ended, and was not replayed, still has its children."""
    kept = Counter((key[0], member.flow_id) for key, member in snapshot.executions.items())
    for key, flow in snapshot.flows.items():
        if flow.parent is None:
            continue
        parent = snapshot.executions.get((flow.parent.partition_index, flow.parent.uuid))
        if parent is None or _over(parent) or parent.replay_count:
            continue
        removed = json.loads(flow.raw_fields).get("node_count", 0) - kept[key]
        if removed > 0:
            says = f"has a flow of children, {flow.flow_id}: {removed} were removed"
            yield str(flow.parent), says


@invariant("I26")
def settled_flows_have_ended(snapshot: Snapshot) -> Iterator[Finding]:
    """I26: a settled flow has no member that has not ended."""
    for key, member in snapshot.executions.items():
        flow = None if member.flow_id is None else snapshot.flows.get((key[0], member.flow_id))
        if flow is not None and flow.settled_at_ms is not None and not _over(member):
            yield key, f"is {member.public_state}, though flow {flow.flow_id} is settled"


FLOW_CHECKS: dict[str, Check] = {
    "I23": nothing_refers_to_a_removed_row,
    "I23: children": parents_keep_their_children,
    "I26": settled_flows_have_ended,
    "I18": waiting_members_are_not_claimable,
    "groups: edges": groups_count_their_edges,
    "groups: states": groups_fired_by_the_rule,
    "siblings": siblings_to_cancel_are_queued,
    "graphs": graphs_are_whole,
}


@invariant("drained")
def ends_were_dispatched(snapshot: Snapshot) -> Iterator[Finding]:
    """Drained: every end of a member is dispatched, with the id of its flow."""
    for key, member in snapshot.executions.items():
        if member.flow_id is None:
            continue
        events = [event for event in snapshot.completions.get(key, []) if is_end(event["outcome"])]
        of_flow = [event for event in events if event["flow_id"] is not None]
        if any(event["dispatched_at_ms"] is None for event in of_flow):
            yield key, "its end is not dispatched"
        if _over(member) and of_flow and events[-1]["flow_id"] is None:
            yield key, "its last end has no flow id"


@invariant("drained")
def ends_are_counted(snapshot: Snapshot) -> Iterator[Finding]:
    """Drained: no edge is open after its upstream's end, and its result is one the upstream had."""
    for edge in (edge for several in snapshot.inbound.values() for edge in several):
        upstream = snapshot.executions.get((edge.partition_key, edge.upstream_eid))
        events = snapshot.completions.get((edge.partition_key, edge.upstream_eid), [])
        outcomes = {event["outcome"] for event in events}
        child = (edge.partition_key, edge.downstream_eid)
        if edge.is_open and (upstream is None or (_over(upstream) and _counts(edge, upstream))):
            yield child, f"waits for {edge.upstream_eid}, which has ended"
        elif upstream is None:
            continue
        elif edge.dep_state == "satisfied" and not _is_satisfied(edge, outcomes):
            yield child, f"counts {edge.upstream_eid} as a success without one"
        elif edge.dep_state == "impossible" and not outcomes - {"success"}:
            yield child, f"counts {edge.upstream_eid} as impossible without a failure"


def _is_satisfied(edge: Edge, outcomes: set[str]) -> bool:
    if json.loads(edge.policy).get("dependency_kind") == ENDED:
        return any(map(is_end, outcomes))
    return "success" in outcomes


def _counts(edge: Edge, upstream: Execution) -> bool:
    """A failure before the replay of the child does not count again."""
    if edge.reset_at_ms is None or upstream.terminal_outcome == "success":
        return True
    return upstream.terminal_at_ms is not None and upstream.terminal_at_ms > edge.reset_at_ms


@invariant("I18")
def blocked_members_have_open_edges(snapshot: Snapshot) -> Iterator[Finding]:
    """I18: a blocked member has an open edge and a pending group."""
    for key, member in snapshot.executions.items():
        waits = member.eligibility_state == "blocked_by_dependencies"
        if not waits or member.lifecycle_phase != "runnable":
            continue
        flow = member.flow_id
        group = None if flow is None else snapshot.groups.get((key[0], flow, key[1]))
        if group is None:
            yield key, "blocked without an edge group"
        elif group.group_state != "pending" or not group.running_count:
            yield key, f"blocked, its group is {group.group_state}, {group.running_count} open"


@invariant("drained")
def cancels_are_done(snapshot: Snapshot) -> Iterator[Finding]:
    """Drained: no cancel is pending."""
    for key in snapshot.cancelling:
        yield _child(key), "its group has siblings to cancel"
    for flow in snapshot.cancel_backlog:
        yield str(flow[1]), "has members to cancel"


@invariant("I18")
def siblings_are_cancelled(snapshot: Snapshot) -> Iterator[Finding]:
    """I18: no sibling runs that its group had to cancel."""
    for key, group in snapshot.groups.items():
        if group.group_state == "pending" or not stored_edge_policy(group.policy).cancels:
            continue
        edges = snapshot.inbound.get(key, [])
        fired = group.satisfied_at_ms or min(
            (e.last_resolved_at_ms for e in edges if e.last_resolved_at_ms is not None), default=0
        )
        for edge in edges:
            at = (key[0], edge.upstream_eid)
            upstream = snapshot.executions.get(at)
            early = edge.applied_at_ms is not None and edge.applied_at_ms < fired
            if upstream is not None and early and not _over(upstream) and not upstream.replay_count:
                yield at, f"runs, although the group of {key[2]} is decided"


@invariant("I18")
def claims_follow_their_group(snapshot: Snapshot) -> Iterator[Finding]:
    """I18: if all edges preceded the first claim, the claim came after the group's satisfaction."""
    for key, edges in snapshot.inbound.items():
        group, member = snapshot.groups.get(key), snapshot.executions.get(_child(key))
        events = snapshot.leases.get(_child(key), [])
        granted = [e["occurred_at_ms"] for e in events if e["event_type"] == "acquired"]
        if group is None or member is None or member.replay_count or not granted:
            continue
        applied = [edge.applied_at_ms for edge in edges if edge.applied_at_ms is not None]
        if not applied or max(applied) >= granted[0]:
            continue
        fired = group.satisfied_at_ms
        if fired is None or fired > granted[0]:
            yield _child(key), f"claimed at {granted[0]}, its group was satisfied at {fired}"


DRAINED: tuple[Check, ...] = (
    ends_were_dispatched,
    ends_are_counted,
    blocked_members_have_open_edges,
    cancels_are_done,
    siblings_are_cancelled,
    claims_follow_their_group,
)


def drained(snapshot: Snapshot) -> list[Violation]:
    """The violations of an idle store with its own times, whose edges only the engine counted."""
    return [violation for each in DRAINED for violation in each(snapshot)]
