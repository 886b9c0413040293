from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from flowfabric.errors import ValidationError
from flowfabric.model.execution import CancelExecutionArgs, Cancelled, Changed, Execution
from flowfabric.plan import Applied
from flowfabric.rules.decision import Commit, Decision, Reject
from flowfabric.rules.executions.operator_actions import (
    SWEEP_DELAYED,
    cancel,
    change_priority,
    promote,
    set_tags,
)
from flowfabric.rules.states import VECTORS, name_of, vector_of

from .factory import (
    IDENT,
    LEASE_ID,
    NOW,
    answer,
    applied,
    attempt,
    events,
    execution,
    grant,
    load,
    refusal,
    run,
    seeded,
    snapshot,
    stored,
    stored_attempt,
    told,
)

LIVE = [name for name in VECTORS if name != "ENDED"]


def cancelled(of: Execution | None, **args: Any) -> Decision:
    return cancel(snapshot(of), CancelExecutionArgs(execution_id=IDENT, **args))


# ---- cancel


def test_cancelling_what_does_not_exist() -> None:
    assert refusal(cancelled(None)) == "execution_not_found"


def test_cancelling_twice_is_fine() -> None:
    done = execution("ENDED", outcome="cancelled")
    assert answer(cancelled(done)) == Cancelled(IDENT)
    assert answer(cancelled(done, source="worker")) == Cancelled(IDENT)


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        ("success", "completed"),
        ("failed", "failed"),
        ("expired", "expired"),
        ("skipped", "skipped"),
    ],
)
def test_cancelling_what_ended_otherwise_is_refused(outcome: str, shown: str) -> None:
    decision = cancelled(execution("ENDED", outcome=outcome))
    assert isinstance(decision, Reject) and isinstance(decision.error, ValidationError)
    assert decision.error.code == "invalid_input"
    assert decision.error.already_terminal
    assert (
        decision.error.detail
        == f"cancel_execution: execution_id={IDENT}: already terminal in state '{shown}'"
    )


RUNNING = execution("RUNNING")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({}, "invalid_input"),
        ({"lease_id": LEASE_ID}, "invalid_input"),
        ({"lease_epoch": RUNNING.lease_epoch - 1}, "stale_lease"),
        ({"lease_epoch": RUNNING.lease_epoch + 1}, "stale_lease"),
        ({"lease_epoch": RUNNING.lease_epoch, "lease_id": UUID(int=9)}, "stale_lease"),
        ({"lease_epoch": RUNNING.lease_epoch}, None),
        ({"lease_epoch": RUNNING.lease_epoch, "lease_id": LEASE_ID}, None),
    ],
)
def test_who_is_no_operator_names_the_lease(args: dict[str, Any], code: str | None) -> None:
    decision = cancelled(RUNNING, source="lease_holder", **args)
    if code is None:
        assert isinstance(decision, Commit)
    else:
        assert refusal(decision) == code


def test_a_missing_epoch_is_named() -> None:
    decision = cancelled(RUNNING, source="flow_cascade")
    assert isinstance(decision, Reject) and isinstance(decision.error, ValidationError)
    assert not decision.error.already_terminal
    assert decision.error.detail == (
        f"cancel_execution: execution_id={IDENT}: lease_epoch required when source != operator_override and execution is active"
    )


def test_an_operator_is_not_asked_for_the_lease() -> None:
    assert isinstance(cancelled(RUNNING, lease_epoch=999, lease_id=UUID(int=9)), Commit)


@pytest.mark.parametrize("name", [name for name in LIVE if name != "RUNNING"])
def test_without_a_live_lease_nobody_is_asked_for_it(name: str) -> None:
    assert isinstance(cancelled(execution(name), source="lease_holder"), Commit)


CANCEL_CASES = [(name, state) for name in LIVE for state in VECTORS[name].attempt_states]


@pytest.mark.parametrize(("name", "state"), CANCEL_CASES)
def test_cancel_ends_whatever_it_meets(name: str, state: str) -> None:
    before = execution(name, state)
    store = applied(
        cancelled(
            before, reason="no more", source="operator", lease_epoch=before.lease_epoch, now=NOW - 5
        ),
        before,
        attempt(before),
        grant(),
    )
    after = stored(store)
    assert name_of(vector_of(after)) == "ENDED"
    assert (after.lifecycle_phase, after.public_state, after.terminal_outcome) == (
        "cancelled",
        "cancelled",
        "cancelled",
    )
    assert (after.terminal_at_ms, after.last_transition_at, after.last_mutation_at) == (
        NOW - 5,
        NOW - 5,
        NOW - 5,
    )
    assert (after.cancellation_reason, after.cancelled_by) == ("no more", "operator")
    assert (after.closing_epoch, after.closing_attempt_index) == (
        before.lease_epoch,
        before.attempt_index,
    )
    assert (
        after.delay_until_ms,
        after.blocking_detail,
        after.current_lease_id,
        after.lease_expires_at_ms,
    ) == (
        None,
        "",
        None,
        None,
    )
    assert load(store).grant is None
    open_attempt = before.current_attempt_id is not None
    assert after.lease_epoch == before.lease_epoch + open_attempt
    assert after.attempt_state == (
        "attempt_terminal" if before.total_attempt_count else "pending_first_attempt"
    )
    assert told(store) == (["revoked"] if name == "RUNNING" else [], ["cancelled"], [])
    if open_attempt:
        closed = stored_attempt(store)
        assert (closed.attempt_state, closed.outcome, closed.failure_reason) == (
            "ended_cancelled",
            "cancelled",
            "cancelled: no more",
        )
        assert (closed.terminal_at_ms, closed.worker_instance_id, closed.lease_expires_at_ms) == (
            NOW - 5,
            None,
            None,
        )
        assert (closed.lease_epoch, closed.worker_id) == (after.lease_epoch, "worker")


