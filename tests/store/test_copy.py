"""Copies between databases: every table, in both directions, interrupted, refused, verified."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flowfabric.connect import connect_store, read_tables
from flowfabric.connect.transfer import (
    CopyRefused,
    copy_database,
    open_destination,
    open_source,
    pairs_of,
)
from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError, FlowFabricError
from flowfabric.ids import ExecutionId
from flowfabric.model.event import OPERATOR_EVENTS
from flowfabric.model.execution import ChangePriorityArgs, CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.store import transfer
from flowfabric.store.owners import EVERYWHERE
from flowfabric.store.schema import OUTBOXES, TABLES
from flowfabric.store.transfer import Step
from flowfabric.verify.invariants import CHECKS
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of
from tests.patience import patience
from tests.postgres import database
from tests.store.copying import LAST_NUMBER, SPACES, a_value, fill, new_url

DIRECTIONS = [
    ("sqlite", "postgres"),
    ("postgres", "sqlite"),
    ("sqlite", "sqlite"),
    ("sqlite", "valkey"),
    ("valkey", "sqlite"),
    ("postgres", "valkey"),
    ("valkey", "postgres"),
    ("valkey", "valkey"),
]
KINDS = ["sqlite", "postgres", "valkey"]
both_ways = pytest.mark.parametrize(("source", "destination"), DIRECTIONS)
ROWS = 41
PATIENCE_S = 60.0


def ignored(_: Step) -> None:
    """A report that is not looked at."""


async def same(source: str, destination: str) -> bool:
    async with open_source(source) as one, open_destination(destination) as other:
        return await transfer.differences(await pairs_of(one, other), ignored) == []


def spaces(source: str, destination: str) -> Sequence[str]:
    """What Valkey numbers per namespace gets other numbers elsewhere."""
    return ("default",) if source == "valkey" != destination else SPACES


def all_rows(source: str, destination: str, rows: int = ROWS) -> int:
    """Between deployments on Valkey, each cell has its own rows of what all cells have."""
    further = len(SPACES) - 1 if source == destination == "valkey" else 0
    return rows * (len(TABLES) + further * len(EVERYWHERE))


@both_ways
async def test_every_table_is_copied_as_it_is(
    source: str, destination: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "PAGE_ROWS", 7)
    src, dst = new_url(source, "from", tmp_path), new_url(destination, "to", tmp_path)
    await fill(src, ROWS, spaces(source, destination))
    steps: list[Step] = []
    copied = await copy_database(src, dst, steps.append)
    assert (copied.rows, copied.resumed) == (all_rows(source, destination), 0)
    found = [await asyncio.to_thread(read_tables, url, TABLES) for url in (src, dst)]
    for name in TABLES:
        assert set(found[0][name]) == set(found[1][name]), name
        assert len(set(found[0][name])) == ROWS
        if name not in EVERYWHERE:
            assert len(found[1][name]) == ROWS, name
    async with open_destination(dst) as side:
        assert set((await side.numbers()).values()) == {LAST_NUMBER}
    assert [steps[0].done, steps[-1].done] == [0, steps[-1].total]
    assert {step.phase for step in steps} == {"copy", "verify"}


@pytest.mark.sampled(2)
@both_ways
async def test_a_copy_that_is_killed_continues(
    source: str, destination: str, tmp_path: Path
) -> None:
    src, dst = new_url(source, "from", tmp_path), new_url(destination, "to", tmp_path)
    await fill(src, ROWS, spaces(source, destination))
    child = [sys.executable, "-m", "tests.store.copying_child", src, dst]
    for reports in (1, 4, 40, 60):
        done = await asyncio.to_thread(
            subprocess.run,
            [*child, str(reports), "5"],
            cwd=Path(__file__).parents[2],
            timeout=patience(PATIENCE_S),
            check=False,
        )
        assert done.returncode == -9, reports
    other = new_url("sqlite", "other", tmp_path)
    await fill(other, 1)
    with pytest.raises(CopyRefused, match="an unfinished copy of"):
        await copy_database(other, dst, ignored)
    copied = await copy_database(src, dst, ignored)
    assert copied.resumed > 0
    assert copied.rows + copied.resumed == all_rows(source, destination)
    assert await same(src, dst)


async def test_a_copy_that_is_killed_while_it_verifies_continues(tmp_path: Path) -> None:
    src, dst = (new_url("sqlite", name, tmp_path) for name in ("from", "to"))
    await fill(src, 3)

    def stop(step: Step) -> None:
        if step.phase == "verify":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await copy_database(src, dst, stop)
    assert (await copy_database(src, dst, ignored)).rows == 0
    with pytest.raises(CopyRefused, match="has rows of its own in ff_exec_core"):
        await copy_database(src, dst, ignored)


async def test_a_source_that_changes_meanwhile_is_noticed(tmp_path: Path) -> None:
    """Postgres has no lock that would keep clients out."""
    src, dst = database("copy_from"), new_url("sqlite", "to", tmp_path)
    await fill(src, 3)
    changed = False

    def change(step: Step) -> None:
        nonlocal changed
        if step.table == list(TABLES)[-1] and not changed:
            changed = True
            with psycopg.connect(src, autocommit=True) as db:
                db.execute("UPDATE ff_exec_core SET lane_id = 'x' WHERE partition_key = 0")
                db.execute("INSERT INTO ff_schedule VALUES ('a', 'b', 1, 0)")

    with pytest.raises(CopyRefused, match=r"ff_exec_core \(3 rows.*ff_schedule \(4 rows, 3 in"):
        await copy_database(src, dst, change)


# ---- refusals


async def running(url: str) -> Engine:
    engine = await connect_store(url, dev=True, loops=False)
    await engine.create_execution(
        CreateExecutionArgs(execution_id=ExecutionId.solo("default"), lane_id="default")
    )
    policy = ClaimPolicy("worker", "worker-1", 60_000)
    assert await engine.claim("default", (), policy) is not None
    return engine


@pytest.mark.parametrize("kind", KINDS)
async def test_a_leased_execution_is_named(kind: str, tmp_path: Path) -> None:
    src, dst = new_url(kind, "from", tmp_path), new_url("sqlite", "to", tmp_path)
    await fill(src, 0)
    engine = await running(src)
    await engine.close()
    with pytest.raises(CopyRefused, match=r"executions are leased: .*held by worker-1") as caught:
        await copy_database(src, dst, ignored)
    assert "stop workers and servers" in str(caught.value)


async def test_another_process_on_a_file_is_noticed(tmp_path: Path) -> None:
    src, dst = (new_url("sqlite", name, tmp_path) for name in ("from", "to"))
    await fill(src, 1)
    code = "import asyncio, sys; from flowfabric.connect import connect_store\n"
    code += "async def main():\n engine = await connect_store(sys.argv[1], dev=True, loops=False)\n"
    code += " print('open', flush=True); sys.stdin.read(); await engine.close()\n"
    code += "asyncio.run(main())"
    with subprocess.Popen(  # noqa: ASYNC220 - it opens a file and waits
        [sys.executable, "-c", code, src], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        await asyncio.to_thread(other.stdout.readline)
        with pytest.raises(FlowFabricError, match="another process has the database open"):
            await copy_database(src, dst, ignored)
        other.stdin.close()
    await copy_database(src, dst, ignored)
    assert await same(src, dst)


async def test_live_workers_and_loops_on_postgres_are_named(tmp_path: Path) -> None:
    src, dst = database("copy_from"), new_url("sqlite", "to", tmp_path)
    await fill(src, 0)
    with psycopg.connect(src, autocommit=True) as db:
        now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        db.execute(
            "INSERT INTO ff_worker_registry (namespace, worker_instance_id, worker_id, "
            "last_heartbeat_ms, liveness_ttl_ms, expires_at_ms, registered_at_ms) "
            f"VALUES ('acme', 'w-7', 'w', {now}, 60000, {now} + 60000, {now})"
        )
        with pytest.raises(CopyRefused, match=r"workers are alive: w-7 \(namespace acme\)"):
            await copy_database(src, dst, ignored)
        db.execute("DELETE FROM ff_worker_registry")
        db.execute(f"INSERT INTO ff_leader VALUES ('loops', 'h-1', 1, {now} + 60000)")
        with pytest.raises(CopyRefused, match="background loops run in process h-1"):
            await copy_database(src, dst, ignored)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_destination_with_rows_is_refused(kind: str, tmp_path: Path) -> None:
    src, dst = new_url("sqlite", "from", tmp_path), new_url(kind, "to", tmp_path)
    await fill(src, 2)
    await fill(dst, 1)
    with pytest.raises(CopyRefused, match="has rows of its own in ff_exec_core, ff_attempt"):
        await copy_database(src, dst, ignored)


@pytest.mark.parametrize("url", ["memory://", "http://127.0.0.1:1", "sqlite:///:memory:"])
async def test_only_databases_that_last_are_copied(url: str, tmp_path: Path) -> None:
    src = new_url("sqlite", "from", tmp_path)
    await fill(src, 1)
    for pair in ((src, url), (url, src), (src, src)):
        with pytest.raises(ConfigError):
            await copy_database(*pair, ignored)


async def test_a_missing_source_is_not_created(tmp_path: Path) -> None:
    src, dst = (new_url("sqlite", name, tmp_path) for name in ("from", "to"))
    with pytest.raises(FlowFabricError, match="no such database file"):
        await copy_database(src, dst, ignored)
    assert await asyncio.to_thread(os.listdir, tmp_path) == []


async def test_a_value_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    src, dst = (new_url("sqlite", name, tmp_path) for name in ("from", "to"))
    await fill(src, 2)
    with closing(sqlite3.connect(src.removeprefix("sqlite:///"))) as db, db:
        db.execute("UPDATE ff_exec_core SET budget_ids = '{' WHERE partition_key = 1")
    with pytest.raises(FlowFabricError, match="ff_exec_core: budget_ids of partition_key 1, exec"):
        await copy_database(src, dst, ignored)


# ---- a deployment


async def worked(url: str) -> ExecutionId:
    """Some executions: completed, waiting and delayed, with events."""
    engine = await connect_store(url, dev=True, loops=False)
    idents = [ExecutionId.solo("default") for _ in range(6)]
    for ident in idents:
        await engine.create_execution(
            CreateExecutionArgs(execution_id=ident, lane_id="default", input_payload=b"in")
        )
    policy = ClaimPolicy("worker", "worker-1", 60_000)
    for work in await engine.claim_many("default", (), policy, 3):
        await engine.complete(work.handle, b"done")
    waiting = idents[-1]
    await engine.change_priority(ChangePriorityArgs(execution_id=waiting, new_priority=7))
    await engine.close()
    return waiting


@both_ways
async def test_work_and_subscriptions_go_on_behind_the_copy(
    source: str, destination: str, tmp_path: Path
) -> None:
    src, dst = new_url(source, "from", tmp_path), new_url(destination, "to", tmp_path)
    await fill(src, 0)
    waiting = await worked(src)
    before = await events(src)
    await copy_database(src, dst, ignored)
    assert await events(dst) == before
    snapshot = snapshot_of(await asyncio.to_thread(read_tables, dst, TABLES_READ))
    assert [each for check in CHECKS.values() for each in check(snapshot)] == []
    engine = await connect_store(dst, dev=True, loops=False)
    try:
        last = {channel: await engine.store.last_event(channel) for channel in OUTBOXES}
        assert last[OPERATOR_EVENTS] == before[OPERATOR_EVENTS][-1][0]
        await engine.change_priority(ChangePriorityArgs(execution_id=waiting, new_priority=9))
        (row,) = await engine.store.read_events(OPERATOR_EVENTS, last[OPERATOR_EVENTS], 10)
        assert row[0] > last[OPERATOR_EVENTS]
        works = await engine.claim_many("default", (), ClaimPolicy("w", "w", 60_000), 10)
        assert len(works) == 3
        assert works[0].execution_id == waiting
        for work in works:
            await engine.complete(work.handle, b"done")
        assert await engine.get_execution_result(waiting) == b"done"
    finally:
        await engine.close()
    snapshot = snapshot_of(await asyncio.to_thread(read_tables, dst, TABLES_READ))
    assert [each for check in CHECKS.values() for each in check(snapshot)] == []


async def events(url: str) -> dict[str, list[Any]]:
    found = await asyncio.to_thread(read_tables, url, OUTBOXES)
    return {name: sorted(rows) for name, rows in found.items()}


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    ("source", "destination"),
    [
        ("sqlite", "postgres"),
        ("postgres", "sqlite"),
        ("sqlite", "valkey"),
        ("valkey", "postgres"),
        ("valkey", "sqlite"),
    ],
)
async def test_a_hundred_thousand_executions(source: str, destination: str, tmp_path: Path) -> None:
    """Memory stays flat: pages are bounded in rows and bytes."""
    src, dst = new_url(source, "from", tmp_path), new_url(destination, "to", tmp_path)
    async with open_destination(src) as side:
        for name in ("ff_exec_core", "ff_attempt", *OUTBOXES):
            table = TABLES[name]
            for first in range(0, 100_000, 10_000):
                await side.write(
                    table,
                    [
                        tuple(a_value(table, column, n) for column in table.columns)
                        for n in range(first, first + 10_000)
                    ],
                )
    copied = await copy_database(src, dst, ignored)
    assert copied.rows == 600_000
