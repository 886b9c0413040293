"""A sound run passes the checker, and each kind of planted violation is caught."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from random import Random

import pytest

from flowfabric import CreateExecutionArgs, ExecutionId
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS

from .checker import check
from .evidence import Evidence
from .logs import History, Life, Log, read_history
from .sound import (
    CANCELLED,
    DONE,
    EARLY,
    KEYED,
    LOST,
    REPLAYED,
    TWIN,
    WAITED,
    Tables,
    again,
    alter,
    call_of,
    create_call,
    rows_of,
)
from .stores import SqliteCase, open_engine


def test_a_sound_run_passes(sound: tuple[Tables, History]) -> None:
    assert check(Evidence.of(*sound)) == []
    assert {call.verdict for call in sound[1].calls} == {"acknowledged", "refused"}


def acknowledged_create_is_missing(tables: Tables, history: History) -> None:
    create_call(history, DONE).reply["made"] = [(str(ExecutionId.solo("lane")), True)]


def two_were_told_they_created_it(tables: Tables, history: History) -> None:
    history.calls.append(create_call(history, DONE))


def result_was_replaced(tables: Tables, history: History) -> None:
    alter(tables, "ff_exec_core", DONE, result=b"another")


def completion_was_undone(tables: Tables, history: History) -> None:
    alter(tables, "ff_exec_core", DONE, terminal_outcome="failed", public_state="failed")


def cancel_was_undone(tables: Tables, history: History) -> None:
    alter(tables, "ff_completion_event", CANCELLED, outcome="success")


def completed_by_two_leases(tables: Tables, history: History) -> None:
    again(history, "complete", DONE, epoch=2)


def late_write_was_accepted(tables: Tables, history: History) -> None:
    call_of(history, "complete", LOST, "refused").verdict = "acknowledged"


def late_progress_was_accepted(tables: Tables, history: History) -> None:
    """No process logged the grant that made it stale; only the lease events show it."""
    late = call_of(history, "complete", LOST, "refused")
    late.op, late.verdict = "progress", "acknowledged"
    history.calls[:] = [call for call in history.calls if call.op != "claim"]


def late_by_the_logs_alone(tables: Tables, history: History) -> None:
    alter(tables, "ff_lease_event", LOST, occurred_at_ms=2**52)
    late_progress = call_of(history, "complete", LOST, "refused")
    late_progress.op, late_progress.verdict = "progress", "acknowledged"


def expired_lease_was_accepted(tables: Tables, history: History) -> None:
    """There was no takeover, but the lease had expired."""
    for call in history.of("claim"):
        call.reply["granted"] = [
            (ident, epoch, 1 if ident == KEYED else until)
            for ident, epoch, until in call.reply["granted"]
        ]


def key_has_two_executions(tables: Tables, history: History) -> None:
    alter(tables, "ff_exec_core", DONE, idempotency_key="k")


def key_was_told_differently(tables: Tables, history: History) -> None:
    create_call(history, TWIN).reply["made"] = [(str(DONE), False)]


def lease_was_granted_to_another(tables: Tables, history: History) -> None:
    alter(tables, "ff_lease_event", DONE, worker_instance_id="worker9-9")


def renewal_left_nothing(tables: Tables, history: History) -> None:
    again(history, "renew", DONE)


def delay_left_nothing(tables: Tables, history: History) -> None:
    again(history, "complete", DONE)
    history.calls[-1].op = "delay"


def refused_result_is_stored(tables: Tables, history: History) -> None:
    call = call_of(history, "complete", DONE)
    call.verdict, call.reply = "refused", {"code": "lease_expired"}


def too_many_retries(tables: Tables, history: History) -> None:
    alter(tables, "ff_exec_core", DONE, retry_count=4)


def lease_nobody_explains(tables: Tables, history: History) -> None:
    alter(tables, "ff_exec_core", LOST, lease_reclaim_count=0)


def replay_did_not_happen(tables: Tables, history: History) -> None:
    again(history, "replay", REPLAYED)


def something_is_left(tables: Tables, history: History) -> None:
    alter(
        tables,
        "ff_exec_core",
        DONE,
        lifecycle_phase="runnable",
        public_state="waiting",
        terminal_outcome="none",
    )


def ended_twice(tables: Tables, history: History) -> None:
    (row,) = rows_of(tables, COMPLETION_EVENTS, DONE)
    tables[COMPLETION_EVENTS].append((99, *row[1:]))


def lives_of(history: History, channel: str = COMPLETION_EVENTS) -> list[Life]:
    return [life for life in history.lives if life.channel == channel]


def event_was_skipped(tables: Tables, history: History) -> None:
    del lives_of(history)[1].events[1]


def event_came_twice(tables: Tables, history: History) -> None:
    events = lives_of(history)[1].events
    events.insert(1, events[1])


def events_came_out_of_order(tables: Tables, history: History) -> None:
    lives_of(history, LEASE_EVENTS)[1].events.reverse()


def event_is_another(tables: Tables, history: History) -> None:
    lives_of(history)[0].events[0] = {**lives_of(history)[0].events[0], "outcome": "Failure"}


def subscriber_never_caught_up(tables: Tables, history: History) -> None:
    lives_of(history, LEASE_EVENTS)[1].events.pop()


def gap_between_two_lives(tables: Tables, history: History) -> None:
    life = lives_of(history)[1]
    life.resumed = life.events.pop(2)["cursor"]
    del life.events[:2]


def worker_was_surprised(tables: Tables, history: History) -> None:
    history.notes.append({"instance": "worker0-1", "op": "surprise", "says": "KeyError()"})


def engine_called_it_a_bug(tables: Tables, history: History) -> None:
    call_of(history, "complete", LOST, "refused").reply.update(code="bug", says="impossible")


def signal_is_missing(tables: Tables, history: History) -> None:
    tables["ff_signal"] = [
        row for row in tables["ff_signal"] if row not in rows_of(tables, "ff_signal", WAITED)
    ]


def signal_was_told_of_twice(tables: Tables, history: History) -> None:
    (first, *_) = rows_of(tables, "ff_signal_event", WAITED)
    tables["ff_signal_event"].append((99, *first[1:]))


def refused_signal_is_stored(tables: Tables, history: History) -> None:
    for call in history.of("signal"):
        if call.execution == EARLY:
            call.verdict, call.reply = "refused", {"code": "waitpoint_closed"}


def resume_was_not_told(tables: Tables, history: History) -> None:
    kept = [row for row in tables[COMPLETION_EVENTS] if "resumable" not in row]
    tables[COMPLETION_EVENTS][:] = kept


def resume_was_undone(tables: Tables, history: History) -> None:
    alter(
        tables,
        "ff_waitpoint_pending",
        WAITED,
        state="active",
        close_reason=None,
        closed_at_ms=None,
        satisfied_at_ms=None,
    )


def still_suspended(tables: Tables, history: History) -> None:
    alter(tables, "ff_suspension_current", WAITED, closed_at_ms=None, close_reason=None)


def enough_had_not_arrived(tables: Tables, history: History) -> None:
    alter(tables, "ff_waitpoint_pending", EARLY, signal_count=0)


def suspend_left_nothing(tables: Tables, history: History) -> None:
    again(history, "suspend", WAITED, epoch=7)


def shown_what_is_not_there(tables: Tables, history: History) -> None:
    call_of(history, "observe", WAITED).reply["signals"].append(str(DONE.uuid))


def frame_is_missing(tables: Tables, history: History) -> None:
    tables["ff_stream_frame"].pop()


def frame_is_another(tables: Tables, history: History) -> None:
    alter(tables, "ff_stream_frame", DONE, fields='{"payload":"another"}')


def frame_is_there_twice(tables: Tables, history: History) -> None:
    tables["ff_stream_frame"].append(tables["ff_stream_frame"][-1])


def refused_frame_is_stored(tables: Tables, history: History) -> None:
    for call in list(history.of("append")):
        call.verdict, call.reply = "refused", {"code": "lease_expired"}


def frame_nobody_sent(tables: Tables, history: History) -> None:
    alter(tables, "ff_stream_frame", DONE, client_seq=77)


PLANTED: dict[Callable[[Tables, History], None], str] = {
    acknowledged_create_is_missing: "I1",
    two_were_told_they_created_it: "created twice",
    result_was_replaced: "I3",
    completion_was_undone: "I1",
    cancel_was_undone: "I1",
    completed_by_two_leases: "accepted twice",
    late_write_was_accepted: "stale accepted",
    late_progress_was_accepted: "stale accepted",
    late_by_the_logs_alone: "stale accepted",
    expired_lease_was_accepted: "late accepted",
    key_has_two_executions: "keys",
    key_was_told_differently: "keys",
    lease_was_granted_to_another: "I6",
    renewal_left_nothing: "lost write",
    delay_left_nothing: "lost write",
    refused_result_is_stored: "I17",
    too_many_retries: "I7",
    lease_nobody_explains: "I7",
    replay_did_not_happen: "replays",
    something_is_left: "drained",
    ended_twice: "I2",
    event_was_skipped: "stream",
    event_came_twice: "stream",
    events_came_out_of_order: "stream",
    event_is_another: "stream",
    subscriber_never_caught_up: "stream",
    gap_between_two_lives: "stream",
    worker_was_surprised: "surprise",
    engine_called_it_a_bug: "surprise",
    signal_is_missing: "lost signal",
    signal_was_told_of_twice: "lost signal",
    refused_signal_is_stored: "I17",
    resume_was_not_told: "lost resume",
    resume_was_undone: "lost resume",
    still_suspended: "still waits",
    enough_had_not_arrived: "lost signal",
    suspend_left_nothing: "lost write",
    shown_what_is_not_there: "lost signal",
    frame_is_missing: "lost frame",
    frame_is_another: "lost frame",
    frame_is_there_twice: "lost frame",
    refused_frame_is_stored: "I17",
    frame_nobody_sent: "I17",
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


def answered_from_an_earlier_suspend(tables: Tables, history: History) -> None:
    """For a holder whose lease was over; nothing was written."""
    (call, *_) = [each for each in history.of("suspend") if each.reply["outcome"] == "suspended"]
    late = deepcopy(call)
    late.facts["epoch"], late.asked_ms, late.reply["repeats"] = 1_000_000, 2**52, True
    history.calls.append(late)


def told_of_the_retry_of_a_timeout(tables: Tables, history: History) -> None:
    """The engine ended the attempt at its limit; its holder reports a failure and gets the retry as
    answer.
    """
    (call, *_) = [each for each in history.of("fail") if each.reply["outcome"] == "retry"]
    lease = (call.execution, call.epoch)
    for claim in history.of("claim"):
        granted = claim.reply["granted"]
        claim.reply["granted"] = [
            (ident, epoch, 0 if (ident, epoch) == lease else until)
            for ident, epoch, until in granted
        ]
    alter(tables, "ff_attempt", ExecutionId(call.execution), failure_category="attempt_timeout")


@pytest.mark.parametrize(
    "harmless", [answered_from_an_earlier_suspend, told_of_the_retry_of_a_timeout]
)
def test_what_changes_nothing_is_no_violation(
    sound: tuple[Tables, History], harmless: Callable[[Tables, History], None]
) -> None:
    tables, history = deepcopy(sound)
    harmless(tables, history)
    assert check(Evidence.of(tables, history)) == []


def test_a_line_cut_short_by_a_kill_is_not_read(tmp_path: Path) -> None:
    log = Log(tmp_path, "worker0-1")
    log.write("ask", "claim")
    with log.path.open("ab") as file:
        file.write(b'{"seq":2,"t":1,"ms":1,"kind":"ack","op":"cl')
    (call,) = read_history(tmp_path).calls
    assert call.verdict == "unknown"


async def crashed(folder: Path) -> SqliteCase:
    """A database after a kill: the log contains pages that the file does not."""
    origin = SqliteCase(folder / "origin")
    origin.path.parent.mkdir()
    engine = await open_engine(origin.url)
    for _ in range(50):
        await engine.create_execution(
            CreateExecutionArgs(execution_id=ExecutionId.solo("lane"), input_payload=b"x" * 500)
        )
    for path in origin.path.parent.iterdir():
        shutil.copyfile(path, folder / path.name)
    await engine.close()
    return SqliteCase(folder)


def test_a_crash_image_recovers_whole_and_cut(tmp_path: Path) -> None:
    case = asyncio.run(crashed(tmp_path))
    assert list(case.survives(Random(1))) == []
    assert case.images == 4
    assert len(case.tables()["ff_exec_core"]) == 50


@pytest.mark.parametrize("at", [0, 5_000])
def test_a_damaged_file_is_caught(tmp_path: Path, at: int) -> None:
    case = asyncio.run(crashed(tmp_path))
    asyncio.run(_checkpointed(case))
    damaged = bytearray(case.path.read_bytes())
    for page in range(at, len(damaged), 4_096):
        damaged[page : page + 64] = b"\xff" * 64
    case.path.write_bytes(damaged)
    assert {violation.invariant for violation in case.survives(Random(1))} & {
        "recovery",
        "integrity_check",
    }


async def _checkpointed(case: SqliteCase) -> None:
    engine = await open_engine(case.url)
    await engine.close()
