"""Statements on Postgres walk their index, whatever the number of rows and the statistics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from flowfabric.plan import Form
from flowfabric.rules.claims.admission import CLAIM_COUNTED, CLAIM_GATED, TOUCH_QUOTA
from flowfabric.rules.claims.claims import CLAIM
from flowfabric.rules.leases.attempts import COMPLETE
from flowfabric.store.port import Get, Listed, Scan, Tally
from flowfabric.store.postgres import connections
from flowfabric.store.postgres.codec import random_uuids
from flowfabric.store.postgres.events import GapReader
from flowfabric.store.postgres.next_due import firsts_of
from flowfabric.store.postgres.reader import run_reads
from flowfabric.store.schema import INDEXES, OUTBOXES, TABLES, Index, Table
from flowfabric.store.sql.ddl import index_name
from flowfabric.store.sql.pg_combined import sweep_decided_by, sweep_preceded_by
from flowfabric.store.sql.pg_statement import statement
from tests.store.finds import finds
from tests.store.sqlite.forms import ALL

from .explained import (
    Node,
    Recorder,
    Session,
    both_ways,
    explained,
    offences,
    prepared,
    sent,
    session,
)
from .filling import LANE, STATES, drop, empty, filled

SWEEPS = {name: form for name, form in ALL.items() if form.pick is not None}
CUTS = [name for name in ALL if name.startswith("stream_") and name.endswith("_trim")]
FEW_BUFFERS = 200
ALWAYS = "analyzed while empty"
"""The state that misleads the planner most."""
_UUID = "00000000-0000-0000-0000-000000000007"
_SOME = {"int": 3, "text": LANE, "uuid": _UUID, "uuidtext": _UUID, "auto": 7}


@pytest.fixture(
    params=[
        pytest.param(state, marks=[] if state == ALWAYS else pytest.mark.nightly)
        for state in STATES
    ]
)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    made = filled(request.param)
    yield made
    drop(made)


def test_every_statement_walks_its_index(url: str) -> None:
    """One test per state of the statistics, since creating the database takes longest."""
    with session(url, connections.WRITER_SETTINGS) as writer:
        for form in ALL.values():
            check_form(writer, form)
        for form in SWEEPS.values():
            check_sweep(writer, statement(form).sql, form)
        for name in CUTS:
            check_cuts(writer, ALL[name])
        for form in (CLAIM_GATED, CLAIM_COUNTED):
            check_sweep(writer, sweep_decided_by(TOUCH_QUOTA, form).sql, form)
        check_sweep(writer, sweep_preceded_by(COMPLETE, CLAIM).sql, CLAIM)
    with session(url, connections.READER_SETTINGS) as reader:
        check_reads(reader)
        for table in TABLES.values():
            check_get(reader, table)
        check_finds(reader)
    with session(url, connections.WRITER_SETTINGS) as writer:
        check_claims(writer)


def test_a_range_planned_on_an_empty_table_walks_its_index() -> None:
    """A plan may be kept for as long as the connection."""
    url = empty("nothing", analyzed=True)
    with session(url, connections.READER_SETTINGS) as reader:
        check_reads(reader)
        check_finds(reader)
        assert offences(prepared(reader, "SELECT 1 FROM ff_attempt WHERE worker_id = $1", ["w"])), (
            "the guard notices"
        )
        sorting = prepared(
            reader, "SELECT 1 FROM ff_exec_core WHERE lane_id = $1 ORDER BY execution_kind", [LANE]
        )
        assert sorts(sorting), "and it notices sorting"
    drop(url)


def test_there_are_statements_to_look_at() -> None:
    assert len(ALL) > 30 and {"claim", "sweep_expired", "sweep_delayed"} <= set(SWEEPS)
    assert len(CUTS) == 2


def sorts(found: list[Node]) -> list[str]:
    return [node["Node Type"] for node in found if "Sort" in node["Node Type"]]


def nothing_for(sql: str) -> list[None]:
    """A general plan is the same for all values."""
    return [None] * max(map(int, re.findall(r"\$(\d+)", sql)), default=0)


def check_form(writer: Session, form: Form) -> None:
    text = statement(form)
    for sql in (text.sql, text.optimistic):
        if sql is None:
            continue
        found = prepared(writer, sql, nothing_for(sql))
        assert offences(found) == [], form
        joins = {node["Node Type"] for node in found} & {"Hash Join", "Merge Join"}
        assert not joins, (
            f"{form}: rows are locked in the order of the arguments only when these are walked"
        )


def check_sweep(writer: Session, sql: str, form: Form) -> None:
    assert form.pick is not None
    found = prepared(writer, sql, nothing_for(sql))
    assert offences(found) == [], form
    picking = [node for node in found if node["Part"] == "CTE q"]
    assert not sorts(picking), form
    index = INDEXES[form.pick.index]
    wanted = f"{index.table}_pkey" if index.primary else index_name(index)
    assert [node["Index Name"] for node in picking if node.get("Relation Name") == index.table] == [
        wanted
    ]


def check_cuts(writer: Session, form: Form) -> None:
    """Trimmed frames are found by time, or by their number within their mode."""
    sql = statement(form).sql
    found = prepared(writer, sql, nothing_for(sql))
    walked = [
        node
        for node in found
        if node.get("Relation Name") == "ff_stream_frame" and "Index Name" in node
    ]
    passing = index_name(INDEXES["passing_frames"])
    bounds = {"ff_stream_frame_pkey": "ts_ms <=", passing: "mode_number <="}
    assert sorted(node["Index Name"] for node in walked) == sorted(
        ["ff_stream_frame_pkey", passing, passing]
    ), form
    assert all(bounds[node["Index Name"]] in node["Index Cond"] for node in walked), form


def check_reads(reader: Session) -> None:
    for index in INDEXES.values():
        check_scans(reader, index)
        check_tallies(reader, index)
        check_next_due(reader, index)
    for channel in OUTBOXES:
        check_outbox(reader, channel)


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
                assert not sorts(found), scan
                assert {node["Index Name"] for node in found if "Index Name" in node} == {wanted}, (
                    scan
                )


def check_tallies(reader: Session, index: Index) -> None:
    """The first rows of a group or of the index are counted in index order."""
    kinds = TABLES[index.table].kinds
    wanted = f"{index.table}_pkey" if index.primary else index_name(index)
    group: dict[str, Any] = {c: _SOME[kinds[c]] for c in index.group}
    tallies = [Tally(index.name, 50, index.order[:1], group)]
    if not (
        index.primary and index.descending
    ):  # which is the order of its groups, but not of all of it
        tallies.append(Tally(index.name, 50, TABLES[index.table].key[:1]))
    for tally in tallies:
        for reads in ([tally], [tally, tally]):
            for found in both_ways(reader, *sent(run_reads(Recorder(), reads))):
                assert offences(found, bounded=bool(tally.group)) == [], tally
                assert {node["Index Name"] for node in found if "Index Name" in node} == {wanted}, (
                    tally
                )
                limits = [at for at, node in enumerate(found) if node["Node Type"] == "Limit"]
                assert limits and not sorts(found[limits[-1] :]), tally


def check_finds(reader: Session) -> None:
    for find in finds():
        index = INDEXES[find.index]
        wanted = {index_name(index)}
        wanted |= {index_name(INDEXES[c.index]) for c in find.matches if isinstance(c, Listed)}
        for reads in ([find], [find, find]):
            for found in both_ways(reader, *sent(run_reads(Recorder(), reads))):
                bounded = bool(find.group or (find.is_in_order and find.after))
                assert offences(found, bounded=bounded) == [], find
                walks = {node["Index Name"] for node in found if "Index Name" in node}
                assert walks == wanted, find
                assert not (find.is_in_order and sorts(found)), find


def check_next_due(reader: Session, index: Index) -> None:
    if index.group or TABLES[index.table].kinds[index.order[0]] != "int":
        return
    for asked in ([index.name], [index.name, "delayed"]):
        wanted = {index_name(INDEXES[name]) for name in asked}
        for found in both_ways(reader, firsts_of(asked), ()):
            assert {node.get("Index Name") for node in found} == {None, *wanted}, index
            assert not sorts(found), index


def check_get(reader: Session, table: Table) -> None:
    get = Get(table.name, tuple(_SOME[table.kinds[k]] for k in table.key))
    for (node,) in both_ways(reader, *sent(run_reads(Recorder(), [get]))):
        assert all(column in node["Index Cond"] for column in table.key), table.name


def check_outbox(reader: Session, channel: str) -> None:
    gaps = GapReader(channel)
    for sql, params in ((gaps.page_sql, (5, 10)), (gaps.tail_sql, ()), (gaps.between_sql, (1, 5))):
        for found in both_ways(reader, sql, params):
            assert offences(found, bounded=bool(params)) == [], sql
            assert not sorts(found), sql
            assert f"{channel}_pkey" in {node.get("Index Name") for node in found}, sql


def _claim(writer: Session, count: int) -> int:
    """Claims rows and commits; the number of pages read, later steps included."""
    random = rf"\x{random_uuids(2 * count).hex()}"
    called = [None, ["w"], ["w-1"], [1_000], [500], [1] * count, random]
    params = [*called, LANE, "default", "{}", "w"]
    found = explained(writer, "claim", params, "ANALYZE, BUFFERS, ")
    assert found[0]["Actual Rows"] == count
    apart = [
        found[0],
        *(node for node in found if re.fullmatch(r"CTE w\d+", node.get("Subplan Name", ""))),
    ]
    return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in apart)


def check_claims(writer: Session) -> None:
    """Few pages, also for fifty runs of one plan and behind thousands of dead index entries."""
    writer.execute(f"PREPARE claim AS {statement(SWEEPS['claim']).sql}")
    touched = [_claim(writer, 1) for _ in range(50)]
    assert max(touched) < FEW_BUFFERS, touched
    for _ in range(10):
        _claim(writer, 500)
    # A page of the table is half full, so the rows of a batch lie on twice as many pages.
    assert _claim(writer, 1) < 3 * FEW_BUFFERS, "it looks at what the last batch left, once"
    behind = [_claim(writer, 1) for _ in range(50)]
    assert max(behind) < FEW_BUFFERS, behind
