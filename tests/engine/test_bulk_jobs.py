"""Bulk jobs: pages and cursors, filters that are checked again, and what meets a job."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec import structs

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.bulk import bulk_actions
from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, TransportError
from flowfabric.ids import ExecutionId
from flowfabric.loops import bulk
from flowfabric.loops.bulk import BulkActions
from flowfabric.model.attempt import FailureClass
from flowfabric.model.bulk import BulkAction, BulkArgs, BulkJob, BulkState
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.search import ExecutionFilter
from flowfabric.rules.bulk.jobs import KEPT_MS
from flowfabric.testing import ManualClock

from .bulk_helpers import asked, before_commits, counts, done, operations, sound
from .flow_helpers import change_row
from .helpers import (
    claim,
    completed,
    create,
    dump,
    invalid,
    outbox,
    running,
    state,
    stored,
    told,
    worker,
)
from .limit_helpers import several, table

PAGE = 3


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "PAGE_SIZE", PAGE)
    monkeypatch.setattr(bulk_actions, "PAGE_SIZES", {})


async def test_a_job_runs_page_by_page_from_the_oldest(engine: Engine, clock: ManualClock) -> None:
    made = []
    for _ in range(8):
        made.append(await create(engine))
        clock.advance(1)
    job = await engine.start_bulk(asked("cancel"))
    assert (job.state, job.matched, job.ended_at) == (BulkState.RUNNING, 0, None)
    job = await engine.run_bulk(job.job_id)
    assert counts(job) == (PAGE, PAGE, 0, 0)
    assert [await state(engine, each) for each in made] == (
        ["ENDED(cancelled)"] * PAGE + ["READY"] * (8 - PAGE)
    )
    job = await engine.run_bulk(job.job_id, 10)
    assert (job.state, *counts(job)) == (BulkState.COMPLETED, 8, 8, 0, 0)
    assert job.ended_at == clock()
    assert await engine.run_bulk(job.job_id, 10) == job
    assert await engine.read_bulk(job.job_id) == job


async def test_executions_created_after_the_job_are_left_alone(
    engine: Engine, clock: ManualClock
) -> None:
    await several(engine, 2)
    job = await engine.start_bulk(asked("cancel"))
    clock.advance(1)
    later = await create(engine)
    assert counts(await engine.run_bulk(job.job_id, 5)) == (2, 2, 0, 0)
    assert await state(engine, later) == "READY"


async def test_a_filter_narrows_the_job(engine: Engine, clock: ManualClock) -> None:
    chosen = await create(engine, lane_id="a", tags={"customer": "7"}, execution_kind="mail")
    others = [
        await create(engine, lane_id="a", tags={"customer": "8"}, execution_kind="mail"),
        await create(engine, lane_id="b", tags={"customer": "7"}, execution_kind="mail"),
        await create(engine, lane_id="a", tags={"customer": "7"}, execution_kind="other"),
    ]
    where = {"lane": "a", "tag": "customer=7", "task": "mail", "created_before": clock() + 1}
    assert counts(await done(engine, asked("cancel", where=where))) == (1, 1, 0, 0)
    assert await state(engine, chosen) == "ENDED(cancelled)"
    assert {await state(engine, each) for each in others} == {"READY"}


async def test_an_execution_that_no_longer_matches_is_skipped(engine: Engine) -> None:
    first, second = await several(engine, 2)
    before_commits(engine, lambda: engine.cancel_execution(CancelExecutionArgs(execution_id=first)))
    job = await done(engine, asked("cancel"))
    assert counts(job) == (2, 1, 1, 0)
    assert (await told(engine, first))["OPER"] == []
    assert (await told(engine, second))["OPER"] == ["cancelled"]
    await sound(engine)


async def test_an_execution_that_changes_and_still_matches_is_changed_once(
    engine: Engine,
) -> None:
    idents = await several(engine, 3)
    before_commits(engine, lambda: engine.set_execution_tag(idents[1], "a.b", "c"), times=2)
    assert counts(await done(engine, asked("cancel"))) == (3, 3, 0, 0)
    assert (await told(engine, idents[1]))["OPER"] == ["cancelled"]


async def test_an_execution_that_keeps_changing_is_refused_and_the_others_are_changed(
    engine: Engine,
) -> None:
    idents = await several(engine, 3)
    restless = idents[0]
    before_commits(engine, lambda: engine.set_execution_tag(restless, "a.b", "c"), times=10)
    job = await done(engine, asked("cancel"))
    assert counts(job) == (3, 2, 0, 1)
    assert job.errors == (f"{restless}: the execution kept changing",)
    assert await state(engine, restless) == "READY"


async def test_an_execution_that_is_claimed_meanwhile_is_cancelled_under_its_lease(
    engine: Engine,
) -> None:
    (ident,) = await several(engine, 1)
    before_commits(engine, lambda: claim(engine))
    assert counts(await done(engine, asked("cancel"))) == (1, 1, 0, 0)
    events = await told(engine, ident)
    assert (events["DONE"], events["LEASE"]) == (["cancelled"], ["acquired", "revoked"])


async def test_retention_removes_executions_during_a_job(
    engine: Engine, clock: ManualClock
) -> None:
    for _ in range(4):
        await completed(engine)
    before_commits(engine, lambda: engine.trim_retention("default", 0, batch=2))
    job = await done(engine, asked("replay"))
    assert counts(job) == (4, 2, 2, 0)
    assert len((await dump(engine))["ff_exec_core"]) == 2


async def test_two_jobs_at_once_change_each_execution_once(engine: Engine) -> None:
    idents = await several(engine, 10)
    one, other = [await engine.start_bulk(asked("cancel")) for _ in range(2)]
    await asyncio.gather(*(engine.run_bulk(job.job_id, 50) for job in (one, other)))
    found = [await engine.read_bulk(job.job_id) for job in (one, other)]
    assert sum(job.changed for job in found if job) == 10
    assert all(job and job.state is BulkState.COMPLETED for job in found)
    for ident in idents:
        assert (await told(engine, ident))["OPER"] == ["cancelled"]
    await sound(engine)


async def test_two_processes_may_run_one_job(engine: Engine) -> None:
    idents = await several(engine, 10)
    job = await engine.start_bulk(asked("cancel"))
    await asyncio.gather(*(engine.run_bulk(job.job_id, 50) for _ in range(3)))
    found = await engine.run_bulk(job.job_id, 50)
    assert (found.state, *counts(found)) == (BulkState.COMPLETED, 10, 10, 0, 0)
    for ident in idents:
        assert (await told(engine, ident))["OPER"] == ["cancelled"]


async def test_a_stopped_job_commits_no_further_page(engine: Engine) -> None:
    await several(engine, 8)
    job = await engine.start_bulk(asked("cancel"))
    await engine.run_bulk(job.job_id)
    stopped = await engine.stop_bulk(job.job_id)
    assert (stopped.state, stopped.changed) == (BulkState.STOPPED, PAGE)
    assert await engine.run_bulk(job.job_id, 5) == stopped
    assert await engine.stop_bulk(job.job_id) == stopped


async def test_a_page_in_flight_is_refused_by_a_stop(engine: Engine) -> None:
    idents = await several(engine, 2)
    job = await engine.start_bulk(asked("cancel"))
    before_commits(engine, lambda: engine.stop_bulk(job.job_id))
    found = await engine.run_bulk(job.job_id, 5)
    assert (found.state, found.changed) == (BulkState.STOPPED, 0)
    assert {await state(engine, each) for each in idents} == {"READY"}


async def test_a_replayed_execution_that_ends_again_is_replayed_once(engine: Engine) -> None:
    for _ in range(5):
        _, handle = await running(engine)
        await engine.fail(handle, "boom", FailureClass.PERMANENT)
    job = await engine.start_bulk(asked("retry"))
    for _ in range(4):
        await engine.run_bulk(job.job_id)
        for work in await engine.claim_many("default", (), worker(), 10):
            await engine.fail(work.handle, "again", FailureClass.PERMANENT)
    found = await engine.read_bulk(job.job_id)
    assert found is not None
    assert (found.state, *counts(found)) == (BulkState.COMPLETED, 5, 5, 0, 0)
    assert {each["replay_count"] for each in await table(engine, "ff_exec_core")} == {1}


async def test_namespaces_are_kept_apart(engine: Engine) -> None:
    mine = await create(engine, namespace="mine")
    other = await create(engine, namespace="other")
    job = await done(engine, asked("cancel", where={"namespace": "mine"}))
    assert counts(job) == (1, 1, 0, 0)
    assert await state(engine, mine) == "ENDED(cancelled)"
    assert await state(engine, other) == "READY"
    listed = await engine.list_bulk("mine")
    assert [each.job_id for each in listed.items] == [job.job_id]
    assert (await engine.list_bulk("other")).items == []


async def test_jobs_are_listed_newest_first_in_pages(engine: Engine, clock: ManualClock) -> None:
    made = []
    for _ in range(5):
        made.append((await engine.start_bulk(asked("cancel"))).job_id)
        clock.advance(1)
    page = await engine.list_bulk(limit=2)
    found = [each.job_id for each in page.items]
    while page.next_cursor is not None:
        page = await engine.list_bulk(limit=2, cursor=page.next_cursor)
        found += [each.job_id for each in page.items]
    assert found == made[::-1]
    assert (await engine.list_bulk(limit=0)).items == []


async def test_ended_jobs_are_forgotten_with_the_events_of_what_they_deleted(
    engine: Engine, clock: ManualClock
) -> None:
    await completed(engine)
    job = await done(engine, asked("delete"))
    events = await outbox(engine, "ff_operator_event")
    assert [event["event_type"] for event in events] == ["deleted"]
    clock.advance(KEPT_MS - 1)
    assert await engine.forget_bulk_jobs() == 0
    clock.advance(1)
    assert await engine.forget_bulk_jobs() == 1
    assert await engine.read_bulk(job.job_id) is None
    assert await outbox(engine, "ff_operator_event") == []


async def test_a_running_job_is_not_forgotten(engine: Engine, clock: ManualClock) -> None:
    job = await engine.start_bulk(asked("cancel"))
    clock.advance(2 * KEPT_MS)
    assert await engine.forget_bulk_jobs() == 0
    assert await engine.read_bulk(job.job_id) == job


async def test_the_loop_runs_all_jobs_to_their_end(engine: Engine) -> None:
    await several(engine, 10)
    jobs = [await engine.start_bulk(asked("cancel")) for _ in range(2)]
    loop = BulkActions(LoopSettings())
    assert await loop.next_due(engine) is not None
    assert await loop.run(engine) > 0
    found = [await engine.read_bulk(job.job_id) for job in jobs]
    assert [job.state for job in found if job] == [BulkState.COMPLETED] * 2
    assert sum(job.changed for job in found if job) == 10
    assert await loop.next_due(engine) is None


async def test_the_loop_leaves_a_job_whose_page_fails_to_the_next_cycle(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other job is not held up."""
    await create(engine, namespace="a")
    await create(engine, namespace="b")
    broken, good = [
        await engine.start_bulk(asked("cancel", where={"namespace": name})) for name in "ab"
    ]
    run = engine.run_bulk

    async def failing(job_id: UUID, pages: int = 1) -> BulkJob:
        if job_id == broken.job_id:
            raise TransportError("test", "the store does not answer")
        return await run(job_id, pages)

    monkeypatch.setattr(engine, "run_bulk", failing)
    loop = BulkActions(LoopSettings())
    assert await loop.run(engine) == 1
    assert (await loop.next_due(engine) or 0) <= await engine.store.now_ms()
    found = [await engine.read_bulk(job.job_id) for job in (broken, good)]
    assert [job.state for job in found if job] == [BulkState.RUNNING, BulkState.COMPLETED]


