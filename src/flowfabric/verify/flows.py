"""The checks of flows: edges, the groups that count them, and the members that wait for them."""

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
from flowfabric.verify.violation import Check, Violation, about

STATES = ("pending", "satisfied", "impossible")


def _child(key: GroupKey) -> Key:
    return key[0], key[2]


def _over(execution: Execution) -> bool:
    return execution.lifecycle_phase in ENDED_PHASES


def groups_count_their_edges(world: Snapshot) -> Iterator[Violation]:
    """Groups: a group counts exactly its applied edges, each once, by how it ended."""
    for key, edges in world.inbound.items():
        applied = [edge for edge in edges if edge.applied_at_ms is not None]
        group = world.groups.get(key)
        if not applied:
            continue
        if group is None:
            yield Violation(
                "groups", about(_child(key)), f"{len(applied)} applied edges without a group"
            )
            continue
        states = Counter(edge.dep_state for edge in applied)
        counted = (group.success_count, group.fail_count + group.skip_count, group.running_count)
        found = (states["satisfied"], states["impossible"], states["unsatisfied"])
        if counted != found or sum(found) != len(applied):
            yield Violation(
                "groups",
                about(_child(key)),
                f"counts {counted} good, lost and open edges, there are {found}",
            )


def groups_fired_by_the_rule(world: Snapshot) -> Iterator[Violation]:
    """Groups: what a group says of itself is what its counters say, and what they said when it fired."""
    for key, group in world.groups.items():
        if group.group_state not in STATES:
            yield Violation("groups", about(_child(key)), f"no such state: {group.group_state!r}")
        elif not _explained(group, world.inbound.get(key, [])):
            lost = group.fail_count + group.skip_count
            counted = f"{group.success_count} good, {lost} lost, {group.running_count} open"
            yield Violation(
                "groups",
                about(_child(key)),
                f"{group.group_state} with {counted} of {group.policy}",
            )


def _explained(group: EdgeGroup, edges: list[Edge]) -> bool:
    """An edge applied after a group fired is counted, but decides nothing."""
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


def nobody_runs_early(world: Snapshot) -> Iterator[Violation]:
    """I18: a member that nobody has claimed yet is not claimable while it waits for others."""
    for key, group in world.groups.items():
        member = world.executions.get(_child(key))
        if member is None or member.total_attempt_count or member.replay_count:
            continue
        waits = group.group_state == "pending" and group.running_count > 0
        free = member.eligibility_state in ("eligible_now", "not_eligible_until_time")
        if waits and (
            free or member.lifecycle_phase == "active" or member.terminal_outcome == "success"
        ):
            says = f"{member.public_state}, though {group.running_count} of its edges are open"
            yield Violation("I18", about(_child(key)), says)


def losers_are_on_the_queue(world: Snapshot) -> Iterator[Violation]:
    """Siblings: a group that has siblings to cancel has fired, was told to cancel them, and somebody will look at it."""
    for key, group in world.groups.items():
        if not group.cancel_siblings_pending_flag:
            continue
        listed = json.loads(group.cancel_siblings_pending_members)
        upstreams = {str(edge.upstream_eid) for edge in world.inbound.get(key, [])}
        wrong = ""
        if key not in world.cancelling:
            wrong = "is not on the queue"
        elif group.group_state == "pending":
            wrong = "has not fired"
        elif not stored_edge_policy(group.policy).cancels:
            wrong = "lets them run"
        elif not upstreams.issuperset(listed):
            wrong = "lists some that it does not wait for"
        if wrong:
            yield Violation("siblings", about(_child(key)), f"has siblings to cancel, but {wrong}")


