from __future__ import annotations

import json
from uuid import UUID

import pytest

from flowfabric.model.bulk import Why
from flowfabric.model.execution import Changed
from flowfabric.model.quota import Attached
from flowfabric.plan import Refused
from flowfabric.rules.decision import Commit, Decision
from flowfabric.rules.executions.moves import move, release
from flowfabric.rules.executions.operator_actions import cancel_by_job
from flowfabric.rules.limits.limit_scopes import NOTHING
from flowfabric.rules.states import VECTORS, name_of, vector_of

from .factory import (
    IDENT,
    NOW,
    answer,
    applied,
    attempt,
    commit,
    events,
    execution,
    grant,
    lane,
    load,
    refusal,
    seeded,
    snapshot,
    stored,
    told,
)

JOB = UUID(int=0x10B)
WHY = Why("ada", "because", JOB)
QUOTA = UUID(int=0x11)
LIMITED = Attached(("b-1",), QUOTA)
MOVED = {
    **dict.fromkeys(("READY", "BUDGET", "QUOTA", "ROUTE"), "READY"),
    **{name: name for name in ("DELAYED", "DEPS", "OPBLOCK", "LANEBLOCK", "SUSPENDED")},
}
"""The vectors that can be moved, and what they become."""
RELEASED = ("DELAYED", "OPBLOCK", "LANEBLOCK")


def moved(name: str, limits: Attached = NOTHING, **more: str) -> Decision:
    return move(snapshot(execution(name, **more)), "other", limits, WHY)


def test_a_missing_execution_is_neither_moved_nor_released() -> None:
    assert refusal(move(snapshot(None), "other", NOTHING, WHY)) == "execution_not_found"
    assert refusal(release(snapshot(None), WHY)) == "execution_not_found"


@pytest.mark.parametrize("name", MOVED)
def test_a_moved_execution_has_its_lane_and_its_limits(name: str) -> None:
    before = execution(name)
    decision = moved(name, LIMITED)
    store = applied(decision, before, attempt(before))
    after = stored(store)
    assert name_of(vector_of(after)) == MOVED[name]
    assert (after.lane_id, after.budget_ids) == ("other", ("b-1",))
    assert (after.quota_policy_id, after.gate) == (QUOTA, str(QUOTA))
    assert (after.version, after.delay_until_ms) == (before.version + 1, before.delay_until_ms)
    (event,) = events(store, "ff_operator_event")
    assert (event["event_type"], json.loads(event["details"])) == (
        "moved",
        {
            "from_lane": "default",
            "to_lane": "other",
            "by": "ada",
            "reason": "because",
            "job": str(JOB),
        },
    )


@pytest.mark.parametrize("name", [name for name in VECTORS if name not in MOVED])
def test_what_a_worker_holds_and_what_has_ended_is_not_moved(name: str) -> None:
    assert refusal(moved(name)) == "not_movable"


def test_a_move_to_its_own_lane_changes_nothing() -> None:
    here = move(snapshot(execution()), "default", NOTHING, WHY)
    assert answer(here) == Changed(IDENT)


@pytest.mark.parametrize(("until", "is_refused"), [(NOW - 1, False), (NOW, True)])
def test_a_granted_execution_is_moved_when_the_grant_is_over(until: int, is_refused: bool) -> None:
    before = execution(reserved_for="w", reserved_until_ms=until)
    decision = move(snapshot(before), "other", NOTHING, WHY)
    if is_refused:
        assert refusal(decision) == "grant_already_exists"
        return
    store = applied(decision, before, grant())
    assert (load(store).grant, stored(store).reserved_for) == (None, None)


@pytest.mark.parametrize(
    ("state", "is_refused"),
    [("active", False), ("paused", False), ("draining", True), ("disabled", True)],
)
def test_a_closed_lane_takes_no_execution(state: str, is_refused: bool) -> None:
    decision = move(snapshot(execution(), lane=lane(state)), "other", NOTHING, WHY)
    if is_refused:
        assert refusal(decision) == "lane_closed"
    else:
        assert isinstance(decision, Commit)


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_execution_can_be_claimed(name: str) -> None:
    before = execution(name)
    store = applied(release(snapshot(before), WHY), before)
    after = stored(store)
    assert name_of(vector_of(after)) == "READY"
    assert (after.delay_until_ms, after.blocked_on) == (None, None)
    assert told(store) == ([], [], ["released"])


@pytest.mark.parametrize("name", [n for n in VECTORS if n not in (*RELEASED, "READY")])
def test_a_release_is_about_delays_and_holds(name: str) -> None:
    assert refusal(release(snapshot(execution(name)), WHY)) == "not_held"


def test_a_release_of_a_claimable_execution_changes_nothing() -> None:
    assert answer(release(snapshot(execution()), WHY)) == Changed(IDENT)


def test_what_a_flow_cancel_holds_is_not_released() -> None:
    held = execution("OPBLOCK", reason="paused_by_flow_cancel")
    assert refusal(release(snapshot(held), WHY)) == "not_held"


@pytest.mark.parametrize("name", VECTORS)
def test_a_job_cancels_whatever_has_not_ended(name: str) -> None:
    before = execution(name)
    decision = cancel_by_job(before, "because", '{"by":"ada"}', NOW)
    if name == "ENDED":
        assert answer(decision) is None
        return
    store = applied(decision, before, attempt(before))
    after = stored(store)
    assert (after.terminal_outcome, after.cancellation_reason) == ("cancelled", "because")
    assert told(store)[1:] == (["cancelled"], ["cancelled"])


def test_a_row_that_has_changed_is_left_alone() -> None:
    before = execution()
    store = seeded(execution(version=99))
    decisions = (
        move(snapshot(before), "other", NOTHING, WHY),
        cancel_by_job(before, "", "{}", NOW),
    )
    for decision in decisions:
        assert isinstance(decision, Commit)
        assert commit(store, decision.plan) == Refused()
