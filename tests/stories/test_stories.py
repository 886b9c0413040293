"""Stories that combine most features end as expected under any fault in their processes."""

from __future__ import annotations

import os
from random import Random

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.testing import ManualClock

from .driver import World
from .faults import (
    Cast,
    Fault,
    Faults,
    clock_step,
    crash,
    deploy,
    freeze,
    leader_change,
    second_tenant,
    strike,
)
from .process import Process
from .stories import Order, Quotes, Yard
from .story import Story

SPAN = {Order: 80, Quotes: 52, Yard: 95}
"""How many writes they take at the least: a fault strikes at one of them."""
MEMORY_ROUNDS = int(os.environ.get("FF_STORY_ROUNDS", 2))
ROUNDS = max(MEMORY_ROUNDS // 5, 1)
"""What happens on the other stores is the same, and takes longer. FF_STORY_ROUNDS=100 looks
further.
"""
NIGHTLY_ROUNDS = 100
"""Enough to strike at nearly every write, those included that only a repair by the loops makes
good.
"""

kinds = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            Order,
            marks=pytest.mark.meets(
                "timeout",
                "deadline",
                "retry",
                "delay",
                "suspend",
                "step",
                "child",
                "quorum",
                "budget_action",
                "quota",
                "retention",
            ),
        ),
        pytest.param(
            Quotes,
            marks=pytest.mark.meets(
                "timeout",
                "deadline",
                "retry",
                "step",
                "flow",
                "quorum",
                "budget_action",
                "quota",
                "cancel",
                "reclaim",
                "retention",
            ),
        ),
        pytest.param(
            Yard,
            marks=pytest.mark.meets(
                "suspend",
                "step",
                "child",
                "quorum",
                "quota",
                "revoke",
                "reclaim",
                "cancel",
                "replay",
                "retention",
            ),
        ),
    ],
)


@kinds
async def test_a_story_ends_as_it_should(
    engine: Engine, clock: ManualClock, kind: type[Story]
) -> None:
    story = kind(engine, clock)
    world, process = World(engine, clock, story), Process(engine.store, story.app)
    world.is_quiet = True
    await world.begin()
    assert await world.run(process) is None
    assert SPAN[kind] <= process.gate.writes
    story.check_steps(0)


async def happens(
    engine: Engine, clock: ManualClock, kind: type[Story], faults: Faults, rounds: int
) -> None:
    for number in range(rounds):
        names = "/".join(fault.__name__ for fault in faults)
        cast = Cast(engine, clock, kind, Random(f"{kind.__name__}/{names}/{number}"), SPAN[kind])
        await cast.world.begin()
        try:
            await strike(cast, faults)
            await cast.to_the_end()
            cast.story.check_steps(len(cast.struck))
        except BaseException as error:
            error.add_note(f"round {number}: {', '.join(cast.struck)}")
            raise


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([crash], marks=pytest.mark.meets("crash"), id="crash"),
        pytest.param([freeze], marks=pytest.mark.meets("freeze"), id="freeze"),
        pytest.param([clock_step], marks=pytest.mark.meets("clock_step"), id="clock_step"),
        pytest.param([leader_change], marks=pytest.mark.meets("leader_change"), id="leader_change"),
        pytest.param([second_tenant], marks=pytest.mark.meets("second_tenant"), id="second_tenant"),
        pytest.param([deploy], marks=pytest.mark.meets("deploy"), id="deploy"),
    ],
)
@kinds
async def test_it_ends_so_whatever_happens(
    engine: Engine, clock: ManualClock, kind: type[Story], faults: Faults
) -> None:
    await happens(
        engine, clock, kind, faults, MEMORY_ROUNDS if engine.store.label == "memory" else ROUNDS
    )


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", [crash, freeze, clock_step, leader_change, second_tenant, deploy])
@pytest.mark.parametrize("kind", [Order, Quotes, Yard])
@pytest.mark.parametrize("engine", ["memory"], indirect=True)
async def test_it_ends_so_wherever_it_happens(
    engine: Engine, clock: ManualClock, kind: type[Story], fault: Fault
) -> None:
    await happens(engine, clock, kind, [fault], NIGHTLY_ROUNDS)


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(
            [freeze, crash], marks=pytest.mark.meets("freeze", "crash"), id="freeze-crash"
        ),
        pytest.param(
            [freeze, clock_step],
            marks=pytest.mark.meets("freeze", "clock_step"),
            id="freeze-clock_step",
        ),
        pytest.param(
            [freeze, deploy], marks=pytest.mark.meets("freeze", "deploy"), id="freeze-deploy"
        ),
        pytest.param(
            [crash, clock_step],
            marks=pytest.mark.meets("crash", "clock_step"),
            id="crash-clock_step",
        ),
        pytest.param(
            [leader_change, crash],
            marks=pytest.mark.meets("leader_change", "crash"),
            id="leader_change-crash",
        ),
        pytest.param(
            [leader_change, deploy],
            marks=pytest.mark.meets("leader_change", "deploy"),
            id="leader_change-deploy",
        ),
        pytest.param(
            [leader_change, clock_step],
            marks=pytest.mark.meets("leader_change", "clock_step"),
            id="leader_change-clock_step",
        ),
        pytest.param(
            [deploy, clock_step],
            marks=pytest.mark.meets("deploy", "clock_step"),
            id="deploy-clock_step",
        ),
        pytest.param(
            [second_tenant, crash],
            marks=pytest.mark.meets("second_tenant", "crash"),
            id="second_tenant-crash",
        ),
        pytest.param(
            [second_tenant, freeze],
            marks=pytest.mark.meets("second_tenant", "freeze"),
            id="second_tenant-freeze",
        ),
        pytest.param(
            [second_tenant, deploy],
            marks=pytest.mark.meets("second_tenant", "deploy"),
            id="second_tenant-deploy",
        ),
        pytest.param(
            [second_tenant, clock_step],
            marks=pytest.mark.meets("second_tenant", "clock_step"),
            id="second_tenant-clock_step",
        ),
        pytest.param(
            [second_tenant, leader_change],
            marks=pytest.mark.meets("second_tenant", "leader_change"),
            id="second_tenant-leader_change",
        ),
    ],
)
@pytest.mark.parametrize("kind", [Order, Quotes, Yard])
@pytest.mark.parametrize("engine", ["memory"], indirect=True)
async def test_it_ends_so_when_two_things_happen_at_once(
    engine: Engine, clock: ManualClock, kind: type[Story], faults: Faults
) -> None:
    await happens(engine, clock, kind, faults, ROUNDS)
