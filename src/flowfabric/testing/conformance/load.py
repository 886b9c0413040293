"""Reads: by key, and page by page through every declared index."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.plan import Add, Arg, Delete, Form, Update
from flowfabric.store.port import Get, Row, Scan, Store, Tally
from flowfabric.store.schema import INDEXES, TABLES, Index
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance.helpers import (
    ATTEMPT,
    EXEC,
    KEY,
    LANE,
    VERSIONED,
    execution,
    get,
    insert,
    put,
    scan,
    uid,
)

ROWS = 23


def _varying(index: Index, column: str, n: int, group: int) -> object:
    """Ties in the first column, none in the whole order."""
    kind = TABLES[index.table].kinds[column]
    number = n * 7 % ROWS
    if column == index.order[0] and len(index.order) > 1:
        number //= 4
    if kind in ("uuid", "uuidtext"):
        return uid(number + 1 + 500 * group)
    return f"k{number:03}" if kind == "text" else number + 1


def _fitting(index: Index, n: int) -> dict[str, object]:
    values: dict[str, Any] = {}
    for cond in index.where:
        if cond.op == "in":
            values[cond.column] = cond.value[n % len(cond.value)]
        elif cond.op == "not null":
            values[cond.column] = uid(3) if TABLES[index.table].kinds[cond.column] == "uuid" else 3
        else:
            values[cond.column] = "another" if cond.op == "!=" else cond.value
    return values


def _group(index: Index, number: int) -> dict[str, object]:
    kinds = TABLES[index.table].kinds
    made = {
        "int": number,
        "text": f"g{number}",
        "uuid": uid(1_000 + number),
        "uuidtext": uid(1_000 + number),
    }
    return {c: made[kinds[c]] for c in index.group}


def _rows(index: Index, group: int) -> list[dict[str, object]]:
    made = []
    for n in range(ROWS):
        row = {**_fitting(index, n), **_group(index, group)}
        row.update(
            {
                c: _varying(index, c, n, group)
                for c in index.order
                if TABLES[index.table].kinds[c] != "auto"
            }
        )
        for column in TABLES[index.table].key:
            if column not in row and TABLES[index.table].kinds[column] == "uuid":
                row[column] = uid(5_000 + group * 100 + n)
            elif column == "seq" and column not in row:
                row[column] = n
        made.append(row)
    return made


def _unfitting(index: Index) -> list[dict[str, object]]:
    """Rows of the same group outside the index's condition."""
    if not index.where:
        return []
    cond = index.where[-1]
    wrong: Any = {"is null": 5, "not null": None, "!=": cond.value}.get(cond.op, "elsewhere")
    rows = [{**row, cond.column: wrong} for row in _rows(index, 1)[:5]]
    table = TABLES[index.table]
    texts = [
        column
        for column in table.key
        if table.kinds[column] == "text" and column not in index.group
    ]
    return [
        {**row, _told_by(index): uid(9_000 + n)} | dict.fromkeys(texts, f"outside{n}")
        for n, row in enumerate(rows)
    ]


def _told_by(index: Index) -> str:
    """The column by which rows outside the index are known: a uuid that makes them differ."""
    table = TABLES[index.table]
    keys = [column for column in reversed(table.key) if table.kinds[column] == "uuid"]
    return next(
        iter([*keys, *(c for c in ("execution_id", "flow_id") if c in table.names)]), table.key[0]
    )


async def _fill(store: Store, index: Index) -> None:
    rows = [*_rows(index, 1), *_unfitting(index)]
    if index.group:
        rows += _rows(index, 2)
    await put(store, *(insert(index.table, **row) for row in rows))


async def _expected(store: Store, index: Index) -> list[Row]:
    """The order columns of the rows of group 1, as plain Python sorts them."""
    names = TABLES[index.table].names
    rows = [
        dict(zip(names, row, strict=True)) for row in (await store.dump([index.table]))[index.table]
    ]
    group = _group(index, 1)
    rows = [r for r in rows if all(r[c] == v for c, v in group.items())]
    rows = [r for r in rows if r.get(_told_by(index)) not in [uid(9_000 + n) for n in range(5)]]
    found = [tuple(r[c] for c in index.order) for r in rows]
    assert len(found) == len(set(found)) == ROWS
    for at in reversed(range(len(index.order))):
        found.sort(key=lambda key: key[at], reverse=index.order[at] in index.descending)
    return found


