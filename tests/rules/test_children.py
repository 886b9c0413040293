"""Waiting for dependencies, and the replay of a skipped member."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import Execution, Replayed
from flowfabric.model.flow import Edge, EdgeGroup, EdgePolicy
from flowfabric.model.lease import ClaimResumedArgs
from flowfabric.model.state import PublicState
from flowfabric.plan import Applied, Refused
from flowfabric.rules.claims.claims import claim_resumed
from flowfabric.rules.decision import Commit, Decision, Reject
from flowfabric.rules.executions.replay import replay
from flowfabric.rules.flows import cancels, edges
from flowfabric.rules.flows.wait_children import wait_children
from flowfabric.rules.leases.attempts import explain_refusal
from flowfabric.rules.states import name_of, vector_of
from flowfabric.store.memory import MemoryStore

from .factory import (
    FLOW_ID,
    IDENT,
    LEASE_ID,
    NEW_ATTEMPT_ID,
    NEW_LEASE_ID,
    NOW,
    TTL,
    WORKER,
    applied,
    attempt,
    commit_all,
    events,
    execution,
    grant,
    handle,
    load,
    refusal,
    seeded,
    snapshot,
    stored,
    stored_attempt,
    told,
)
from .flow_factory import (
    ALL_OF,
    ANY_OF,
    OTHER_FLOW,
    as_member,
    counters,
    edge,
    edge_id,
    group,
    kept,
    only,
    rows,
    waiting,
)
from .test_edges_count import end, ended

RUNNING = waiting("RUNNING", attempt_timeout_at_ms=NOW + 700)
QUORUM = EdgePolicy.quorum(2)


def parking(*groups: EdgeGroup, of: Execution | None = RUNNING, **fields: Any) -> Decision:
    return wait_children(snapshot(of, edge_groups=groups), handle(RUNNING, **fields))


# ---- waiting for children


@pytest.mark.parametrize(
    ("of", "fields", "code"),
    [
        (None, {}, "execution_not_found"),
        (waiting("READY"), {}, "attempt_not_found"),
        (waiting("LOST"), {}, "lease_expired"),
        (RUNNING, {"lease_epoch": 9}, "lease_conflict"),
        (RUNNING, {"attempt_index": 9}, "lease_conflict"),
        (RUNNING, {"lease_id": NEW_LEASE_ID}, "lease_conflict"),
        (waiting("ENDED"), {}, "execution_not_active"),
        (replace(RUNNING, ownership_state="lease_revoked"), {}, "lease_revoked"),
        (replace(RUNNING, lease_expires_at_ms=NOW), {}, "lease_expired"),
    ],
)
def test_only_the_holder_waits(of: Execution | None, fields: dict[str, Any], code: str) -> None:
    assert refusal(parking(group(ALL_OF, 1), of=of, **fields)) == code


BRANCHES: list[tuple[EdgeGroup | None, str]] = [
    (None, "READY"),
    (group(ALL_OF), "READY"),
    (group(ALL_OF, 2), "DEPS"),
    (group(ALL_OF, 1, success_count=1), "DEPS"),
    (group(ALL_OF, success_count=2), "READY"),
    (group(ALL_OF, success_count=2, group_state="satisfied"), "READY"),
    (group(ALL_OF, 1, fail_count=1, group_state="impossible"), "ENDED"),
    (group(ALL_OF, 1, skip_count=1), "ENDED"),
    (group(ANY_OF, 1, success_count=1, group_state="satisfied"), "READY"),
    (group(ANY_OF, 1, fail_count=1), "DEPS"),
    (group(ANY_OF, fail_count=1, group_state="impossible"), "ENDED"),
    (group(QUORUM, 1), "DEPS"),
    (group(QUORUM, 1, success_count=1), "DEPS"),
    (group(QUORUM, 1, success_count=2, group_state="satisfied"), "READY"),
]


@pytest.mark.parametrize(("found", "vector"), BRANCHES)
def test_where_waiting_for_children_leads(found: EdgeGroup | None, vector: str) -> None:
    groups = () if found is None else (found,)
    store = applied(parking(*groups), RUNNING, attempt(RUNNING), found)
    after, tried = stored(store), stored_attempt(store)
    assert name_of(vector_of(after)) == vector
    assert (
        after.current_lease_id,
        after.current_worker_id,
        after.lease_expires_at_ms,
        after.attempt_timeout_at_ms,
    ) == (None,) * 4
    if found is not None:
        assert only(store, EdgeGroup) == replace(found, version=found.version + 1)
    if vector == "ENDED":
        assert (after.public_state, tried.outcome, after.lease_epoch) == (
            "skipped",
            "skipped",
            RUNNING.lease_epoch,
        )
        assert told(store) == (["revoked"], ["skipped"], [])
        return
    detail = "waiting for child executions to complete" if vector == "DEPS" else ""
    assert (after.attempt_state, after.interrupt_cause, after.blocking_detail) == (
        "attempt_interrupted",
        "children",
        detail,
    )
    assert (after.lease_epoch, after.attempt_timeout_remaining_ms) == (RUNNING.lease_epoch + 1, 700)
    assert (tried.attempt_state, tried.suspended_at_ms, tried.suspension_id) == (
        "suspended",
        NOW,
        "waiting_children",
    )
    assert (tried.outcome, tried.lease_expires_at_ms, tried.terminal_at_ms) == (None, None, None)
    assert (tried.lease_epoch, tried.attempt_timeout_remaining_ms) == (after.lease_epoch, 700)
    assert told(store) == (["revoked"], [], [])
    (event,) = events(store, "ff_lease_event")
    assert (event["lease_id"], event["reason"]) == (LEASE_ID, "waiting_children")


def test_the_old_handle_is_stale_after_waiting() -> None:
    store = applied(parking(group(ALL_OF, 1)), RUNNING, attempt(RUNNING), group(ALL_OF, 1))
    reason = explain_refusal(load(store, 0), handle(RUNNING), "success")
    assert isinstance(reason, Reject)
    assert reason.error.code == "lease_conflict"


@pytest.mark.parametrize(
    ("found", "_vector"), [branch for branch in BRANCHES if branch[0] is not None]
)
def test_a_child_that_ends_meanwhile_is_looked_at_again(found: EdgeGroup, _vector: str) -> None:
    decision = parking(found)
    assert isinstance(decision, Commit)
    store = seeded(RUNNING, attempt(RUNNING), replace(found, version=found.version + 1))
    assert isinstance(commit_all(store, (*decision.first, decision.plan)), Refused)
    assert stored(store) == RUNNING


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_whenever_the_children_end_the_parent_is_claimable_once(when: str) -> None:
    store = seeded(RUNNING, attempt(RUNNING), group(ALL_OF, 2), edge(0), edge(1))
    if when == "before":
        end(store, ended(0), ended(1))
    if when == "between":
        end(store, ended(0))
    seen = replace(load(store, 0), edge_groups=(only(store, EdgeGroup),))
    decision = wait_children(seen, handle(RUNNING))
    assert isinstance(decision, Commit)
    assert isinstance(commit_all(store, (*decision.first, decision.plan)), Applied)
    if when != "before":
        assert name_of(vector_of(stored(store))) == "DEPS"
        end(store, *([ended(1)] if when == "between" else [ended(0), ended(1)]))
    parked = stored(store)
    assert (name_of(vector_of(parked)), parked.attempt_state) == ("READY", "attempt_interrupted")
    assert (
        refusal(edges.promote(edges.Child(NOW, as_member(parked), only(store, EdgeGroup))))
        == "not_blocked_by_deps"
    )
    args = ClaimResumedArgs(
        execution_id=IDENT, worker_id=WORKER, worker_instance_id="i", lease_ttl_ms=TTL
    )
    claimed = claim_resumed(
        replace(load(store), grant=grant()), args, lease_id=NEW_LEASE_ID, attempt_id=NEW_ATTEMPT_ID
    )
    assert isinstance(claimed, Commit)
    assert isinstance(commit_all(store, [claimed.plan]), Applied)
    assert (stored(store).attempt_index, stored(store).total_attempt_count) == (0, 1)


# ---- a skipped member that is started again

SKIPPED = waiting("ENDED", outcome="skipped")


def started_again(
    of: Execution, groups: tuple[EdgeGroup, ...], found: tuple[Edge, ...], now: int | None = NOW - 3
) -> MemoryStore:
    decision = replay(
        snapshot(of, edge_groups=groups, edges=found), attempt_id=NEW_ATTEMPT_ID, now_ms=now
    )
    assert isinstance(decision, Commit) and decision.result == Replayed(
        PublicState.WAITING_CHILDREN
    )
    store = seeded(of, attempt(of), *groups, *found)
    for one in groups:
        commit_all(store, [cancels.enter_queue(one, NOW)])
    assert isinstance(commit_all(store, (*decision.first, decision.plan)), Applied)
    return store


IMPOSSIBLE = {"dep_state": "impossible", "last_resolved_at_ms": NOW - 50}
SATISFIED = {"dep_state": "satisfied", "last_resolved_at_ms": NOW - 60}


def test_a_replay_opens_the_group_and_what_was_lost() -> None:
    fired = group(
        QUORUM,
        1,
        success_count=1,
        fail_count=2,
        skip_count=1,
        group_state="impossible",
        satisfied_at_ms=NOW,
        cancel_siblings_pending_flag=1,
        cancel_siblings_pending_members='["x"]',
        cancel_siblings_reason="kept",
    )
    found = (
        edge(0, **SATISFIED),
        edge(1, **IMPOSSIBLE),
        edge(2, **IMPOSSIBLE),
        edge(3),
        edge(4, applied=False),
        edge(5, applied=False, **IMPOSSIBLE),
    )
    store = started_again(SKIPPED, (fired,), found)
    row, after = only(store, EdgeGroup), stored(store)
    assert (counters(row), row.group_state, row.satisfied_at_ms) == ((1, 0, 0, 3), "pending", None)
    assert (row.cancel_siblings_pending_flag, row.cancel_siblings_pending_members) == (0, "[]")
    assert (row.cancel_siblings_reason, row.version) == ("kept", fired.version + 1)
    reset = {"dep_state": "unsatisfied", "last_resolved_at_ms": None, "reset_at_ms": NOW - 3}
    again = {1, 2, 5}
    assert kept(store, Edge) == [
        replace(one, **reset) if n in again else one for n, one in enumerate(found)
    ]
    assert rows(store, "ff_pending_cancel_groups") == []
    assert (name_of(vector_of(after)), after.blocking_detail) == (
        "DEPS",
        "3 dep(s) unsatisfied after replay",
    )
    assert (after.attempt_state, after.lease_epoch) == (
        "pending_replay_attempt",
        SKIPPED.lease_epoch + 1,
    )
    (event,) = events(store, "ff_operator_event")
    assert json.loads(event["details"]) == {"branch": "skipped_flow_member", "groups_reset": 1}
    assert event["occurred_at_ms"] == NOW - 3


def test_a_replay_without_a_time_resets_at_the_stores() -> None:
    store = started_again(SKIPPED, (group(ALL_OF, fail_count=1),), (edge(0, **IMPOSSIBLE),), None)
    assert only(store, Edge).reset_at_ms == NOW


def test_rows_from_elsewhere_without_an_applied_mark_count_nothing() -> None:
    found = (edge(0, applied=False), edge(1, applied=False))
    store = started_again(
        SKIPPED, (group(ALL_OF, 2, success_count=1, fail_count=1, group_state="impossible"),), found
    )
    assert counters(only(store, EdgeGroup)) == (1, 0, 0, 0)
    assert stored(store).blocking_detail == "0 dep(s) unsatisfied after replay"


def test_every_group_counts_the_edges_of_its_own_flow() -> None:
    groups = (group(ALL_OF, fail_count=1), group(ALL_OF, fail_count=2, flow_id=OTHER_FLOW))
    found = (
        edge(0, **IMPOSSIBLE),
        edge(1, flow_id=OTHER_FLOW, **IMPOSSIBLE),
        edge(2, flow_id=OTHER_FLOW),
    )
    store = started_again(SKIPPED, groups, found)
    assert {one.flow_id: one.running_count for one in kept(store, EdgeGroup)} == {
        FLOW_ID: 1,
        OTHER_FLOW: 2,
    }
    assert stored(store).blocking_detail == "3 dep(s) unsatisfied after replay"
    (event,) = events(store, "ff_operator_event")
    assert json.loads(event["details"])["groups_reset"] == 2


def test_a_group_that_moved_meanwhile_refuses_the_replay() -> None:
    seen = group(ALL_OF, fail_count=1, group_state="impossible")
    around = snapshot(SKIPPED, edge_groups=(seen,), edges=(edge(0, **IMPOSSIBLE),))
    decision = replay(around, attempt_id=NEW_ATTEMPT_ID, now_ms=None)
    assert isinstance(decision, Commit)
    moved = replace(seen, version=9)
    store = seeded(SKIPPED, attempt(SKIPPED), moved, edge(0, **IMPOSSIBLE))
    assert isinstance(commit_all(store, (*decision.first, decision.plan)), Refused)
    assert (stored(store), only(store, EdgeGroup), only(store, Edge)) == (
        SKIPPED,
        moved,
        edge(0, **IMPOSSIBLE),
    )


def test_groups_are_unchanged_by_a_replay_of_an_execution_that_was_not_skipped() -> None:
    of, seen = (
        waiting("ENDED", outcome="failed"),
        group(ALL_OF, fail_count=1, group_state="impossible"),
    )
    decision = replay(
        snapshot(of, edge_groups=(seen,), edges=(edge(0, **IMPOSSIBLE),)),
        attempt_id=NEW_ATTEMPT_ID,
        now_ms=None,
    )
    assert isinstance(decision, Commit)
    assert decision.first == ()


@pytest.mark.parametrize(("outcome", "vector"), [("success", "READY"), ("failed", "ENDED")])
def test_a_replayed_child_follows_the_next_end_of_its_upstream(outcome: str, vector: str) -> None:
    fired = group(ALL_OF, success_count=1, fail_count=1, group_state="impossible")
    store = started_again(SKIPPED, (fired,), (edge(0, **SATISFIED), edge(1, **IMPOSSIBLE)))
    end(store, ended(1, outcome))
    assert name_of(vector_of(stored(store))) == vector
    assert {one.edge_id: one.dep_state for one in kept(store, Edge)}[edge_id(1)] == (
        "satisfied" if outcome == "success" else "impossible"
    )


def test_an_execution_skipped_before_its_first_claim_is_replayed_without_an_attempt() -> None:
    of = execution("ENDED", "pending_first_attempt", outcome="skipped", flow_id=FLOW_ID)
    store = started_again(
        of, (group(ALL_OF, fail_count=1, group_state="impossible"),), (edge(0, **IMPOSSIBLE),)
    )
    assert (stored(store).current_attempt_id, kept(store, Attempt)) == (None, [])
