"""Time never runs back and does not stop when the wall clock is set back."""

from __future__ import annotations

import pytest

from flowfabric.connect import memory_engine
from flowfabric.loops.supervisor import Supervisor
from flowfabric.store.clock import MAX_LEAD_MS, Ratchet, system_clock
from flowfabric.store.memory import MemoryStore
from tests.engine.helpers import create, state

HOUR = 3_600_000


class Clocks:
    """A wall clock that can be set, and a monotonic one."""

    def __init__(self) -> None:
        self.wall, self.ticks = 100 * HOUR, 0
        self.now = Ratchet(lambda: self.wall, lambda: self.ticks)
        self.now()

    def pass_(self, ms: int) -> int:
        self.wall += ms
        self.ticks += ms
        return self.now()


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def test_time_follows_the_wall_clock(clocks: Clocks) -> None:
    assert clocks.pass_(5) == clocks.wall
    clocks.wall += HOUR
    assert clocks.now() == clocks.wall


@pytest.mark.parametrize("step", [1, 10 * 60_000, HOUR])
def test_time_continues_while_the_wall_clock_is_behind(clocks: Clocks, step: int) -> None:
    before = clocks.now()
    clocks.wall -= step
    assert clocks.now() == before
    told = [clocks.pass_(1) for _ in range(800)]
    assert told == sorted(told)
    assert before + 700 <= told[-1] <= max(before + 800, clocks.wall)


def test_the_lead_shrinks_until_the_wall_clock_has_caught_up(clocks: Clocks) -> None:
    clocks.wall -= HOUR
    clocks.now()
    for _ in range(4 * 60):
        clocks.pass_(60_000)
    assert clocks.now() == clocks.wall + HOUR // 2
    for _ in range(4 * 60):
        clocks.pass_(60_000)
    assert clocks.now() == clocks.wall
    assert clocks.pass_(1) == clocks.wall


def test_a_wall_clock_ahead_of_the_latest_time_is_followed_at_once(
    clocks: Clocks,
) -> None:
    clocks.wall -= 1_000
    clocks.now()
    assert clocks.pass_(2_000) == clocks.wall


def test_after_a_jump_far_ahead_time_stays_within_the_maximum_lead(clocks: Clocks) -> None:
    clocks.wall += MAX_LEAD_MS + HOUR
    far = clocks.now()
    clocks.wall -= MAX_LEAD_MS + HOUR
    assert clocks.pass_(HOUR - 1_000) == far, "further ahead than that it waits"
    assert clocks.pass_(2_000) == clocks.wall + MAX_LEAD_MS > far


class Machine:
    """The module `time` of a machine whose clocks the test sets, in milliseconds."""

    wall, ticks = 100, 0

    def time_ns(self) -> int:
        return self.wall * 1_000_000

    def monotonic_ns(self) -> int:
        return self.ticks * 1_000_000


def test_the_system_clock_continues_and_an_injected_clock_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    monkeypatch.setattr("flowfabric.store.clock.time", machine)
    system = Ratchet(system_clock)
    assert system() == 100
    machine.wall = 3
    assert system() == 100
    machine.ticks += 80
    assert system() == 170
    wall = [5]
    now = Ratchet(lambda: wall[0])
    assert now() == 5
    wall[0] = 3
    assert now() == 5


@pytest.mark.meets("clock_step", "delay")
@pytest.mark.meets("clock_step", "deadline")
async def test_timers_move_after_the_clock_was_set_back(clocks: Clocks) -> None:
    engine = memory_engine()
    assert isinstance(engine.store, MemoryStore)
    engine.store.clock = clocks.now
    delayed = await create(engine, delay_until=clocks.now() + 60_000)
    late = await create(engine, execution_deadline_at=clocks.now() + 60_000)
    clocks.wall -= HOUR
    clocks.now()
    clocks.pass_(70_000)
    await Supervisor(engine).run_once()
    assert await state(engine, delayed) == "READY" and await state(engine, late) == "ENDED(expired)"
