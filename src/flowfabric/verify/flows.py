"""Checks of flows: edges, the edge groups that count them, and the members that wait for them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from flowfabric.model.event import is_end
from flowfabric.model.execution import Execution
from flowfabric.model.flow import ENDED, Edge, EdgeGroup, stored_edge_policy
from flowfabric.model.state import ENDED_PHASES
from flowfabric.verify.snapshot import GroupKey, Key, Snapshot
from flowfabric.verify.violation import Check, Violation, about, violation

STATES = ("pending", "satisfied", "impossible")


def _child(key: GroupKey) -> Key:
    return key[0], key[2]


def _over(execution: Execution) -> bool:
    return execution.lifecycle_phase in ENDED_PHASES


def groups_count_their_edges(snapshot: Snapshot) -> Iterator[Violation]:
    """Groups: a group counts each of its applied edges once, by its result."""
    for key, edges in snapshot.inbound.items():
        applied = [edge for edge in edges if edge.applied_at_ms is not None]
        group = snapshot.groups.get(key)
        if not applied:
            continue
        if group is None:
            yield violation("groups", _child(key), f"{len(applied)} applied edges without a group")
            continue
        states = Counter(edge.dep_state for edge in applied)
        counted = (group.success_count, group.fail_count + group.skip_count, group.running_count)
        found = (states["satisfied"], states["impossible"], states["unsatisfied"])
        if counted != found or sum(found) != len(applied):
            yield violation(
                "groups",
                _child(key),
                f"counts {counted} satisfied, impossible and open edges, found {found}",
            )


def groups_fired_by_the_rule(snapshot: Snapshot) -> Iterator[Violation]:
    """Groups: the state of a group follows from its counters and its policy."""
    for key, group in snapshot.groups.items():
        if group.group_state not in STATES:
            yield violation("groups", _child(key), f"unknown state: {group.group_state!r}")
        elif not _explained(group, snapshot.inbound.get(key, [])):
            lost = group.fail_count + group.skip_count
            open_edges = group.running_count
            counted = f"{group.success_count} satisfied, {lost} impossible, {open_edges} open"
            yield violation(
                "groups", _child(key), f"{group.group_state} with {counted} of {group.policy}"
            )


def _explained(group: EdgeGroup, edges: list[Edge]) -> bool:
    """Whether counters and policy explain the state. An edge applied after the decision is only
    counted."""
    policy, good, lost = (
        stored_edge_policy(group.policy),
        group.success_count,
        group.fail_count + group.skip_count,
    )
    total = good + lost + group.running_count
    if policy.kind == "all_of":
        satisfied, impossible = bool(total) and good == total, bool(lost)
    else:
        satisfied, impossible = good >= policy.k, bool(good or lost) and lost > total - policy.k
    if group.group_state == "satisfied":
        return satisfied
    if group.group_state == "pending":
        again = any(edge.reset_at_ms is not None for edge in edges)
        return again or not (satisfied or impossible)
    resolved = [
        edge.last_resolved_at_ms
        for edge in edges
        if edge.dep_state is not None and edge.last_resolved_at_ms is not None
    ]
    late = [
        edge
        for edge in edges
        if resolved and edge.applied_at_ms is not None and edge.applied_at_ms >= min(resolved)
    ]
    return impossible or bool(late)


def waiting_members_are_not_claimable(snapshot: Snapshot) -> Iterator[Violation]:
    """I18: a member without a claim so far is not claimable while it has open edges."""
    for key, group in snapshot.groups.items():
        member = snapshot.executions.get(_child(key))
        if member is None or member.total_attempt_count or member.replay_count:
            continue
        waits = group.group_state == "pending" and group.running_count > 0
        free = member.eligibility_state in ("eligible_now", "not_eligible_until_time")
        if waits and (
            free or member.lifecycle_phase == "active" or member.terminal_outcome == "success"
        ):
            says = f"{member.public_state}, though {group.running_count} of its edges are open"
            yield violation("I18", _child(key), says)


def siblings_to_cancel_are_queued(snapshot: Snapshot) -> Iterator[Violation]:
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
            yield violation("siblings", _child(key), f"has siblings to cancel, but {wrong}")


def graphs_are_whole(snapshot: Snapshot) -> Iterator[Violation]:
    """Graphs: edges join members of their flow, events have its id, and it counts its edges."""
    edges: Counter[Key] = Counter()
    for key, several in snapshot.inbound.items():
        edges[key[:2]] += len(several)
        for edge in several:
            for end in (edge.upstream_eid, edge.downstream_eid):
                member = snapshot.executions.get((edge.partition_key, end))
                if member is not None and member.flow_id != edge.flow_id:
                    yield violation(
                        "graphs",
                        (edge.partition_key, end),
                        f"edge of flow {edge.flow_id}, it is not a member",
                    )
    for flow_key, flow in snapshot.flows.items():
        stored: dict[str, Any] = json.loads(flow.raw_fields)
        if stored.get("edge_count", edges[flow_key]) != edges[flow_key]:
            yield Violation(
                "graphs",
                str(flow.flow_id),
                f"stores {stored['edge_count']} edges, found {edges[flow_key]}",
            )
    for exec_key, member in snapshot.executions.items():
        for event in snapshot.completions.get(exec_key, []):
            if event["flow_id"] not in (None, member.flow_id):
                yield violation("graphs", exec_key, f"event {event['event_id']} names another flow")


def nothing_refers_to_a_removed_row(snapshot: Snapshot) -> Iterator[Violation]:
    """I23: a member that has not ended still has its flow and its upstreams."""
    for key, member in snapshot.executions.items():
        if member.flow_id is None or _over(member):
            continue
        if (key[0], member.flow_id) not in snapshot.flows:
            yield violation("I23", key, f"is of flow {member.flow_id}, which was removed")
    for group, edges in snapshot.inbound.items():
        downstream = snapshot.executions.get(_child(group))
        if downstream is None or _over(downstream):
            continue
        for edge in edges:
            if (edge.partition_key, edge.upstream_eid) not in snapshot.executions:
                yield violation(
                    "I23", _child(group), f"waits for {edge.upstream_eid}, which was removed"
                )


def parents_keep_their_children(snapshot: Snapshot) -> Iterator[Violation]:
    """I23: a parent that has not ended still has its children. A replayed parent had ended, and
    continues without them.
    """
    kept = Counter((key[0], member.flow_id) for key, member in snapshot.executions.items())
    for key, flow in snapshot.flows.items():
        if flow.parent is None:
            continue
        parent = snapshot.executions.get((flow.parent.partition_index, flow.parent.uuid))
        if parent is None or _over(parent) or parent.replay_count:
            continue
        removed = json.loads(flow.raw_fields).get("node_count", 0) - kept[key]
        if removed > 0:
            yield Violation(
                "I23",
                str(flow.parent),
                f"has a flow of children, {flow.flow_id}: {removed} were removed",
            )


def settled_flows_have_ended(snapshot: Snapshot) -> Iterator[Violation]:
    """I26: a settled flow has no member that has not ended."""
    for key, member in snapshot.executions.items():
        flow = None if member.flow_id is None else snapshot.flows.get((key[0], member.flow_id))
        if flow is not None and flow.settled_at_ms is not None and not _over(member):
            yield violation(
                "I26", key, f"is {member.public_state}, though flow {flow.flow_id} is settled"
            )


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


# ---- checks that hold only while the store is idle


def ends_were_dispatched(snapshot: Snapshot) -> Iterator[Violation]:
    """Drained: every end of a member is dispatched, with the id of its flow."""
    for key, member in snapshot.executions.items():
        if member.flow_id is None:
            continue
        events = [event for event in snapshot.completions.get(key, []) if is_end(event["outcome"])]
        if any(
            event["flow_id"] is not None and event["dispatched_at_ms"] is None for event in events
        ):
            yield violation("drained", key, "its end is not dispatched")
        if (
            _over(member)
            and events
            and events[-1]["flow_id"] is None
            and any(e["flow_id"] is not None for e in events)
        ):
            yield violation("drained", key, "its last end has no flow id")


def ends_are_counted(snapshot: Snapshot) -> Iterator[Violation]:
    """Drained: no edge is open after its upstream's end, and its result is one the upstream had."""
    for edge in (edge for several in snapshot.inbound.values() for edge in several):
        upstream = snapshot.executions.get((edge.partition_key, edge.upstream_eid))
        outcomes = {
            event["outcome"]
            for event in snapshot.completions.get((edge.partition_key, edge.upstream_eid), [])
        }
        child = about((edge.partition_key, edge.downstream_eid))
        if edge.is_open and (upstream is None or (_over(upstream) and _counts(edge, upstream))):
            yield Violation("drained", child, f"waits for {edge.upstream_eid}, which has ended")
        elif (
            upstream is not None
            and edge.dep_state == "satisfied"
            and not _is_satisfied(edge, outcomes)
        ):
            yield Violation(
                "drained", child, f"counts {edge.upstream_eid} as a success without one"
            )
        elif upstream is not None and edge.dep_state == "impossible" and not outcomes - {"success"}:
            yield Violation(
                "drained", child, f"counts {edge.upstream_eid} as impossible without a failure"
            )


