"""Namespaces as cells of one Valkey server: what one caller sees over all of them."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from flowfabric import App, Worker
from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.connect import read_tables
from flowfabric.engine.cells import inherited, pool
from flowfabric.engine.cells.cells_engine import CellsEngine
from flowfabric.errors import NotFound, Unavailable, ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.budget import UsageDimensions
from flowfabric.model.bulk import BulkAction, BulkArgs, BulkState
from flowfabric.model.event import Channel, ScannerFilter
from flowfabric.model.execution import CancelExecutionArgs, CreateExecutionArgs, Page
from flowfabric.model.flow import AddExecutionToFlowArgs, CreateFlowArgs
from flowfabric.model.search import ExecutionFilter
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of
from tests.cells.helpers import LANE, claim, create, new_url, opened, policy
from tests.engine.budget_helpers import budget
from tests.patience import patient

SECRET = "5b" * 32


async def found(engine: CellsEngine, **where: Any) -> list[str]:
    page = await engine.find_executions(ExecutionFilter(**where))
    return [each.namespace for each in page.items]


# ---- isolation, and one view of all


async def test_two_apps_on_one_server_have_cells_of_their_own() -> None:
    url, done = new_url(), dict[str, list[int]]()

    def app_of(namespace: str) -> App:
        app = App(url, namespace=namespace)

        @app.task(name="note")
        async def note(n: int) -> str:
            done.setdefault(namespace, []).append(n)
            return f"{namespace} {n}"

        return app

    apps = [app_of(each) for each in ("ann", "bob", "default")]
    runs = [await app.tasks["note"].submit(n) for n, app in enumerate(apps)]
    async with patient(30):
        for n, (app, run) in enumerate(zip(apps, runs, strict=True)):
            await Worker(app, loops=False).run_until_idle()
            assert await run.result() == f"{app.namespace} {n}"
    assert done == {"ann": [0], "bob": [1], "default": [2]}
    async with opened(url) as engine:
        assert await engine.cells.names() == ["ann", "bob", "default"]
        for name in ("ann", "bob", "default"):
            rows = (await engine.cells.cell(name).store.dump(["ff_exec_core"]))["ff_exec_core"]
            assert len(rows) == 1
    for app in apps:
        await app.close()


async def test_claims_ends_and_searches_stay_in_their_cell() -> None:
    async with opened() as engine, opened(engine.store.options.shown) as other:  # type: ignore[attr-defined]
        (mine,), (theirs,) = await create(engine, "ann"), await create(engine, "bob")
        assert await claim(other, "default", 9) == []
        (work,) = await claim(other, "ann", 9)
        assert work.execution_id == mine
        await engine.complete(work.handle, b"done")
        for each in (engine, other):
            assert await each.read_execution_state(mine) == "completed"
            assert await each.read_execution_state(theirs) == "waiting"
            assert await each.read_execution_state(ExecutionId.solo(LANE)) is None
            assert await each.get_execution_namespaces([mine, theirs]) == {
                mine: "ann",
                theirs: "bob",
            }
        assert await found(engine, namespace="ann") == ["ann"]
        assert await found(engine) == ["bob", "ann"]
        with pytest.raises(NotFound, match="execution"):
            await engine.in_namespace("ann").cancel_execution(
                CancelExecutionArgs(execution_id=theirs, reason="r")
            )


async def test_lists_and_counts_gather_page_by_page(clock: ManualClock) -> None:
    async with opened(clock=clock) as engine:
        made = list[ExecutionId]()
        for name in ("ann", "bob", "default", "ann", "default", "bob", "ann"):
            made += await create(engine, name)
            clock.advance(5)
        for limit in (1, 2, 3, 9):
            pages, cursor = list[ExecutionId](), None
            while True:
                page = await engine.find_executions(ExecutionFilter(), limit, cursor)
                assert len(page.items) <= limit
                pages += [ExecutionId.of(e.partition_key, e.execution_uuid) for e in page.items]
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert pages == made[::-1]
        counted = (await engine.count_executions()).counts
        assert {each.namespace: each.count for each in counted} == {
            "ann": 3,
            "bob": 2,
            "default": 2,
        }
        assert [each.count for each in (await engine.count_executions("bob")).counts] == [2]
        (lane,) = (await engine.read_deployment()).lanes
        assert lane.oldest_ready_ms == 35
        assert [load.states for load in (await engine.census()).lanes] == [{"waiting": 7}]
        assert await engine.resolve_execution(str(made[1].uuid)) == made[1]
        assert (await engine.list_lanes()).items == [LANE]


async def test_ends_of_several_cells_are_answered_in_order() -> None:
    async with opened() as engine:
        for name in ("ann", "bob"):
            await create(engine, name, 2)
        works = [*await claim(engine, "ann", 2), *await claim(engine, "bob", 2)]
        mixed = [works[at] for at in (0, 2, 1, 3)]
        assert await engine.are_held([each.handle for each in mixed]) == [True] * 4
        await engine.cancel(works[2].handle, "r")
        answers = await engine.complete_many([(each.handle, b"x") for each in mixed])
        assert [answer is None for answer in answers] == [True, False, True, True]
        assert await engine.are_held([each.handle for each in mixed]) == [False] * 4


async def test_a_claim_for_all_namespaces_asks_each_in_turn() -> None:
    async with opened() as engine:
        for name in ("ann", "bob"):
            await create(engine, name, 3)
        taken = [await claim(engine, None) for _ in range(4)]
        idents = [each.execution_id for works in taken for each in works]
        spaces = await engine.get_execution_namespaces(idents)
        assert [spaces[ident] for ident in idents] == ["ann", "bob", "ann", "bob"]
        await claim(engine, None, 9)
        waiting = asyncio.create_task(engine.claim_many(LANE, (), policy(None, 20_000), 1))
        await asyncio.sleep(0)
        (late,) = await create(engine, "eve")
        async with patient(30):
            assert [each.execution_id for each in await waiting] == [late]


async def test_events_of_all_cells_are_one_stream() -> None:
    async with opened() as engine:
        await create(engine, "default")
        start = (await engine.read_events(Channel.COMPLETIONS)).cursor
        stream = await engine.subscribe_completion()
        ended = list[ExecutionId]()
        for name in ("default", "ann", "bob"):
            if name != "default":
                await create(engine, name)
            (work,) = await claim(engine, name)
            await engine.complete(work.handle, None)
            ended.append(work.execution_id)
        async with patient(30):
            heard = [await anext(stream) for _ in ended]
        assert [each.execution_id for each in heard] == ended
        page = await engine.read_events(Channel.COMPLETIONS, start, 2)
        rest = await engine.read_events(Channel.COMPLETIONS, page.cursor)
        assert [e.execution_id for e in (*page.completions, *rest.completions)] == ended
        again = engine.subscribe_completion(heard[0].cursor)
        async with patient(30):
            assert [(await anext(again)).execution_id for _ in ended[1:]] == ended[1:]
        own = engine.subscribe_completion(BEGINNING, ScannerFilter("bob"))
        async with patient(30):
            assert (await anext(own)).execution_id == ended[2]
        for each in (stream, again, own):
            each.close()


async def test_too_many_cells_are_not_followed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowfabric.engine.cells.events.MAX_FOLLOWED", 2)
    async with opened() as engine:
        for name in ("ann", "bob"):
            await create(engine, name)
        with pytest.raises(Unavailable, match=r"3 cells.*name a namespace"):
            await engine.read_events(Channel.COMPLETIONS, BEGINNING)
        assert await engine.read_events(Channel.LEASES, BEGINNING, wanted=ScannerFilter("ann"))


async def test_a_bulk_job_over_all_namespaces_is_one_job() -> None:
    async with opened() as engine:
        for name in ("ann", "bob"):
            await create(engine, name, 2)
        args = BulkArgs(action=BulkAction.CANCEL, where=ExecutionFilter(lane=LANE), reason="r")
        job = await engine.start_bulk(args)
        assert await engine.running_bulk_jobs() == [job.job_id]
        done = await engine.run_bulk(job.job_id, 10)
        assert (done.state, done.changed) == (BulkState.COMPLETED, 4)
        assert [each.changed for each in (await engine.list_bulk()).items] == [4]
        assert {each.public_state for each in (await engine.count_executions()).counts} == {
            "cancelled"
        }


async def test_a_namespace_is_erased_and_the_others_stay() -> None:
    url = new_url()
    async with opened(url) as engine:
        for name in ("ann", "bob"):
            await create(engine, name, 3)
        await claim(engine, "ann")
        job = await engine.erase_namespace("ann")
        async with patient(30):
            while job.state is BulkState.RUNNING:
                job = await engine.run_bulk(job.job_id, 10)
        assert await found(engine) == ["bob"] * 3
        rows = await engine.cells.cell("ann").store.dump(["ff_exec_core", "ff_idempotency"])
        assert not any(rows.values())
    tables = await asyncio.to_thread(read_tables, url, TABLES_READ)
    assert len(tables["ff_exec_core"]) == 3
    assert check(snapshot_of(tables)) == []


# ---- what all cells share


async def test_lanes_and_keys_are_those_of_all_cells() -> None:
    url = new_url()
    async with opened(url) as engine, opened(url) as other:
        await engine.seed_waitpoint_hmac_secret("k1", SECRET)
        await create(engine, "ann")
        await engine.pause_lane(LANE)
        assert await claim(engine, "ann") == []
        await create(other, "bob")
        assert await claim(other, "bob") == [], "paused before the cell was there"
        await other.rotate_waitpoint_hmac_secret_all("k2", "6c" * 32, 60_000)
        for name in ("ann", "bob", "default"):
            kids = await engine.cells.cell(name).list_waitpoint_hmac_kids()
            assert kids.current_kid == "k2"
        await other.resume_lane(LANE)
        assert len(await claim(engine, "bob")) == len(await claim(engine, "ann")) == 1


async def test_two_processes_open_a_cell_at_once() -> None:
    url = new_url()
    async with opened(url) as one, opened(url) as other:
        await one.seed_waitpoint_hmac_secret("k1", SECRET)
        await one.pause_lane("night")
        made = await asyncio.gather(*(create(each, "ann", 5) for each in (one, other)))
        assert await one.cells.names() == ["ann", "default"]
        listed = await other.find_executions(ExecutionFilter(namespace="ann"))
        assert len(listed.items) == sum(map(len, made)) == 10
        (lane,) = [await one.cells.cell("ann").read_lane("night")]
        assert lane is not None and lane.state == "paused"


async def test_answers_are_not_mixed_up_while_cells_are_opened() -> None:
    async with opened() as engine:
        (mine,) = await create(engine, "default")
        names = [f"t{n}" for n in range(150)]

        async def use(name: str) -> None:
            for _ in range(5):
                cell = engine.cells.cell(name)
                answers = await asyncio.gather(
                    cell.list_lanes(), cell.read_execution_state(mine), cell.oldest_overdue_ms()
                )
                assert answers == [Page([], None), None, 0]

        async with patient(60):
            await asyncio.gather(*map(use, names))


async def test_a_crash_before_the_first_write_leaves_an_empty_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Crash(Exception):
        pass

    async def crash(*_: object) -> None:
        raise Crash

    url = new_url()
    async with opened(url) as engine:
        await engine.seed_waitpoint_hmac_secret("k1", SECRET)
        with monkeypatch.context() as patched:
            patched.setattr(inherited, "give", crash)
            with pytest.raises(Crash):
                await create(engine, "ann")
    async with opened(url) as engine:
        assert await engine.cells.names() == ["ann", "default"]
        assert await found(engine) == []
        await create(engine, "ann")
        assert (await engine.cells.cell("ann").list_waitpoint_hmac_kids()).current_kid == "k1"
        assert await found(engine) == ["ann"]


async def test_what_is_only_read_is_not_registered() -> None:
    async with opened() as engine:
        assert await claim(engine, "typo") == []
        assert (await engine.count_executions("typo")).counts == []
        assert (await engine.list_workers("typo")).items == []
        assert await engine.cells.names() == ["default"]


async def test_more_cells_than_are_kept_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MAX_OPEN", 3)
    async with opened() as engine:
        names = [f"t{n}" for n in range(8)]
        made = {name: (await create(engine, name))[0] for name in names}
        assert len(engine.cells.opened()) == 4
        for name, ident in made.items():
            assert await engine.get_execution_namespace(ident) == name
        assert sorted(await found(engine)) == names


# ---- what does not span cells


async def test_nothing_spans_two_cells() -> None:
    async with opened() as engine:
        await create(engine, "ann")
        flow = uuid4()
        member = ExecutionId.for_flow(flow)
        await engine.create_execution(CreateExecutionArgs(execution_id=member, namespace="ann"))
        await engine.create_flow(CreateFlowArgs(flow_id=flow, namespace="bob"))
        with pytest.raises(ValidationError, match="execution_not_found"):
            await engine.add_execution_to_flow(
                AddExecutionToFlowArgs(flow_id=flow, execution_id=member)
            )
        assert await engine.flow_members(flow) == []
        theirs = await budget(engine, {"t": 5}, namespace="bob")
        (work,) = await claim(engine, "ann")
        with pytest.raises(NotFound, match="budget"):
            await engine.report_usage(work.handle, theirs, UsageDimensions(custom={"t": 1}))
        with pytest.raises(Unavailable, match="several cells"):
            await engine.release_page(None, 10)
