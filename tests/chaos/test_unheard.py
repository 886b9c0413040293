"""Calls without an answer: either outcome is possible, none twice, and a refusal remains a
refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from flowfabric import ExecutionId
from flowfabric.errors import TransportError
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS

from .__main__ import options_of, scenario_of
from .checker import check
from .evidence import Evidence
from .logs import History, Log, read_history
from .sound import DONE, KEYED, LOST, REPLAYED, Tables, again, alter, call_of, create_call, rows_of
from .stores import STORES


def unheard(history: History, op: str, ident: ExecutionId) -> Any:
    """The same call without its answer."""
    call = call_of(history, op, ident)
    call.verdict, call.reply = "unknown", {"code": "transport_error", "says": "lost"}
    return call


def refused_delay_was_made(tables: Tables, history: History) -> None:
    refused = deepcopy(call_of(history, "complete", DONE))
    refused.op, refused.verdict, refused.reply = (
        "delay",
        "refused",
        {"code": "execution_not_active"},
    )
    history.calls.append(refused)
    alter(tables, "ff_lease_event", DONE, event_type="revoked", reason="delayed", lease_epoch=1)


def refused_failure_was_made(tables: Tables, history: History) -> None:
    call = call_of(history, "fail", REPLAYED)
    call.verdict, call.reply = "refused", {"code": "lease_conflict"}


def refused_create_was_made(tables: Tables, history: History) -> None:
    call = create_call(history, DONE)
    call.verdict, call.reply = "refused", {"code": "transport_error", "says": "out of reach"}


def unheard_end_was_made_twice(tables: Tables, history: History) -> None:
    unheard(history, "complete", DONE)
    (row,) = rows_of(tables, COMPLETION_EVENTS, DONE)
    tables[COMPLETION_EVENTS].append((99, *row[1:]))


def unheard_renewal_was_made_twice(tables: Tables, history: History) -> None:
    unheard(history, "renew", DONE)
    (renewal,) = (row for row in rows_of(tables, LEASE_EVENTS, DONE) if "renewed" in row)
    tables[LEASE_EVENTS].append((98, *renewal[1:]))


def unheard_replay_was_made_twice(tables: Tables, history: History) -> None:
    unheard(history, "replay", REPLAYED)
    alter(tables, "ff_exec_core", REPLAYED, replay_count=2)


def unheard_end_came_too_late(tables: Tables, history: History) -> None:
    """The repetition found it done, but by the event that was after the lease had expired."""
    again(history, "complete", KEYED)
    unheard(history, "complete", KEYED)
    alter(tables, "ff_lease_event", KEYED, occurred_at_ms=2**52)


PLANTED: dict[Callable[[Tables, History], None], str] = {
    refused_delay_was_made: "I17",
    refused_failure_was_made: "I17",
    refused_create_was_made: "I17",
    unheard_end_was_made_twice: "I2",
    unheard_renewal_was_made_twice: "lost write",
    unheard_replay_was_made_twice: "replays",
    unheard_end_came_too_late: "late accepted",
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


def unheard_create(tables: Tables, history: History) -> None:
    call = create_call(history, DONE)
    call.verdict, call.reply = "unknown", {"code": "transport_error", "says": "lost"}


def unheard_create_that_was_not_made(tables: Tables, history: History) -> None:
    history.calls.append(deepcopy(create_call(history, DONE)))
    call = history.calls[-1]
    call.verdict, call.facts = "unknown", {"asked": [(str(ExecutionId.solo("lane")), None)]}


def unheard_end(tables: Tables, history: History) -> None:
    unheard(history, "complete", DONE)


def unheard_end_that_was_not_made(tables: Tables, history: History) -> None:
    again(history, "complete", LOST, digest="f" * 64)
    history.calls[-1].verdict = "unknown"


def unheard_end_that_was_asked_again(tables: Tables, history: History) -> None:
    """The answer to the second call came after the expiry of the lease; by the event the first was
    in time.
    """
    again(history, "complete", KEYED)
    history.calls[-1].asked_ms = 2**52
    unheard(history, "complete", KEYED)


def unheard_renewal(tables: Tables, history: History) -> None:
    unheard(history, "renew", DONE)


def unheard_replay(tables: Tables, history: History) -> None:
    unheard(history, "replay", REPLAYED)


def unheard_failure_refused_when_asked_again(tables: Tables, history: History) -> None:
    again(history, "fail", REPLAYED)
    history.calls[-1].verdict, history.calls[-1].reply = "refused", {"code": "lease_conflict"}
    unheard(history, "fail", REPLAYED)


HARMLESS = (
    unheard_create,
    unheard_create_that_was_not_made,
    unheard_end,
    unheard_end_that_was_not_made,
    unheard_end_that_was_asked_again,
    unheard_renewal,
    unheard_replay,
    unheard_failure_refused_when_asked_again,
)


@pytest.mark.parametrize("change", HARMLESS, ids=lambda change: change.__name__)
def test_a_call_without_an_answer_may_have_either_outcome(
    sound: tuple[Tables, History], change: Callable[[Tables, History], None]
) -> None:
    tables, history = deepcopy(sound)
    change(tables, history)
    assert check(Evidence.of(tables, history)) == []


def test_a_doubtful_answer_is_written_down_as_unknown(tmp_path: Path) -> None:
    async def lost(doubtful: bool) -> None:
        raise TransportError("postgres", "connection lost", doubtful=doubtful)

    log = Log(tmp_path, "worker0-1")
    for doubtful in (True, False):
        with pytest.raises(TransportError):
            asyncio.run(log.call("claim", lost(doubtful)))
    assert [(call.verdict, call.answered_ns > 0) for call in read_history(tmp_path).calls] == [
        ("unknown", True),
        ("refused", True),
    ]


def test_sqlite_has_no_server_to_restart(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options_of(["--store", "sqlite", "--restarts", "3"])
    assert "SQLite has no server to restart" in capsys.readouterr().err
    assert [options_of(["--store", store]).restarts for store in STORES] == [0, 3, 3]


def test_only_valkey_has_an_append_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options_of(["--store", "postgres", "--appendfsync", "always"])
    assert "--appendfsync: accepted with --store valkey only" in capsys.readouterr().err
    assert scenario_of(options_of(["--store", "valkey"])).appendfsync == "always"
    told = scenario_of(options_of(["--store", "valkey", "--appendfsync", "everysec"]))
    assert told.appendfsync == "everysec" and "--appendfsync everysec" in told.command
