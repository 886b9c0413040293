"""Statements on Postgres walk their index, however many rows wait and whatever the statistics say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from flowfabric.plan import Form
from flowfabric.store.port import Get, Read, Scan
from flowfabric.store.postgres import connections
from flowfabric.store.postgres.events import GapReader
from flowfabric.store.postgres.reader import run_reads
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.store.schema import INDEXES, OUTBOXES, TABLES, Index
from flowfabric.store.sql.ddl import index_name
from flowfabric.store.sql.pg import statement
from tests.store.sqlite.forms import ALL

from .explained import Recorder, Session, both_ways, explained, offences, prepared, sent, session
from .filling import LANE, STATES, drop, empty, filled

pytestmark = pytest.mark.xdist_group("query plans")
SWEEPS = {name: form for name, form in ALL.items() if form.pick is not None}
FEW_BUFFERS = 200
_UUID = "00000000-0000-0000-0000-000000000007"
_SOME = {"int": 7, "text": LANE, "uuid": _UUID, "uuidtext": _UUID, "auto": 7}


@pytest.fixture(scope="module", params=STATES)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    made = filled(request.param)
    yield made
    drop(made)


@pytest.fixture(scope="module")
def writer(url: str) -> Iterator[Session]:
    with session(url, connections.WRITING) as db:
        yield db


@pytest.fixture(scope="module")
def reader(url: str) -> Iterator[Session]:
    with session(url, connections.READING) as db:
        yield db


def nothing_for(sql: str) -> list[None]:
    """A general plan is the same for all values."""
    return [None] * max(map(int, re.findall(r"\$(\d+)", sql)), default=0)


@pytest.mark.parametrize("name", ALL)
def test_a_form_finds_its_rows_by_key(writer: Session, name: str) -> None:
    sql = statement(ALL[name]).sql
    found = prepared(writer, sql, nothing_for(sql))
    assert offences(found) == []
    joins = {node["Node Type"] for node in found} & {"Hash Join", "Merge Join"}
    assert not joins, "rows are locked in the order of the arguments only when these are what is walked"


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_walks_its_index_without_sorting(writer: Session, name: str) -> None:
    form = SWEEPS[name]
    assert form.pick is not None
    sql = statement(form).sql
    picking = [node for node in prepared(writer, sql, nothing_for(sql)) if node["Part"] == "CTE q"]
    assert not [node for node in picking if "Sort" in node["Node Type"]]
    scans = [node["Index Name"] for node in picking if "Index Name" in node]
    assert scans == [index_name(INDEXES[form.pick.index])]


def _scans(index: Index) -> Iterator[Scan]:
    kinds = TABLES[index.table].kinds
    group: dict[str, Any] = {c: _SOME[kinds[c]] for c in index.group}
    after = tuple(_SOME[kinds[c]] for c in index.order)
    yield Scan(index.name, group)
    yield Scan(index.name, group, after)
    if kinds[index.order[0]] == "int" and index.order[0] not in index.descending:
        yield Scan(index.name, group, None, 5)
        yield Scan(index.name, group, after, 5)


def check_scans(reader: Session, index: Index) -> None:
    wanted = f"{index.table}_pkey" if index.primary else index_name(index)
    for scan in _scans(index):
        bounded = bool(scan.group or scan.after or scan.upto)
        for reads in ([scan], [scan, scan]):
            for found in both_ways(reader, *sent(run_reads(Recorder(), reads))):
                assert offences(found, bounded=bounded) == [], scan
                assert not [node for node in found if "Sort" in node["Node Type"]], scan
                assert {node["Index Name"] for node in found if "Index Name" in node} == {wanted}, scan


@pytest.mark.parametrize("name", INDEXES)
def test_a_scan_walks_its_index_without_sorting(reader: Session, name: str) -> None:
    check_scans(reader, INDEXES[name])


def test_a_read_that_was_planned_while_there_was_nothing_to_read_walks_its_index_too() -> None:
    """A plan may be kept for as long as the connection."""
    url = empty("nothing", analyzed=True)
    with session(url, connections.READING) as reader:
        for index in INDEXES.values():
            check_scans(reader, index)
    drop(url)


@pytest.mark.parametrize("table", TABLES)
def test_a_get_searches_by_the_whole_key(reader: Session, table: str) -> None:
    get: Read = Get(table, tuple(_SOME[TABLES[table].kinds[k]] for k in TABLES[table].key))
    for (node,) in both_ways(reader, *sent(run_reads(Recorder(), [get]))):
        assert all(column in node["Index Cond"] for column in TABLES[table].key)


@pytest.mark.parametrize("channel", OUTBOXES)
def test_an_outbox_is_read_by_number(reader: Session, channel: str) -> None:
    gaps = GapReader(channel)
    for sql, params in ((gaps._page, (5, 10)), (gaps._tail, ()), (gaps._between, (1, 5))):
        for found in both_ways(reader, sql, params):
            assert offences(found, bounded=bool(params)) == [], sql
            assert not [node for node in found if "Sort" in node["Node Type"]], sql
            assert f"{channel}_pkey" in {node.get("Index Name") for node in found}, sql


@pytest.mark.parametrize("name", [n for n, i in INDEXES.items() if TABLES[i.table].kinds[i.order[0]] == "int" and not i.group])
def test_what_is_due_next_is_the_head_of_its_index(reader: Session, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PostgresStore(connections.Options("postgresql://nowhere"))
    monkeypatch.setattr(store, "_read", lambda work: work(Recorder()))
    found = prepared(reader, *sent(store.next_due(name)))
    assert {node.get("Index Name") for node in found} == {None, index_name(INDEXES[name])}
    assert not [node for node in found if "Sort" in node["Node Type"]]


def _claim_one(writer: Session) -> int:
    """Claims one row for good; how many pages that took, counting what later steps touch as well."""
    params = [None, [LANE], ["{}"], ["w"], ["w-1"], [1_000], [500], [1], LANE, "{}", "w"]
    found = explained(writer, "claim", params, "ANALYZE, BUFFERS, ")
    assert found[0]["Actual Rows"] == 1
    apart = [found[0], *(node for node in found if re.fullmatch(r"CTE w\d+", node.get("Subplan Name", "")))]
    return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in apart)


def test_a_claim_touches_few_pages_however_long_the_queue(writer: Session) -> None:
    """At the start, after fifty runs of one plan, and behind thousands of rows that were claimed and still stand in the index."""
    sql = statement(SWEEPS["claim"]).sql
    writer.execute(f"PREPARE claim AS {sql}")
    touched = [_claim_one(writer) for _ in range(50)]
    assert max(touched) < FEW_BUFFERS, touched
    for _ in range(10):
        many = [None, [LANE], ["{}"], ["w"], ["w-1"], [1_000], [500], [500], LANE, "{}", "w"]
        assert explained(writer, "claim", many, "ANALYZE, ")[0]["Actual Rows"] == 500
    behind = [_claim_one(writer) for _ in range(50)]
    assert behind[0] < 2 * FEW_BUFFERS, "the first one looks at what the last batch left, once"
    assert max(behind[1:]) < FEW_BUFFERS, behind
    writer.execute("DEALLOCATE claim")


def test_the_guards_themselves_notice(writer: Session) -> None:
    whole = prepared(writer, "SELECT 1 FROM ff_attempt WHERE worker_id = $1", ["w"])
    assert offences(whole)
    writer.execute("SET enable_seqscan = on")
    assert offences(prepared(writer, "SELECT 1 FROM ff_exec_core WHERE creator_identity = $1", ["w"]))
    writer.execute("SET enable_seqscan = off")
    sorting = prepared(writer, "SELECT 1 FROM ff_exec_core WHERE lane_id = $1 ORDER BY execution_kind", [LANE])
    assert [node for node in sorting if "Sort" in node["Node Type"]]


def test_there_are_forms_to_look_at() -> None:
    assert len(ALL) > 30 and {"claim", "sweep_expired", "sweep_delayed"} <= set(SWEEPS)
    assert all(isinstance(form, Form) for form in ALL.values())
