"""Changing the limits of a budget."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from flowfabric.model.budget import (
    BudgetPolicy,
    BudgetUnchanged,
    BudgetUpdated,
    Limits,
    StoredLimits,
    UpdateBudgetArgs,
)
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit
from flowfabric.rules.limits.budget_changes import former_limits, plain_limits, update_budget

from . import budget_factory as made
from .budget_factory import BUDGET, books, policy
from .factory import NOW, answer, refusal


def args(hard: dict[str, int], soft: dict[str, int] | None = None, **said: Any) -> UpdateBudgetArgs:
    limits = {"dimensions": list(hard), "hard_limits": list(hard.values())}
    return UpdateBudgetArgs(
        budget_id=BUDGET, **limits, soft_limits=[(soft or {}).get(name, 0) for name in hard], **said
    )


def known(hard: dict[str, int], *, columns: Any = (), **said: Any) -> BudgetPolicy:
    return policy(hard, dict.fromkeys(hard, 0), columns=columns, **said)


def test_a_budget_that_is_not_there() -> None:
    assert refusal(update_budget(None, args({"t": 1}), NOW)) == "budget_not_found"


@pytest.mark.parametrize("hard", [{"t": 10}, {"t": 10, "z": 0}, {"z": 0, "t": 10}])
def test_equal_limits_write_nothing(hard: dict[str, int]) -> None:
    before = known({"t": 10}, reset_interval_ms=5)
    assert answer(update_budget(before, args(hard, reset_interval_ms=5), NOW)) == BudgetUnchanged(
        BUDGET
    )


def test_the_limits_the_event_and_the_version() -> None:
    before = known({"t": 10}, columns={"namespace": "mine", "version": 4, "next_reset_at_ms": 77})
    act = update_budget(
        before, args({"t": 20, "z": 3}, {"t": 15}, on_hard_limit="fail_execution", by="ann"), NOW
    )
    old, new = (
        Limits({"t": 10}, {"t": 0}),
        Limits({"t": 20, "z": 3}, {"t": 15, "z": 0}, 0, "fail_execution"),
    )
    assert isinstance(act, Commit) and act.result == BudgetUpdated(BUDGET, old, new)
    store = made.seeded(books(before, {"t": 7}))
    assert isinstance(made.commit(store, [act.plan]), Applied)
    row = made.stored_policy(store)
    assert (row.version, row.changed_at_ms, row.updated_at_ms, row.next_reset_at_ms) == (
        5,
        NOW,
        NOW,
        77,
    )
    assert (plain_limits(row.limits), row.limits.formerly, made.usage(store)) == (
        new,
        {"z": 0},
        {"t": 7},
    )
    (event,) = made.rows(store, "ff_operator_event")
    assert (event["event_type"], event["execution_id"], event["namespace"]) == (
        "budget_updated",
        BUDGET,
        "mine",
    )
    said = json.loads(event["details"])
    assert (said["by"], said["budget_id"]) == ("ann", str(BUDGET))
    assert (said["old"]["hard_limits"], said["new"]["hard_limits"]) == (
        {"t": 10},
        {"t": 20, "z": 3},
    )
    assert isinstance(made.commit(store, [act.plan]), Refused)  # of another version by now


def test_an_unknown_author_is_left_out_of_the_event() -> None:
    act = update_budget(known({"t": 10}), args({"t": 20}), NOW)
    assert isinstance(act, Commit)
    assert "by" not in json.loads(
        dict(zip(act.plan.form.args, act.plan.values, strict=True))["details"]
    )


@pytest.mark.parametrize(
    ("before", "after", "due"),
    [(0, 0, None), (0, 50, NOW + 50), (40, 50, NOW + 50), (40, 40, 777), (40, 0, None)],
)
def test_another_interval_begins_now(before: int, after: int, due: int | None) -> None:
    columns = {"next_reset_at_ms": 777 if before else None}
    act = update_budget(
        known({"t": 1}, reset_interval_ms=before, columns=columns),
        args({"t": 2}, reset_interval_ms=after),
        NOW,
    )
    assert isinstance(act, Commit)
    assert dict(zip(act.plan.form.args, act.plan.values, strict=True))["next_reset_at_ms"] == due


@pytest.mark.parametrize(
    ("hard", "once", "new", "found"),
    [
        (10, {}, 20, {}),
        (10, {}, 10, {}),
        (10, {}, 5, {"t": 10}),
        (0, {}, 5, {"t": 0}),
        (10, {}, 0, {}),
        (5, {"t": 10}, 7, {"t": 10}),
        (5, {"t": 10}, 10, {}),
        (5, {"t": 10}, 3, {"t": 10}),
        (20, {"t": 10}, 3, {"t": 20}),
        (5, {"t": 0}, 9, {"t": 0}),
    ],
)
def test_what_was_allowed_before(
    hard: int, once: dict[str, int], new: int, found: dict[str, int]
) -> None:
    stored = StoredLimits({"t": hard}, formerly=once)
    assert former_limits(stored, Limits({"t": new})) == found


def test_what_was_never_changed_is_stored_as_it_always_was() -> None:
    act = update_budget(known({"t": 10}), args({"t": 20}), NOW)
    assert isinstance(act, Commit)
    stored = msgspec.json.decode(
        dict(zip(act.plan.form.args, act.plan.values, strict=True))["policy_json"]
    )
    assert set(stored) == set(Limits.__struct_fields__)
