from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from flowfabric.errors import StateError, StateKind
from flowfabric.model.bulk import Restarted, Why
from flowfabric.model.execution import Execution, Replayed
from flowfabric.model.policy import encode_policy, parse_policy
from flowfabric.model.state import PublicState
from flowfabric.rules.decision import Commit, Decision
from flowfabric.rules.executions.replay import RestartSnapshot, check_upstreams, replay, restart
from flowfabric.rules.states import VECTORS, name_of, vector_of

from .factory import (
    ATTEMPT_ID,
    FLOW_ID,
    NEW_ATTEMPT_ID,
    NOW,
    applied,
    attempt,
    events,
    execution,
    load,
    refusal,
    snapshot,
    stored,
    stored_attempt,
    told,
)

LIVE = [name for name in VECTORS if name != "ENDED"]


def replayed(of: Execution | None, now: int | None = None, **around: Any) -> Decision:
    return replay(
        snapshot(of, **around),
        attempt_id=NEW_ATTEMPT_ID,
        now_ms=now,
        reason="again",
        requested_by="op",
    )


def test_replaying_a_missing_execution_is_refused() -> None:
    assert refusal(replayed(None)) == "execution_not_found"


@pytest.mark.parametrize("name", LIVE)
def test_only_an_ended_execution_is_replayed(name: str) -> None:
    assert refusal(replayed(execution(name, replay_count=99))) == "execution_not_terminal"


@pytest.mark.parametrize(
    ("limit", "count", "allowed"),
    [
        (None, 9, True),
        (None, 10, False),
        (None, 11, False),
        (2, 1, True),
        (2, 2, False),
        (0, 0, False),
    ],
)
def test_the_replay_cap(limit: int | None, count: int, allowed: bool) -> None:
    policy = None if limit is None else json.dumps({"max_replay_count": limit})
    decision = replayed(execution("ENDED", replay_count=count, policy=policy))
    if allowed:
        assert isinstance(decision, Commit)
    else:
        assert refusal(decision) == "max_replays_exhausted"


def test_a_stored_policy_without_a_cap_allows_ten() -> None:
    assert isinstance(replayed(execution("ENDED", replay_count=9, policy="{}")), Commit)
    assert (
        refusal(replayed(execution("ENDED", replay_count=10, policy="{}")))
        == "max_replays_exhausted"
    )


@pytest.mark.parametrize("outcome", VECTORS["ENDED"].outcomes)
def test_every_outcome_is_replayable_and_starts_clean(outcome: str) -> None:
    before = execution(
        "ENDED",
        outcome=outcome,
        result=b"r",
        result_encoding="raw",
        cancellation_reason="c",
        cancelled_by="w",
        failure_reason="f",
        retain_until_ms=NOW + 1,
        retry_count=2,
        lease_reclaim_count=3,
        attempt_timeout_ms=800,
        raw_fields='{"keep":1}',
    )
    decision = replayed(before, NOW - 9)
    assert isinstance(decision, Commit) and decision.result == Replayed(PublicState.WAITING)
    store = applied(decision, before, attempt(before))
    after = stored(store)
    assert (name_of(vector_of(after)), after.attempt_state, after.public_state) == (
        "READY",
        "pending_replay_attempt",
        "waiting",
    )
    assert (after.replay_count, after.lease_epoch) == (1, before.lease_epoch + 1)
    assert json.loads(after.raw_fields) == {"keep": 1, "replay_count": 1}
    cleared = (
        "terminal_at_ms",
        "result",
        "result_encoding",
        "cancellation_reason",
        "cancelled_by",
        "failure_reason",
    )
    assert [
        getattr(after, c)
        for c in (*cleared, "closing_epoch", "closing_attempt_index", "retain_until_ms")
    ] == [None] * 9
    assert (after.retry_count, after.lease_reclaim_count) == (2, 3)
    assert (
        after.attempt_index,
        after.total_attempt_count,
        after.pending_previous_attempt_index,
    ) == (0, 1, 0)
    assert (after.pending_replay_reason, after.pending_replay_requested_by) == ("again", "op")
    assert (
        after.last_transition_at,
        after.last_mutation_at,
        after.attempt_timeout_remaining_ms,
    ) == (NOW - 9, NOW - 9, 800)
    assert told(store) == ([], [], ["replayed"])
    (event,) = events(store, "ff_operator_event")
    assert (json.loads(event["details"]), event["occurred_at_ms"]) == (
        {"branch": "normal"},
        NOW - 9,
    )


def test_the_last_attempt_is_reopened_under_a_new_id_and_epoch() -> None:
    before = execution("ENDED", outcome="failed")
    store = applied(replayed(before), before, attempt(before))
    row = stored_attempt(store)
    assert (row.attempt_state, row.attempt_type, row.attempt_id) == (
        "created",
        "replay",
        NEW_ATTEMPT_ID,
    )
    assert (
        row.outcome,
        row.terminal_at_ms,
        row.worker_id,
        row.worker_instance_id,
        row.lease_expires_at_ms,
    ) == (None,) * 5
    assert (row.lease_epoch, row.replayed_from_attempt_index) == (before.lease_epoch + 1, 0)
    assert (row.replay_reason, row.replay_requested_by) == ("again", "op")
    assert stored(store).current_attempt_id == NEW_ATTEMPT_ID != ATTEMPT_ID


