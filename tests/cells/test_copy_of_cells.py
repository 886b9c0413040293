"""Copies to, from and between deployments whose namespaces are cells."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from flowfabric.codec.event_cursor import BEGINNING, encode_cursor
from flowfabric.connect import connect_store, index_faults, read_tables
from flowfabric.connect.transfer import copy_database, open_destination, open_source, pairs_of
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import ConfigError, Unavailable, ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.bulk import BulkAction, BulkArgs, BulkState
from flowfabric.model.event import Channel, ScannerFilter
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.search import ExecutionFilter
from flowfabric.plan import Answer, Plan
from flowfabric.store import transfer
from flowfabric.store.schema import TABLES
from flowfabric.store.transfer import Step
from flowfabric.store.valkey import cell_rows
from flowfabric.store.valkey.cell_rows import CellRows
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.lua_schema import TABLE_CODES
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.store.valkey.transfer import ValkeySide
from flowfabric.verify.invariants import CHECKS
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of
from tests.cells.helpers import claim, create, new_url, opened, policy
from tests.patience import patience
from tests.store.copying import fill, some_rows

SPACES = ("ann", "bob", "default")
KEY = "ab" * 32
PATIENCE_S = 60.0
Made = dict[str, list[ExecutionId]]


def ignored(_: Step) -> None:
    """A report that is not looked at."""


async def work_in(engine: LocalEngineProtocol) -> Made:
    """In each namespace: two executions that have ended, one that waits, and a paused lane."""
    await engine.seed_waitpoint_hmac_secret("k1", KEY)
    made = {space: await create(engine, space, 3) for space in SPACES}
    for space in SPACES:
        for work in await claim(engine, space, 2):
            await engine.complete(work.handle, space.encode())
    await engine.pause_lane("closed")
    return made


async def check(url: str, made: Made) -> None:
    """Everything is found by namespace and without, holds, and goes on."""
    snapshot = snapshot_of(await asyncio.to_thread(read_tables, url, TABLES_READ))
    assert [each for found in CHECKS.values() for each in found(snapshot)] == []
    assert not await asyncio.to_thread(index_faults, url)
    engine = await connect_store(url, dev=True, loops=False)
    try:
        for space, idents in made.items():
            found = await engine.find_executions(ExecutionFilter(namespace=space))
            assert {each.id.uuid for each in found.items} == {each.uuid for each in idents}
            ended = [each for each in idents if await engine.get_execution_result(each)]
            assert {await engine.get_execution_result(each) for each in ended} == {space.encode()}
            (work,) = await claim(engine, space, 5)
            assert work.execution_id in idents
            await engine.complete(work.handle, b"later")
            late = CreateExecutionArgs(
                execution_id=ExecutionId.solo("closed"), lane_id="closed", namespace=space
            )
            await engine.create_execution(late)
            assert await engine.claim_many("closed", (), policy(space), 1) == []
        assert (await engine.list_waitpoint_hmac_kids()).current_kid == "k1"
    finally:
        await engine.close()


@pytest.mark.parametrize("kind", ["sqlite", "valkey"])
async def test_every_namespace_goes_to_its_cell(kind: str, tmp_path: Path) -> None:
    source = new_url() if kind == "valkey" else f"sqlite:///{tmp_path}/from.db"
    url = new_url()
    engine = await connect_store(source, dev=True, loops=False)
    made = await work_in(engine)
    cursors = {space: await after_first_end(engine, space) for space in SPACES}
    await engine.close()
    await copy_database(source, url, ignored)
    async with opened(url) as engine:
        assert await engine.cells.names() == sorted(SPACES)
        for space in SPACES:
            tables = await engine.cells.cell(space).store.dump(TABLES)
            assert {
                row[TABLES["ff_exec_core"].names.index("execution_id")]
                for row in tables["ff_exec_core"]
            } == {each.uuid for each in made[space]}
            assert len(tables["ff_attempt"]) == len(tables["ff_completion_event"]) == 2
            assert len(tables["ff_waitpoint_hmac"]) == 1
            wanted = ScannerFilter(namespace=space)
            page = await engine.read_events(Channel.COMPLETIONS, cursors[space], wanted=wanted)
            assert len(page.completions) == 1
            assert not page.trimmed
    await check(url, made)
    async with opened(url) as engine:
        for space in SPACES:
            tables = await engine.cells.cell(space).store.dump(["ff_completion_event"])
            numbers = [row[0] for row in tables["ff_completion_event"]]
            assert len(set(numbers)) == 3, space


async def after_first_end(engine: LocalEngineProtocol, space: str) -> bytes:
    page = await engine.read_events(
        Channel.COMPLETIONS, BEGINNING, 1, wanted=ScannerFilter(namespace=space)
    )
    return page.completions[0].cursor


async def test_cells_are_gathered_into_one_database(tmp_path: Path) -> None:
    source, url, back = new_url(), f"sqlite:///{tmp_path}/to.db", new_url()
    async with opened(source) as engine:
        made = await work_in(engine)
        end = (await engine.read_events(Channel.COMPLETIONS)).cursor
        await engine.start_bulk(BulkArgs(action=BulkAction.CANCEL, where=ExecutionFilter(lane="x")))
    with pytest.raises(ConfigError, match="runs over all namespaces"):
        await copy_database(source, url, ignored)
    async with opened(source) as engine:
        (job,) = (await engine.list_bulk()).items
        await engine.stop_bulk(job.job_id)
    await copy_database(source, url, ignored)
    one = await connect_store(url, dev=True, loops=False)
    page = await one.read_events(Channel.COMPLETIONS, encode_cursor(1))
    assert page.trimmed
    assert [each.at for each in page.completions] == sorted(each.at for each in page.completions)
    assert len(page.completions) == 6
    assert [each.state for each in (await one.list_bulk()).items] == [BulkState.STOPPED]
    with pytest.raises(ValidationError, match="cursor: not an event cursor"):
        await one.read_events(Channel.COMPLETIONS, end)
    await one.close()
    await copy_database(url, back, ignored)
    await check(url, made)
    await check(back, made)


async def test_an_id_of_two_namespaces_is_not_gathered(tmp_path: Path) -> None:
    source, url = new_url(), f"sqlite:///{tmp_path}/to.db"
    ident = ExecutionId.solo("default")
    async with opened(source) as engine:
        for space in ("ann", "bob"):
            cell = await engine.cells.registered(space)
            await cell.create_execution(
                CreateExecutionArgs(execution_id=ident, lane_id="default", namespace=space)
            )
    with pytest.raises(ConfigError, match=r"ff_exec_core: .* in the cells of two namespaces"):
        await copy_database(source, url, ignored)


async def test_a_copy_to_cells_that_is_killed_continues(tmp_path: Path) -> None:
    source, url = f"sqlite:///{tmp_path}/from.db", new_url()
    engine = await connect_store(source, dev=True, loops=False)
    made = await work_in(engine)
    await engine.close()
    for reports in (2, 5, 30):
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "tests.store.copying_child", source, url, str(reports), "2"],
            cwd=Path(__file__).parents[2],
            timeout=patience(PATIENCE_S),
            check=False,
        )
        assert done.returncode == -9, reports
        with pytest.raises(Unavailable, match="unfinished copy"):
            await connect_store(url, loops=False)
    copied = await copy_database(source, url, ignored)
    assert copied.resumed > 0
    async with open_source(source) as one, open_destination(url) as other:
        assert await transfer.differences(await pairs_of(one, other), ignored) == []
        table = TABLES["ff_exec_core"]
        assert await other.count(table) == await one.count(table) == 9
    await check(url, made)


async def test_a_bulk_job_over_all_namespaces_goes_on_in_every_cell(tmp_path: Path) -> None:
    source, url = f"sqlite:///{tmp_path}/from.db", new_url()
    engine = await connect_store(source, dev=True, loops=False)
    made = [each for space in SPACES for each in await create(engine, space, 2)]
    cancel = BulkArgs(action=BulkAction.CANCEL, where=ExecutionFilter(), reason="r")
    job = await engine.start_bulk(cancel)
    await engine.close()
    await copy_database(source, url, ignored)
    async with opened(url) as cells:
        while (done := await cells.run_bulk(job.job_id)).state is BulkState.RUNNING:
            pass
        assert (done.matched, done.changed, done.errors) == (6, 6, ())
        assert {await cells.read_execution_state(each) for each in made} == {"cancelled"}


async def test_a_copy_that_stops_between_cells_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stops within a page, of which one cell has its part and the next has not."""
    monkeypatch.setattr(transfer, "PAGE_ROWS", 6)
    monkeypatch.setattr(cell_rows, "WRITTEN_ROWS", 1)
    source, url = f"sqlite:///{tmp_path}/from.db", new_url()
    await fill(source, 7)
    commit, left = ValkeyStore.commit_together, 0

    async def commit_some(store: ValkeyStore, plans: Sequence[Plan]) -> Answer:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return await commit(store, plans)

    monkeypatch.setattr(ValkeyStore, "commit_together", commit_some)
    resumed = list[int]()
    while True:
        left = 31
        try:
            copied = await copy_database(source, url, ignored)
        except KeyboardInterrupt:
            resumed.append(left)
            continue
        break
    assert len(resumed) > 9
    assert copied.resumed + copied.rows == 7 * len(TABLES)


