"""Statements walk their index, without sorting and without full table scans."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from flowfabric.plan import Form
from flowfabric.rules.claims.claims import CLAIM
from flowfabric.rules.executions.operator_actions import SWEEP_DELAYED
from flowfabric.rules.fence import SWEEP_EXPIRED
from flowfabric.store.port import Listed, Scan, Tally
from flowfabric.store.schema import INDEXES, TABLES, Index
from flowfabric.store.sql.ddl import index_name, sqlite_schema
from flowfabric.store.sql.reads import find_sql, scan_sql, tally_sql
from flowfabric.store.sql.sqlite_plan import sqlite_form
from flowfabric.store.sqlite.reader import Parameters, get_sql
from flowfabric.store.sqlite.uri import new_uuid_bytes
from tests.store.finds import finds

from .forms import ALL, statements

ROWS = 5_000
_SOME = {"int": 1, "text": "lane", "uuid": b"\1" * 16, "uuidtext": b"\1" * 16, "auto": 1}

_FILL = f"""
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase,
    eligibility_state, ownership_state,
    attempt_state, public_state, priority, created_at_ms, delay_until_ms, lease_expires_at_ms,
        attempt_timeout_at_ms,
    deadline_at_ms, terminal_at_ms, terminal_outcome, required_capabilities)
SELECT 0, randomblob(16), CASE i % 3 WHEN 0 THEN 'lane' ELSE 'other' END,
    CASE i % 5 WHEN 0 THEN 'active' WHEN 1 THEN 'terminal' ELSE 'runnable' END,
    CASE i % 7 WHEN 0 THEN 'not_eligible_until_time' ELSE 'eligible_now' END,
    CASE i % 5 WHEN 0 THEN 'leased' ELSE 'unowned' END, 'x', 'x', i % 4, i, i, i, i, i, i,
    CASE i % 10 WHEN 1 THEN 'failed' WHEN 6 THEN 'success' ELSE 'none' END, '["gpu"]' FROM n
