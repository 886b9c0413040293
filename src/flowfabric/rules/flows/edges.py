"""Dependencies at work: applying an edge, counting how its upstream ended, and what that does to the execution that waits.

A group is the root of its inbound edges: what changes one of them, or makes the child wait, is guarded by the group's version.
"""

from __future__ import annotations

import json
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
from flowfabric.model.event import COMPLETION_EVENTS
from flowfabric.model.flow import (
    AlreadyApplied,
    ApplyDependencyArgs,
    DependencyApplied,
    Edge,
    EdgeGroup,
    EdgePolicy,
    Flow,
    Member,
    Upstream,
    stored_edge_policy,
)
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
    Plan,
    Update,
    UpdateMany,
    Upsert,
    Wake,
)
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.executions.skip import skip
from flowfabric.rules.flows.flows import (
    EDGE,
    FLOW_KEY,
    GROUP,
    GROUP_KEY,
    partition_mismatch,
    refused,
)
from flowfabric.rules.fragments import EXEC, MOVED, UNCHANGED
from flowfabric.rules.states import entering

CANCEL_QUEUE = "ff_pending_cancel_groups"
GROUP_UNCHANGED = (*GROUP_KEY, Cond("version", "=", Arg("version")))

# ---- applying

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
_ONE_MORE = {
    "running_count": Arg("running_count"),
    "group_state": Arg("group_state"),
    "version": Add(1),
}
APPLY_FIRST = Form(
    "apply_first_edge",
    Insert(
        GROUP,
        {
            **{c: Arg(c) for c in ("partition_key", "flow_id", "downstream_eid")},
            "policy": EdgePolicy().encoded(),
            "running_count": 1,
        },
    ),
    _APPLIED,
    _BLOCKED,
)
APPLY = Form("apply_edge", Update(GROUP, GROUP_UNCHANGED, _ONE_MORE), _APPLIED, _BLOCKED)
APPLY_LATE = Form("apply_late_edge", Update(GROUP, GROUP_UNCHANGED, _ONE_MORE), _APPLIED)


def named_group(group: EdgeGroup) -> dict[str, Any]:
    return {
        "partition_key": group.partition_key,
        "flow_id": group.flow_id,
        "downstream_eid": group.downstream_eid,
        "version": group.version,
    }


class Applying(Struct, frozen=True):
    now_ms: int
    partition: int
    flow: Flow | None
    edge: Edge | None
    group: EdgeGroup | None
    child: Member | None


def apply(around: Applying, args: ApplyDependencyArgs) -> Decision:
    edge, group, child = around.edge, around.group, around.child
    up, down = args.upstream_execution_id, args.downstream_execution_id
    for ident in (up, down):
        mismatch = partition_mismatch(around.partition, ident)
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
    if around.flow is None or around.flow.is_terminal:
        return refused("flow_already_terminal")
    now = around.now_ms if args.now is None else args.now
    running = 1 if group is None else group.running_count + 1
    values = {"edge_id": edge.edge_id, "now": now}
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

_COUNTED = {
    **{
        c: Arg(c)
        for c in (
            "success_count",
            "fail_count",
            "skip_count",
            "running_count",
            "group_state",
            "satisfied_at_ms",
        )
    },
    **{
        f"cancel_siblings_{c}": Arg(f"cancel_siblings_{c}")
        for c in ("pending_flag", "pending_members", "reason")
    },
    "version": Add(1),
}
_COUNT = Update(GROUP, GROUP_UNCHANGED, _COUNTED)


def _ended(state: str, which: str) -> UpdateMany:
    where = (*FLOW_KEY, Among("edge_id", Arg(which)))
    return UpdateMany(EDGE, where, {"dep_state": state, "last_resolved_at_ms": Arg("now")})


