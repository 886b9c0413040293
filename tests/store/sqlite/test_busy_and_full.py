"""A locked file and a full disk: bounded waits, typed errors, no partial writes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from flowfabric.errors import Contention, ContentionKind, ResourceExhausted
from flowfabric.plan import Applied
from flowfabric.store.sqlite import group_commit as groups_module
from flowfabric.store.sqlite import uri as target_module
from flowfabric.store.sqlite.registry import open_store
from flowfabric.store.sqlite.store import SqliteStore

from .helpers import lane, lanes, plain, pragma


@pytest.fixture
def held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[SqliteStore, sqlite3.Connection]]:
    """A store that waits 10 ms for a lock, and a connection that holds it."""
    monkeypatch.setattr(target_module, "BUSY_TIMEOUT_MS", 10)
    store = open_store(str(tmp_path / "ff.db"))
    other = plain(tmp_path / "ff.db")
    other.execute("BEGIN EXCLUSIVE")
    yield store, other
    other.close()
    asyncio.run(store.close())


async def test_a_lock_held_throughout_is_contention_after_three_tries(
    held: tuple[SqliteStore, sqlite3.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = held
    slept: list[float] = []
    monkeypatch.setattr(groups_module, "time", SimpleNamespace(sleep=slept.append))
    found = await asyncio.gather(
        store.commit(lane("a")),
        store.commit_together([lane("b"), lane("c")]),
        store.commit_many([lane("d")]),
        return_exceptions=True,
    )
    for error in found:
        assert isinstance(error, Contention) and error.kind is ContentionKind.RETRY_EXHAUSTED
    assert slept and slept == [0.005, 0.01] * (len(slept) // 2)
    assert await lanes(store) == [], "reads go on while the lock is held"
    other.execute("ROLLBACK")
    assert await lanes(store) == []
    assert isinstance(await store.commit(lane("e")), Applied)
    assert await lanes(store) == ["e"]


@pytest.mark.parametrize("released_at", [1, 2])
async def test_a_lock_released_between_tries_is_retried(
    held: tuple[SqliteStore, sqlite3.Connection], monkeypatch: pytest.MonkeyPatch, released_at: int
) -> None:
    store, other = held
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == released_at:
            other.execute("ROLLBACK")

    monkeypatch.setattr(groups_module, "time", SimpleNamespace(sleep=sleep))
    assert isinstance(await store.commit_together([lane("a"), lane("b")]), Applied)
    assert len(slept) == released_at
    assert await lanes(store) == ["a", "b"]


async def test_the_writer_waits_for_a_lock_that_is_released_soon(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "ff.db"))
    other = plain(tmp_path / "ff.db")
    other.execute("BEGIN EXCLUSIVE")
    waiting = asyncio.ensure_future(store.commit(lane("a")))
    done, _ = await asyncio.wait({waiting}, timeout=0.05)
    assert not done
    other.execute("ROLLBACK")
    assert isinstance(await asyncio.wait_for(waiting, 5), Applied)
    other.close()
    await store.close()


async def test_rows_of_another_process_are_respected(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "ff.db"))
    other = plain(tmp_path / "ff.db")
    other.execute(
        "INSERT INTO ff_lane_registry (lane_id, registered_at_ms, registered_by) "
        "VALUES ('a', 1, 'other')"
    )
    answers = await store.commit_many([lane("a"), lane("b")])
    assert [isinstance(a, Applied) for a in answers] == [False, True]
    assert other.execute(
        "SELECT lane_id, registered_by FROM ff_lane_registry ORDER BY 1"
    ).fetchall() == [
        ("a", "other"),
        ("b", "test"),
    ]
    other.close()
    await store.close()


# ---- no room

_BULKY = "x" * 100_000


@pytest.fixture
def full(tmp_path: Path) -> Iterator[SqliteStore]:
    store = open_store(str(tmp_path / "ff.db"))
    asyncio.run(_fill_up(store))
    yield store
    asyncio.run(store.close())


async def _fill_up(store: SqliteStore) -> None:
    await store.commit(lane("before"))
    pages = await pragma(store, "page_count")
    assert await pragma(store, f"max_page_count = {pages + 5}") == pages + 5


async def test_a_full_disk_refuses_writes_keeps_reads_and_recovers(full: SqliteStore) -> None:
    with pytest.raises(ResourceExhausted):
        await full.commit(lane("big", by=_BULKY))
    with pytest.raises(ResourceExhausted):
        await full.commit_together([lane("small"), lane("big", by=_BULKY)])
    assert await lanes(full) == ["before"]
    await pragma(full, "max_page_count = 1000000")
    assert isinstance(await full.commit(lane("big", by=_BULKY)), Applied)
    assert await lanes(full) == ["before", "big"]
    assert await pragma(full, "integrity_check") == "ok"


async def test_a_small_write_fits_on_a_full_disk(full: SqliteStore) -> None:
    with pytest.raises(ResourceExhausted):
        await full.commit(lane("big", by=_BULKY))
    assert isinstance(await full.commit(lane("small")), Applied)
    assert await lanes(full) == ["before", "small"]


async def test_a_write_on_a_full_disk_wakes_no_waiter(full: SqliteStore) -> None:
    rung: list[object] = []
    full.hub.announce = lambda topics, dues: rung.extend([*topics, *dues])  # type: ignore[method-assign]
    with pytest.raises(ResourceExhausted):
        await full.commit(lane("big", by=_BULKY))
    assert rung == []
