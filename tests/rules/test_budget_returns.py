"""Releasing accounts, resetting budgets, forgetting keys, and finding contradictions."""

from __future__ import annotations

import pytest

from flowfabric.model.budget import BudgetReset
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit
from flowfabric.rules.limits.budget_release import contradictions, forget_key, release, reset

from . import budget_factory as made
from .budget_factory import BUDGET, OTHER, books, policy
from .factory import IDENT, NOW, answer, refusal

# ---- release


def test_nothing_on_the_account_is_nothing_to_do() -> None:
    assert release(books(policy(), {"a": 5}), IDENT) == []


def test_an_account_is_given_back_and_closed() -> None:
    known = books(None, {"a": 5, "b": 2, "c": 9}, None, {(IDENT, "b"): 2, (IDENT, "a"): 3})
    store = made.seeded(books(None, known.usage, None, {**known.charges, (OTHER, "a"): 2}))
    assert isinstance(made.commit(store, release(known, IDENT)), Applied)
    assert made.usage(store) == {"a": 2, "b": 0, "c": 9}
    assert made.ledger(store) == {(OTHER, "a"): 2}
    assert made.commit(store, release(known, IDENT)) != Applied(NOW)
    assert made.usage(store) == {"a": 2, "b": 0, "c": 9}


def test_never_below_nothing() -> None:
    known = books(None, {"a": 1, "b": 7}, None, {(IDENT, "a"): 3, (IDENT, "b"): 7})
    store = made.seeded(known)
    todo = release(known, IDENT)
    assert [plan.form.name for plan in todo] == [
        "give_back_usage",
        "give_back_all_usage",
        "settle_account",
        "settle_account",
    ]
    assert isinstance(made.commit(store, todo), Applied)
    assert (made.usage(store), made.ledger(store)) == ({"a": 0, "b": 0}, {})


def test_an_account_without_a_counter_is_closed_all_the_same() -> None:
    known = books(None, {}, None, {(IDENT, "a"): 3})
    store = made.seeded(known)
    assert isinstance(made.commit(store, release(known, IDENT)), Applied)
    assert (made.usage(store), made.ledger(store)) == ({}, {})


@pytest.mark.parametrize(
    ("read", "stored"),
    [((5, 3), (5, 4)), ((5, 3), (2, 3)), ((2, 3), (3, 3)), ((5, 3), (5, None))],
    ids=["charged meanwhile", "counter fell", "counter rose", "released meanwhile"],
)
def test_what_moved_meanwhile_stops_the_release(
    read: tuple[int, int], stored: tuple[int, int | None]
) -> None:
    def of(used: int, charged: int | None) -> made.Books:
        return books(None, {"a": used}, None, {} if charged is None else {(IDENT, "a"): charged})

    store = made.seeded(of(*stored))
    assert isinstance(made.commit(store, release(of(*read), IDENT)), Refused)
    assert made.usage(store) == {"a": stored[0]}


# ---- reset

HOUR = 3_600_000


def test_a_reset_of_an_unknown_budget_is_not_found() -> None:
    assert refusal(reset(books(None, {"a": 1}), None)) == "budget_not_found"
    assert refusal(reset(books(None, {"a": 1}), None, only_due=True)) == "budget_not_found"


@pytest.mark.parametrize("now", [None, NOW - 7])
def test_a_reset_clears_usage_accounts_and_the_breach_but_no_totals(now: int | None) -> None:
    columns = {
        "breach_count": 3,
        "soft_breach_count": 4,
        "last_breach_at_ms": 1,
        "last_breach_dim": "a",
        "version": 6,
    }
    known = books(
        policy({"a": 5}, columns=columns),
        {"a": 5, "b": 1},
        {"k": NOW + 9},
        {(IDENT, "a"): 2, (OTHER, "b"): 1},
    )
    decision = reset(known, now)
    assert isinstance(decision, Commit) and decision.result == BudgetReset(0)
    store = made.seeded(known)
    assert isinstance(made.commit(store, [*decision.first, decision.plan]), Applied)
    at = NOW if now is None else now
    stamps = {
        (r["dimensions_key"], r["current_value"], r["last_reset_at_ms"])
        for r in made.rows(store, "ff_budget_usage")
    }
    assert stamps == {("a", 0, at), ("b", 0, at)}
    assert (made.ledger(store), set(made.keys(store))) == ({}, {"k"})
    row = made.stored_policy(store)
    assert (
        row.breach_count,
        row.soft_breach_count,
        row.last_breach_at_ms,
        row.last_breach_dim,
    ) == (3, 4, None, None)
    assert (row.next_reset_at_ms, row.updated_at_ms, row.version) == (None, at, 7)