_EDGES = (
    _ended("satisfied", "satisfied"),
    _ended("impossible", "impossible"),
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
_LET_GO: dict[str, Any] = {
    **MOVED,
    **{c: Arg(c) for c in ("eligibility_state", "blocking_reason", "public_state")},
    "ownership_state": "unowned",
    "blocking_detail": "",
}
_WOKEN = (Wake("ready", Arg("lane_id")), Wake("delayed", at=Arg("delayed_until_ms")))

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
        _LET_GO,
    ),
    *_WOKEN,
)
RESOLVE_AND_QUEUE = Form(
    "resolve_edges_and_queue", _COUNT, *_EDGES, _QUEUED, Wake("cancel_groups", at=Arg("now"))
)
RELEASE = Form("release_blocked", Update(EXEC, UNCHANGED, _LET_GO), *_WOKEN)
RELEASE_WITH_INPUT = Form(
    "release_blocked_with_input",
    Update(EXEC, UNCHANGED, {**_LET_GO, "payload": Arg("payload")}),
    *_WOKEN,
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


class Ended(Struct, frozen=True):
    """An open edge whose upstream is over. `passes` says that its result is meant for the child."""

    edge_id: UUID
    upstream: UUID
    outcome: str
    passes: bool = False
    result: bytes | None = None


class Count(Struct, frozen=True):
    """A group after some ends. `fired` is satisfied or impossible when these ends decided it, by the last upstream in `by`."""

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
    """What a group's counters say, whatever is stored as its state."""
    policy, lost = stored_edge_policy(group.policy), group.fail_count + group.skip_count
    if policy.kind == "all_of":
        if lost:
            return "impossible"
        return "satisfied" if group.total and group.success_count == group.total else "pending"
    if group.success_count >= policy.k:
        return "satisfied"
    decided = bool(
        group.success_count or lost
    )  # before the first end, more edges may still be applied
    return "impossible" if decided and lost > group.total - policy.k else "pending"


def state_of(group: EdgeGroup) -> str:
    """As stored; a row from elsewhere that never had a state is read by its counters."""
    return group.group_state if group.group_state in _DECIDED else evaluate(group)


def count(group: EdgeGroup, ends: Iterable[Ended], now_ms: int) -> Count:
    """Each end in turn: a group fires once, and what comes later only counts."""
    counted = Count(group)
    for end in ends:
        counted = _count_one(counted, end, now_ms)
    return counted


def _count_one(counted: Count, end: Ended, now_ms: int) -> Count:
    before = counted.group
    bucket = _BUCKETS.get(end.outcome, "fail_count")
    changes: dict[str, Any] = {
        "running_count": max(before.running_count - 1, 0),
        bucket: getattr(before, bucket) + 1,
    }
    group = structs.replace(before, **changes)
    if group.total > before.total:
        detail = f"edgegroup counters exceed n: {group.total}/{before.total}"
        raise ValidationError(ValidationKind.CORRUPTION, detail)
    good = end.outcome == "success"
    ended = (
        {"satisfied": (*counted.satisfied, end.edge_id)}
        if good
        else {"impossible": (*counted.impossible, end.edge_id)}
    )
    counted = structs.replace(counted, **ended, group=group)
    says = "" if group.group_state in _DECIDED else evaluate(group)
    policy = stored_edge_policy(group.policy)
    wanted = says == "satisfied" or (says and policy.kind == "all_of")
    if good and end.passes and end.result is not None and wanted:
        counted = structs.replace(counted, payload=end.result, gives=True)
    if says not in ("satisfied", "impossible"):
        return counted
    stamped = {"satisfied_at_ms": now_ms} if says == "satisfied" else {}
    return structs.replace(
        counted,
        group=structs.replace(group, group_state=says, **stamped),
        fired=says,
        by=end.upstream,
    )


def settle(
    counted: Count,
    child: Member | None,
    now_ms: int,
    *,
    since: int,
    siblings: Sequence[UUID] = (),
    told: Sequence[UUID] = (),
) -> list[Plan]:
    """The group and its edges, and what becomes of the child. One plan is the rule; several go together.

    `since` is the version at which the group was read; `siblings` are upstreams to cancel when the group has fired for good;
    of the ends in `told` nobody else has to hear.
    """
    group = counted.group
    cancels = counted.cancels
    if cancels:
        group = structs.replace(
            group,
            cancel_siblings_pending_flag=1,
            cancel_siblings_pending_members=json.dumps(
                [str(sibling) for sibling in siblings], separators=(",", ":")
            ),
            cancel_siblings_reason=f"sibling_quorum_{counted.fired}",
        )
    values = {
        **{column: getattr(group, column) for column in _COUNTED if column != "version"},
        **named_group(group),
        "version": since,
        "satisfied": counted.satisfied,
        "impossible": counted.impossible,
        "told": told,
        "now": now_ms,
    }
    alive = child is not None and not child.is_ended
    if (
        counted.fired == "satisfied"
        and not cancels
        and not counted.gives
        and child is not None
        and child.is_blocked
    ):
        return [RESOLVE_AND_RELEASE(**values, **let_go(child, now_ms))]
    plans = [(RESOLVE_AND_QUEUE if cancels else RESOLVE)(**values)]
    if not alive:
        return plans
    assert child is not None
    if counted.fired == "satisfied" and child.is_blocked:
        return [*plans, release(child, now_ms, counted.payload if counted.gives else None)]
    if counted.gives:
        plans.append(GIVE_INPUT(**_named(child), payload=counted.payload))
        child = structs.replace(child, version=child.version + 1)
    if counted.fired == "impossible":
        plans.append(skip(child))
    return plans


def _named(child: Member) -> dict[str, Any]:
    return {
        "partition_key": child.partition_key,
        "execution_id": child.execution_id,
        "version": child.version,
    }


def let_go(child: Member, now_ms: int) -> dict[str, Any]:
    """Claimable, or at its recorded time if that lies ahead."""
    later = child.delay_until_ms is not None and child.delay_until_ms > now_ms
    vector = entering("DELAYED" if later else "READY")
    return {
        **{
            column: vector[column]
            for column in ("eligibility_state", "blocking_reason", "public_state")
        },
        "lane_id": child.lane_id,
        "delayed_until_ms": child.delay_until_ms if later else None,
    }


def release(child: Member, now_ms: int, payload: bytes | None = None) -> Plan:
    values = {**_named(child), **let_go(child, now_ms)}
    if payload is None:
        return RELEASE(**values)
    return RELEASE_WITH_INPUT(**values, payload=payload)


def counts_again(edge: Edge, upstream: Upstream, *, unheard: bool) -> bool:
    """After a replay of the child, an upstream that had failed before does not count again until it ends anew.

    Where both happened in the same moment, an end is new if it is `unheard`: nobody has seen to what follows from it.
    """
    if edge.reset_at_ms is None or upstream.terminal_outcome == "success":
        return True
    ended = upstream.terminal_at_ms or 0
    return ended > edge.reset_at_ms or (unheard and ended == edge.reset_at_ms)


# ---- the child's own questions


def is_waiting(group: EdgeGroup | None) -> bool:
    return group is not None and group.running_count > 0 and state_of(group) == "pending"


class Child(Struct, frozen=True):
    """An execution and its inbound group."""

    now_ms: int
    execution: Member | None
    group: EdgeGroup | None


def promote(around: Child) -> Decision:
    """Lets go of an execution that has nothing left to wait for."""
    child, group = around.execution, around.group
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
    return Commit(release(child, around.now_ms), "promoted")


def eligibility(around: Child) -> str:
    """Whether an execution could run now as far as its dependencies go."""
    child, group = around.execution, around.group
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
