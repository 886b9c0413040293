"""Pages of searches and counts over many executions, most of them ended long ago.

Each search reads up to 20 pages, one after the other. The rows are inserted without the engine, in
the order of their creation, and the statistics of SQL are current.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import asyncpg

from benchmarks.engines import new_database
from benchmarks.report import Measured, percentile
from benchmarks.valkey import insert_rows, new_server
from flowfabric import ExecutionId, PostgresBackend, SqliteBackend
from flowfabric.connect import ValkeyBackend
from flowfabric.engine.executions.execution_counts import COUNTED
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.ids import FLOW_PARTITIONS, partition_of
from flowfabric.model.search import ExecutionFilter
from flowfabric.model.state import PublicState
from flowfabric.store.port import Count
from flowfabric.testing.postgres import PostgresServer

NAME = "find"
PAGES = 20
PARTITIONS = 256
APART_MS = 100
"""From one creation to the next."""
LANES, TASKS, NAMESPACES, CUSTOMERS, WORKERS = 20, 50, 5, 10_000, 100
MEMBERS, FLOWS = 20, 3
"""The executions in the middle are members of flows with the same parent."""
_START = 1_700_000_000_000

_COLUMNS = """partition_key, execution_id, lane_id, namespace, execution_kind, lifecycle_phase,
    eligibility_state, ownership_state, attempt_state, public_state, terminal_outcome, priority,
    created_at_ms, delay_until_ms, terminal_at_ms, lease_expires_at_ms, last_transition_at,
    current_worker_id, current_worker_instance_id, failure_reason, last_failure_message,
    idempotency_key, tags"""
_FAILURE = """CASE WHEN i % 50 = 7 AND i <= LIVE
    THEN 'ConnectionError: host ' || (i % 97) || ' did not answer' END"""
_TAGS = f"""'{{"customer":"c' || (i % {CUSTOMERS}) || '","region":"eu"}}'"""
_ROWS = f"""SELECT i % 256, NUMBERED(i),
    'lane-' || (i % {LANES}), 'tenant-' || (i % {NAMESPACES}), 'task-' || (i % {TASKS}),
    CASE WHEN i <= LIVE THEN 'terminal' WHEN i % 20 = 5 THEN 'active'
        WHEN i % 20 = 6 THEN 'suspended' ELSE 'runnable' END,
    CASE WHEN i <= LIVE OR i % 20 IN (5, 6) THEN 'not_applicable'
        WHEN i % 20 = 4 THEN 'not_eligible_until_time' ELSE 'eligible_now' END,
    CASE WHEN i > LIVE AND i % 20 = 5 THEN 'leased' ELSE 'unowned' END,
    'x',
    CASE WHEN i <= LIVE THEN CASE WHEN i % 50 = 7 THEN 'failed' WHEN i % 200 = 9 THEN 'cancelled'
            WHEN i % 5000 = 13 THEN 'expired' ELSE 'completed' END
        WHEN i % 20 = 5 THEN 'active' WHEN i % 20 = 6 THEN 'suspended'
        WHEN i % 20 = 4 THEN 'delayed' ELSE 'waiting' END,
    CASE WHEN i > LIVE THEN 'none' WHEN i % 50 = 7 THEN 'failed' WHEN i % 200 = 9 THEN 'cancelled'
        WHEN i % 5000 = 13 THEN 'expired' ELSE 'success' END,
    0, START + i * {APART_MS}, CASE WHEN i > LIVE AND i % 20 = 4 THEN START + i END,
    CASE WHEN i <= LIVE THEN START + i * {APART_MS} + 5000 END,
    CASE WHEN i > LIVE AND i % 20 = 5 THEN START + i * {APART_MS} + 30000 END, START + i,
    CASE WHEN i > LIVE AND i % 20 = 5 THEN 'worker-' || (i % {WORKERS}) END,
    CASE WHEN i > LIVE AND i % 20 = 5 THEN 'worker-' || (i % {WORKERS}) || '-1' END,
    {_FAILURE}, {_FAILURE}, 'key-' || i,
    TAGS FROM numbers"""


_FLOWS = "ff_flow_core"
_OF_FLOWS = "partition_key, flow_id, created_at_ms, parent_partition, parent_execution_id"


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """`n` executions, a fiftieth of them not ended."""
    if store == "memory":
        raise SystemExit(
            f"{NAME} measures the indexes of a database: --store sqlite, postgres or valkey"
        )
    async with _filled(store, n) as engine:
        found = [
            await _pages(engine, store, n, name, where) for name, where in _searches(n).items()
        ]
        return [*found, *await _counts(engine, store, n)]


def _searches(n: int) -> dict[str, ExecutionFilter]:
    """Every single condition, dense and rare, and some of two."""
    middle = _START + n * APART_MS // 2
    state = PublicState
    return {
        "everything": ExecutionFilter(),
        "state=completed": ExecutionFilter(state=(state.COMPLETED,)),
        "state=failed": ExecutionFilter(state=(state.FAILED,)),
        "state=expired": ExecutionFilter(state=(state.EXPIRED,)),
        "state=waiting": ExecutionFilter(state=(state.WAITING,)),
        "state=delayed": ExecutionFilter(state=(state.DELAYED,)),
        "state=active": ExecutionFilter(state=(state.ACTIVE,)),
        "state=suspended": ExecutionFilter(state=(state.SUSPENDED,)),
        "task": ExecutionFilter(task="task-7"),
        "lane": ExecutionFilter(lane="lane-7"),
        "namespace": ExecutionFilter(namespace="tenant-2"),
        "tag": ExecutionFilter(tag="customer=c77"),
        "worker": ExecutionFilter(worker="worker-5"),
        "flow": ExecutionFilter(flow=_flow(1)),
        "parent": ExecutionFilter(parent=_parent(n)),
        "created": ExecutionFilter(created_from=middle, created_before=middle + 3_600_000),
        "ended": ExecutionFilter(ended_from=middle, ended_before=middle + 3_600_000),
        "error, type": ExecutionFilter(error="ConnectionError"),
        "error, message": ExecutionFilter(error="host 42"),
        "key": ExecutionFilter(key=f"key-{n // 2}"),
        "nothing": ExecutionFilter(task="no such task"),
        "state=failed, task": ExecutionFilter(state=(state.FAILED,), task="task-7"),
        "lane, tag": ExecutionFilter(lane="lane-17", tag="customer=c77"),
        "namespace, error": ExecutionFilter(namespace="tenant-2", error="ConnectionError"),
        "task, ended": ExecutionFilter(task="task-7", ended_from=middle),
    }


async def _pages(
    engine: LocalEngineProtocol, store: str, n: int, name: str, where: ExecutionFilter
) -> Measured:
    samples: list[float] = []
    cursor, rows = None, 0
    for _ in range(PAGES):
        began = time.perf_counter()
        page = await engine.find_executions(where, 50, cursor)
        samples.append(time.perf_counter() - began)
        rows, cursor = rows + len(page.items), page.next_cursor
        if cursor is None:
            break
    return Measured(
        scenario=f"{NAME}/{name}",
        store=store,
        system="flowfabric",
        n=n,
        p50_ms=percentile(samples, 0.5),
        p99_ms=percentile(samples, 0.99),
        notes=f"{rows} found on {len(samples)} pages",
    )


async def _counts(engine: LocalEngineProtocol, store: str, n: int) -> list[Measured]:
    """Counts as they are asked for, and the count behind them."""
    asked, counted = [], []
    for _ in range(5):
        began = time.perf_counter()
        await engine.store.load((Count("ff_exec_core", COUNTED),))
        counted.append(time.perf_counter() - began)
    await engine.count_executions()
    for _ in range(PAGES):
        began = time.perf_counter()
        await engine.count_executions()
        asked.append(time.perf_counter() - began)
    return [
        Measured(
            scenario=f"{NAME}/{name}",
            store=store,
            system="flowfabric",
            n=n,
            p50_ms=percentile(samples, 0.5),
            p99_ms=percentile(samples, 0.99),
        )
        for name, samples in (("counts, asked", asked), ("counts, read from the table", counted))
    ]


@asynccontextmanager
async def _filled(store: str, n: int) -> AsyncIterator[LocalEngineProtocol]:
    async with AsyncExitStack() as stack:
        if store == "postgres":
            server = stack.enter_context(PostgresServer())
            url = await new_database(server, NAME)
            engine: LocalEngineProtocol = await PostgresBackend.connect(url, migrate=True)
            stack.push_async_callback(engine.close)
            await _fill_postgres(url, n)
        elif store == "valkey":
            engine = await ValkeyBackend.connect(stack.enter_context(new_server()).url)
            stack.push_async_callback(engine.close)
            await _fill_valkey(engine, n)
        else:
            folder = stack.enter_context(TemporaryDirectory(prefix="flowfabric-bench-", dir="."))
            path = str(Path(folder) / "engine.db")
            await (await SqliteBackend.new(path, dev=True)).close()
            _fill_sqlite(path, n)
            engine = await SqliteBackend.new(path, dev=True)
            stack.push_async_callback(engine.close)
        yield engine


def _flow(number: int) -> UUID:
    return UUID(int=(1 << 100) + number)


def _parent(n: int) -> ExecutionId:
    return ExecutionId.of((n // 2) % PARTITIONS, UUID(int=n // 2))


def _statements(n: int, numbers: str, tags: str) -> list[str]:
    """`numbers` makes the numbers from 1 to `n`; `tags` is the type of tags, if it needs a cast."""
    rows = _ROWS.replace("LIVE", str(n - n // 50)).replace("START", str(_START))
    made = [
        f"WITH RECURSIVE numbers(i) AS ({numbers}) INSERT INTO ff_exec_core ({_COLUMNS}) {rows}"
    ]
    parent = _parent(n)
    for number in range(FLOWS):
        flow, first = _flow(number), n // 2 + 1 + number * MEMBERS
        partition = partition_of(flow, FLOW_PARTITIONS)
        made.append(
            f"INSERT INTO {_FLOWS} ({_OF_FLOWS}) VALUES ({partition}, UUID('{flow.hex}'), "
            f"{_START}, {parent.partition_index}, UUID('{parent.uuid.hex}'))"
        )
        made += [
            f"UPDATE ff_exec_core SET partition_key = {partition}, flow_id = UUID('{flow.hex}') "
            f"WHERE partition_key = {i % PARTITIONS} AND execution_id = NUMBERED({i})"
            for i in range(first, first + MEMBERS)
        ]
    return [statement.replace("TAGS", tags) for statement in made]


async def _fill_postgres(url: str, n: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "CREATE FUNCTION numbered(n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS "
            "$$ SELECT lpad(to_hex(n), 32, '0')::uuid $$"
        )
        tags = f"({_TAGS})::json"
        for statement in _statements(n, f"SELECT generate_series(1, {n})", tags):
            await connection.execute(statement.replace("UUID(", "uuid("))
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


async def _fill_valkey(engine: LocalEngineProtocol, n: int) -> None:
    """The rows that SQLite has."""
    with TemporaryDirectory(prefix="flowfabric-bench-", dir=".") as folder:
        path = str(Path(folder) / "engine.db")
        await (await SqliteBackend.new(path, dev=True)).close()
        _fill_sqlite(path, n)
        with sqlite3.connect(path) as db:
            for table, columns in (("ff_exec_core", f"{_COLUMNS}, flow_id"), (_FLOWS, _OF_FLOWS)):
                names = [name.strip() for name in columns.split(",")]
                rows = db.execute(f"SELECT {columns} FROM {table} ORDER BY created_at_ms")
                await insert_rows(engine.store, table, names, rows)


def _fill_sqlite(path: str, n: int) -> None:
    numbers = f"SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < {n}"
    with sqlite3.connect(path, isolation_level=None) as db:
        db.create_function("numbered", 1, lambda i: i.to_bytes(16, "big"), deterministic=True)
        db.create_function("uuid", 1, bytes.fromhex, deterministic=True)
        for statement in _statements(n, numbers, _TAGS):
            db.execute(statement)
        db.execute("ANALYZE")
    db.close()