async def test_the_loop_continues_at_once_after_its_rounds(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MAX_ROUNDS", 1)
    await several(engine, 2 * PAGE)
    job = await engine.start_bulk(asked("cancel"))
    loop = BulkActions(LoopSettings())
    assert (await loop.next_due(engine) or 0) <= await engine.store.now_ms()
    assert await loop.run(engine) == 1
    assert (await loop.next_due(engine) or 0) > await engine.store.now_ms()
    assert (await engine.run_bulk(job.job_id)).changed == 2 * PAGE


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"action": "explode"}, "action"),
        ({"action": "priority"}, "priority"),
        ({"action": "move"}, "lane"),
        ({"action": "cancel", "priority": 3}, "priority"),
        ({"action": "cancel", "lane": "x"}, "lane"),
        ({"action": "move", "lane": "\n"}, "lane"),
        ({"action": "cancel", "where": {"state": ("completed",)}}, "where.state"),
        ({"action": "retry", "where": {"state": ("waiting",)}}, "where.state"),
        ({"action": "cancel", "where": {"error": ""}}, "error"),
        ({"action": "cancel", "reason": "x" * 5_000}, "reason"),
        ({"action": "cancel", "requested_by": "\0"}, "requested_by"),
    ],
)
async def test_invalid_arguments_store_no_job(
    engine: Engine, changes: dict[str, Any], text: str
) -> None:
    given = dict(changes)
    where = ExecutionFilter(**given.pop("where", {}))
    args = structs.replace(BulkArgs(action=BulkAction.CANCEL, where=where), **given)
    await invalid(engine.start_bulk(args), text)
    assert (await dump(engine))["ff_bulk_job"] == []