def graphs_are_whole(world: Snapshot) -> Iterator[Violation]:
    """Graphs: edges join members of their flow, ends carry its id, and the flow counts as many edges as there are."""
    edges: Counter[Key] = Counter()
    for key, several in world.inbound.items():
        edges[key[:2]] += len(several)
        for edge in several:
            for end in (edge.upstream_eid, edge.downstream_eid):
                member = world.executions.get((edge.partition_key, end))
                if member is not None and member.flow_id != edge.flow_id:
                    yield Violation(
                        "graphs",
                        about((edge.partition_key, end)),
                        f"edge of flow {edge.flow_id}, it is not a member",
                    )
    for flow_key, flow in world.flows.items():
        said: dict[str, Any] = json.loads(flow.raw_fields)
        if said.get("edge_count", edges[flow_key]) != edges[flow_key]:
            yield Violation(
                "graphs",
                str(flow.flow_id),
                f"says {said['edge_count']} edges, there are {edges[flow_key]}",
            )
    for exec_key, member in world.executions.items():
        for event in world.completions.get(exec_key, []):
            if event["flow_id"] not in (None, member.flow_id):
                yield Violation(
                    "graphs",
                    about(exec_key),
                    f"event {event['event_id']} tells another flow of its end",
                )


def nothing_refers_to_a_removed_row(world: Snapshot) -> Iterator[Violation]:
    """I23: a member that has not ended still has its flow and its upstreams."""
    for key, member in world.executions.items():
        if (
            member.flow_id is not None
            and not _over(member)
            and (key[0], member.flow_id) not in world.flows
        ):
            yield Violation("I23", about(key), f"is of flow {member.flow_id}, which was removed")
    for group, edges in world.inbound.items():
        downstream = world.executions.get(_child(group))
        if downstream is None or _over(downstream):
            continue
        for edge in edges:
            if (edge.partition_key, edge.upstream_eid) not in world.executions:
                yield Violation(
                    "I23",
                    about(_child(group)),
                    f"comes after {edge.upstream_eid}, which was removed",
                )


def parents_keep_their_children(world: Snapshot) -> Iterator[Violation]:
    """I23: a parent that has not ended still has its children. One that was replayed had ended, and goes on with what is left."""
    kept = Counter((key[0], member.flow_id) for key, member in world.executions.items())
    for key, flow in world.flows.items():
        if flow.parent is None:
            continue
        parent = world.executions.get((flow.parent.partition_index, flow.parent.uuid))
        if parent is None or _over(parent) or parent.replay_count:
            continue
        removed = json.loads(flow.raw_fields).get("node_count", 0) - kept[key]
        if removed > 0:
            yield Violation(
                "I23",
                str(flow.parent),
                f"has a flow of children, {flow.flow_id}: {removed} were removed",
            )


def settled_flows_have_ended(world: Snapshot) -> Iterator[Violation]:
    """I26: a settled flow has no member that has not ended."""
    for key, member in world.executions.items():
        flow = None if member.flow_id is None else world.flows.get((key[0], member.flow_id))
        if flow is not None and flow.settled_at_ms is not None and not _over(member):
            yield Violation(
                "I26",
                about(key),
                f"is {member.public_state}, though flow {flow.flow_id} is settled",
            )


FLOW_CHECKS: dict[str, Check] = {
    "I23": nothing_refers_to_a_removed_row,
    "I23: children": parents_keep_their_children,
    "I26": settled_flows_have_ended,
    "I18": nobody_runs_early,
    "groups: edges": groups_count_their_edges,
    "groups: states": groups_fired_by_the_rule,
    "siblings": losers_are_on_the_queue,
    "graphs": graphs_are_whole,
}


# ---- checks that hold only while nothing is under way


def ends_were_heard(world: Snapshot) -> Iterator[Violation]:
    """Every end of a member was dispatched, with its flow's id."""
    for key, member in world.executions.items():
        if member.flow_id is None:
            continue
        events = [event for event in world.completions.get(key, []) if is_end(event["outcome"])]
        if any(
            event["flow_id"] is not None and event["dispatched_at_ms"] is None for event in events
        ):
            yield Violation("drained", about(key), "nobody saw to what follows from its end")
        if (
            _over(member)
            and events
            and events[-1]["flow_id"] is None
            and any(e["flow_id"] is not None for e in events)
        ):
            yield Violation("drained", about(key), "its end was not told to its flow")


