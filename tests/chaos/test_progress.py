"""Planted violations of the checks of progress are caught; the settable clock works."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from flowfabric import CreateExecutionArgs, ExecutionId, memory_engine
from flowfabric.store.clock import Ratchet, system_clock

from . import progress
from .checker import check
from .clocks import LOOK_EVERY_NS, SetClock, set_clock
from .evidence import Evidence
from .logs import History, Log, read_history
from .progress import Timers
from .sound import CANCELLED, DONE, LOST, Tables, call_of


def probe_note(ident: ExecutionId, role: str) -> dict[str, Any]:
    return {
        "instance": "probes-1",
        "op": "probe",
        "t": 1,
        "execution": str(ident),
        "role": role,
        "lane": "default",
    }


def test_a_probe_that_its_worker_ran_is_no_violation(sound: tuple[Tables, History]) -> None:
    tables, history = deepcopy(sound)
    history.notes.append(probe_note(DONE, "worker0"))
    assert check(Evidence.of(tables, history)) == []


def worker_does_not_claim(tables: Tables, history: History) -> None:
    history.notes.append(probe_note(CANCELLED, "worker0"))


def another_worker_claimed(tables: Tables, history: History) -> None:
    history.notes.append(probe_note(DONE, "worker1"))


def probe_is_gone(tables: Tables, history: History) -> None:
    history.notes.append(probe_note(ExecutionId.solo("lane"), "worker0"))


def timer_is_overdue(tables: Tables, history: History) -> None:
    history.notes.append(
        {"instance": "timers-1", "op": "overdue", "t": 1, "index": "delayed", "late_ms": 20_001}
    )


def frozen_process_was_heard(tables: Tables, history: History) -> None:
    """The lease was taken over while its process was frozen; a call of the process after that was
    accepted.
    """
    late = call_of(history, "complete", LOST, "refused")
    history.notes.append(
        {
            "instance": "nemesis-1",
            "op": "freeze",
            "t": 1,
            "target": late.instance,
            "seconds": "1",
            "led": False,
        }
    )
    late.verdict = "acknowledged"


PLANTED: dict[Callable[[Tables, History], None], str] = {
    worker_does_not_claim: "claims",
    another_worker_claimed: "claims",
    probe_is_gone: "claims",
    timer_is_overdue: "I21",
    frozen_process_was_heard: "stale accepted",
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_violation_is_caught(
    sound: tuple[Tables, History], plant: Callable[[Tables, History], None]
) -> None:
    tables, history = deepcopy(sound)
    plant(tables, history)
    assert PLANTED[plant] in {
        violation.invariant for violation in check(Evidence.of(tables, history))
    }


@pytest.mark.parametrize(
    ("looks_ms", "told", "worst_ms"),
    [
        ([100, 20_100, 20_100, 20_100], [], 20_000),
        ([100, 20_101, 25_100], [], 20_001),
        ([100, 20_101, 25_101], ["delayed"], 20_001),
        ([100, 60_000], [], 0),
    ],
)
async def test_a_timer_is_overdue_when_nothing_moves_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    looks_ms: list[int],
    told: list[str],
    worst_ms: int,
) -> None:
    monkeypatch.setattr(progress, "LOOK_EVERY_S", 0.0)
    now = [1_000_000]
    engine = memory_engine(lambda: now[0])
    await engine.create_execution(
        CreateExecutionArgs(execution_id=ExecutionId.solo("lane"), delay_until=1_000_100)
    )
    timers = Timers(Log(tmp_path, "timers-1"))
    for look_ms in looks_ms:
        now[0] = 1_000_000 + look_ms
        await timers.look(engine)
    assert [note["index"] for note in read_history(tmp_path).notes] == told
    assert timers.worst_ms == worst_ms
    await engine.close()


def test_times_of_a_store_whose_clock_was_set_are_not_compared(
    sound: tuple[Tables, History],
) -> None:
    """The logs are compared: their order does not depend on a wall clock."""
    tables, history = deepcopy(sound)
    late = call_of(history, "complete", LOST, "refused")
    late.op, late.verdict = "progress", "acknowledged"
    history.notes.append(
        {"instance": "nemesis-1", "op": "clock", "t": 0, "wrong_ms": -9_000, "event": 0}
    )
    assert "stale accepted" in {
        violation.invariant for violation in check(Evidence.of(tables, history))
    }
    history.calls[:] = [call for call in history.calls if call.op != "claim"]
    assert "stale accepted" not in {
        violation.invariant for violation in check(Evidence.of(tables, history))
    }


def test_a_store_takes_a_clock_that_is_set_forward_but_not_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monotonic = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: monotonic[0])
    clock = SetClock(tmp_path)
    monkeypatch.setattr(time, "time_ns", clock)
    store = Ratchet(system_clock)
    right = store()
    for wrong_ms, is_seen in ((60_000, True), (-60_000, False)):
        set_clock(tmp_path, wrong_ms)
        monotonic[0] += LOOK_EVERY_NS
        assert (store() >= right + 60_000) and ((system_clock() >= right + 60_000) is is_seen)