"""


@pytest.fixture(scope="module", params=["no statistics", "statistics"])
def db(request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(":memory:", isolation_level=None)
    made.create_function("new_uuid", 0, new_uuid_bytes)
    made.create_function("uuid_blob", 1, bytes.fromhex, deterministic=True)
    made.executescript(sqlite_schema())
    made.execute(_FILL)
    if request.param == "statistics":
        made.execute("ANALYZE")
    yield made
    made.close()


def plan_of(db: sqlite3.Connection, sql: str) -> list[str]:
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", (1,) * sql.count("?"))]


def _whole_tables(steps: list[str]) -> list[str]:
    return [step for step in steps if re.match(r"SCAN ff_\w+$", step)]


@pytest.mark.parametrize(
    ("form", "index"),
    [(CLAIM, "ready"), (SWEEP_EXPIRED, "leased"), (SWEEP_DELAYED, "delayed")],
    ids=["claim", "expired", "delayed"],
)
def test_a_sweep_walks_its_index_without_sorting(
    db: sqlite3.Connection, form: Form, index: str
) -> None:
    select = sqlite_form(form).select
    assert select is not None
    steps = plan_of(db, f"{select.sql}10")
    assert any(f"USING INDEX {index_name(INDEXES[index])} " in f"{step} " for step in steps), steps
    assert not [step for step in steps if "TEMP B-TREE" in step], steps


def _scans(index: Index) -> Iterator[Scan]:
    kinds = TABLES[index.table].kinds
    group: dict[str, Any] = {c: _SOME[kinds[c]] for c in index.group}
    after = tuple(_SOME[kinds[c]] for c in index.order)
    yield Scan(index.name, group)
    yield Scan(index.name, group, after)
    if kinds[index.order[0]] == "int" and index.order[0] not in index.descending:
        yield Scan(index.name, group, None, 5)
        yield Scan(index.name, group, after, 5)


@pytest.mark.parametrize("name", INDEXES)
def test_a_scan_walks_its_index_without_sorting(db: sqlite3.Connection, name: str) -> None:
    index = INDEXES[name]
    for scan in _scans(index):
        params = Parameters()
        sql = scan_sql(scan, params)
        steps = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", params)]
        wanted = f"sqlite_autoindex_{index.table}_1" if index.primary else index_name(index)
        assert any(f"INDEX {wanted}" in step for step in steps), (scan, steps)
        assert not [step for step in steps if "TEMP B-TREE" in step], (scan, steps)
        if scan.after is not None or scan.group:
            assert all(step.startswith("SEARCH") for step in steps), (scan, steps)


@pytest.mark.parametrize(
    "name", [n for n, i in INDEXES.items() if not (i.primary and i.descending)]
)
def test_a_tally_walks_its_index_and_sorts_only_the_counted_rows(
    db: sqlite3.Connection, name: str
) -> None:
    index = INDEXES[name]
    kinds = TABLES[index.table].kinds
    wanted = f"sqlite_autoindex_{index.table}_1" if index.primary else index_name(index)
    for group in (
        {},
        {
            c: 3 if kinds[c] == "int" else UUID(int=7) if "uuid" in kinds[c] else "x"
            for c in index.group
        },
    ):
        params = Parameters()
        sql = tally_sql(Tally(name, 50, TABLES[index.table].key[:1], group), params)
        steps = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", params)]
        assert any(f"INDEX {wanted}" in step for step in steps), steps
        assert not [step for step in steps if "TEMP B-TREE FOR ORDER BY" in step], steps


def test_a_search_walks_its_index_and_sorts_only_what_has_another_order(
    db: sqlite3.Connection,
) -> None:
    for find in finds():
        params = Parameters()
        sql = find_sql(find, params, keeps_order=True)
        steps = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", params)]
        listed = [INDEXES[c.index] for c in find.matches if isinstance(c, Listed)]
        wanted = {index_name(index) for index in (INDEXES[find.index], *listed)}
        walked = {found for step in steps for found in re.findall(r"INDEX (ff_\w+)", step)}
        assert walked == wanted, (find, steps)
        assert not _whole_tables(steps), (find, steps)
        if find.is_in_order:
            assert not [step for step in steps if "TEMP B-TREE" in step], (find, steps)


@pytest.mark.parametrize("table", [t for t in TABLES if TABLES[t].columns[0].kind != "auto"])
def test_a_get_searches_by_key(db: sqlite3.Connection, table: str) -> None:
    steps = plan_of(db, get_sql(table))
    assert len(steps) == 1 and steps[0].startswith("SEARCH"), steps
    assert all(f"{column}=?" in steps[0] for column in TABLES[table].key)


@pytest.mark.parametrize("name", ALL)
def test_no_statement_of_a_form_reads_a_whole_table(db: sqlite3.Connection, name: str) -> None:
    for sql in statements(ALL[name]):
        steps = plan_of(db, sql)
        assert not _whole_tables(steps), (sql, steps)


@pytest.mark.parametrize(
    "name", [name for name in ALL if name.startswith("stream_") and name.endswith("_trim")]
)
def test_trimmed_frames_are_found_without_walking_the_stream(
    db: sqlite3.Connection, name: str
) -> None:
    cuts = [plan_of(db, sql) for sql in statements(ALL[name]) if sql.startswith("DELETE")]
    stream = "partition_key=? AND execution_id=? AND attempt_index=?"
    by_time = f"sqlite_autoindex_ff_stream_frame_1 ({stream} AND ts_ms<?)"
    by_number = f"{index_name(INDEXES['passing_frames'])} ({stream} AND mode=? AND mode_number<?)"
    assert cuts == [
        [f"SEARCH ff_stream_frame USING INDEX {wanted}"]
        for wanted in (by_time, by_number, by_number)
    ]


def test_the_check_detects_a_full_table_scan(db: sqlite3.Connection) -> None:
    assert _whole_tables(plan_of(db, "SELECT 1 FROM ff_attempt WHERE worker_id = ?"))
    assert "TEMP B-TREE" in " ".join(
        plan_of(db, "SELECT 1 FROM ff_exec_core ORDER BY execution_kind")
    )