def ends_were_counted(world: Snapshot) -> Iterator[Violation]:
    """No edge is open whose upstream is over, and what is counted is how an upstream once ended."""
    for edge in (edge for several in world.inbound.values() for edge in several):
        upstream = world.executions.get((edge.partition_key, edge.upstream_eid))
        told = {
            event["outcome"]
            for event in world.completions.get((edge.partition_key, edge.upstream_eid), [])
        }
        child = about((edge.partition_key, edge.downstream_eid))
        if edge.is_open and (upstream is None or (_over(upstream) and _counts(edge, upstream))):
            yield Violation("drained", child, f"waits for {edge.upstream_eid}, which is over")
        elif upstream is not None and edge.dep_state == "satisfied" and not _is_good(edge, told):
            yield Violation(
                "drained", child, f"counts {edge.upstream_eid} as a success, which it never was"
            )
        elif upstream is not None and edge.dep_state == "impossible" and not told - {"success"}:
            yield Violation(
                "drained", child, f"counts {edge.upstream_eid} as lost, which it never was"
            )


def _is_good(edge: Edge, told: set[str]) -> bool:
    if json.loads(edge.policy).get("dependency_kind") == ENDED:
        return any(map(is_end, told))
    return "success" in told


def _counts(edge: Edge, upstream: Execution) -> bool:
    """A failure from before the child was replayed does not count again."""
    if edge.reset_at_ms is None or upstream.terminal_outcome == "success":
        return True
    return upstream.terminal_at_ms is not None and upstream.terminal_at_ms > edge.reset_at_ms


def nobody_is_left_waiting(world: Snapshot) -> Iterator[Violation]:
    """I18: whoever is blocked has an open edge, and a group that has not fired."""
    for key, member in world.executions.items():
        if (
            member.lifecycle_phase != "runnable"
            or member.eligibility_state != "blocked_by_dependencies"
        ):
            continue
        group = (
            None if member.flow_id is None else world.groups.get((key[0], member.flow_id, key[1]))
        )
        if group is None:
            yield Violation("I18", about(key), "blocked, and waits for nobody")
        elif group.group_state != "pending" or not group.running_count:
            yield Violation(
                "I18",
                about(key),
                f"blocked, its group is {group.group_state}, {group.running_count} open",
            )


def losers_are_cancelled(world: Snapshot) -> Iterator[Violation]:
    """Nothing is queued or owed, and no sibling runs on that a group was to cancel when it fired."""
    for key in world.cancelling:
        yield Violation(
            "drained",
            about(_child(key)),
            "its group is still on the queue of those with siblings to cancel",
        )
    for flow in world.owed:
        yield Violation("drained", str(flow[1]), "owes cancels to its members")
    for key, group in world.groups.items():
        if group.group_state == "pending" or not stored_edge_policy(group.policy).cancels:
            continue
        edges = world.inbound.get(key, [])
        fired = group.satisfied_at_ms or min(
            (e.last_resolved_at_ms for e in edges if e.last_resolved_at_ms is not None), default=0
        )
        for edge in edges:
            upstream = world.executions.get((key[0], edge.upstream_eid))
            early = edge.applied_at_ms is not None and edge.applied_at_ms < fired
            if upstream is not None and early and not _over(upstream) and not upstream.replay_count:
                yield Violation(
                    "I18",
                    about((key[0], edge.upstream_eid)),
                    f"runs on, though the group of {key[2]} has fired",
                )


def nobody_ran_early(world: Snapshot) -> Iterator[Violation]:
    """I18: where every edge was there before the first claim, that claim came after the group was satisfied."""
    for key, edges in world.inbound.items():
        group, member = world.groups.get(key), world.executions.get(_child(key))
        granted = [
            e["occurred_at_ms"]
            for e in world.leases.get(_child(key), [])
            if e["event_type"] == "acquired"
        ]
        if group is None or member is None or member.replay_count or not granted:
            continue
        applied = [edge.applied_at_ms for edge in edges if edge.applied_at_ms is not None]
        if not applied or max(applied) >= granted[0]:
            continue
        if group.satisfied_at_ms is None or group.satisfied_at_ms > granted[0]:
            yield Violation(
                "I18",
                about(_child(key)),
                f"claimed at {granted[0]}, its group was satisfied at {group.satisfied_at_ms}",
            )


DRAINED: tuple[Check, ...] = (
    ends_were_heard,
    ends_were_counted,
    nobody_is_left_waiting,
    losers_are_cancelled,
    nobody_ran_early,
)


def drained(world: Snapshot) -> list[Violation]:
    """What holds of flows once nothing is under way, times were left to the store, and nobody counted edges by hand."""
    return [violation for each in DRAINED for violation in each(world)]
