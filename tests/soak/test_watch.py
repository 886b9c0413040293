"""A violation during a run ends it; its followers and schedules are checked."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock
from tests import valkey
from tests.chaos.checker import check
from tests.chaos.child import CALM
from tests.chaos.evidence import TRIMMED, Evidence, key_of
from tests.chaos.logs import Call, History
from tests.chaos.removals import nothing_removed_early, removed_were_fenced
from tests.chaos.run import Found, Run
from tests.chaos.sound import DONE, Tables, again, alter, rows_of
from tests.chaos.stores import SqliteCase, open_engine
from tests.chaos.task_plan import FRAMES, TICK
from tests.engine.helpers import create
from tests.store.valkey.helpers import engine_on

from .__main__ import options_of, scenario_of
from .follow import every_minute_ran, frames_came_in_order
from .watch import Soak, sample, sample_cell

S, MINUTE_MS = 10**9, 60_000


def test_a_process_that_ends_by_itself_ends_the_run(tmp_path: Path) -> None:
    run = SimpleNamespace(
        folder=tmp_path, case=SqliteCase(tmp_path), fleet=SimpleNamespace(faults=[("w-1", "died")])
    )
    with pytest.raises(Found) as found:
        Soak(60.0, ()).look(cast(Run, run))
    assert [(v.invariant, v.subject) for v in found.value.violations] == [("process", "w-1")]


@pytest.mark.parametrize(
    ("lives", "alive", "is_calm", "ends"),
    [
        (1, True, False, False),
        (1, False, False, True),
        (2, True, False, True),
        (1, False, True, False),
        (0, False, False, False),
    ],
    ids=["lives", "has_ended", "lives_again", "after_the_faults", "before_its_start"],
)
def test_a_spared_process_that_ends_early_ends_the_run(
    tmp_path: Path, lives: int, alive: bool, is_calm: bool, ends: bool
) -> None:
    member = SimpleNamespace(lives=lives, alive=alive, instance="gauge-1")
    fleet = SimpleNamespace(faults=[], members={"gauge": member})
    run = SimpleNamespace(folder=tmp_path, case=SqliteCase(tmp_path), fleet=fleet)
    if is_calm:
        (tmp_path / CALM).touch()
    assert bool(list(Soak(60.0, ("gauge",)).ended(cast(Run, run)))) is ends


def test_rows_that_break_an_invariant_end_the_run(
    tmp_path: Path, sound: tuple[Tables, History]
) -> None:
    tables = deepcopy(sound[0])
    alter(tables, "ff_exec_core", DONE, terminal_outcome="failed", public_state="failed")
    case = SimpleNamespace(url=f"sqlite:///{tmp_path}/none.db", tables=lambda: tables)
    run = SimpleNamespace(folder=tmp_path, case=case, fleet=SimpleNamespace(faults=[]))
    watch = Soak(60.0, ())
    watch.look(cast(Run, run))
    assert watch.verify(cast(Run, run))
    assert not watch.verify(
        cast(Run, SimpleNamespace(case=SimpleNamespace(url=case.url, tables=lambda: sound[0])))
    )
    watch.close()


def followed(*frames: int) -> dict[str, Any]:
    return {
        "op": "followed",
        "run": "r",
        "began": 5 * S,
        "t": 6 * S,
        "frames": [str(number) for number in frames],
        "broke": False,
    }


WHOLE = tuple(range(FRAMES))


@pytest.mark.parametrize(
    ("frames", "away", "is_right"),
    [
        (WHOLE, [], True),
        (WHOLE[:-1], [], False),
        ((*WHOLE, WHOLE[-1]), [], False),
        ((*WHOLE[:3], *WHOLE), [], True),
        ((*WHOLE[1:], *WHOLE), [], False),
        (WHOLE[:3], [(5 * S, 7 * S)], True),
        ((1, 0), [(5 * S, 7 * S)], False),
        ((), [], False),
    ],
    ids=[
        "whole",
        "last_missing",
        "one_twice",
        "again_under_another_lease",
        "first_missing",
        "store_was_away",
        "out_of_order",
        "nothing",
    ],
)
def test_frames_are_received_once_in_order(
    frames: tuple[int, ...], away: list[tuple[int, int]], is_right: bool
) -> None:
    found = list(frames_came_in_order([followed(*frames)], away))
    assert (found == []) is is_right


def ticked(*minutes: int) -> History:
    calls = [
        Call(
            "taskworker0-1",
            "create",
            {
                "asked": [(f"id-{minute}", f"{TICK}@{minute * MINUTE_MS}")],
                "runs": [("north", TICK, '{"n":0}')],
            },
            0,
            0,
            "acknowledged",
            0,
            {"made": [(f"id-{minute}", True)]},
        )
        for minute in minutes
    ]
    return History(calls, [], [])


def test_a_missed_tick_is_caught() -> None:
    began, ended = 100 * MINUTE_MS, 107 * MINUTE_MS
    assert list(every_minute_ran(ticked(102, 103, 104, 105), began, ended)) == []
    for missed in (ticked(102, 103, 105), ticked()):
        assert [v.invariant for v in every_minute_ran(missed, began, ended)] == ["schedule"]


def removed(sound: tuple[Tables, History], *, kept_ms: int) -> tuple[Tables, History]:
    """The sound run after retention has removed an execution of a worker."""
    tables, history = deepcopy(sound)
    ended = next(
        line["at"]
        for life in history.lives
        for line in life.events
        if line["execution"] == str(DONE) and "outcome" in line
    )
    for table in tables:
        if "execution_id" in TABLES[table].names:
            for row in rows_of(tables, table, DONE):
                tables[table].remove(row)
    history.notes.append(
        {"instance": "taskclient-1", "op": TRIMMED, "t": 1, "ms": ended + 1_000, "kept_ms": kept_ms}
    )
    return tables, history


def test_what_retention_removed_in_time_is_no_violation(sound: tuple[Tables, History]) -> None:
    seen = Evidence.of(*removed(sound, kept_ms=500))
    assert key_of(str(DONE)) not in seen.world.executions and str(DONE) in seen.ended_ms
    assert check(seen) == []


def test_what_is_removed_too_early_is_caught(sound: tuple[Tables, History]) -> None:
    seen = Evidence.of(*removed(sound, kept_ms=1_500))
    assert [v.subject for v in nothing_removed_early(seen)] == [str(DONE)]


def test_a_late_write_to_what_was_removed_is_caught(sound: tuple[Tables, History]) -> None:
    tables, history = removed(sound, kept_ms=500)
    again(history, "progress", DONE)
    history.calls[-1].asked_ms = 2**52
    found = list(removed_were_fenced(Evidence.of(tables, history)))
    assert [v.invariant for v in found] == ["late accepted"]


def test_without_retention_a_removed_execution_is_lost(sound: tuple[Tables, History]) -> None:
    tables, history = removed(sound, kept_ms=500)
    history.notes.pop()
    assert "I1" in {violation.invariant for violation in check(Evidence.of(tables, history))}


def test_rows_are_counted_by_table(tmp_path: Path) -> None:
    async def opened() -> None:
        await (await open_engine(case.url)).close()

    case = SqliteCase(tmp_path)
    asyncio.run(opened())
    assert sample(case.url)["rows"]["ff_exec_core"] == 0


def test_the_command_that_is_printed_repeats_the_run() -> None:
    scenario = scenario_of(options_of(["--store", "postgres", "--minutes", "2", "--seed", "7"]))
    words = scenario.command.split()
    again = scenario_of(options_of(words[words.index("tests.soak") + 1 :]))
    assert again.setup == scenario.setup and again.kills == scenario.kills
    assert "--keep" in words


async def test_a_sample_of_a_cell_has_rows_and_connections(clock: ManualClock) -> None:
    options = valkey.new_store(clock).options
    async with engine_on(options, clock) as engine:
        await create(engine)
        found = await sample_cell(options)
    assert found["rows"]["ff_exec_core"] == 1 and found["connections"] >= 1