def _is_satisfied(edge: Edge, outcomes: set[str]) -> bool:
    if json.loads(edge.policy).get("dependency_kind") == ENDED:
        return any(map(is_end, outcomes))
    return "success" in outcomes


def _counts(edge: Edge, upstream: Execution) -> bool:
    """A failure before the replay of the child does not count again."""
    if edge.reset_at_ms is None or upstream.terminal_outcome == "success":
        return True
    return upstream.terminal_at_ms is not None and upstream.terminal_at_ms > edge.reset_at_ms


def blocked_members_have_open_edges(snapshot: Snapshot) -> Iterator[Violation]:
    """I18: a blocked member has an open edge and a pending group."""
    for key, member in snapshot.executions.items():
        if (
            member.lifecycle_phase != "runnable"
            or member.eligibility_state != "blocked_by_dependencies"
        ):
            continue
        group = (
            None
            if member.flow_id is None
            else snapshot.groups.get((key[0], member.flow_id, key[1]))
        )
        if group is None:
            yield violation("I18", key, "blocked without an edge group")
        elif group.group_state != "pending" or not group.running_count:
            yield violation(
                "I18", key, f"blocked, its group is {group.group_state}, {group.running_count} open"
            )


def siblings_are_cancelled(snapshot: Snapshot) -> Iterator[Violation]:
    """Drained: no cancel is pending, and no sibling runs that its group had to cancel."""
    for key in snapshot.cancelling:
        yield violation("drained", _child(key), "its group has siblings to cancel")
    for flow in snapshot.cancel_backlog:
        yield Violation("drained", str(flow[1]), "has members to cancel")
    for key, group in snapshot.groups.items():
        if group.group_state == "pending" or not stored_edge_policy(group.policy).cancels:
            continue
        edges = snapshot.inbound.get(key, [])
        fired = group.satisfied_at_ms or min(
            (e.last_resolved_at_ms for e in edges if e.last_resolved_at_ms is not None), default=0
        )
        for edge in edges:
            upstream = snapshot.executions.get((key[0], edge.upstream_eid))
            early = edge.applied_at_ms is not None and edge.applied_at_ms < fired
            if upstream is not None and early and not _over(upstream) and not upstream.replay_count:
                yield violation(
                    "I18",
                    (key[0], edge.upstream_eid),
                    f"runs, although the group of {key[2]} is decided",
                )