def test_a_reset_that_another_one_overtook_stops() -> None:
    known = books(policy({"a": 5}), {"a": 5})
    decision = reset(known, None)
    assert isinstance(decision, Commit)
    store = made.seeded(books(policy({"a": 5}, columns={"version": 1}), {"a": 2}))
    assert made.commit(store, [*decision.first, decision.plan]) == Refused(1, 0)
    assert made.usage(store) == {"a": 2}


@pytest.mark.parametrize(
    ("late", "upcoming"),
    [(0, HOUR), (1, HOUR), (HOUR - 1, HOUR), (HOUR, 2 * HOUR), (7 * HOUR + 5, 8 * HOUR)],
)
def test_on_schedule_it_stays_on_its_hour(late: int, upcoming: int) -> None:
    due = NOW - late
    known = books(policy(columns={"next_reset_at_ms": due}, reset_interval_ms=HOUR))
    decision = reset(known, None, only_due=True)
    assert isinstance(decision, Commit) and decision.result == BudgetReset(due + upcoming)
    assert due + upcoming > NOW
    store = made.seeded(known)
    assert isinstance(made.commit(store, [*decision.first, decision.plan]), Applied)
    assert made.stored_policy(store).next_reset_at_ms == due + upcoming


@pytest.mark.parametrize("due", [None, NOW - 5, NOW + 5])
def test_by_hand_the_next_one_is_an_interval_away(due: int | None) -> None:
    known = books(policy(columns={"next_reset_at_ms": due}, reset_interval_ms=HOUR))
    for now in (None, NOW - 50):
        decision = reset(known, now)
        assert isinstance(decision, Commit) and decision.result == BudgetReset(
            (NOW if now is None else now) + HOUR
        )


@pytest.mark.parametrize("due", [None, NOW + 1])
def test_an_execution_that_is_not_due_is_unchanged(due: int | None) -> None:
    assert (
        answer(
            reset(
                books(policy(columns={"next_reset_at_ms": due}, reset_interval_ms=HOUR)),
                None,
                only_due=True,
            )
        )
        is None
    )


def test_a_due_time_without_an_interval_is_dropped() -> None:
    decision = reset(books(policy(columns={"next_reset_at_ms": NOW})), None, only_due=True)
    assert isinstance(decision, Commit) and decision.result == BudgetReset(0)


# ---- keys and contradictions


@pytest.mark.parametrize(("until", "gone"), [(NOW, True), (NOW - 1, True), (NOW + 1, False)])
def test_a_key_is_forgotten_when_its_time_is_over(until: int, gone: bool) -> None:
    store = made.seeded(books(None, None, {"k": until}))
    assert isinstance(made.commit(store, [forget_key(BUDGET, "k", NOW)]), Applied) is gone
    assert set(made.keys(store)) == (set() if gone else {"k"})


@pytest.mark.parametrize(
    ("usage", "charged", "wrong"),
    [
        ({}, {}, []),
        ({"a": 0, "b": 4}, {"b": 4}, []),
        ({"b": -1, "a": 3}, {"a": 4}, [("a", 3, 4), ("b", -1, 0)]),
        ({}, {"a": 1}, [("a", 0, 1)]),
        ({}, {"a": 0}, []),
    ],
)
def test_contradictions(
    usage: dict[str, int], charged: dict[str, int], wrong: list[tuple[str, int, int]]
) -> None:
    assert contradictions(usage, charged) == wrong
