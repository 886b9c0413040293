"""Each kind of planted violation of the checks of task runs is caught."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest

from flowfabric import ExecutionId
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS

from .checker import check
from .evidence import Evidence
from .logs import History
from .sound import Tables, alter, ident_of, rows_of, run_of

EXEC = "ff_exec_core"


def test_a_removed_run_is_judged_by_its_events(
    sound: tuple[Tables, History],
) -> None:
    seen = Evidence.of(*sound)
    forgotten = [run for run in seen.runs.values() if run.forgotten]
    assert [(run.kind, run.namespace, run.ends) for run in forgotten] == [
        ("in_time", "south", ("success",))
    ]
    assert not [
        call for call in seen.history.calls if call.execution == ident_of(sound[1], "in_time")
    ]


def run_is_lost(tables: Tables, history: History) -> None:
    """It is removed without an event of its end."""
    _untold(history, ident_of(history, "in_time"))


def run_that_goes_on_is_lost(tables: Tables, history: History) -> None:
    lost = ident_of(history, "doomed")
    for table in (EXEC, "ff_attempt", LEASE_EVENTS, COMPLETION_EVENTS):
        for row in rows_of(tables, table, lost):
            tables[table].remove(row)
    _untold(history, lost)


def _untold(history: History, ident: str) -> None:
    for life in history.lives:
        life.events[:] = [line for line in life.events if line["execution"] != ident]
    history.notes[:] = [note for note in history.notes if note.get("execution") != ident]


def crash_cost_the_run(tables: Tables, history: History) -> None:
    alter(
        tables,
        EXEC,
        ident_of(history, "steps"),
        terminal_outcome="expired",
        public_state="expired",
        result=None,
    )


def failure_became_a_success(tables: Tables, history: History) -> None:
    alter(
        tables,
        EXEC,
        ident_of(history, "doomed"),
        terminal_outcome="success",
        public_state="completed",
    )


def result_is_of_another_run(tables: Tables, history: History) -> None:
    run_of(history, "steps").facts["runs"][0] = ("south", "steps", '{"n":77}')


def forgotten_run_ended_twice(tables: Tables, history: History) -> None:
    gone = ident_of(history, "in_time")
    life = next(
        life
        for life in history.lives
        if life.channel == COMPLETION_EVENTS and life.instance == "subscriber-2"
    )
    at, line = next((at, line) for at, line in enumerate(life.events) if line["execution"] == gone)
    life.events.insert(at, {**line, "outcome": "Failure"})


def end_changed_after_it_was_seen(tables: Tables, history: History) -> None:
    next(note for note in history.notes if note["op"] == "saw")["outcome"] = "cancelled"


def step_was_told_differently(tables: Tables, history: History) -> None:
    call = next(call for call in history.of("step") if call.execution == ident_of(history, "steps"))
    call.reply["value"] = '"another"'


def result_has_a_step_of_a_zombie(tables: Tables, history: History) -> None:
    """The record of the step was refused, but the result contains it."""
    for call in list(history.of("step")):
        if call.execution == ident_of(history, "steps"):
            call.verdict, call.reply = "refused", {"code": "lease_expired"}


def budget_let_one_more_through(tables: Tables, history: History) -> None:
    for call in history.of("create"):
        if call.facts.get("runs", [("", "", "")])[0][1] == "spends_or_fails":
            row = {"terminal_outcome": "success", "public_state": "completed", "result": b'"spent"'}
            alter(tables, EXEC, ExecutionId(call.reply["made"][0][0]), **row)


def run_was_granted_across_namespaces(tables: Tables, history: History) -> None:
    for note in history.notes:
        if note["op"] == "serves":
            note["namespace"] = "north"


def run_is_stored_across_namespaces(tables: Tables, history: History) -> None:
    alter(tables, EXEC, ident_of(history, "steps"), namespace="north")


PLANTED: dict[Callable[[Tables, History], None], str] = {
    run_is_lost: "I1",
    run_that_goes_on_is_lost: "I1",
    crash_cost_the_run: "wrong end",
    failure_became_a_success: "wrong end",
    result_is_of_another_run: "wrong result",
    forgotten_run_ended_twice: "ended twice",
    end_changed_after_it_was_seen: "I3",
    step_was_told_differently: "lost step",
    result_has_a_step_of_a_zombie: "lost step",
    budget_let_one_more_through: "I13",
    run_was_granted_across_namespaces: "I24",
    run_is_stored_across_namespaces: "I24",
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