@pytest.mark.parametrize("name", INDEXES)
async def test_pages_of_an_index_join_to_its_order(store: Store, name: str) -> None:
    await _fill(store, INDEXES[name])
    for page in (1, 5, ROWS, 100):
        assert await _paged(store, INDEXES[name], page) == await _expected(store, INDEXES[name]), (
            f"pages of {page}"
        )


async def _paged(store: Store, index: Index, page: int) -> list[Row]:
    seen: list[Row] = []
    after: Row | None = None
    for _ in range(ROWS + 2):
        rows = await scan(
            store, Scan(index.name, _group(index, 1), after, limit=page, columns=index.order)
        )
        assert len(rows) <= page
        seen += rows
        if len(rows) < page:
            break
        after = rows[-1]
    return seen


@pytest.mark.parametrize(
    "name", [n for n, i in INDEXES.items() if i.order[0].endswith(("_ms", "_at"))]
)
async def test_a_scan_stops_at_its_bound(store: Store, name: str) -> None:
    index = INDEXES[name]
    await _fill(store, index)
    expected = await _expected(store, index)
    for bound in (0, 1, 3, 100):
        rows = await scan(store, Scan(name, _group(index, 1), None, bound, columns=index.order))
        assert rows == [key for key in expected if key[0] <= bound]
    half = expected[4]
    rows = await scan(store, Scan(name, _group(index, 1), half, 3, columns=index.order))
    assert rows == [key for key in expected[5:] if key[0] <= 3]


@pytest.mark.parametrize(
    "name", [n for n, i in INDEXES.items() if not (i.primary and i.descending)]
)
async def test_a_tally_counts_the_first_rows_of_a_group_or_of_all(store: Store, name: str) -> None:
    index = INDEXES[name]
    await _fill(store, index)
    order = await _expected(store, index)
    for limit in (1, 5, 100):
        rows = await scan(store, Tally(name, limit, index.order, _group(index, 1)))
        assert sorted(rows) == sorted((*key, 1) for key in order[:limit])
        whole = await scan(store, Tally(name, limit, index.order[:1]))
        assert sum(n for _, n in whole) == min(limit, ROWS * (2 if index.group else 1))


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_tally_of_no_rows_is_empty(store: Store, limit: int) -> None:
    await put(store, execution(1))
    assert await scan(store, Tally("executions", limit, ("partition_key",))) == []


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_of_zero_returns_nothing(store: Store, limit: int) -> None:
    await put(store, execution(1))
    assert await scan(store, Scan("executions", {"partition_key": 0}, limit=limit)) == []


async def test_a_row_has_all_columns_in_order_or_the_requested_ones(store: Store) -> None:
    await put(store, execution(1, flow_id=uid(2), required_capabilities=("a", "b"), payload=b"p"))
    whole = (await scan(store, Scan("executions", {"partition_key": 0})))[0]
    assert (whole,) == tuple((await store.load((Get(EXEC, (0, uid(1))),))).rows[0])
    assert len(whole) == len(TABLES[EXEC].names)
    columns = ("payload", "execution_id", "required_capabilities", "flow_id", "delay_until_ms")
    rows = await scan(store, Scan("executions", {"partition_key": 0}, columns=columns))
    assert rows == [(b"p", uid(1), ("a", "b"), uid(2), None)]


async def test_load_answers_every_read_in_the_order_asked_with_the_time(
    store: Store, clock: ManualClock
) -> None:
    await put(
        store,
        execution(1),
        insert(LANE, lane_id="a"),
        insert(ATTEMPT, execution_id=uid(1), attempt_index=3),
    )
    reads = (
        Get(LANE, ("a",)),
        Get(LANE, ("b",)),
        Scan("attempts", {"partition_key": 0, "execution_id": uid(1)}),
    )
    loaded = await store.load(reads)
    assert loaded.now_ms == clock.now_ms
    assert [len(rows) for rows in loaded.rows] == [1, 0, 1]
    assert loaded.rows[2][0][:3] == (0, uid(1), 3)
    assert (await store.load(())).rows == []


