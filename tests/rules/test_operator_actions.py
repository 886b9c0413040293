from __future__ import annotations

import json

import pytest

from flowfabric.model.execution import Changed, Execution
from flowfabric.plan import Applied
from flowfabric.rules.decision import Commit
from flowfabric.rules.executions.operator_actions import (
    SWEEP_DELAYED,
    change_priority,
    promote,
    set_tags,
)
from flowfabric.rules.states import VECTORS, name_of, vector_of

from .factory import (
    IDENT,
    NOW,
    answer,
    applied,
    events,
    execution,
    refusal,
    run,
    seeded,
    snapshot,
    stored,
    told,
)

# ---- priority


def test_changing_the_priority_of_a_missing_execution_is_refused() -> None:
    assert refusal(change_priority(snapshot(None), 1, None)) == "execution_not_found"


@pytest.mark.parametrize("name", [name for name in VECTORS if name != "READY"])
def test_only_a_ready_execution_changes_priority(name: str) -> None:
    assert refusal(change_priority(snapshot(execution(name)), 1, None)) == "execution_not_eligible"


@pytest.mark.parametrize(("asked", "kept"), [(42, 42), (-1, 0), (10_000, 9_000), (7, 7)])
def test_a_new_priority_is_clamped_and_stored_with_an_event(asked: int, kept: int) -> None:
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


def test_a_priority_change_without_a_time_uses_the_clock_of_the_store() -> None:
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
def test_promotion_never_raises_and_returns_what_it_found(of: Execution | None, found: str) -> None:
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


def test_the_sweep_promotes_only_due_executions() -> None:
    due = seeded(execution("DELAYED", "pending_retry_attempt", delay_until_ms=NOW))
    assert run(due.sweep(SWEEP_DELAYED(), 10)) == [(IDENT.partition_index, IDENT.uuid)]
    assert (name_of(vector_of(stored(due))), stored(due).delay_until_ms) == ("READY", None)
    assert run(due.sweep(SWEEP_DELAYED(), 10)) == []
    assert (
        run(seeded(execution("DELAYED", delay_until_ms=NOW + 1)).sweep(SWEEP_DELAYED(), 10)) == []
    )


# ---- tags


def test_tagging_a_missing_execution_is_refused() -> None:
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