def test_a_failed_attempt_stays_as_it_ended_when_its_retry_is_cancelled() -> None:
    before = execution("DELAYED", "pending_retry_attempt", reason="waiting_for_retry_backoff")
    store = applied(cancelled(before), before, attempt(before))
    assert stored_attempt(store) == attempt(before)


def test_the_lease_event_of_a_cancel_names_the_lease_that_was_taken() -> None:
    store = applied(cancelled(RUNNING, now=NOW - 5), RUNNING, attempt(RUNNING))
    (event,) = events(store, "ff_lease_event")
    assert (event["lease_id"], event["worker_instance_id"], event["occurred_at_ms"]) == (
        LEASE_ID,
        "worker-1",
        NOW - 5,
    )
    assert (event["reason"], event["lease_epoch"]) == ("cancelled", RUNNING.lease_epoch + 1)


def test_a_cancel_without_a_time_uses_the_stores() -> None:
    assert stored(applied(cancelled(RUNNING), RUNNING)).terminal_at_ms == NOW
    assert stored(applied(cancelled(RUNNING, now=0), RUNNING)).terminal_at_ms == 0


@pytest.mark.parametrize(("name", "state"), CANCEL_CASES)
def test_a_cancel_tells_of_a_lease_when_asked_to_and_names_who_did_it(
    name: str, state: str
) -> None:
    before = execution(name, state)
    quiet, told_of = (
        cancel(
            snapshot(before),
            CancelExecutionArgs(execution_id=IDENT, reason="r"),
            by="cancel_flow",
            told=told,
        )
        for told in (False, True)
    )
    stores = [applied(decision, before, attempt(before), grant()) for decision in (quiet, told_of)]
    assert stored(stores[0]) == stored(stores[1])
    assert stored(stores[0]).cancelled_by == "cancel_flow"
    assert load(stores[0]) == load(stores[1])
    leased = ["revoked"] if name == "RUNNING" else []
    assert [told(store) for store in stores] == [
        (leased, ["cancelled"], []),
        (["revoked"], ["cancelled"], []),
    ]
    (event,) = events(stores[1], "ff_lease_event")
    assert (event["reason"], event["lease_id"]) == ("cancelled", before.current_lease_id)


def test_who_did_it_is_the_source_unless_named() -> None:
    named = cancel(
        snapshot(RUNNING),
        CancelExecutionArgs(execution_id=IDENT, source="operator_override"),
        by="somebody",
    )
    assert stored(applied(named, RUNNING)).cancelled_by == "somebody"
    assert stored(applied(cancelled(RUNNING), RUNNING)).cancelled_by == "operator_override"


def test_an_own_retention_starts_at_the_end() -> None:
    kept = execution(retention_ttl_ms=500)
    assert stored(applied(cancelled(kept), kept)).retain_until_ms == NOW + 500


# ---- priority


def test_changing_the_priority_of_what_does_not_exist() -> None:
    assert refusal(change_priority(snapshot(None), 1, None)) == "execution_not_found"


@pytest.mark.parametrize("name", [name for name in VECTORS if name != "READY"])
def test_only_a_ready_execution_changes_priority(name: str) -> None:
    assert refusal(change_priority(snapshot(execution(name)), 1, None)) == "execution_not_eligible"


@pytest.mark.parametrize(("asked", "kept"), [(42, 42), (-1, 0), (10_000, 9_000), (7, 7)])
def test_a_new_priority_is_clamped_stored_and_told(asked: int, kept: int) -> None:
    before = execution(priority=7)
    decision = change_priority(snapshot(before), asked, NOW - 3)
    assert isinstance(decision, Commit) and decision.result == Changed(IDENT)
    store = applied(decision, before)
    after = stored(store)
    assert (after.priority, after.last_mutation_at, after.last_transition_at) == (
        kept,
        NOW - 3,
        before.last_transition_at,
    )
    (event,) = events(store, "ff_operator_event")
    assert (event["event_type"], event["occurred_at_ms"]) == ("priority_changed", NOW - 3)
    assert json.loads(event["details"]) == {"old_priority": 7, "new_priority": kept}
    assert told(store)[:2] == ([], [])


def test_a_priority_change_without_a_time_uses_the_stores() -> None:
    before = execution()
    assert (
        stored(applied(change_priority(snapshot(before), 1, None), before)).last_mutation_at == NOW
    )


