"""Budgets against their specification on every store, and planted bugs that the comparison must
find.
"""

from __future__ import annotations

import os

import pytest
from hypothesis.stateful import run_state_machine_as_test

from .budget_machine import BudgetMachine, budget_machine_on
from .budget_mutants import BUDGET_MUTANTS
from .test_model import budget
from .test_mutants import CONTROL, WITHIN, Counting, sequences_until_caught

STEPS = int(os.environ.get("FF_MODEL_STEPS", "25"))
EXAMPLES = {"memory": 120, "sqlite-memory": 40, "sqlite-file": 8, "postgres": 8, "valkey": 4}

pytestmark = pytest.mark.timeout(600)


class WatchedBudgets(Counting, BudgetMachine):
    pass


@pytest.mark.parametrize("store", sorted(EXAMPLES))
def test_budgets_follow_the_specification(store: str) -> None:
    count = int(os.environ.get("FF_MODEL_EXAMPLES", EXAMPLES[store]))
    run_state_machine_as_test(budget_machine_on(store), settings=budget(count, STEPS))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(BUDGET_MUTANTS))
def test_planted_bug_of_budgets_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    BUDGET_MUTANTS[name](monkeypatch)
    took = sequences_until_caught(machine=WatchedBudgets, steps=STEPS)
    with capsys.disabled():
        print(f"\n{name}: {took or 'not noticed'}", end="")
    assert took is not None, f"{name} survived {WITHIN} sequences"


@pytest.mark.nightly
def test_nothing_is_noticed_where_nothing_is_planted() -> None:
    assert sequences_until_caught(CONTROL, WatchedBudgets, STEPS) is None