async def test_unknown_jobs(engine: Engine) -> None:
    assert await engine.read_bulk(uuid4()) is None
    for call in (engine.stop_bulk, engine.run_bulk):
        with pytest.raises(NotFound, match="bulk_job"):
            await call(uuid4())


async def test_an_unreadable_row_is_refused_and_the_others_are_changed(engine: Engine) -> None:
    broken, good = await several(engine, 2)
    await engine.cancel_execution(CancelExecutionArgs(execution_id=broken))
    await engine.cancel_execution(CancelExecutionArgs(execution_id=good))
    key = {"partition_key": broken.partition_index, "execution_id": broken.uuid}
    await change_row(engine, "ff_exec_core", key, raw_fields='["not", "fields"]')
    job = await done(engine, asked("replay"))
    assert counts(job) == (2, 1, 0, 1)
    assert "raw_fields cannot be read" in job.errors[0]
    assert await state(engine, good) == "READY"


async def test_a_deleted_execution_leaves_its_key_until_the_key_expires(
    engine: Engine, clock: ManualClock
) -> None:
    ident: ExecutionId = await create(engine, idempotency_key="k")
    await engine.cancel_execution(CancelExecutionArgs(execution_id=ident))
    await done(engine, asked("delete"))
    assert await stored(engine, ident) is None
    await sound(engine)


async def test_the_event_of_a_release_names_what_held_the_execution(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine, delay_until=clock() + 1_000)
    await done(engine, asked("release"))
    ((kind, details),) = await operations(engine, ident)
    assert (kind, details["held"]) == ("released", "waiting_for_delay")
    assert details["delay_until_ms"] == clock() + 1_000
    assert (await engine.history(ident)).items[-1].what == "released"
