"""Planted bugs that the model tests must find."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import seed
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from .bench import Mismatch
from .flow_machine import FlowMachine
from .flow_mutants import FLOW_MUTANTS
from .mutants import MUTANTS
from .scenarios import Stories
from .suspend_mutants import SUSPEND_MUTANTS
from .suspend_stories import SuspendStories
from .test_model import FLOW_STEPS, WAIT_STEPS, budget
from .turnover_mutants import TURNOVER_MUTANTS

WITHIN = 900
AT_ONCE = 12
"""From one seed, then the next. What is drawn depends on which modules are loaded, too, and a seed
may be unlucky with them.
"""
CONTROL = 100
STEPS = 30
OF_THE_ENGINE = {**MUTANTS, **TURNOVER_MUTANTS}

pytestmark = pytest.mark.timeout(600)


class Counting(RuleBasedStateMachine):
    """Counts the started sequences and the first that failed."""

    begun = 0
    failed: int | None = None

    def __init__(self) -> None:
        super().__init__()
        type(self).begun += 1

    def teardown(self) -> None:
        if self.failed is None and isinstance(sys.exc_info()[1], Mismatch):
            type(self).failed = self.begun
        super().teardown()


class Watched(Counting, Stories):
    pass


class WatchedFlows(Counting, FlowMachine):
    pass


class WatchedWaits(Counting, SuspendStories):
    pass


def sequences_until_caught(
    most: int = WITHIN, machine: type[Counting] = Watched, steps: int = STEPS
) -> int | None:
    """The number of sequences until a difference, or None. A crash of the engine is raised."""
    machine.begun, machine.failed = 0, None
    for number in range(-(-most // AT_ONCE)):
        seed(number or None)(machine)
        with contextlib.suppress(Mismatch):
            run_state_machine_as_test(machine, settings=budget(min(most, AT_ONCE), steps))
        if machine.failed is not None:
            break
    return machine.failed


LONG_SEARCHES = {
    "another_namespaces_work_is_let_go",
    "failed_ones_are_forgotten_as_soon_as_others",
    "late_results_taken",
    "own_retention_ignored",
}
"""Found after many sequences, and each has tests of its own."""


def found_by(names: Iterable[str], long: Collection[str] = LONG_SEARCHES) -> list[Any]:
    return [
        pytest.param(name, marks=pytest.mark.nightly) if name in long else name
        for name in sorted(names)
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", found_by(OF_THE_ENGINE))
def test_planted_bug_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    OF_THE_ENGINE[name](monkeypatch)
    took = sequences_until_caught()
    with capsys.disabled():
        print(f"\n{name}: {took or 'not noticed'}", end="")
    assert took is not None, f"{name} survived {WITHIN} sequences"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(FLOW_MUTANTS))
def test_planted_bug_of_flows_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    FLOW_MUTANTS[name](monkeypatch)
    took = sequences_until_caught(machine=WatchedFlows, steps=FLOW_STEPS)
    with capsys.disabled():
        print(f"\n{name}: {took or 'not noticed'}", end="")
    assert took is not None, f"{name} survived {WITHIN} sequences"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(SUSPEND_MUTANTS))
def test_planted_bug_of_waits_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    SUSPEND_MUTANTS[name](monkeypatch)
    took = sequences_until_caught(machine=WatchedWaits, steps=WAIT_STEPS)
    with capsys.disabled():
        print(f"\n{name}: {took or 'not noticed'}", end="")
    assert took is not None, f"{name} survived {WITHIN} sequences"


@pytest.mark.nightly
def test_nothing_is_noticed_where_nothing_is_planted() -> None:
    """The control: a bug of the engine itself would otherwise count as found."""
    assert sequences_until_caught(CONTROL) is None
    assert sequences_until_caught(CONTROL // 4, WatchedWaits, WAIT_STEPS) is None


def test_enough_is_planted() -> None:
    assert len(MUTANTS) >= 25
    assert len(SUSPEND_MUTANTS) >= 25
