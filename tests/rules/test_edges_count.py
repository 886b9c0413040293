"""Counting the ends of upstreams: every policy and order of outcomes, singly and together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import Any

import pytest
from msgspec.structs import replace

from flowfabric.errors import ValidationError
from flowfabric.model.execution import Execution
from flowfabric.model.flow import Edge, EdgeGroup, EdgePolicy
from flowfabric.plan import Applied, Refused
from flowfabric.rules.flows import edges
from flowfabric.rules.flows.edges import GroupCount, UpstreamEnd
from flowfabric.rules.states import VECTORS, name_of, vector_of
from flowfabric.store.memory import MemoryStore

from .factory import NOW, attempt, commit_all, found, seeded, stored, told
from .flow_factory import (
    ALL_OF,
    ANY_OF,
    OUTCOMES,
    as_member,
    counters,
    edge,
    edge_id,
    group,
    ident,
    kept,
    only,
    rows,
    waiting,
)

LET_RUN = EdgePolicy.any_of("let_run")
POLICIES = (
    ALL_OF,
    ANY_OF,
    LET_RUN,
    *(EdgePolicy.quorum(k, on) for k in (1, 2, 3, 4) for on in ("cancel_remaining", "let_run")),
)


def policy_name(policy: EdgePolicy) -> str:
    return policy.encoded()


def ended(n: int, outcome: str = "success", **fields: Any) -> UpstreamEnd:
    return UpstreamEnd(edge_id(n), ident(n).uuid, outcome, **fields)


def world(
    policy: EdgePolicy, n: int, child: Execution | None = None, **columns: Any
) -> MemoryStore:
    """`n` applied edges to one child, nothing counted yet."""
    row = child or waiting()
    return seeded(group(policy, n, **columns), *map(edge, range(n)), row, attempt(row))


def end(
    store: MemoryStore, *ends: UpstreamEnd, siblings: Sequence[int] = (), told: Sequence[int] = ()
) -> GroupCount:
    """Like the engine: reads the group and the child, counts the ends, and commits the plans."""
    before, child = only(store, EdgeGroup), found(store)
    counted = edges.count_ends(before, ends, NOW)
    others = {"siblings": [ident(n).uuid for n in siblings], "told": [ident(n).uuid for n in told]}
    plans = edges.resolve_group(counted, as_member(child), NOW, since=before.version, **others)
    assert isinstance(commit_all(store, plans), Applied)
    return counted


def decided(policy: EdgePolicy, n: int, outcomes: Sequence[str]) -> str:
    """An independent oracle: how many successes are needed, and how many are possible."""
    needs = {"all_of": n, "any_of": 1}.get(policy.kind, policy.k)
    for at in range(1, len(outcomes) + 1):
        good = outcomes[:at].count("success")
        if good >= needs:
            return "satisfied"
        if good + (n - at) < needs:
            return "impossible"
    return "pending"


SHOWS = {"pending": "waiting_children", "satisfied": "waiting", "impossible": "skipped"}


def check(
    store: MemoryStore, policy: EdgePolicy, n: int, outcomes: Sequence[str], where: str
) -> None:
    row, child = only(store, EdgeGroup), stored(store)
    state = decided(policy, n, outcomes)
    tally = Counter({"success": "success", "skipped": "skip"}.get(one, "fail") for one in outcomes)
    assert counters(row) == (tally["success"], tally["fail"], tally["skip"], n - len(outcomes)), (
        where
    )
    assert (row.group_state, child.public_state) == (state, SHOWS[state]), where
    assert (row.satisfied_at_ms is not None) == (state == "satisfied"), where
    expected = ["satisfied" if one == "success" else "impossible" for one in outcomes]
    found_states = {one.edge_id: one.dep_state for one in kept(store, Edge)}
    assert [found_states[edge_id(at)] for at in range(len(outcomes))] == expected, where
    fired = state != "pending" and policy.cancels
    assert (row.cancel_siblings_pending_flag, len(rows(store, "ff_pending_cancel_groups"))) == (
        fired,
        fired,
    ), where
    assert row.cancel_siblings_reason == (f"sibling_quorum_{state}" if fired else None), where
    assert told(store) == ([], ["skipped"] if state == "impossible" else [], []), where


# ---- every policy, every outcome, every order


@pytest.mark.parametrize("policy", POLICIES, ids=policy_name)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_every_order_of_outcomes_ends_alike(policy: EdgePolicy, n: int) -> None:
    finally_: dict[tuple[str, ...], tuple[str, str]] = {}
    for outcomes in product(OUTCOMES, repeat=n):
        store = world(policy, n)
        fired = []
        for at, outcome in enumerate(outcomes):
            fired += [
                counted.fired for counted in [end(store, ended(at, outcome))] if counted.fired
            ]
            check(
                store, policy, n, outcomes[: at + 1], f"{policy} after {outcomes[: at + 1]} of {n}"
            )
        assert len(fired) == 1, f"{policy} fired {fired} for {outcomes}"
        last = (only(store, EdgeGroup).group_state, stored(store).public_state)
        assert finally_.setdefault(tuple(sorted(outcomes)), last) == last, (
            f"{policy}: the order of {outcomes} matters"
        )


def splits(n: int) -> Iterator[list[int]]:
    """The sizes of the batches in which ends are counted."""
    if not n:
        yield []
    for first in range(1, n + 1):
        for rest in splits(n - first):
            yield [first, *rest]


@pytest.mark.parametrize("policy", POLICIES, ids=policy_name)
def test_ends_that_come_at_once_count_like_ends_that_come_apart(policy: EdgePolicy) -> None:
    for outcomes in product(("success", "failed", "skipped"), repeat=3):
        for sizes in splits(3):
            store, at = world(policy, 3), 0
            for size in sizes:
                end(store, *(ended(n, outcomes[n]) for n in range(at, at + size)))
                at += size
            check(store, policy, 3, outcomes, f"{policy}: {outcomes} in groups of {sizes}")


def test_three_of_five() -> None:
    quorum = EdgePolicy.quorum(3)
    store = world(quorum, 5)
    end(store, ended(0), ended(1))
    assert (only(store, EdgeGroup).group_state, stored(store).public_state) == (
        "pending",
        "waiting_children",
    )
    assert end(store, ended(2)).fired == "satisfied"
    assert stored(store).public_state == "waiting"
    store = world(quorum, 5)
    end(store, ended(0, "failed"), ended(1, "skipped"))
    assert stored(store).public_state == "waiting_children"
    assert end(store, ended(2, "expired")).fired == "impossible"
    assert stored(store).public_state == "skipped"


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_quorum_of_more_than_there_are_is_given_up_at_the_first_end(outcome: str) -> None:
    store = world(EdgePolicy.quorum(3), 2)
    assert edges.state_of(only(store, EdgeGroup)) == "pending"
    assert end(store, ended(0, outcome)).fired == "impossible"
    store = world(EdgePolicy.quorum(3), 1, success_count=2, group_state="pending")
    assert end(store, ended(0, outcome)).fired == (
        "satisfied" if outcome == "success" else "impossible"
    )


@pytest.mark.parametrize(("outcome", "state"), [("success", "satisfied"), ("failed", "impossible")])
@pytest.mark.parametrize("policy", [ALL_OF, EdgePolicy.quorum(2)], ids=policy_name)
def test_two_edges_from_one_upstream_are_two_dependencies(
    policy: EdgePolicy, outcome: str, state: str
) -> None:
    store = seeded(group(policy, 2), edge(0), edge(1, upstream_eid=ident(0).uuid), waiting())
    counted = end(store, *(UpstreamEnd(edge_id(n), ident(0).uuid, outcome) for n in (0, 1)))
    assert (counted.fired, counted.by) == (state, ident(0).uuid)
    assert {one.dep_state for one in kept(store, Edge)} == {state}
    assert only(store, EdgeGroup).running_count == 0


@pytest.mark.parametrize("word", ["failure", "resumable", "nonsense", ""])
def test_an_outcome_that_is_not_known_counts_as_a_failure(word: str) -> None:
    assert counters(edges.count_ends(group(ANY_OF, 2), [ended(0, word)], NOW).group) == (0, 1, 0, 1)


# ---- once


@pytest.mark.parametrize("state", ["satisfied", "impossible", "cancelled"])
@pytest.mark.parametrize("policy", POLICIES, ids=policy_name)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_group_that_has_fired_only_counts(state: str, policy: EdgePolicy, outcome: str) -> None:
    columns = {"group_state": state, "satisfied_at_ms": NOW - 5, "cancel_siblings_reason": "kept"}
    store = world(policy, 1, **columns, success_count=3, fail_count=4)
    before, child = only(store, EdgeGroup), stored(store)
    counted = end(store, ended(0, outcome), siblings=[8, 9])
    assert (counted.fired, counted.by, counted.cancels) == ("", None, False)
    after = only(store, EdgeGroup)
    bucket = {"success": "success_count", "skipped": "skip_count"}.get(outcome, "fail_count")
    changes: dict[str, Any] = {
        bucket: getattr(before, bucket) + 1,
        "running_count": 0,
        "version": before.version + 1,
    }
    assert after == replace(before, **changes)
    assert only(store, Edge).dep_state == ("satisfied" if outcome == "success" else "impossible")
    assert (stored(store), rows(store, "ff_pending_cancel_groups")) == (child, [])


def test_a_state_from_elsewhere_reads_as_pending() -> None:
    assert edges.state_of(group(ALL_OF, 1, group_state="odd")) == "pending"
    assert (
        edges.count_ends(group(ALL_OF, 1, group_state="odd"), [ended(0)], NOW).fired == "satisfied"
    )


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize(
    ("running", "counted", "sums"), [(0, 2, "3/2"), (1, 1, "3/2"), (2, 0, "3/2"), (0, 0, "1/0")]
)
def test_more_ends_than_edges_are_corruption(
    outcome: str, running: int, counted: int, sums: str
) -> None:
    start = group(EdgePolicy.quorum(9), running, success_count=counted)
    ends = [ended(n, outcome) for n in range(running + 1)]
    with pytest.raises(ValidationError, match=f"corruption: edgegroup counters exceed n: {sums}$"):
        edges.count_ends(start, ends, NOW)


def test_nothing_counted_changes_nothing() -> None:
    assert edges.count_ends(group(ALL_OF, 2), [], NOW) == GroupCount(group(ALL_OF, 2))


@pytest.mark.parametrize("policy", POLICIES, ids=policy_name)
@pytest.mark.parametrize("outcome", ["success", "failed"])
def test_a_count_of_an_older_group_is_refused(policy: EdgePolicy, outcome: str) -> None:
    store = world(policy, 1)
    old = replace(only(store, EdgeGroup), version=1)
    plans = edges.resolve_group(
        edges.count_ends(old, [ended(0, outcome)], NOW), as_member(stored(store)), NOW, since=1
    )
    before = run_rows(store)
    assert isinstance(commit_all(store, plans), Refused)
    assert run_rows(store) == before


def run_rows(store: MemoryStore) -> list[Any]:
    tables = (
        "ff_edge_group",
        "ff_edge",
        "ff_exec_core",
        "ff_pending_cancel_groups",
        "ff_completion_event",
    )
    return [rows(store, table) for table in tables]


def test_a_changed_child_refuses_the_whole_plan() -> None:
    for policy, outcome in ((ALL_OF, "failed"), (ANY_OF, "success")):
        store = world(policy, 1, waiting(version=8))
        seen = as_member(waiting(version=7))
        counted = edges.count_ends(only(store, EdgeGroup), [ended(0, outcome)], NOW)
        before = run_rows(store)
        assert isinstance(
            commit_all(store, edges.resolve_group(counted, seen, NOW, since=counted.group.version)),
            Refused,
        )
        assert run_rows(store) == before


@pytest.mark.parametrize("name", [name for name in VECTORS if name != "DEPS"])
def test_a_released_child_is_not_released_by_the_group(name: str) -> None:
    moved = waiting(name)
    store = world(ALL_OF, 1, moved)
    counted = edges.count_ends(only(store, EdgeGroup), [ended(0)], NOW)
    (plan,) = edges.resolve_group(counted, as_member(waiting()), NOW, since=counted.group.version)
    assert isinstance(commit_all(store, [plan]), Applied)
    assert stored(store) == moved
    assert only(store, EdgeGroup).group_state == "satisfied"


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_any_two_of_three_let_the_child_go_once(order: tuple[int, ...]) -> None:
    store = world(EdgePolicy.quorum(2, "let_run"), 3)
    versions = [stored(store).version]
    for n in order:
        end(store, ended(n))
        versions.append(stored(store).version)
    assert versions == [versions[0], versions[0], versions[0] + 1, versions[0] + 1]
    assert name_of(vector_of(stored(store))) == "READY"
