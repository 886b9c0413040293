"""Counting reports against budgets: every outcome, and what is written for it."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from flowfabric.errors import NotFound, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.budget import (
    MAX_AMOUNT,
    USAGE_DEDUP_MS,
    HardBreach,
    HardLimitAction,
    SoftBreach,
    UsageAlreadyApplied,
    UsageAndLimits,
    UsageOk,
)
from flowfabric.plan import Applied, Refused
from flowfabric.rules.limits.budgets import (
    BudgetRows,
    Report,
    UsageTally,
    confirm_refusal,
    count,
    exhausted_dimension,
    has_consequences,
    note_hard,
    outcome_text,
    plans,
)
from flowfabric.store.memory import MemoryStore

from . import budget_factory as made
from .budget_factory import BUDGET, OTHER, books, policy, report
from .factory import IDENT, NOW

OK, AGAIN = UsageOk(), UsageAlreadyApplied()


# ---- one report
LIMITS = policy({"a": 10, "b": 10, "z": 0}, {"a": 5, "b": 5, "z": 0})
ONE: dict[str, tuple[dict[str, int], dict[str, int], Any]] = {
    "within": ({"a": 1}, {"a": 4}, OK),
    "exactly on the soft limit": ({"a": 1}, {"a": 4}, OK),
    "above the soft limit": ({"a": 1}, {"a": 5}, SoftBreach("a", 6, 5)),
    "exactly on the hard limit": ({"a": 4}, {"a": 6}, SoftBreach("a", 10, 5)),
    "above the hard limit": ({"a": 4}, {"a": 7}, HardBreach("a", 4, 10)),
    "nothing stored yet": ({}, {"a": 11}, HardBreach("a", 0, 10)),
    "a limit of zero is none": ({"z": 10**9}, {"z": 10**9}, OK),
    "a dimension nobody limited": ({}, {"q": MAX_AMOUNT}, OK),
    "zero on nothing": ({}, {"a": 0}, OK),
    "zero above the soft limit": ({"a": 6}, {"a": 0}, SoftBreach("a", 6, 5)),
    "zero on the hard limit": ({"a": 10}, {"a": 0}, SoftBreach("a", 10, 5)),
    "zero above the hard limit": ({"a": 11}, {"a": 0}, HardBreach("a", 11, 10)),
    "no dimension at all": ({"a": 10}, {}, OK),
    "the first of two soft breaches": ({"a": 5, "b": 5}, {"b": 1, "a": 1}, SoftBreach("a", 6, 5)),
    "the first of two hard breaches": (
        {"a": 10, "b": 10},
        {"b": 1, "a": 1},
        HardBreach("a", 10, 10),
    ),
    "hard wins over soft before it": ({"a": 5, "b": 10}, {"a": 1, "b": 1}, HardBreach("b", 10, 10)),
}


@pytest.mark.parametrize(("used", "deltas", "result"), ONE.values(), ids=ONE)
def test_one_report(used: dict[str, int], deltas: dict[str, int], result: Any) -> None:
    known = books(LIMITS, used)
    found = count(known, [report(**deltas)])
    assert found.results == [result]
    store = settled(known, found)
    refused = isinstance(result, HardBreach)
    assert made.usage(store) == (
        used if refused else {**used, **{n: used.get(n, 0) + by for n, by in deltas.items()}}
    )
    row = made.stored_policy(store)
    assert (row.breach_count, row.soft_breach_count) == (
        int(refused),
        int(isinstance(result, SoftBreach)),
    )
    assert (row.last_breach_at_ms, row.last_breach_dim) == (
        (NOW, result.dimension) if refused else (None, None)
    )


def settled(known: BudgetRows, found: UsageTally) -> MemoryStore:
    """A store with these rows, after the count is committed."""
    store = made.seeded(known)
    todo = plans(known, found)
    if todo:
        assert isinstance(made.commit(store, todo), Applied)
    return store


def test_an_amount_no_store_can_hold_is_refused_by_name() -> None:
    known = books(policy(), {"a": MAX_AMOUNT})
    first, second = count(known, [report(a=1), report(a=0)]).results
    assert isinstance(first, ValidationError) and first.kind is ValidationKind.INVALID_INPUT
    assert first.detail == f"a: {MAX_AMOUNT} + 1 is above {MAX_AMOUNT}"
    assert second == OK


def test_nothing_is_written_for_what_cannot_be_held() -> None:
    known = books(policy({"b": 1}), {"a": MAX_AMOUNT})
    assert plans(known, count(known, [report("k", a=1, b=1)])) == []


def test_a_budget_that_was_never_made_counts_nothing() -> None:
    known = books(None, keys={"k": NOW + 1})
    found = count(known, [report("k", IDENT, IDENT, a=10**15), report(a=1)])
    assert [str(each) for each in found.results] == [f"budget {BUDGET} not found"] * 2
    assert plans(known, found) == []


def test_a_budget_is_not_there_for_executions_of_another_namespace() -> None:
    own = policy({"a": 10}, columns={"namespace": "mine"})
    known = structs.replace(books(own), namespaces={IDENT: "mine", OTHER: "theirs"})
    gone = ExecutionId.of(4, UUID(int=4))
    found = count(known, [report(None, None, by, a=1) for by in (IDENT, OTHER, gone, None)])
    assert [type(each) for each in found.results] == [UsageOk, NotFound, UsageOk, UsageOk]
    assert found.grown == {"a": 3}


def test_reports_are_decided_in_the_order_they_came() -> None:
    found = count(
        books(LIMITS, {"a": 4}), [report(a=1), report(a=1), report(a=5), report(a=4), report(a=1)]
    )
    assert found.results == [
        OK,
        SoftBreach("a", 6, 5),
        HardBreach("a", 6, 10),
        SoftBreach("a", 10, 5),
        HardBreach("a", 10, 10),
    ]
    assert (found.soft, found.hard, found.grown, found.bounds) == (2, 2, {"a": 6}, {"a": (4, 4)})


def test_all_or_nothing_of_each_report() -> None:
    known = books(LIMITS, {"a": 0, "b": 9})
    found = count(known, [report(a=3, b=2), report(a=1, b=1)])
    assert found.results == [HardBreach("b", 9, 10), SoftBreach("b", 10, 5)]
    assert made.usage(settled(known, found)) == {"a": 1, "b": 10}


def test_the_last_refusal_is_the_one_that_is_noted() -> None:
    known = books(LIMITS, {"a": 10, "b": 10})
    row = made.stored_policy(settled(known, count(known, [report(b=1), report(a=1)])))
    assert (row.breach_count, row.last_breach_dim, row.last_breach_at_ms, row.updated_at_ms) == (
        2,
        "a",
        NOW,
        NOW,
    )


def test_a_key_counts_once() -> None:
    known = books(LIMITS)
    found = count(known, [report("k", a=1), report("k", a=2), report("l", a=3)])
    assert found.results == [OK, AGAIN, OK]
    store = settled(known, found)
    assert made.usage(store) == {"a": 4}
    stamps = {
        (k, row["applied_at_ms"], row["expires_at_ms"]) for k, row in made.keys(store).items()
    }
    assert stamps == {("k", NOW, NOW + USAGE_DEDUP_MS), ("l", NOW, NOW + USAGE_DEDUP_MS)}


def test_a_refused_report_leaves_its_key_free() -> None:
    known = books(LIMITS, {"a": 8})
    found = count(known, [report("k", a=3), report("k", a=2), report("k", a=1)])
    assert found.results == [HardBreach("a", 8, 10), SoftBreach("a", 10, 5), AGAIN]
    assert set(made.keys(settled(known, found))) == {"k"}


@pytest.mark.parametrize(
    ("until", "known_already"), [(NOW + 1, True), (NOW, False), (NOW - 1, False)]
)
def test_a_key_is_known_until_its_time(until: int, known_already: bool) -> None:
    known = books(LIMITS, {"a": 1}, {"k": until})
    found = count(known, [report("k", a=1)])
    assert found.results == [AGAIN if known_already else OK]
    store = settled(known, found)
    assert made.keys(store)["k"]["expires_at_ms"] == (
        until if known_already else NOW + USAGE_DEDUP_MS
    )
    assert made.usage(store) == {"a": 1 if known_already else 2}


def test_a_key_used_concurrently_refuses_the_commit() -> None:
    known = books(LIMITS, {"a": 1})
    todo = plans(known, count(known, [report("k", a=1)]))
    store = made.seeded(books(LIMITS, {"a": 1}, {"k": NOW + 5}))
    assert made.commit(store, todo) == Refused(0, 0)
    late = books(LIMITS, {"a": 1}, {"k": NOW})
    todo = plans(late, count(late, [report("k", a=1)]))
    assert made.commit(store, todo) == Refused(0, 0)
    assert made.usage(store) == {"a": 1}


def test_an_empty_key_is_none() -> None:
    assert count(books(LIMITS), [report("", a=1), report("", a=1)]).results == [OK, OK]


def test_the_stored_answer_of_a_key() -> None:
    assert json.loads(outcome_text(OK)) == {"kind": "Ok"}
    said = {"kind": "SoftBreach", "dimension": 'é"', "current_usage": 6, "soft_limit": 5}
    assert json.loads(outcome_text(SoftBreach('é"', 6, 5))) == said


def test_accounts_grow_by_what_was_applied_and_by_nothing_else() -> None:
    known = books(LIMITS, {"a": 0, "b": 0}, None, {(IDENT, "a"): 3})
    some = [
        report(None, IDENT, a=1, b=2),
        report(None, OTHER, a=1),
        report(a=1),
        report(None, IDENT, a=99),
        report("k", IDENT, a=2),
    ]
    store = settled(known, count(known, [*some, report("k", IDENT, a=2)]))
    assert made.ledger(store) == {(IDENT, "a"): 6, (IDENT, "b"): 2, (OTHER, "a"): 1}
    assert made.usage(store) == {"a": 5, "b": 2}


def test_an_account_that_came_or_went_meanwhile_stops_the_commit() -> None:
    fresh, charged = books(policy(), {"a": 1}), books(policy(), {"a": 1}, None, {(IDENT, "a"): 1})
    one = report(None, IDENT, a=1)
    assert isinstance(made.commit(made.seeded(charged), plans(fresh, count(fresh, [one]))), Refused)
    assert isinstance(
        made.commit(made.seeded(fresh), plans(charged, count(charged, [one]))), Refused
    )


def test_locks_are_taken_in_one_order() -> None:
    known = books(LIMITS, {"a": 6}, {"old": NOW}, {(IDENT, "a"): 1})
    some = [report("old", IDENT, a=1, b=1), report("new", OTHER, a=1), report(a=99)]
    names = [plan.form.name for plan in plans(known, count(known, some))]
    assert names == [
        "remember_usage",
        "remember_usage_again",
        "grow_usage",
        "first_usage",
        "first_charge",
        "first_charge",
        "charge_execution",
        "note_soft_breaches",
        "note_hard_breaches",
    ]


def test_a_dimension_that_appeared_meanwhile_stops_the_commit() -> None:
    fresh = books(LIMITS)
    assert isinstance(
        made.commit(
            made.seeded(books(LIMITS, {"a": 0})), plans(fresh, count(fresh, [report(a=1)]))
        ),
        Refused,
    )


def test_nothing_and_no_key_writes_nothing() -> None:
    known = books(LIMITS, {"a": 1})
    assert plans(known, count(known, [report(a=0), report()])) == []


def test_a_hard_breach_is_noted_without_usage() -> None:
    store = made.seeded(books(LIMITS))
    assert isinstance(made.commit(store, [note_hard(BUDGET, 3, "b")]), Applied)
    row = made.stored_policy(store)
    assert (row.breach_count, row.last_breach_dim, row.last_breach_at_ms, row.version) == (
        3,
        "b",
        NOW,
        0,
    )


@pytest.mark.parametrize(
    ("used", "by", "stored", "holds"),
    [
        (9, 2, 9, True),
        (9, 2, 10, True),
        (9, 2, 8, False),
        (10, 1, 10, True),
        (10, 1, 9, False),
        (3, 11, 0, None),
        (None, 11, 0, None),
    ],
)
def test_a_refusal_is_confirmed_where_room_could_be_made(
    used: int | None, by: int, stored: int, holds: bool | None
) -> None:
    known = books(LIMITS, {} if used is None else {"a": used})
    found = count(known, [report(a=by)])
    breach = found.results[0]
    assert isinstance(breach, HardBreach)
    todo = confirm_refusal(known, found, breach)
    assert bool(todo) is (holds is not None)
    if todo:
        store = made.seeded(books(LIMITS, {"a": stored}))
        assert isinstance(made.commit(store, todo), Applied) is holds
        assert made.usage(store) == {"a": stored}


@pytest.mark.parametrize("action", ["reject", "fail", "", "nonsense", *HardLimitAction])
def test_only_known_actions_on_a_named_execution_have_consequences(action: str) -> None:
    rule, known = (
        policy({"a": 1}, on_hard_limit=action),
        action in ("fail_execution", "suspend_execution", "cancel_flow_pending"),
    )
    assert has_consequences(rule, Report((), by=IDENT)) is known
    assert has_consequences(rule, Report(())) is False
    assert has_consequences(None, Report((), by=IDENT)) is False


@pytest.mark.parametrize(
    ("used", "found"),
    [
        ({}, None),
        ({"a": 9, "b": 9}, None),
        ({"b": 10, "z": 99}, ("b", 10, 10)),
        ({"a": 11, "b": 10}, ("a", 11, 10)),
    ],
)
def test_a_budget_at_its_limit_is_spent(used: dict[str, int], found: Any) -> None:
    assert exhausted_dimension(LIMITS.limits, used) == found


def test_hard_limits_with_what_is_used_of_them() -> None:
    shown = UsageAndLimits(
        {"hard:a:b": "3", "soft:a:b": "2", "hard:z": "0", "hard:c": "1"}, {"c": 1}
    )
    assert shown.hard() == [("a:b", 0, 3), ("c", 1, 1)]


def test_a_refusal_that_acts_is_noted_only_as_long_as_the_budget_is_as_it_was_read() -> None:
    store = made.seeded(books(policy({"a": 1}, columns={"version": 3})))
    assert isinstance(made.commit(store, [note_hard(BUDGET, 1, "a", 2)]), Refused)
    assert isinstance(made.commit(store, [note_hard(BUDGET, 1, "a", 3)]), Applied)
    assert (made.stored_policy(store).breach_count, made.stored_policy(store).last_breach_dim) == (
        1,
        "a",
    )
