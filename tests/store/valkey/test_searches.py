"""Searches and counts on Valkey take many calls of a bounded length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from flowfabric.plan import Arg, Delete, Form, Update
from flowfabric.store.port import Count, Find, Listed, Match, Row
from flowfabric.store.schema import TABLES
from flowfabric.store.valkey import search
from flowfabric.store.valkey import store as valkey_store
from flowfabric.store.valkey.requests import Request
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing.conformance.helpers import EXEC, KEY, execution, insert, on, put, uid

pytestmark = pytest.mark.parametrize("store", ["valkey"], indirect=True)

BY = ("created_at_ms", "execution_id")
ROWS = 40
_END = Form(
    "t_searches_end",
    Update(EXEC, KEY, {"lifecycle_phase": "terminal", "terminal_outcome": "failed"}),
)
_MOVE = Form("t_searches_move", Update(EXEC, KEY, {"ownership_state": Arg("state")}))
_REMOVE = Form("t_searches_remove", Delete(EXEC, KEY))


async def fill(store: ValkeyStore) -> None:
    await put(
        store,
        *(
            execution(
                n,
                created_at_ms=n // 3,
                lane_id=f"lane-{n % 3}",
                flow_id=uid(100 + n % 4),
                lifecycle_phase="terminal",
                terminal_outcome="failed",
                terminal_at_ms=ROWS - n,
            )
            for n in range(1, ROWS + 1)
        ),
    )


class Calls:
    """The entries that each call of a search may visit, and those that it visited."""

    def __init__(self, store: ValkeyStore) -> None:
        self._load = store._load
        self.allowed: list[int] = []
        self.examined: list[int] = []

    async def __call__(self, requests: Sequence[Request]) -> tuple[int, list[Any]]:
        now, answers = await self._load(requests)
        found = [
            (request, answer)
            for request, answer in zip(requests, answers, strict=True)
            if request[0] == "find"
        ]
        if found:
            self.allowed.append(sum(request[9] for request, _ in found))
            self.examined.append(sum(int(answer[0][0]) for _, answer in found))
        return now, answers


SEARCHES = (
    Find("unowned", BY, ("execution_id",), limit=7),
    Find("unowned", BY, ("execution_id",), descending=True, after=(9, uid(27)), examine=17),
    Find("unowned", BY, ("execution_id",), (Match("lane_id", "=", "lane-1"),), limit=5),
    Find("failed", BY, ("execution_id",), (Match("lane_id", "in", ("lane-0", "lane-2")),)),
    Find("failed", BY, ("execution_id",), descending=True, examine=13),
    Find("failed", BY, ("execution_id",), group={"lane_id": "lane-2"}, after=(3, uid(10))),
    Find("executions", BY, ("execution_id",), examine=None),
    Find("members", BY, BY, group={"partition_key": 0, "flow_id": uid(101)}, limit=4),
)


@pytest.mark.parametrize("entries", [1, 2, 5, 1_000])
@pytest.mark.parametrize("read", SEARCHES, ids=range(len(SEARCHES)))
async def test_a_search_of_many_calls_finds_what_one_call_finds(
    store: ValkeyStore, read: Find, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store)
    monkeypatch.setattr(search, "ENTRIES", 1_000)
    (expected,) = (await store.load((read,))).rows
    calls = Calls(store)
    monkeypatch.setattr(store, "_load", calls)
    monkeypatch.setattr(search, "ENTRIES", entries)
    (found,) = (await store.load((read,))).rows
    if read.index == "failed" and not read.group and read.examine == 13:
        assert found[-1][0] is False
    assert found == expected
    assert max(calls.allowed) <= entries
    assert max(calls.examined) <= entries
    assert len(calls.allowed) > 1 or entries == 1_000


async def test_searches_of_one_read_share_their_calls(
    store: ValkeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store)
    calls = Calls(store)
    monkeypatch.setattr(store, "_load", calls)
    monkeypatch.setattr(search, "ENTRIES", 12)
    await store.load(SEARCHES[:3])
    assert max(calls.allowed) <= 12


@pytest.mark.parametrize(("was", "is_now"), [("unowned", "leased"), ("leased", "unowned")])
async def test_a_row_that_changes_its_index_meanwhile_is_found(
    store: ValkeyStore, was: str, is_now: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last row of the walk is claimed, or given back, between two calls."""
    await fill(store)
    await put(store, on(_MOVE, ROWS, state=was))
    load, calls = store._load, 0

    async def loading(requests: Sequence[Request]) -> tuple[int, list[Any]]:
        nonlocal calls
        if requests and requests[0][0] == "find":
            calls += 1
            if calls == 2:
                await put(store, on(_MOVE, ROWS, state=is_now))
        return await load(requests)

    monkeypatch.setattr(store, "_load", loading)
    monkeypatch.setattr(search, "ENTRIES", 20)
    reads = [
        Find(index, BY, ("execution_id",), limit=ROWS, examine=examine)
        for index, examine in (("unowned", 1_000), ("leased", None))
    ]
    found = (await store.load(reads)).rows
    assert calls > 2
    assert {row[1] for rows in found for row in rows} == {uid(n) for n in range(1, ROWS + 1)}