def claims_follow_their_group(snapshot: Snapshot) -> Iterator[Violation]:
    """I18: if all edges preceded the first claim, the claim came after the group's satisfaction."""
    for key, edges in snapshot.inbound.items():
        group, member = snapshot.groups.get(key), snapshot.executions.get(_child(key))
        granted = [
            e["occurred_at_ms"]
            for e in snapshot.leases.get(_child(key), [])
            if e["event_type"] == "acquired"
        ]
        if group is None or member is None or member.replay_count or not granted:
            continue
        applied = [edge.applied_at_ms for edge in edges if edge.applied_at_ms is not None]
        if not applied or max(applied) >= granted[0]:
            continue
        if group.satisfied_at_ms is None or group.satisfied_at_ms > granted[0]:
            yield violation(
                "I18",
                _child(key),
                f"claimed at {granted[0]}, its group was satisfied at {group.satisfied_at_ms}",
            )


DRAINED: tuple[Check, ...] = (
    ends_were_dispatched,
    ends_are_counted,
    blocked_members_have_open_edges,
    siblings_are_cancelled,
    claims_follow_their_group,
)


def drained(snapshot: Snapshot) -> list[Violation]:
    """The violations of an idle store whose times are the store's and whose edges only the engine
    counted."""
    return [violation for each in DRAINED for violation in each(snapshot)]
