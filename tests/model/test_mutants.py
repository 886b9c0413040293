"""The canaries: a planted bug that the model tests do not notice means that they have gone blind."""

from __future__ import annotations

import contextlib
import sys

import pytest
from hypothesis.stateful import run_state_machine_as_test

from .bench import Mismatch
from .mutants import MUTANTS
from .scenarios import Stories
from .test_model import budget

WITHIN = 300
CONTROL = 100
STEPS = 30

pytestmark = pytest.mark.timeout(600)


class Watched(Stories):
    """Counts the sequences that were begun, and notes which one failed first."""

    begun = 0
    failed: int | None = None

    def __init__(self) -> None:
        super().__init__()
        type(self).begun += 1

    def teardown(self) -> None:
        if self.failed is None and isinstance(sys.exc_info()[1], Mismatch):
            type(self).failed = self.begun
        super().teardown()


def sequences_until_caught(most: int = WITHIN) -> int | None:
    """How many sequences it took, or None when all of them agreed. A crash of the engine is not a catch: it is raised."""
    Watched.begun, Watched.failed = 0, None
    with contextlib.suppress(Mismatch):
        run_state_machine_as_test(Watched, settings=budget(most, STEPS))
    return Watched.failed


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_planted_bug_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    MUTANTS[name](monkeypatch)
    took = sequences_until_caught()
    with capsys.disabled():
        print(f"\n{name}: {took or 'not noticed'}", end="")
    assert took is not None, f"{name} survived {WITHIN} sequences"


def test_nothing_is_noticed_where_nothing_is_planted() -> None:
    """The control: without it, a bug of the engine itself would pass for every planted one."""
    assert sequences_until_caught(CONTROL) is None


def test_enough_is_planted() -> None:
    assert len(MUTANTS) >= 25
