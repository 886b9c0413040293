"""Output streams against their specification on every store, and planted bugs that the comparison
must find.
"""

from __future__ import annotations

import os

import pytest
from hypothesis.stateful import run_state_machine_as_test

from .stream_machine import StreamMachine, stream_machine_on
from .stream_mutants import STREAM_MUTANTS
from .test_model import budget
from .test_mutants import CONTROL, Counting, sequences_until_caught

STEPS = int(os.environ.get("FF_MODEL_STEPS", "15"))
MOST = 3_000
"""A lost lease that matters to a follower needs many steps in one order."""
EXAMPLES = {"memory": 60, "sqlite-memory": 20, "sqlite-file": 5, "postgres": 4, "valkey": 4}

pytestmark = pytest.mark.timeout(600)


class WatchedStreams(Counting, StreamMachine):
    pass


@pytest.mark.parametrize("store", sorted(EXAMPLES))
def test_streams_follow_the_specification(store: str) -> None:
    count = int(os.environ.get("FF_MODEL_EXAMPLES", EXAMPLES[store]))
    run_state_machine_as_test(stream_machine_on(store), settings=budget(count, STEPS))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(STREAM_MUTANTS))
def test_planted_bug_of_streams_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    STREAM_MUTANTS[name](monkeypatch)
    took = sequences_until_caught(MOST, WatchedStreams, STEPS)
    with capsys.disabled():
        print(f"\n{name}: {took or 'not noticed'}", end="")
    assert took is not None, f"{name} survived {MOST} sequences"


@pytest.mark.nightly
def test_nothing_is_noticed_where_nothing_is_planted() -> None:
    assert sequences_until_caught(CONTROL // 4, WatchedStreams, STEPS) is None


def test_enough_is_planted() -> None:
    assert len(STREAM_MUTANTS) >= 25
