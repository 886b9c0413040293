"""Quotas against their specification on every store, and planted bugs that the comparison must
find.
"""

from __future__ import annotations

import os

import pytest
from hypothesis.stateful import run_state_machine_as_test

from .quota_machine import QuotaMachine, quota_machine_on
from .quota_mutants import QUOTA_MUTANTS
from .test_model import budget
from .test_mutants import CONTROL, WITHIN, Counting, found_by, sequences_until_caught

STEPS = int(os.environ.get("FF_MODEL_STEPS", "20"))
EXAMPLES = {"memory": 40, "sqlite-memory": 10, "sqlite-file": 3, "postgres": 3, "valkey": 3}

pytestmark = pytest.mark.timeout(600)


class WatchedQuotas(Counting, QuotaMachine):
    pass


@pytest.mark.parametrize("store", sorted(EXAMPLES))
def test_quotas_follow_the_specification(store: str) -> None:
    count = int(os.environ.get("FF_MODEL_EXAMPLES", EXAMPLES[store]))
    run_state_machine_as_test(quota_machine_on(store), settings=budget(count, STEPS))


LONG_SEARCHES = {
    "nobody_held_back_goes_on_with_other_limits",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", found_by(QUOTA_MUTANTS, LONG_SEARCHES))
def test_planted_bug_of_quotas_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    QUOTA_MUTANTS[name](monkeypatch)
    took = sequences_until_caught(machine=WatchedQuotas, steps=STEPS)
    with capsys.disabled():
        print(f"\n{name}: {took or 'not noticed'}", end="")
    assert took is not None, f"{name} survived {WITHIN} sequences"


@pytest.mark.nightly
def test_nothing_is_noticed_where_nothing_is_planted() -> None:
    assert sequences_until_caught(CONTROL // 4, WatchedQuotas, STEPS) is None