async def test_a_committed_row_is_seen_by_the_next_read(store: Store) -> None:
    for n in range(1, 30):
        await put(store, execution(n))
        assert len(await scan(store, Scan("executions", {"partition_key": 0}))) == n


async def test_paging_during_inserts_repeats_and_skips_no_existing_row(
    store: Store,
) -> None:
    old = [uid(n * 100) for n in range(1, 41)]
    await put(store, *(execution(i.int, priority=i.int % 3, created_at_ms=i.int) for i in old))
    seen: list[Any] = []
    after: Row | None = None
    fresh = 1
    while True:
        read = Scan(
            "ready",
            {"lane_id": "lane", "namespace": "default", "gate": ""},
            after,
            limit=7,
            columns=("priority", "created_at_ms", "execution_id"),
        )
        rows = await scan(store, read)
        seen += [row[2] for row in rows]
        if len(rows) < 7:
            break
        after = rows[-1]
        for shift in (-1, 1, 50):
            fresh += 1
            near = after[1] + shift
            await put(
                store,
                insert(
                    EXEC, execution_id=uid(100_000 + fresh), priority=after[0], created_at_ms=near
                ),
            )
    assert len(seen) == len(set(seen))
    assert [i for i in seen if i in old] == sorted(old, key=lambda i: (-(i.int % 3), i.int))


async def test_paging_continues_behind_a_deleted_row(store: Store) -> None:
    remove = Form("t_remove_paged", Delete(EXEC, VERSIONED))
    await put(store, *(execution(n) for n in range(1, 7)))
    rows = await scan(
        store, Scan("executions", {"partition_key": 0}, limit=3, columns=("execution_id",))
    )
    await put(store, remove(partition_key=0, execution_id=uid(3), version=0))
    more = await scan(
        store, Scan("executions", {"partition_key": 0}, rows[-1], columns=("execution_id",))
    )
    assert more == [(uid(4),), (uid(5),), (uid(6),)]


async def test_an_index_contains_the_rows_that_match_its_condition(store: Store) -> None:
    form = Form(
        "t_state", Update(EXEC, KEY, {"eligibility_state": Arg("state"), "version": Add(1)})
    )
    await put(store, execution(1), execution(2))
    for state, there in (("blocked_by_route", [2]), ("eligible_now", [1, 2])):
        await put(store, form(partition_key=0, execution_id=uid(1), state=state))
        rows = await scan(
            store,
            Scan(
                "ready",
                {"lane_id": "lane", "namespace": "default", "gate": ""},
                columns=("execution_id",),
            ),
        )
        assert rows == [(uid(n),) for n in there]


async def test_next_due_is_the_earliest_of_the_index(store: Store) -> None:
    assert await store.next_due("delayed") is None
    state = {"eligibility_state": "not_eligible_until_time"}
    await put(
        store,
        execution(1, **state, delay_until_ms=50),
        execution(2, **state, delay_until_ms=30),
        execution(3),
    )
    await put(store, execution(4, delay_until_ms=10))
    assert await store.next_due("delayed") == 30
    form = Form("t_later", Update(EXEC, KEY, {"delay_until_ms": Arg("at")}))
    await put(store, form(partition_key=0, execution_id=uid(2), at=70))
    assert await store.next_due("delayed") == 50


async def test_next_due_looks_across_all_groups(store: Store) -> None:
    ended = {"lifecycle_phase": "terminal"}
    await put(
        store, *(execution(n, **ended, lane_id=f"l{n}", terminal_at_ms=90 - n) for n in range(1, 6))
    )
    assert await store.next_due("ended") == 85


async def test_next_due_of_a_descending_index_is_its_first(store: Store) -> None:
    await put(store, execution(1, priority=2), execution(2, priority=7), execution(3, priority=-1))
    assert await store.next_due("ready") == 7


async def test_dump_returns_whole_tables(store: Store) -> None:
    await put(store, execution(1), execution(2), insert(LANE, lane_id="a"))
    found = await store.dump([EXEC, ATTEMPT])
    assert set(found) == {EXEC, ATTEMPT}
    assert found[ATTEMPT] == []
    assert found[EXEC] == [tuple((await get(store, EXEC, 0, uid(n))).values()) for n in (1, 2)]