async def test_a_row_that_moves_on_in_its_index_is_found_once(
    store: ValkeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(
        store,
        *(execution(n, ownership_state="leased", lease_expires_at_ms=n) for n in range(1, 10)),
    )
    renew = Form("t_searches_renew", Update(EXEC, KEY, {"lease_expires_at_ms": 1_000}))
    load, calls = store._load, 0

    async def loading(requests: Sequence[Request]) -> tuple[int, list[Any]]:
        nonlocal calls
        if requests and requests[0][0] == "find":
            calls += 1
            if calls == 2:
                await put(store, on(renew, 1))
        return await load(requests)

    monkeypatch.setattr(store, "_load", loading)
    monkeypatch.setattr(search, "ENTRIES", 4)
    (rows,) = (await store.load((Find("leased", BY, ("execution_id",), examine=None),))).rows
    assert [row[1] for row in rows] == [uid(n) for n in range(1, 10)]


async def test_a_listed_value_is_looked_up_and_not_the_list_read(store: ValkeyStore) -> None:
    """A parent may have more flows than a call may visit."""
    await fill(store)
    place = {"parent_partition": 0, "parent_execution_id": uid(7)}
    await put(store, *(insert("ff_flow_core", flow_id=uid(n), **place) for n in (101, 103)))
    before = await commands(store)
    children = Listed("flow_id", "children_of", place)
    (rows,) = (
        await store.load((Find("unowned", BY, ("execution_id",), (children,), examine=4),))
    ).rows
    after = await commands(store)
    assert [row for row in rows if row[0]] == [(True, uid(1)), (True, uid(3))]
    assert after - before <= 1 + 4, "one range of the walk, and one for each row examined"


async def commands(store: ValkeyStore) -> int:
    """How many ranges the server has read."""
    connection = await store._connection()
    text = (await connection.command("INFO", "commandstats")).decode()
    lines = [line for line in text.splitlines() if line.startswith("cmdstat_zrangebylex:")]
    return int(lines[0].partition("calls=")[2].partition(",")[0]) if lines else 0


@pytest.mark.parametrize("at_once", [1, 3, 20, 1_000])
async def test_the_parts_of_a_count_join_to_the_whole_table(
    store: ValkeyStore, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey_store, "COUNTED", at_once)
    read = Count(EXEC, ("priority", "flow_id", "creator_identity"))
    assert (await store.load((read,))).rows == [[]]
    values: dict[int, Row] = {
        n: (n % 3, uid(7) if n % 2 else None, "" if n % 4 else "ann") for n in range(1, 21)
    }
    for n, (priority, flow, by) in values.items():
        await put(store, execution(n, priority=priority, flow_id=flow, creator_identity=by))
    for gone in (1, 2, 9, 20):
        await put(store, on(_REMOVE, gone))
        del values[gone]
    (counted,) = (await store.load((read,))).rows
    assert {row[:-1]: row[-1] for row in counted} == Counter(values.values())


async def test_a_count_sends_groups_and_not_rows(
    store: ValkeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store)
    load, sent = store._load, []

    async def loading(requests: Sequence[Request]) -> tuple[int, list[Any]]:
        now, answers = await load(requests)
        sent.extend(answers)
        return now, answers

    monkeypatch.setattr(store, "_load", loading)
    await store.load((Count(EXEC, ("lane_id",)),))
    assert [len(answer) for answer in sent] == [1 + 3]


@pytest.mark.parametrize(("rows", "bytes_"), [(3, 1_000_000), (1_000, 1), (1_000, 2_000)])
async def test_the_parts_of_a_dump_join_to_the_whole_table(
    store: ValkeyStore, rows: int, bytes_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store)
    whole = await store.dump(TABLES)
    assert len(whole[EXEC]) == ROWS
    monkeypatch.setattr(valkey_store, "PAGE", rows)
    monkeypatch.setattr(valkey_store, "PAGE_BYTES", bytes_)
    parts = [len(part) async for part in store.rows_of(EXEC, TABLES[EXEC].names)]
    assert len(parts) > 2
    assert max(parts) <= rows
    assert await store.dump(TABLES) == whole