def test_an_execution_without_an_attempt_is_replayed_without_one() -> None:
    before = execution("ENDED", "pending_first_attempt", outcome="cancelled")
    store = applied(replayed(before), before)
    assert (stored(store).current_attempt_id, load(store).attempt) == (None, None)
    assert stored(store).attempt_state == "pending_replay_attempt"


@pytest.mark.parametrize(
    ("flow_id", "outcome", "attempt_outcome", "skipped"),
    [
        (FLOW_ID, "skipped", None, True),
        (FLOW_ID, "failed", "skipped", True),
        (FLOW_ID, "failed", "failed", False),
        (None, "skipped", "skipped", False),
    ],
)
def test_only_a_skipped_member_waits_for_its_dependencies_again(
    flow_id: UUID | None, outcome: str, attempt_outcome: str | None, skipped: bool
) -> None:
    before = execution("ENDED", outcome=outcome, flow_id=flow_id)
    tried = None if attempt_outcome is None else attempt(before, outcome=attempt_outcome)
    decision = replayed(before, attempt=tried)
    assert isinstance(decision, Commit)
    store = applied(decision, before, tried)
    after, (event,) = stored(store), events(store, "ff_operator_event")
    if not skipped:
        assert (decision.result, name_of(vector_of(after))) == (
            Replayed(PublicState.WAITING),
            "READY",
        )
        return
    assert (decision.result, name_of(vector_of(after))) == (
        Replayed(PublicState.WAITING_CHILDREN),
        "DEPS",
    )
    assert after.blocking_detail == "0 dep(s) unsatisfied after replay"
    assert json.loads(event["details"]) == {"branch": "skipped_flow_member", "groups_reset": 0}


POLICY = parse_policy({"timeout_policy": {"execution_deadline_ms": 1_000}})
assert POLICY is not None


@pytest.mark.parametrize(
    ("deadline", "origin", "policy", "kept"),
    [
        (None, None, None, (None, None)),
        (NOW - 5, "policy", encode_policy(POLICY), (NOW + 1_000, "policy")),
        (NOW + 5, "policy", encode_policy(POLICY), (NOW + 1_000, "policy")),
        (NOW + 5, "policy", None, (None, None)),
        (NOW + 5, "policy", "{}", (None, None)),
        (NOW + 1, "argument", encode_policy(POLICY), (NOW + 1, "argument")),
        (NOW, "argument", None, (None, None)),
        (NOW - 1, "argument", None, (None, None)),
    ],
)
def test_the_deadline_of_a_replay(
    deadline: int | None, origin: str | None, policy: str | None, kept: tuple[Any, Any]
) -> None:
    before = execution("ENDED", deadline_at_ms=deadline, deadline_origin=origin, policy=policy)
    after = stored(applied(replayed(before, NOW), before))
    assert (after.deadline_at_ms, after.deadline_origin) == kept


def test_a_member_is_not_replayed_without_its_upstream_members() -> None:
    first, second = UUID(int=1), UUID(int=2)
    assert check_upstreams([], set()) is None
    assert check_upstreams([first, second], {second, first}) is None
    refused = check_upstreams([first, second], {first})
    assert (
        isinstance(refused, StateError)
        and refused.kind is StateKind.DEPS_NOT_SATISFIED
        and str(second) in str(refused)
    )


# ---- restarts from a step

STEPS = ((0, "build"), (1, "test"), (2, "test"), (3, "ship"))


def restarted(of: Execution | None, step: str | int, **around: Any) -> Decision:
    found = RestartSnapshot(snapshot(of, **around), STEPS)
    return restart(found, step, attempt_id=NEW_ATTEMPT_ID, why=Why("op", "again"))


def test_a_missing_or_live_execution_is_not_restarted() -> None:
    assert refusal(restarted(None, 0)) == "execution_not_found"
    for name in LIVE:
        assert refusal(restarted(execution(name), 0)) == "execution_not_terminal"


@pytest.mark.parametrize(
    ("step", "code"),
    [("deploy", "step_not_found"), (4, "step_not_found"), ("test", "invalid_input")],
)
def test_a_step_must_be_known_and_unambiguous(step: str | int, code: str) -> None:
    assert refusal(restarted(execution("ENDED"), step)) == code


@pytest.mark.parametrize(("step", "position"), [("build", 0), (2, 2), ("ship", 3)])
def test_a_restart_names_what_it_drops(step: str | int, position: int) -> None:
    before = execution("ENDED", outcome="failed")
    decision = restarted(before, step)
    assert isinstance(decision, Commit)
    assert decision.result == Restarted(before.id, position, 4 - position)
    store = applied(decision, before, attempt(before))
    assert name_of(vector_of(stored(store))) == "READY"
    assert stored_attempt(store).replay_requested_by == "op"
    (event,) = events(store, "ff_operator_event")
    assert json.loads(event["details"]) == {
        "branch": "restart",
        "from_step": dict(STEPS)[position],
        "from_position": position,
        "dropped_steps": 4 - position,
        "by": "op",
        "reason": "again",
    }


def test_a_replay_by_a_job_names_the_job() -> None:
    before, job = execution("ENDED"), UUID(int=0x10B)
    decision = replay(
        snapshot(before), attempt_id=NEW_ATTEMPT_ID, now_ms=None, requested_by="op", job_id=job
    )
    (event,) = events(applied(decision, before, attempt(before)), "ff_operator_event")
    assert json.loads(event["details"]) == {"branch": "normal", "by": "op", "job": str(job)}