async def test_a_cell_that_is_found_late_has_what_every_cell_has(tmp_path: Path) -> None:
    """Its only row is behind the lanes in the order of the tables."""
    source, url = f"sqlite:///{tmp_path}/from.db", new_url()
    async with open_destination(source) as side:
        for name, space in (("ff_lane_registry", "ann"), ("ff_schedule", "late")):
            await side.write(TABLES[name], some_rows(TABLES[name], 3, (space,)))
    await copy_database(source, url, ignored)
    async with opened(url) as engine:
        assert await engine.cells.names() == ["default", "late"]
        found = await engine.cells.cell("late").store.dump(["ff_lane_registry", "ff_schedule"])
        assert {name: len(rows) for name, rows in found.items()} == {
            "ff_lane_registry": 3,
            "ff_schedule": 3,
        }


async def test_a_cell_that_lacks_rows_is_noticed(tmp_path: Path) -> None:
    """Also a row that every cell has."""
    source, url = f"sqlite:///{tmp_path}/from.db", new_url()
    async with open_destination(source) as side:
        for table in TABLES.values():
            await side.write(table, some_rows(table, 3))
    await copy_database(source, url, ignored)
    async with open_source(source) as one, open_destination(url) as other:
        assert isinstance(other, ValkeySide)
        for name in ("ff_exec_core", "ff_lane_registry"):
            await removed(other.cells["ann"], name)
        found = await transfer.differences([(one, other)], ignored)
        assert [each.split(", ")[0] for each in found] == [
            "ff_exec_core (3 rows",
            "ff_lane_registry (3 rows",
        ]


async def removed(cell: CellRows, name: str) -> None:
    key = cell.key(TABLE_CODES[name])
    last = await cell.last(TABLES[name])
    assert last is not None
    connection = await Connection.open(cell.options)
    await connection.command("ZREM", key, last)
    await connection.close()