# ---- promotion


@pytest.mark.parametrize(
    ("of", "found"),
    [
        (None, "not_found_cleaned"),
        *[
            (execution(name), "not_runnable_cleaned")
            for name in ("RUNNING", "LOST", "SUSPENDED", "ENDED")
        ],
        *[
            (execution(name), "not_delayed_cleaned")
            for name in ("READY", "DEPS", "BUDGET", "OPBLOCK")
        ],
        (execution("DELAYED", delay_until_ms=NOW + 1), "not_yet_due"),
    ],
)
def test_promotion_never_raises_and_says_what_it_found(of: Execution | None, found: str) -> None:
    assert answer(promote(snapshot(of), None)) == found


@pytest.mark.parametrize("state", VECTORS["DELAYED"].attempt_states)
@pytest.mark.parametrize("until", [NOW, NOW - 1, None])
def test_a_due_execution_becomes_ready_and_keeps_its_attempt_state(
    state: str, until: int | None
) -> None:
    before = execution("DELAYED", state, delay_until_ms=until, blocking_detail="delayed until then")
    decision = promote(snapshot(before), None)
    store = seeded(
        execution("DELAYED", state, delay_until_ms=until or 0, blocking_detail="delayed until then")
    )
    assert isinstance(decision, Commit) and decision.result == "promoted"
    assert isinstance(run(store.commit(decision.plan)), Applied)
    after = stored(store)
    assert (name_of(vector_of(after)), after.attempt_state) == ("READY", state)
    assert (after.delay_until_ms, after.blocking_detail, after.last_transition_at) == (
        None,
        "",
        NOW,
    )
    assert told(store) == ([], [], [])


def test_the_given_time_decides_a_promotion_and_is_recorded() -> None:
    before = execution("DELAYED", delay_until_ms=NOW + 50)
    assert answer(promote(snapshot(before), NOW + 49)) == "not_yet_due"
    assert (
        stored(applied(promote(snapshot(before), NOW + 50), before)).last_transition_at == NOW + 50
    )


def test_the_sweep_promotes_what_is_due_and_nothing_else() -> None:
    due = seeded(execution("DELAYED", "pending_retry_attempt", delay_until_ms=NOW))
    assert run(due.sweep(SWEEP_DELAYED(), 10)) == [(IDENT.partition_index, IDENT.uuid)]
    assert (name_of(vector_of(stored(due))), stored(due).delay_until_ms) == ("READY", None)
    assert run(due.sweep(SWEEP_DELAYED(), 10)) == []
    assert (
        run(seeded(execution("DELAYED", delay_until_ms=NOW + 1)).sweep(SWEEP_DELAYED(), 10)) == []
    )


# ---- tags


def test_tagging_what_does_not_exist() -> None:
    assert refusal(set_tags(snapshot(None), {"a.b": "c"})) == "execution_not_found"


def test_tags_are_merged_sorted_and_counted() -> None:
    before = execution("ENDED", tags='{"b.b":"1","z.z":"2"}', instance_tag=None)
    decision = set_tags(snapshot(before), {"b.b": "new", "a.a": "é"})
    assert isinstance(decision, Commit) and decision.result == 2
    store = applied(decision, before)
    after = stored(store)
    assert after.tags == '{"a.a":"é","b.b":"new","z.z":"2"}'
    assert (after.instance_tag, after.last_mutation_at, after.version) == (
        None,
        NOW,
        before.version + 1,
    )
    assert told(store) == ([], [], [])


def held_tags(count: int, size: int = 1) -> str:
    return json.dumps({f"a.{n:03}": "v" * size for n in range(count)})


@pytest.mark.parametrize(
    ("tags", "added", "allowed"),
    [
        (held_tags(63), {"b.new": "v"}, True),
        (held_tags(64), {"b.new": "v"}, False),
        (held_tags(64), {"a.000": "w"}, True),
        (held_tags(1, 16_384 - 5 - 5), {"b.new": ""}, True),
        (held_tags(1, 16_384 - 5 - 5), {"b.new": "v"}, False),
        (held_tags(1, 16_384 - 5 - 5 - 2), {"b.new": "é"}, True),
        (held_tags(1, 16_384 - 5 - 5 - 1), {"b.new": "é"}, False),
    ],
)
def test_old_and_new_tags_together_obey_the_limits(
    tags: str, added: dict[str, str], allowed: bool
) -> None:
    decision = set_tags(snapshot(execution(tags=tags)), added)
    if allowed:
        assert isinstance(decision, Commit)
    else:
        assert refusal(decision) == "invalid_input"


def test_the_routing_tag_follows_its_key() -> None:
    before = execution()
    store = applied(set_tags(snapshot(before), {"cairn.instance_id": "i-2"}), before)
    assert stored(store).instance_tag == "i-2"
    kept = execution(tags='{"cairn.instance_id":"i-2"}', instance_tag="i-2")
    assert stored(applied(set_tags(snapshot(kept), {"a.b": "c"}), kept)).instance_tag == "i-2"
