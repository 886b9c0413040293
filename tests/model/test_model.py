"""The engine against the specification, on every store. Nightly, with ten times as many sequences.
A step makes 2 to 3 calls on average, since half of the rules are sequences: 30 steps are about 70
calls.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from .flow_machine import flow_machine_on
from .scenarios import machine_on
from .suspend_stories import suspend_machine_on

STEPS = int(os.environ.get("FF_MODEL_STEPS", "30"))
EXAMPLES = {"memory": 150, "sqlite-memory": 50, "sqlite-file": 20, "postgres": 15, "valkey": 8}
OF_FLOWS = {"memory": 40, "sqlite-memory": 15, "postgres": 4, "valkey": 4}
OF_WAITS = {"memory": 60, "sqlite-memory": 20, "postgres": 4, "valkey": 4}
FLOW_STEPS = int(os.environ.get("FF_MODEL_STEPS", "15"))
WAIT_STEPS = int(os.environ.get("FF_MODEL_STEPS", "20"))
NIGHTLY = 10
"""How many times as many sequences on every store, each time other ones."""
ENOUGH = 15


def always(count: int) -> int:
    """Half of the sequences, unless they are few: `make nightly` runs many more."""
    return min(count, max(count // 2, ENOUGH))


def budget(
    count: int, steps: int = STEPS, *, new: bool = bool(os.environ.get("FF_MODEL_RANDOM"))
) -> settings:
    """The same sequences in every run unless FF_MODEL_RANDOM is set; FF_MODEL_SHRINK minimises a
    failure.
    """
    shrink = (Phase.shrink,) if os.environ.get("FF_MODEL_SHRINK") else ()
    return settings(
        max_examples=count,
        stateful_step_count=steps,
        derandomize=not new,
        database=None,
        deadline=None,
        print_blob=new,
        phases=(Phase.generate, *shrink),
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", sorted(EXAMPLES))
def test_engine_follows_the_specification(store: str) -> None:
    count = int(os.environ.get("FF_MODEL_EXAMPLES", always(EXAMPLES[store])))
    run_state_machine_as_test(machine_on(store), settings=budget(count))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", sorted(OF_FLOWS))
def test_flows_follow_the_specification(store: str) -> None:
    count = int(os.environ.get("FF_MODEL_EXAMPLES", always(OF_FLOWS[store])))
    run_state_machine_as_test(flow_machine_on(store), settings=budget(count, FLOW_STEPS))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", sorted(OF_WAITS))
def test_waits_follow_the_specification(store: str) -> None:
    count = int(os.environ.get("FF_MODEL_EXAMPLES", always(OF_WAITS[store])))
    run_state_machine_as_test(suspend_machine_on(store), settings=budget(count, WAIT_STEPS))


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("store", sorted(EXAMPLES))
def test_engine_follows_the_specification_for_long(store: str) -> None:
    run_state_machine_as_test(
        machine_on(store), settings=budget(NIGHTLY * EXAMPLES[store], new=True)
    )


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("store", sorted(OF_FLOWS))
def test_flows_follow_the_specification_for_long(store: str) -> None:
    run_state_machine_as_test(
        flow_machine_on(store), settings=budget(NIGHTLY * OF_FLOWS[store], FLOW_STEPS, new=True)
    )


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("store", sorted(OF_WAITS))
def test_waits_follow_the_specification_for_long(store: str) -> None:
    run_state_machine_as_test(
        suspend_machine_on(store), settings=budget(NIGHTLY * OF_WAITS[store], WAIT_STEPS, new=True)
    )
