"""Applying edges, counting how upstreams end, and releasing or skipping the execution that waits.

A group is the root of its inbound edges: its version guards every change of an edge, and of the
state in which its execution waits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.errors import (
    Conflict,
    ConflictKind,
    EngineError,
    NotFound,
    StateError,
    StateKind,
    ValidationError,
    ValidationKind,
)
from flowfabric.model.flow import (
    AlreadyApplied,
    ApplyDependencyArgs,
    DependencyApplied,
    Edge,
    EdgeGroup,
    Flow,
    stored_edge_policy,
)
from flowfabric.model.flow_links import Member, Upstream
from flowfabric.plan import Plan
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.executions.termination import skip
from flowfabric.rules.flows.edge_forms import (
    APPLY,
    APPLY_FIRST,
    APPLY_LATE,
    COUNTED,
    GIVE_INPUT,
    RELEASE,
    RELEASE_WITH_INPUT,
    RESOLVE,
    RESOLVE_AND_QUEUE,
    RESOLVE_AND_RELEASE,
)
from flowfabric.rules.flows.flows import partition_mismatch, refused
from flowfabric.rules.states import entering


def named_group(group: EdgeGroup) -> dict[str, object]:
    """The arguments that name a group by its key and the version that was read."""
    return {
        "partition_key": group.partition_key,
        "flow_id": group.flow_id,
        "downstream_eid": group.downstream_eid,
        "version": group.version,
    }


class ApplySnapshot(Struct, frozen=True):
    """An edge that is to be applied, and the rows that this concerns."""

    now_ms: int
    partition: int
    flow: Flow | None
    edge: Edge | None
    group: EdgeGroup | None
    child: Member | None


def apply(snapshot: ApplySnapshot, args: ApplyDependencyArgs) -> Decision:
    edge, group, child = snapshot.edge, snapshot.group, snapshot.child
    up, down = args.upstream_execution_id, args.downstream_execution_id
    for ident in (up, down):
        mismatch = partition_mismatch(snapshot.partition, ident)
        if mismatch is not None:
            return Reject(mismatch)
    if edge is None:
        return refused("edge_not_found")
    if (edge.upstream_eid, edge.downstream_eid) != (up.uuid, down.uuid):
        return refused("edge_endpoint_mismatch")
    if edge.applied_at_ms is not None:
        return Return(AlreadyApplied())
    if child is None:
        return Reject(NotFound("execution", down))
    if child.flow_id not in (None, args.flow_id):
        return Reject(Conflict(ConflictKind.EXECUTION_ALREADY_IN_FLOW, str(child.flow_id)))
    if snapshot.flow is None or snapshot.flow.is_terminal:
        return refused("flow_already_terminal")
    now = snapshot.now_ms if args.now is None else args.now
    running = 1 if group is None else group.running_count + 1
    values: dict[str, object] = {"edge_id": edge.edge_id, "now": now}
    detail = {"blocking_detail": f"{running} dep(s) unresolved incl {edge.edge_id}"}
    result = DependencyApplied(running)
    if group is None:
        owner = {
            "partition_key": edge.partition_key,
            "flow_id": edge.flow_id,
            "downstream_eid": edge.downstream_eid,
        }
        return Commit(APPLY_FIRST(**owner, **values, **detail), result)
    fired = group.group_state == "satisfied" and stored_edge_policy(group.policy).kind == "all_of"
    values |= {
        **named_group(group),
        "running_count": running,
        "group_state": "pending" if fired else group.group_state,
    }
    if group.group_state == "satisfied" and not fired:
        return Commit(APPLY_LATE(**values), result)
    return Commit(APPLY(**values, **detail), result)


# ---- counting ends


class UpstreamEnd(Struct, frozen=True):
    """An open edge whose upstream has ended. `passes`: its result is input of the child."""

    edge_id: UUID
    upstream: UUID
    outcome: str
    passes: bool = False
    result: bytes | None = None


class GroupCount(Struct, frozen=True):
    """A group after some ends. `gives`: `payload` becomes the input of the child.

    `fired` is satisfied or impossible when these ends have decided the group; `by` decided it.
    """

    group: EdgeGroup
    satisfied: tuple[UUID, ...] = ()
    impossible: tuple[UUID, ...] = ()
    fired: str = ""
    by: UUID | None = None
    payload: bytes | None = None
    gives: bool = False

    @property
    def cancels(self) -> bool:
        return bool(self.fired) and stored_edge_policy(self.group.policy).cancels


_DECIDED = ("satisfied", "impossible", "cancelled")
_BUCKETS = {"success": "success_count", "skipped": "skip_count"}


def evaluate(group: EdgeGroup) -> str:
    """The state that the counters of a group imply, regardless of its stored state."""
    policy, failed = stored_edge_policy(group.policy), group.fail_count + group.skip_count
    if policy.kind == "all_of":
        if failed:
            return "impossible"
        return "satisfied" if group.total and group.success_count == group.total else "pending"
    if group.success_count >= policy.k:
        return "satisfied"
    # Before the first end, more edges may still be applied.
    started = bool(group.success_count or failed)
    return "impossible" if started and failed > group.total - policy.k else "pending"


def state_of(group: EdgeGroup) -> str:
    """The stored state; a row without one is judged by its counters."""
    return group.group_state if group.group_state in _DECIDED else evaluate(group)


def count_ends(group: EdgeGroup, ends: Iterable[UpstreamEnd], now_ms: int) -> GroupCount:
    """Counts each end in turn. A group fires once; later ends are only counted."""
    counted, remaining = GroupCount(group), iter(ends)
    while counted.group.group_state not in _DECIDED:
        end = next(remaining, None)
        if end is None:
            return counted
        counted = _count_one(counted, end, now_ms)
    return _count_late(counted, list(remaining))


def _count_late(counted: GroupCount, ends: Sequence[UpstreamEnd]) -> GroupCount:
    """The ends that a decided group has left to count: often all siblings of the one that won."""
    group = counted.group
    if len(ends) > group.running_count:
        raise _too_many(group)
    changes: dict[str, Any] = Counter(_BUCKETS.get(end.outcome, "fail_count") for end in ends)
    changes = {bucket: getattr(group, bucket) + n for bucket, n in changes.items()}
    good = tuple(end.edge_id for end in ends if end.outcome == "success")
    bad = tuple(end.edge_id for end in ends if end.outcome != "success")
    return structs.replace(
        counted,
        group=structs.replace(group, running_count=group.running_count - len(ends), **changes),
        satisfied=counted.satisfied + good,
        impossible=counted.impossible + bad,
    )


def _too_many(group: EdgeGroup) -> EngineError:
    detail = f"edgegroup counters exceed n: {group.total + 1}/{group.total}"
    return ValidationError(ValidationKind.CORRUPTION, detail)


def _count_one(counted: GroupCount, end: UpstreamEnd, now_ms: int) -> GroupCount:
    before = counted.group
    if before.running_count < 1:
        raise _too_many(before)
    bucket = _BUCKETS.get(end.outcome, "fail_count")
    changes: dict[str, Any] = {
        "running_count": before.running_count - 1,
        bucket: getattr(before, bucket) + 1,
    }
    group = structs.replace(before, **changes)
    good = end.outcome == "success"
    edges = "satisfied" if good else "impossible"
    resolved: dict[str, Any] = {edges: (*getattr(counted, edges), end.edge_id)}
    counted = structs.replace(counted, **resolved, group=group)
    state = evaluate(group)
    policy = stored_edge_policy(group.policy)
    wanted = state == "satisfied" or policy.kind == "all_of"
    if good and end.passes and end.result is not None and wanted:
        counted = structs.replace(counted, payload=end.result, gives=True)
    if state not in ("satisfied", "impossible"):
        return counted
    at = now_ms if state == "satisfied" else group.satisfied_at_ms
    fired = structs.replace(group, group_state=state, satisfied_at_ms=at)
    return structs.replace(counted, group=fired, fired=state, by=end.upstream)


def resolve_group(
    counted: GroupCount,
    child: Member | None,
    now_ms: int,
    *,
    since: int,
    siblings: Sequence[UUID] = (),
    told: Sequence[UUID] = (),
) -> list[Plan]:
    """Stores a group with its edges, and releases or skips the child. Mostly this is one plan.

    `since` is the version at which the group was read. `siblings` are upstreams to cancel when the
    group has fired for good. The completion events of `told` are marked as dispatched.
    """
    cancels = counted.cancels
    values = {
        **_counted_columns(counted, siblings),
        **named_group(counted.group),
        "version": since,
        "satisfied": counted.satisfied,
        "impossible": counted.impossible,
        "told": told,
        "now": now_ms,
    }
    releases = counted.fired == "satisfied" and child is not None and child.is_blocked
    if releases and not cancels and not counted.gives:
        assert child is not None
        return [RESOLVE_AND_RELEASE(**values, **released_columns(child, now_ms))]
    plans = [(RESOLVE_AND_QUEUE if cancels else RESOLVE)(**values)]
    if child is None or child.is_ended:
        return plans
    if releases:
        return [*plans, release(child, now_ms, counted.payload if counted.gives else None)]
    if counted.gives:
        plans.append(GIVE_INPUT(**_named(child), payload=counted.payload))
        child = structs.replace(child, version=child.version + 1)
    if counted.fired == "impossible":
        plans.append(skip(child))
    return plans


def _counted_columns(counted: GroupCount, siblings: Sequence[UUID]) -> dict[str, object]:
    columns = {column: getattr(counted.group, column) for column in COUNTED}
    if not counted.cancels:
        return columns
    ids = [str(sibling) for sibling in siblings]
    return {
        **columns,
        "cancel_siblings_pending_flag": 1,
        "cancel_siblings_pending_members": json.dumps(ids, separators=(",", ":")),
        "cancel_siblings_reason": f"sibling_quorum_{counted.fired}",
    }


def _named(child: Member) -> dict[str, object]:
    return {
        "partition_key": child.partition_key,
        "execution_id": child.execution_id,
        "version": child.version,
    }


def released_columns(child: Member, now_ms: int) -> dict[str, object]:
    """The columns of a released execution: claimable now, or at its delay if that is later."""
    later = child.delay_until_ms is not None and child.delay_until_ms > now_ms
    vector = entering("DELAYED" if later else "READY")
    return {
        **{c: vector[c] for c in ("eligibility_state", "blocking_reason", "public_state")},
        "lane_id": child.lane_id,
        "delayed_until_ms": child.delay_until_ms if later else None,
    }


def release(child: Member, now_ms: int, payload: bytes | None = None) -> Plan:
    values = {**_named(child), **released_columns(child, now_ms)}
    if payload is None:
        return RELEASE(**values)
    return RELEASE_WITH_INPUT(**values, payload=payload)


def counts_after_replay(edge: Edge, upstream: Upstream, *, unheard: bool) -> bool:
    """After a replay of the child, an upstream that failed before counts only when it ends again.

    When both have the same time, an end is new if it is `unheard`, which is not yet dispatched.
    """
    if edge.reset_at_ms is None or upstream.terminal_outcome == "success":
        return True
    ended = upstream.terminal_at_ms or 0
    return ended > edge.reset_at_ms or (unheard and ended == edge.reset_at_ms)


# ---- the child


def is_waiting(group: EdgeGroup | None) -> bool:
    return group is not None and group.running_count > 0 and state_of(group) == "pending"


class Child(Struct, frozen=True):
    """An execution and its inbound group."""

    now_ms: int
    execution: Member | None
    group: EdgeGroup | None


def promote(snapshot: Child) -> Decision:
    """Releases an execution that has no dependency left to wait for."""
    child, group = snapshot.execution, snapshot.group
    problem: EngineError | None = None
    if child is None:
        problem = NotFound("execution")
    elif child.lifecycle_phase != "runnable":
        problem = StateError(StateKind.NOT_RUNNABLE, f"it is {child.lifecycle_phase}")
    elif not child.is_blocked:
        problem = StateError(StateKind.NOT_BLOCKED_BY_DEPS)
    elif child.terminal_outcome != "none":
        problem = StateError(StateKind.TERMINAL)
    elif is_waiting(group):
        problem = StateError(StateKind.DEPS_NOT_SATISFIED)
    if problem is not None:
        return Reject(problem)
    assert child is not None
    if group is not None and state_of(group) == "impossible":
        return Commit(skip(child), "skipped")
    return Commit(release(child, snapshot.now_ms), "promoted")


def eligibility(snapshot: Child) -> str:
    """Whether the dependencies of an execution let it run now."""
    child, group = snapshot.execution, snapshot.group
    if child is None:
        return "not_found"
    if child.lifecycle_phase != "runnable":
        return "not_runnable"
    if child.ownership_state != "unowned":
        return "owned"
    if child.terminal_outcome != "none":
        return "terminal"
    if group is None or not group.total:
        return "eligible"
    state = state_of(group)
    if state == "impossible":
        return "impossible"
    return "blocked_by_dependencies" if state == "pending" and group.running_count else "eligible"
