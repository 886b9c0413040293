"""Searches: rows that match among a bounded number, and counts of a whole table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from flowfabric.plan import Arg, Form, Update
from flowfabric.store.port import AnyMatch, Condition, Count, Find, Listed, Match, Row, Store
from flowfabric.store.schema import TABLES
from flowfabric.testing.conformance.helpers import (
    EXEC,
    KEY,
    Fields,
    execution,
    insert,
    on,
    put,
    uid,
)

BY = ("created_at_ms", "execution_id")
ROWS = 12
TEXTS = ("", "abc", "ab", "a%b_c", "ÄÖ€𝄞z", "it's", 'say "x"', "a\\b", "ABC", "b: abc")
_MOVE = Form("t_find_move", Update(EXEC, KEY, {"ownership_state": Arg("state")}))


def _values(n: int) -> Fields:
    """Three executions are created at a time. Every fifth has no text and no end."""
    return {
        "created_at_ms": n // 3,
        "priority": n % 4,
        "lane_id": f"lane-{n % 2}",
        "flow_id": None if n % 5 == 0 else uid(100 + n % 3),
        "tags": f'{{"n":"{n}"}}',
        "failure_reason": None if n % 5 == 0 else TEXTS[n % len(TEXTS)],
        "terminal_at_ms": None if n % 5 == 0 else 50 + n,
    }


async def _fill(store: Store) -> None:
    await put(store, *(execution(n, **_values(n)) for n in range(1, ROWS + 1)))


async def _rows(store: Store) -> list[Fields]:
    found = (await store.dump([EXEC]))[EXEC]
    return [dict(zip(TABLES[EXEC].names, row, strict=True)) for row in found]


def _place(row: Fields) -> tuple[Any, ...]:
    return tuple(row[column] for column in BY)


async def _find(store: Store, read: Find) -> list[Row]:
    return (await store.load((read,))).rows[0]


def _all(*matches: Condition, **more: Any) -> Find:
    return Find("unowned", BY, ("execution_id",), matches, **more)


def _hits(*numbers: int) -> list[Row]:
    return [(True, uid(n)) for n in numbers]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("page", [1, 4, 100])
async def test_pages_of_a_search_join_to_its_order(
    store: Store, page: int, descending: bool
) -> None:
    await _fill(store)
    seen: list[Row] = []
    after: Row | None = None
    for _ in range(ROWS + 1):
        read = Find(
            "unowned", BY, BY, descending=descending, after=after, limit=page, examine=1_000
        )
        rows = await _find(store, read)
        assert all(row[0] is True for row in rows)
        seen += [row[1:] for row in rows]
        if len(rows) < page:
            break
        after = rows[-1][1:]
    assert seen == sorted(map(_place, await _rows(store)), reverse=descending)


@pytest.mark.parametrize("descending", [False, True])
async def test_a_search_examines_so_many_rows_and_names_the_last(
    store: Store, descending: bool
) -> None:
    await _fill(store)
    order = list(range(ROWS, 0, -1)) if descending else list(range(1, ROWS + 1))
    for examine in (1, 5, ROWS - 1, ROWS):
        rows = await _find(store, _all(examine=examine, descending=descending))
        assert rows == [*_hits(*order[:examine]), (False, uid(order[examine - 1]))]
    for unreached in (ROWS + 1, None):
        read = _all(examine=unreached, descending=descending)
        assert await _find(store, read) == _hits(*order)


async def test_the_bound_counts_rows_behind_the_position(store: Store) -> None:
    await _fill(store)
    read = _all(Match("priority", "=", 1), after=(1, uid(4)), examine=4)
    assert await _find(store, read) == [*_hits(5), (False, uid(8))]
    read = _all(Match("priority", "=", 1), after=(3, uid(10)), examine=4, descending=True)
    assert await _find(store, read) == [*_hits(9), (False, uid(6))]


async def test_a_search_answers_with_the_first_matches(store: Store) -> None:
    await _fill(store)
    found = _all(Match("priority", "=", 1), limit=2)
    assert await _find(store, found) == _hits(1, 5)
    assert await _find(store, _all(limit=0)) == []
    assert await _find(store, _all(limit=0, examine=3)) == [(False, uid(3))]


CONDITIONS: list[tuple[Match, Callable[[Any], bool]]] = [
    (Match("priority", "=", 2), lambda value: value == 2),
    (Match("priority", "<", 2), lambda value: value < 2),
    (Match("priority", "<=", 2), lambda value: value <= 2),
    (Match("terminal_at_ms", ">", 54), lambda value: value > 54),
    (Match("terminal_at_ms", ">=", 54), lambda value: value >= 54),
    (Match("priority", "in", (1, 3)), lambda value: value in (1, 3)),
    (Match("priority", "in", ()), lambda value: False),
    (Match("flow_id", "=", uid(101)), lambda value: value == uid(101)),
    (Match("flow_id", "in", (uid(100), uid(102))), lambda value: value in (uid(100), uid(102))),
    (Match("tags", "contains", '"n":"1'), lambda value: '"n":"1' in value),
    *(
        (Match("failure_reason", "starts", text), lambda value, text=text: value.startswith(text))
        for text in (*TEXTS[1:], "a", "Ä", "ÄÖ€𝄞", "%", "_", "A")
    ),
    *(
        (Match("failure_reason", "contains", text), lambda value, text=text: text in value)
        for text in (*TEXTS[1:], "b", "€", "𝄞", "%", "_", '"', "'", "\\", ": a", "B")
    ),
    *(
        (Match("failure_reason", "=", text), lambda value, text=text: value == text)
        for text in TEXTS
    ),
]


@pytest.mark.parametrize(
    ("match", "holds"), CONDITIONS, ids=[f"{m.column} {m.op} {m.value}" for m, _ in CONDITIONS]
)
async def test_a_condition_holds_for_the_rows_whose_value_meets_it(
    store: Store, match: Match, holds: Callable[[Any], bool]
) -> None:
    await _fill(store)
    expected = [
        row["execution_id"]
        for row in sorted(await _rows(store), key=_place)
        if row[match.column] is not None and holds(row[match.column])
    ]
    assert await _find(store, _all(match)) == [(True, ident) for ident in expected]


async def test_all_conditions_hold_and_one_of_the_alternatives(store: Store) -> None:
    await _fill(store)
    either = AnyMatch((Match("priority", "=", 1), Match("failure_reason", "starts", "ab")))
    assert await _find(store, _all(either)) == _hits(1, 2, 5, 9, 11, 12)
    both = (either, Match("lane_id", "=", "lane-1"))
    assert await _find(store, _all(*both)) == _hits(1, 5, 9, 11)


async def test_a_condition_on_the_values_in_a_group_of_another_index(store: Store) -> None:
    await _fill(store)
    for flow, parent in ((100, 7), (101, 7), (102, 8)):
        place = {"parent_partition": 0, "parent_execution_id": uid(parent)}
        await put(store, insert("ff_flow_core", flow_id=uid(flow), **place))

    def children(parent: int) -> Listed:
        group = {"parent_partition": 0, "parent_execution_id": uid(parent)}
        return Listed("flow_id", "children_of", group)

    assert await _find(store, _all(children(7))) == _hits(1, 3, 4, 6, 7, 9, 12)
    assert await _find(store, _all(children(8))) == _hits(2, 8, 11)
    assert await _find(store, _all(children(9))) == []


async def test_a_condition_with_thousands_of_values(store: Store) -> None:
    await _fill(store)
    read = _all(Match("flow_id", "in", tuple(uid(n) for n in range(102, 8_000))))
    assert await _find(store, read) == _hits(2, 8, 11)


@pytest.mark.parametrize("descending", [False, True])
async def test_the_rows_of_a_group_come_in_the_order_of_the_search(
    store: Store, descending: bool
) -> None:
    ended = {"lifecycle_phase": "terminal", "terminal_outcome": "failed"}
    await put(
        store,
        *(
            execution(n, **{**_values(n), **ended, "terminal_at_ms": 100 - n})
            for n in range(1, ROWS + 1)
        ),
    )

    def failed(*matches: Condition, **more: Any) -> Find:
        columns = ("execution_id",)
        return Find("failed", BY, columns, matches, descending=descending, **more)

    order = list(range(ROWS, 0, -1)) if descending else list(range(1, ROWS + 1))
    odd = [n for n in order if n % 2]
    lane = {"lane_id": "lane-1"}
    assert await _find(store, failed(group=lane)) == _hits(*odd)
    assert await _find(store, failed(group=lane, limit=2)) == _hits(*odd[:2])
    assert await _find(store, failed()) == _hits(*order)
    behind = [n for n in order if (n < 6 if descending else n > 6)]
    assert await _find(store, failed(after=(2, uid(6)))) == _hits(*behind)
    last = (False, uid(11 - 2 * 2))
    assert await _find(store, failed(group=lane, examine=3)) == [
        *_hits(*(n for n in odd if n >= 7)),
        last,
    ]
    few = await _find(store, failed(Match("priority", "=", 9), examine=7))
    assert few == [(False, uid(11))]


async def test_a_search_reads_the_rows_of_its_index(store: Store) -> None:
    await _fill(store)
    await put(store, on(_MOVE, 3, state="leased"))
    assert await _find(store, _all(limit=4)) == _hits(1, 2, 4, 5)
    leased = Find("leased", BY, ("execution_id",))
    assert await _find(store, leased) == _hits(3)


async def test_a_row_of_a_search_has_its_columns_in_order(store: Store) -> None:
    await put(store, execution(1, flow_id=uid(2), budget_ids=("a", "b"), payload=b"p"))
    columns = ("payload", "execution_id", "budget_ids", "flow_id", "delay_until_ms", "tags")
    rows = await _find(store, Find("unowned", BY, columns, examine=1))
    values = (b"p", uid(1), ("a", "b"), uid(2), None, "{}")
    assert rows == [(True, *values), (False, *values)]


async def test_searches_and_other_reads_are_answered_in_the_order_asked(store: Store) -> None:
    await _fill(store)
    counts = Count(EXEC, ("lane_id",))
    loaded = await store.load((_all(limit=1), counts, _all(limit=1, descending=True)))
    first, counted, last = loaded.rows
    assert (first, last) == (_hits(1), _hits(ROWS))
    assert sorted(counted) == [("lane-0", 6), ("lane-1", 6)]


async def test_a_count_is_of_every_row_by_the_values_of_its_columns(store: Store) -> None:
    columns = ("lane_id", "priority", "flow_id")
    assert (await store.load((Count(EXEC, columns),))).rows == [[]]
    await _fill(store)
    await put(store, on(_MOVE, 3, state="leased"))
    expected = Counter(tuple(row[c] for c in columns) for row in await _rows(store))
    (counted,) = (await store.load((Count(EXEC, columns),))).rows
    assert len(counted) == len(expected)
    assert {row[:-1]: row[-1] for row in counted} == expected
