"""What a refused report does to its execution, in every state of the execution."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from flowfabric.model.budget import HardBreach, HardLimitAction
from flowfabric.model.execution import Execution
from flowfabric.plan import Applied, Plan, Refused
from flowfabric.rules.limits.breach_actions import (
    blocked_on_budget,
    blocked_on_refusal,
    breach_plan,
    detail,
    hold_lease,
    lease_is_held,
)
from flowfabric.rules.states import VECTORS, name_of, vector_of
from flowfabric.store.memory import MemoryStore

from .budget_factory import BUDGET
from .factory import (
    NOW,
    attempt,
    commit,
    events,
    execution,
    grant,
    handle,
    load,
    seeded,
    stored,
    stored_attempt,
    told,
)

BREACH = HardBreach('é"', 90, 100)
LIVE = [name for name in VECTORS if name != "ENDED"]
FAIL, SUSPEND = HardLimitAction.FAIL_EXECUTION, HardLimitAction.SUSPEND_EXECUTION


def follows(of: Execution | None, action: str = FAIL) -> Plan | None:
    return breach_plan(of, action, BUDGET, BREACH, NOW)


def after(of: Execution, action: str, *more: Any, **columns: Any) -> MemoryStore:
    plan = follows(of, action)
    assert plan is not None
    store = seeded(of, attempt(of, **columns), *more)
    assert isinstance(commit(store, plan), Applied)
    return store


def check_details(store: MemoryStore, action: str) -> None:
    (event,) = events(store, "ff_operator_event")
    assert (event["event_type"], event["occurred_at_ms"]) == ("budget_breached", NOW)
    assert json.loads(event["details"]) == {
        "budget_id": str(BUDGET),
        "dimension": 'é"',
        "current_usage": 90,
        "hard_limit": 100,
        "action": action,
    }


@pytest.mark.parametrize("action", ["", "reject", "fail", *HardLimitAction])
def test_nothing_is_done_to_what_is_over_or_unknown(action: str) -> None:
    assert follows(None, action) is None
    for outcome in VECTORS["ENDED"].outcomes:
        assert follows(execution("ENDED", outcome=outcome), action) is None


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize(
    "action", ["", "reject", "fail", HardLimitAction.REJECT, HardLimitAction.CANCEL_FLOW_PENDING]
)
def test_other_actions_do_not_change_the_execution(name: str, action: str) -> None:
    assert follows(execution(name), action) is None


@pytest.mark.parametrize("name", LIVE)
def test_failing_ends_it_whatever_it_is_doing(name: str) -> None:
    before = execution(name, retention_ttl_ms=100, failed_retention_ttl_ms=500)
    store = after(before, FAIL, grant())
    row = stored(store)
    assert name_of(vector_of(row)) == "ENDED"
    assert (row.terminal_outcome, row.public_state, row.version) == (
        "failed",
        "failed",
        before.version + 1,
    )
    assert row.failure_reason == f'budget_exceeded:{BUDGET}:é"'
    assert (row.terminal_at_ms, row.retain_until_ms, row.delay_until_ms) == (NOW, NOW + 500, None)
    assert (row.current_lease_id, row.lease_expires_at_ms, row.reserved_for) == (None, None, None)
    assert (row.closing_epoch, row.closing_attempt_index) == (
        before.lease_epoch,
        before.attempt_index,
    )
    assert load(store).grant is None
    assert told(store) == (
        ["revoked"] if name == "RUNNING" else [],
        ["failed"],
        ["budget_breached"],
    )
    check_details(store, "fail_execution")


def test_failing_closes_the_attempt() -> None:
    row = stored_attempt(after(execution("RUNNING"), FAIL))
    assert (row.attempt_state, row.outcome, row.terminal_at_ms) == ("ended_failure", "failed", NOW)
    assert row.failure_reason == f'budget_exceeded:{BUDGET}:é"'


def test_failing_between_two_attempts_leaves_the_old_one() -> None:
    before = execution("DELAYED", "pending_retry_attempt", reason="waiting_for_retry_backoff")
    store = after(before, FAIL)
    assert stored_attempt(store).outcome == "retry"
    assert stored(store).attempt_state == "attempt_terminal"


def test_suspending_takes_the_lease_and_raises_the_epoch() -> None:
    before = execution("RUNNING", attempt_timeout_at_ms=NOW + 800)
    store = after(before, SUSPEND)
    row = stored(store)
    assert (name_of(vector_of(row)), row.attempt_state, row.interrupt_cause) == (
        "BUDGET",
        "attempt_interrupted",
        "budget",
    )
    assert (row.lease_epoch, row.version) == (before.lease_epoch + 1, before.version + 1)
    assert (row.current_lease_id, row.current_worker_id, row.lease_expires_at_ms) == (
        None,
        None,
        None,
    )
    assert (row.attempt_timeout_at_ms, row.attempt_timeout_remaining_ms) == (None, 800)
    assert (row.blocked_on, row.blocking_detail) == (
        blocked_on_refusal(BUDGET),
        f'budget {BUDGET}: é" 90/100',
    )
    assert row.current_attempt_id == before.current_attempt_id
    tried = stored_attempt(store)
    assert (tried.attempt_state, tried.suspended_at_ms, tried.lease_epoch) == (
        "suspended",
        NOW,
        row.lease_epoch,
    )
    assert told(store) == (["revoked"], [], ["budget_breached"])
    (event,) = events(store, "ff_lease_event")
    assert (event["reason"], event["lease_epoch"]) == ("budget", row.lease_epoch)
    check_details(store, "suspend_execution")


@pytest.mark.parametrize("state", VECTORS["READY"].attempt_states)
def test_suspending_what_is_ready_keeps_it_from_being_claimed(state: str) -> None:
    before = execution("READY", state, reserved_for="worker", reserved_until_ms=NOW + 1_000)
    store = after(before, SUSPEND, grant())
    row = stored(store)
    assert (name_of(vector_of(row)), row.attempt_state, row.blocked_on) == (
        "BUDGET",
        state,
        blocked_on_refusal(BUDGET),
    )
    assert (row.lease_epoch, row.interrupt_cause) == (before.lease_epoch, before.interrupt_cause)
    assert (load(store).grant, row.reserved_for, row.reserved_until_ms) == (None, None, None)
    assert told(store) == ([], [], ["budget_breached"])
    check_details(store, "suspend_execution")


@pytest.mark.parametrize("name", [name for name in LIVE if name not in ("READY", "RUNNING")])
def test_suspending_what_waits_already_does_nothing(name: str) -> None:
    assert follows(execution(name), SUSPEND) is None


@pytest.mark.parametrize("name", ["RUNNING", "READY"])
@pytest.mark.parametrize("action", [FAIL, SUSPEND])
def test_one_that_moved_meanwhile_stops_the_commit(name: str, action: str) -> None:
    before = execution(name)
    plan = follows(before, action)
    assert plan is not None
    store = seeded(execution(name, version=before.version + 1))
    assert commit(store, plan) == Refused(0, 0)
    assert told(store) == ([], [], [])


def test_how_a_wait_is_named() -> None:
    assert (blocked_on_budget(BUDGET), blocked_on_refusal(BUDGET)) == (
        f"budget:{BUDGET}",
        f"refused:{BUDGET}",
    )
    assert detail(BUDGET, "tokens", 3, 4) == f"budget {BUDGET}: tokens 3/4"


# ---- by a worker, under its lease


@pytest.mark.parametrize("action", [FAIL, SUSPEND])
def test_the_holder_is_acted_upon(action: str) -> None:
    before = execution("RUNNING")
    plan = breach_plan(before, action, BUDGET, BREACH, NOW, handle(before))
    assert plan is not None
    store = seeded(before, attempt(before))
    assert isinstance(commit(store, plan), Applied)
    row = stored(store)
    assert name_of(vector_of(row)) == ("ENDED" if action == FAIL else "BUDGET")
    check_details(store, action)
    (event,) = events(store, "ff_lease_event")
    assert (event["event_type"], event["lease_id"]) == ("revoked", before.current_lease_id)


LATE: list[dict[str, Any]] = [
    {"lease_id": UUID(int=99)},
    {"lease_epoch": 0},
    {"attempt_index": 7},
    {"worker_instance_id": "another"},
]


@pytest.mark.parametrize("action", [FAIL, SUSPEND])
@pytest.mark.parametrize("said", LATE, ids=str)
def test_a_lease_that_is_not_the_current_one_does_nothing(
    action: str, said: dict[str, Any]
) -> None:
    before = execution("RUNNING")
    assert not lease_is_held(before, handle(before, **said), NOW)
    assert breach_plan(before, action, BUDGET, BREACH, NOW, handle(before, **said)) is None


@pytest.mark.parametrize("name", [name for name in VECTORS if name != "RUNNING"])
def test_a_lease_that_was_given_up_does_nothing(name: str) -> None:
    before = execution(name)
    assert not lease_is_held(before, handle(before), NOW)
    assert breach_plan(before, FAIL, BUDGET, BREACH, NOW, handle(before)) is None


def test_a_lease_that_ran_out_does_nothing() -> None:
    before = execution("RUNNING")
    assert before.lease_expires_at_ms is not None
    assert lease_is_held(before, handle(before), before.lease_expires_at_ms - 1)
    assert not lease_is_held(before, handle(before), before.lease_expires_at_ms)
    assert not lease_is_held(None, handle(before), NOW)


@pytest.mark.parametrize(
    "changed",
    [{"lease_expires_at_ms": NOW}, {"current_lease_id": UUID(int=99)}],
    ids=["ran out", "another"],
)
@pytest.mark.parametrize("action", [FAIL, SUSPEND, HardLimitAction.CANCEL_FLOW_PENDING])
def test_a_lease_that_is_lost_before_the_commit_stops_it(
    action: str, changed: dict[str, Any]
) -> None:
    before = execution("RUNNING")
    lease = handle(before)
    plan = breach_plan(before, action, BUDGET, BREACH, NOW, lease) or hold_lease(lease)
    store = seeded(execution("RUNNING", **changed), attempt(before))
    assert isinstance(commit(store, plan), Refused)
    assert told(store) == ([], [], [])
    assert isinstance(commit(seeded(before, attempt(before)), plan), Applied)


def test_an_attempt_that_is_out_of_time_does_nothing() -> None:
    before = structs.replace(execution("RUNNING"), attempt_timeout_at_ms=NOW)
    assert lease_is_held(before, handle(before), NOW - 1)
    assert not lease_is_held(before, handle(before), NOW)
    assert breach_plan(before, FAIL, BUDGET, BREACH, NOW, handle(before)) is None
