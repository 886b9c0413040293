"""Few rows are read on the calling thread, many on a reader thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowfabric.errors import TransportError
from flowfabric.store.port import Count, Find, Get, GetAll, Read, Scan, Tally
from flowfabric.store.sqlite.inline_reads import MAX_ROWS
from flowfabric.store.sqlite.registry import open_store
from flowfabric.store.sqlite.store import SqliteStore

from .helpers import lane

FEW: list[Read] = [
    Get("ff_lane_registry", ("l0",), ("lane_id",)),
    Scan("lanes", limit=MAX_ROWS - 1, columns=("lane_id",)),
]


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The reads that a reader thread received."""
    handed: list[Any] = []
    read = SqliteStore.read

    async def noted(self: SqliteStore, work: Any) -> Any:
        handed.append(work)
        return await read(self, work)

    monkeypatch.setattr(SqliteStore, "read", noted)
    return handed


async def filled(path: Path, count: int, **settings: Any) -> SqliteStore:
    store = open_store(str(path / "ff.db"), **settings)
    await store.commit_many([lane(f"l{at}") for at in range(count)])
    return store


async def test_few_rows_are_read_without_a_thread(tmp_path: Path, threads: list[Any]) -> None:
    store = await filled(tmp_path, MAX_ROWS)
    loaded = await store.load(FEW)
    assert [len(rows) for rows in loaded.rows] == [1, MAX_ROWS - 1]
    assert threads == []
    await store.close()


async def test_one_row_too_many_is_read_by_a_thread_and_the_next_read_is_inline(
    tmp_path: Path, threads: list[Any]
) -> None:
    store = await filled(tmp_path, MAX_ROWS)
    loaded = await store.load([FEW[0], Scan("lanes", limit=1_000)])
    assert [len(rows) for rows in loaded.rows] == [1, MAX_ROWS]
    assert len(threads) == 1
    await store.commit(lane("another"))
    assert len((await store.load(FEW)).rows[1]) == MAX_ROWS - 1
    assert len(threads) == 1
    await store.close()


async def test_many_keys_are_read_by_a_thread(tmp_path: Path, threads: list[Any]) -> None:
    store = await filled(tmp_path, 1)
    for count in (MAX_ROWS, MAX_ROWS + 1):
        loaded = await store.load(
            [GetAll("ff_lane_registry", [(f"l{at}",) for at in range(count)], ("lane_id",))]
        )
        assert loaded.rows == [[("l0",)]]
    assert len(threads) == 1
    await store.close()


async def test_a_committed_row_is_visible_to_inline_reads(
    tmp_path: Path, threads: list[Any]
) -> None:
    store = await filled(tmp_path, 0)
    for at in range(20):
        await store.commit(lane(f"l{at}"))
        assert len((await store.load([Scan("lanes", limit=100)])).rows[0]) == at + 1
    assert threads == []
    await store.close()


async def test_a_read_does_not_wait_for_another_inline_read(
    tmp_path: Path, threads: list[Any]
) -> None:
    store = await filled(tmp_path, 3)
    assert store.inline_reads is not None
    with store.inline_reads.lock:
        assert len((await store.load(FEW)).rows[1]) == 3
    assert len(threads) == 1
    await store.close()


async def test_two_event_loops_read_at_once(tmp_path: Path) -> None:
    store = await filled(tmp_path, 50)
    counts: list[int] = []

    def reading() -> None:
        async def often() -> None:
            counts.extend([len((await store.load(FEW)).rows[1]) for _ in range(200)])

        asyncio.run(often())

    started = [threading.Thread(target=reading) for _ in range(3)]
    for thread in started:
        thread.start()
    for _ in range(50):
        assert len((await store.load(FEW)).rows[1]) == 50
    for thread in started:
        await asyncio.to_thread(thread.join)
    assert counts == [50] * 600
    await store.close()


async def test_with_a_rollback_journal_every_read_uses_a_thread(
    tmp_path: Path, threads: list[Any]
) -> None:
    store = await filled(tmp_path, 3, wal=False)
    assert len((await store.load(FEW)).rows[1]) == 3
    assert len(threads) == 1
    await store.close()


async def test_failures_and_a_closed_database_are_transport_errors(tmp_path: Path) -> None:
    store = await filled(tmp_path, 3)
    assert store.inline_reads is not None
    store.inline_reads.db.close()
    with pytest.raises(TransportError, match="closed"):
        await store.load(FEW)
    await store.close()
    with pytest.raises(TransportError, match="the database was closed"):
        await store.load(FEW)


@pytest.mark.parametrize(
    "read",
    [
        Count("ff_lane_registry", ("lane_id",)),
        Tally("lanes", MAX_ROWS + 1, ("lane_id",)),
        Find("lanes", ("lane_id",), ("lane_id",), examine=MAX_ROWS + 1),
        Find("lanes", ("lane_id",), ("lane_id",), examine=None),
    ],
    ids=["count", "tally", "search", "search of all"],
)
async def test_few_rows_that_many_are_examined_for_are_read_by_a_thread(
    tmp_path: Path, threads: list[Any], read: Read
) -> None:
    store = await filled(tmp_path, 2)
    loaded = await store.load([read])
    assert (len(loaded.rows[0]), len(threads)) == (2, 1)
    await store.close()
