"""Concurrent and repeated calls at their limits."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from flowfabric import ClaimPolicy, LoopSettings, Settings, SqliteBackend, connect, memory_engine
from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError, ContentionKind, EngineError, TransportError
from flowfabric.model.execution import (
    CancelExecutionArgs,
    ChangePriorityArgs,
    CreateExecutionArgs,
    Duplicate,
    PublicState,
)
from flowfabric.model.lease import (
    AlreadySatisfied,
    ClaimExecutionArgs,
    ResumeGrant,
    ResumeToken,
    RevokeLeaseArgs,
)
from flowfabric.plan import Applied, Refused
from flowfabric.rules.leases import expiry, reclaim
from flowfabric.store.sqlite.jobs import Execute
from flowfabric.store.wakeups import Wakeups
from flowfabric.testing import ManualClock

from .helpers import (
    LANE,
    create,
    fields,
    forged,
    grant_args,
    invalid,
    new_id,
    other_uuid,
    parked,
    refused,
    running,
    state,
    worker,
)


def token(ident: Any, clock: ManualClock) -> ResumeToken:
    return ResumeToken(
        ResumeGrant(ident, "{fp:0}", "k", clock() + 99_999, LANE), "w2", "w2-i1", 30_000
    )


@pytest.mark.parametrize("losses", [0, 1_000])
async def test_a_takeover_decided_on_a_late_clock_never_takes_a_live_lease(
    engine: Engine, clock: ManualClock, losses: int
) -> None:
    """The decision saw the lease as over; the store, at the commit, sees it renewed."""
    ident, handle = await running(engine)
    snapshot = await engine.parts.core.snapshots.load(ident)
    assert snapshot.execution is not None
    late = structs.replace(
        snapshot,
        now_ms=clock() + 40_000,
        execution=structs.replace(snapshot.execution, lease_reclaim_count=losses),
    )
    decision = reclaim.claim_from_resume_grant(
        late, token(ident, clock), lease_id=other_uuid(), attempt_id=other_uuid()
    )
    assert isinstance(await engine.store.commit(decision.plan), Refused)  # type: ignore[union-attr]
    await engine.complete(handle)


async def test_the_clock_of_a_snapshot_is_never_ahead_of_its_rows(
    sqlite: SqliteBackend, clock: ManualClock
) -> None:
    ident = await create(sqlite)
    real = sqlite.store.read

    async def slow(work: Any) -> Any:
        rows = await real(work)
        clock.advance(1_000)
        return rows

    sqlite.store.read = slow  # type: ignore[method-assign]
    began = clock()
    assert (await sqlite.parts.core.snapshots.load(ident)).now_ms == began


async def test_a_revoke_ends_only_the_lease_it_read_first(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await running(engine)
    snapshots = engine.parts.core.snapshots
    real = snapshots.load
    met: list[int] = []

    async def moving(*said: Any, **more: Any) -> Any:
        snapshot = await real(*said, **more)
        if not met:
            met.append(1)
            assert isinstance(
                await engine.store.commit((expiry.revoke(snapshot, asked(ident), "x")).plan),
                Applied,
            )  # type: ignore[union-attr]
            assert await engine.claim(LANE, (), worker(2)) is not None
        return snapshot

    snapshots.load = moving  # type: ignore[method-assign]
    assert await engine.revoke_lease(asked(ident)) == AlreadySatisfied("epoch_moved")
    snapshots.load = real  # type: ignore[method-assign]
    assert await state(engine, ident) == "RUNNING"


def asked(ident: Any) -> RevokeLeaseArgs:
    return RevokeLeaseArgs(execution_id=ident)


async def test_a_lease_mark_is_no_credential(engine: Engine) -> None:
    ident, handle = await running(engine)
    seen = await engine.describe_execution(ident)
    assert (
        seen is not None
        and seen.current_lease is not None
        and seen.current_lease.lease_id is not None
    )
    mark = seen.current_lease.lease_id
    assert mark != fields(handle).lease_id
    await refused(engine.renew(forged(handle, lease_id=mark)), ContentionKind.LEASE_CONFLICT)
    assert (
        await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident, expected_lease_id=mark))
    ).lease_epoch == "2"  # type: ignore[union-attr]


async def test_a_handle_with_another_worker_is_refused(
    engine: Engine,
) -> None:
    events = await engine.subscribe_lease_history(b"\x02" + bytes(8))
    _, handle = await running(engine)
    await refused(
        engine.renew(forged(handle, worker_instance_id="x" * 200)), ContentionKind.LEASE_CONFLICT
    )
    await engine.renew(handle)
    assert [(await anext(events)).worker_instance_id for _ in range(2)] == ["w1-i1", "w1-i1"]


async def test_a_text_lease_id_is_refused_without_being_repeated(engine: Engine) -> None:
    secret = str(other_uuid())
    error = await invalid(
        engine.claim_execution(claiming(await create(engine), secret)), "lease_id"
    )
    assert secret not in str(error)


def claiming(ident: Any, lease_id: Any) -> Any:
    return ClaimExecutionArgs(
        execution_id=ident, worker_id="w", worker_instance_id="i", lease_ttl_ms=9, lease_id=lease_id
    )


async def test_a_claim_cancelled_while_queued_takes_nothing(sqlite: SqliteBackend) -> None:
    ident = await create(sqlite)
    gate = threading.Event()
    blocker = sqlite.store.writer.submit(Execute(lambda db: gate.wait(5)))
    task = asyncio.create_task(sqlite.claim(LANE, (), worker()))
    await asyncio.sleep(0)
    task.cancel()
    gate.set()
    await blocker
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await state(sqlite, ident) == "READY"


async def test_a_subscription_starts_at_its_call(engine: Engine) -> None:
    _, handle = await running(engine)
    events = engine.subscribe_completion()
    await engine.complete(handle)
    assert (await asyncio.wait_for(anext(events), 5)).outcome == "Success"


async def test_an_unreadable_event_is_skipped(sqlite: SqliteBackend) -> None:
    events = await sqlite.subscribe_completion()
    _, first = await running(sqlite)
    await sqlite.complete(first)
    ident, _ = await running(sqlite)
    await sqlite.cancel_execution(cancelling(ident))
    assert [(await anext(events)).outcome for _ in range(2)] == ["Success", "Cancelled"]
    operations = await sqlite.subscribe_operator_events(b"\x02" + bytes(8))
    for priority in (1, 2):
        waiting = await create(sqlite)
        await sqlite.change_priority(prioritising(waiting, priority))
    await sqlite.store.execute_for_test(
        "UPDATE ff_operator_event SET details = '{' WHERE event_id = 1"
    )
    assert (await anext(operations)).details["new_priority"] == 2


def cancelling(ident: Any) -> Any:
    return CancelExecutionArgs(execution_id=ident)


def prioritising(ident: Any, priority: int) -> Any:
    return ChangePriorityArgs(execution_id=ident, new_priority=priority)


async def test_a_known_id_is_a_duplicate_even_with_a_bad_policy(engine: Engine) -> None:
    ident = await create(engine)
    bad = CreateExecutionArgs(execution_id=ident, lane_id=LANE, policy="nonsense")
    assert await engine.create_execution(bad) == Duplicate(ident)
    await invalid_policy(
        engine.create_execution(CreateExecutionArgs(execution_id=new_id(), policy="nonsense"))
    )


async def invalid_policy(call: Any) -> None:
    with pytest.raises(EngineError, match="invalid_policy_json"):
        await call


async def test_empty_progress_still_checks_the_fence(engine: Engine) -> None:
    _, handle = await running(engine)
    await engine.progress(handle)
    await refused(engine.progress(forged(handle, lease_epoch=9)), ContentionKind.LEASE_CONFLICT)


async def test_many_completions_answer_one_by_one(engine: Engine) -> None:
    (_, first), (_, second) = await running(engine), await running(engine)
    broken = structs.replace(first, opaque=first.opaque[:-1])
    answers = await engine.complete_many(
        [(first, b"1"), (broken, b"2"), (second, b"3"), (second, "text")]
    )  # type: ignore[list-item]
    assert [getattr(a, "code", None) for a in answers] == [
        None,
        "corruption",
        None,
        "invalid_input",
    ]


# ---- opening and closing


async def test_closing_twice_leaves_the_other_engine_alone(tmp_path: Path) -> None:
    first, second = [await SqliteBackend.new(str(tmp_path / "ff.db"), dev=True) for _ in range(2)]
    await first.close()
    await first.close()
    await create(second)
    await second.close()


async def test_loops_outlive_the_engine_that_started_them(tmp_path: Path) -> None:
    first, second = [await SqliteBackend.new(str(tmp_path / "ff.db"), dev=True) for _ in range(2)]
    assert (first.with_scanners(), second.with_scanners()) == (True, False)
    await first.close()
    await create(second, delay_until=await second.server_time_ms() + 30)
    assert await second.claim(LANE, (), ClaimPolicy("w", "i", 1_000, max_wait_ms=5_000)) is not None
    await second.close()


@pytest.mark.parametrize("url", ["memory://", "sqlite://:memory:"])
async def test_connect_runs_the_loops_by_default(url: str) -> None:
    async with await connect(url, dev=True) as engine:
        await create(engine, delay_until=await engine.server_time_ms() + 20)
        assert (
            await engine.claim(LANE, (), ClaimPolicy("w", "i", 1_000, max_wait_ms=5_000))
            is not None
        )


async def test_other_settings_for_an_open_database_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "ff.db")
    first = await SqliteBackend.new(path, dev=True, synchronous="NORMAL")
    with pytest.raises(ConfigError, match="synchronous"):
        await SqliteBackend.new(path, dev=True, synchronous="FULL")
    await first.close()


async def test_a_closed_memory_engine_raises_and_ends_its_subscriptions() -> None:
    engine = memory_engine()
    events = await engine.subscribe_completion()
    waiting = asyncio.create_task(anext(events))  # type: ignore[arg-type]
    await parked(engine, "ff_completion_event")
    await engine.close()
    with pytest.raises(EngineError):
        await waiting
    with pytest.raises(TransportError):
        await create(engine)


class Failing:
    """A cursor whose disk fails for some statements."""

    def __init__(self, real: Any, *words: str) -> None:
        self._real, self._words = real, words

    def execute(self, sql: str, *said: Any) -> Any:
        if sql.startswith(self._words):
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = 10
            raise error
        return self._real.execute(sql, *said)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


async def test_a_disk_error_reaches_every_caller_and_the_thread_continues(
    sqlite: SqliteBackend,
) -> None:
    writer: Any = sqlite.store.writer
    statements = ("COMMIT", "ROLLBACK", "PRAGMA data_version")
    writer.group_commit.replace_cursor(lambda cursor: Failing(cursor, *statements))
    writer.check_other_processes()
    for _ in range(2):
        with pytest.raises(TransportError, match="writing stopped"):
            await asyncio.wait_for(create(sqlite), 5)


# ---- wake-ups


def test_an_unknown_change_wakes_waiters_but_no_timer() -> None:
    hub, rung = Wakeups(), []
    hub.plan("delayed", 1_000)
    hub.waiters = {("delayed", None): set(), ("ready", "a"): set(), ("ff_lease_event", None): set()}
    hub.ring = rung.extend  # type: ignore[method-assign,assignment]
    hub.ring_all_but_timers()
    assert sorted(topic for topic, _ in rung) == ["ff_lease_event", "ready"]


def test_a_due_time_announced_during_a_pass_is_kept() -> None:
    hub = Wakeups()
    hub.plan("delayed", 1_000)
    hub.listen("delayed")
    hub.due("delayed", 1_500)
    assert hub.plan("delayed", 9_000) == 1_500
    assert hub.plan("delayed", 9_000) == 9_000


async def test_a_claim_waiting_behind_a_grant_is_woken_when_it_lapses(tmp_path: Path) -> None:
    engine = await SqliteBackend.new(str(tmp_path / "ff.db"), dev=True, settings=Settings())
    engine.with_scanners(LoopSettings())
    ident = await create(engine)
    await engine.issue_claim_grant(grant_args(ident, number=2, ttl_ms=60))
    handle = await asyncio.wait_for(
        engine.claim(LANE, (), ClaimPolicy("w1", "i", 1_000, max_wait_ms=4_000)), 4
    )
    assert handle is not None and await engine.read_execution_state(ident) is PublicState.ACTIVE
    await engine.close()
