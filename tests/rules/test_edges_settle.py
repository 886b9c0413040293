"""Consequences of ended upstreams: siblings, data passing, and children in every state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from flowfabric.model.flow import EdgeGroup, EdgePolicy
from flowfabric.plan import Applied, Refused
from flowfabric.rules.flows import cancels, edge_forms, edges
from flowfabric.rules.leases.attempts import complete
from flowfabric.rules.states import VECTORS, name_of, vector_of
from flowfabric.store.memory import MemoryStore

from .factory import (
    FLOW_ID,
    IDENT,
    NOW,
    attempt,
    commit,
    commit_all,
    events,
    handle,
    seeded,
    stored,
    told,
)
from .flow_factory import (
    ALL_OF,
    ANY_OF,
    P,
    as_member,
    counters,
    edge,
    group,
    ident,
    only,
    rows,
    upstream,
    waiting,
)
from .test_edges_count import LET_RUN, end, ended, policy_name, world

# ---- siblings

CANCELLING = (ANY_OF, EdgePolicy.quorum(1))


@pytest.mark.parametrize("policy", CANCELLING, ids=policy_name)
@pytest.mark.parametrize("siblings", [(), (1,), (1, 2)])
@pytest.mark.parametrize(
    ("outcomes", "state"), [(["success"], "satisfied"), (["failed"] * 3, "impossible")]
)
def test_a_fired_group_lists_its_siblings(
    policy: EdgePolicy, siblings: Sequence[int], outcomes: list[str], state: str
) -> None:
    store = world(policy, 3)
    end(store, *(ended(n, outcome) for n, outcome in enumerate(outcomes)), siblings=siblings)
    row = only(store, EdgeGroup)
    assert (row.cancel_siblings_pending_flag, row.cancel_siblings_reason) == (
        1,
        f"sibling_quorum_{state}",
    )
    assert json.loads(row.cancel_siblings_pending_members) == [str(ident(n).uuid) for n in siblings]
    assert cancels.pending_siblings(row) == [ident(n).uuid for n in siblings]
    queued = {
        "partition_key": P,
        "flow_id": FLOW_ID,
        "downstream_eid": IDENT.uuid,
        "enqueued_at_ms": NOW,
    }
    assert rows(store, "ff_pending_cancel_groups") == [queued]


@pytest.mark.parametrize(
    "policy", [ALL_OF, LET_RUN, EdgePolicy.quorum(2, "let_run")], ids=policy_name
)
@pytest.mark.parametrize("outcome", ["success", "failed"])
def test_a_let_run_policy_lists_no_siblings(policy: EdgePolicy, outcome: str) -> None:
    store = world(policy, 2)
    end(store, *(ended(n, outcome) for n in (0, 1)), siblings=[7, 8])
    row = only(store, EdgeGroup)
    assert row.group_state != "pending"
    assert (
        row.cancel_siblings_pending_flag,
        row.cancel_siblings_pending_members,
        row.cancel_siblings_reason,
    ) == (0, "[]", None)
    assert rows(store, "ff_pending_cancel_groups") == []


def test_a_group_already_in_the_queue_keeps_its_place() -> None:
    store = world(ANY_OF, 2)
    commit(store, cancels.enter_queue(only(store, EdgeGroup), NOW - 50))
    end(store, ended(0), siblings=[1])
    (queued,) = rows(store, "ff_pending_cancel_groups")
    assert queued["enqueued_at_ms"] == NOW - 50


def test_a_later_end_does_not_list_them_again() -> None:
    store = world(ANY_OF, 3)
    end(store, ended(0), siblings=[1, 2])
    commit(store, cancels.drain(only(store, EdgeGroup)))
    end(store, ended(1, "cancelled"), ended(2), siblings=[9])
    row = only(store, EdgeGroup)
    assert (row.cancel_siblings_pending_flag, row.cancel_siblings_pending_members) == (0, "[]")
    assert (counters(row), row.group_state, row.satisfied_at_ms) == ((2, 1, 0, 0), "satisfied", NOW)
    assert rows(store, "ff_pending_cancel_groups") == []


# ---- data passing

PASSES = {"passes": True, "result": b"out"}
TWO_RUN = EdgePolicy.quorum(2, "let_run")


@pytest.mark.parametrize(
    ("policy", "n", "ends", "payload"),
    [
        (ALL_OF, 1, [ended(0, **PASSES)], b"out"),
        (ALL_OF, 1, [ended(0, passes=True, result=b"")], b""),
        (ALL_OF, 1, [ended(0, passes=True)], b"own"),
        (ALL_OF, 1, [ended(0, result=b"out")], b"own"),
        (ALL_OF, 2, [ended(0, **PASSES)], b"out"),
        (ALL_OF, 2, [ended(0, **PASSES), ended(1, passes=True, result=b"later")], b"later"),
        (ALL_OF, 2, [ended(0, **PASSES), ended(1)], b"out"),
        (ALL_OF, 2, [ended(0, **PASSES), ended(1, passes=True)], b"out"),
        (ANY_OF, 2, [ended(0, **PASSES)], b"out"),
        (LET_RUN, 2, [ended(0, **PASSES)], b"out"),
        (LET_RUN, 2, [ended(0), ended(1, **PASSES)], b"own"),
        (LET_RUN, 2, [ended(0, "failed"), ended(1, **PASSES)], b"out"),
        (TWO_RUN, 3, [ended(0, **PASSES)], b"own"),
        (TWO_RUN, 3, [ended(0, **PASSES), ended(1)], b"own"),
        (TWO_RUN, 3, [ended(0), ended(1, **PASSES)], b"out"),
        (TWO_RUN, 3, [ended(0), ended(1, **PASSES), ended(2, passes=True, result=b"late")], b"out"),
        (LET_RUN, 1, [ended(0, "failed", **PASSES)], b"own"),
        (ALL_OF, 1, [ended(0, "failed", **PASSES)], b"own"),
        (ALL_OF, 2, [ended(0, "failed"), ended(1, **PASSES)], b"own"),
        (ALL_OF, 2, [ended(0, **PASSES), ended(1, "failed")], b"out"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_which_result_becomes_the_input(
    policy: EdgePolicy, n: int, ends: list[edges.UpstreamEnd], payload: bytes, at_once: bool
) -> None:
    store = world(policy, n, waiting(payload=b"own"))
    for some in [ends] if at_once else [[one] for one in ends]:
        end(store, *some)
    assert stored(store).payload == payload


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("policy", [ALL_OF, LET_RUN, ANY_OF], ids=policy_name)
def test_input_is_given_to_children_that_have_not_ended(name: str, policy: EdgePolicy) -> None:
    child = waiting(name, payload=b"own")
    store = world(policy, 1, child)
    end(store, ended(0, **PASSES))
    after = stored(store)
    if name == "ENDED":
        assert after == child
        return
    assert (after.payload, after.version) == (b"out", child.version + 1)
    assert name_of(vector_of(after)) == ("READY" if name == "DEPS" else name)


@pytest.mark.parametrize("state", ["satisfied", "impossible"])
@pytest.mark.parametrize("policy", [ALL_OF, LET_RUN, ANY_OF], ids=policy_name)
@pytest.mark.parametrize("name", ["READY", "RUNNING", "DEPS"])
def test_a_group_that_has_fired_gives_nothing_more(
    state: str, policy: EdgePolicy, name: str
) -> None:
    child = waiting(name, payload=b"own")
    store = world(policy, 1, child, group_state=state, fail_count=1)
    assert not end(store, ended(0, **PASSES)).gives
    assert stored(store) == child


def test_input_comes_before_the_child_is_let_go() -> None:
    store = world(ALL_OF, 2, waiting(payload=b"own"))
    end(store, ended(0, **PASSES))
    assert (stored(store).payload, stored(store).public_state) == (b"out", "waiting_children")
    end(store, ended(1))
    assert (stored(store).payload, stored(store).public_state) == (b"out", "waiting")


# ---- children in every state


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("policy", [ALL_OF, ANY_OF, LET_RUN], ids=policy_name)
def test_a_satisfied_group_releases_only_a_blocked_child(name: str, policy: EdgePolicy) -> None:
    for state in VECTORS[name].attempt_states:
        child = waiting(name, state)
        store = world(policy, 1, child)
        assert end(store, ended(0)).fired == "satisfied"
        after = stored(store)
        assert told(store) == ([], [], [])
        if name == "DEPS":
            assert (name_of(vector_of(after)), after.attempt_state, after.version) == (
                "READY",
                state,
                child.version + 1,
            )
        else:
            assert after == child


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("policy", [ALL_OF, ANY_OF, LET_RUN], ids=policy_name)
def test_an_impossible_group_skips_a_child_that_has_not_ended(
    name: str, policy: EdgePolicy
) -> None:
    for outcome in VECTORS[name].outcomes:
        child = waiting(name, outcome=outcome)
        store = world(policy, 1, child)
        assert end(store, ended(0, "failed")).fired == "impossible"
        after = stored(store)
        if name == "ENDED":
            assert (after, told(store)[1]) == (child, [])
        else:
            assert (name_of(vector_of(after)), after.public_state, told(store)[1]) == (
                "ENDED",
                "skipped",
                ["skipped"],
            )


@pytest.mark.parametrize("policy", [ALL_OF, ANY_OF, LET_RUN], ids=policy_name)
@pytest.mark.parametrize(("outcome", "state"), [("success", "satisfied"), ("failed", "impossible")])
def test_a_child_that_was_trimmed_is_not_missed(
    policy: EdgePolicy, outcome: str, state: str
) -> None:
    store = seeded(group(policy, 1), edge())
    assert end(store, ended(0, outcome, **PASSES)).fired == state
    assert only(store, EdgeGroup).group_state == state
    assert told(store) == ([], [], [])


@pytest.mark.parametrize(
    ("until", "vector"), [(NOW - 1, "READY"), (NOW, "READY"), (NOW + 5, "DELAYED")]
)
@pytest.mark.parametrize("policy", [ALL_OF, ANY_OF], ids=policy_name)
@pytest.mark.parametrize("given", [{}, PASSES])
def test_a_delay_recorded_before_is_honoured_after(
    until: int, vector: str, policy: EdgePolicy, given: dict[str, Any]
) -> None:
    store = world(policy, 1, waiting(delay_until_ms=until))
    end(store, ended(0, **given))
    assert (name_of(vector_of(stored(store))), stored(store).delay_until_ms) == (vector, until)


def test_the_child_of_a_satisfied_group_and_its_siblings_go_in_one_commit() -> None:
    store = world(ANY_OF, 2)
    before = only(store, EdgeGroup)
    counted = edges.count_ends(before, [ended(0)], NOW)
    plans = edges.resolve_group(counted, as_member(stored(store)), NOW, since=before.version)
    assert [plan.form.name for plan in plans] == ["resolve_edges_and_queue", "release_blocked"]
    assert [plan.form.ends for plan in plans] == [False, False]
    impossible = edges.count_ends(before, [ended(0, "failed"), ended(1, "failed")], NOW)
    plans = edges.resolve_group(impossible, as_member(stored(store)), NOW, since=before.version)
    assert [plan.form.ends for plan in plans] == [False, True]


# ---- the event that told of it


def completed(*numbers: int) -> MemoryStore:
    """Upstreams that have just ended, each with its completion event."""
    ends = [upstream(n, "RUNNING") for n in numbers]
    store = seeded(group(LET_RUN, 3), *map(edge, range(3)), waiting(), *ends, *map(attempt, ends))
    for row in ends:
        assert isinstance(commit(store, complete(handle(row), b"r")), Applied)
    return store


def dispatched(store: MemoryStore) -> list[int | None]:
    return [event["dispatched_at_ms"] for event in events(store, "ff_completion_event")]


def test_an_event_is_marked_once() -> None:
    store = completed(0)
    (event,) = events(store, "ff_completion_event")
    assert (event["flow_id"], event["dispatched_at_ms"]) == (FLOW_ID, None)
    mark = edge_forms.MARK_DISPATCHED(event_id=event["event_id"])
    assert isinstance(commit(store, mark), Applied)
    assert isinstance(commit(store, mark), Refused)
    assert dispatched(store) == [NOW]


@pytest.mark.parametrize("told_of", [(), (0,), (1,), (0, 1)])
def test_an_end_is_marked_with_the_count_of_it(told_of: tuple[int, ...]) -> None:
    store = completed(0, 1)
    assert dispatched(store) == [None, None]
    end(store, ended(0), ended(1), told=told_of)
    assert dispatched(store) == [NOW if n in told_of else None for n in (0, 1)]


def test_an_end_is_not_marked_when_it_was_not_counted() -> None:
    store = completed(0)
    before = only(store, EdgeGroup)
    counted = edges.count_ends(before, [ended(0)], NOW)
    plans = edges.resolve_group(
        counted, as_member(stored(store)), NOW, since=before.version - 1, told=[ident(0).uuid]
    )
    assert isinstance(commit_all(store, plans), Refused)
    assert dispatched(store) == [None]


def test_what_is_settled_together_is_refused_together() -> None:
    store = world(ANY_OF, 1)
    before = only(store, EdgeGroup)
    plans = edges.resolve_group(
        edges.count_ends(before, [ended(0)], NOW),
        as_member(stored(store)),
        NOW,
        since=before.version,
    )
    assert isinstance(commit_all(store, plans), Applied)
    assert isinstance(commit_all(store, plans), Refused)
    assert only(store, EdgeGroup).version == before.version + 1
