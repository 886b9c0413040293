"""One time for all processes of a database whose wall clock was set back."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from flowfabric.store.sqlite.store import SqliteStore
from flowfabric.store.sqlite.uri import parse_target
from flowfabric.testing import ManualClock

from .helpers import lane

HOUR_MS = 3_600_000


def opened(path: Path, clock: ManualClock) -> SqliteStore:
    """A separate store, as in another process."""
    return SqliteStore(parse_target(str(path)), clock=clock).retain()


def kept(path: Path) -> list[int]:
    db = sqlite3.connect(path)
    found = [row[0] for row in db.execute("SELECT latest_ms FROM ff_clock")]
    db.close()
    return found


async def commit(store: SqliteStore, name: str) -> int:
    await store.commit(lane(name))
    return await store.now_ms()


@pytest.mark.meets("clock_step", "crash")
async def test_a_process_that_starts_after_a_step_back_returns_no_earlier_time(
    tmp_path: Path,
) -> None:
    path, clock = tmp_path / "ff.db", ManualClock()
    first = opened(path, clock)
    before = await commit(first, "a")
    clock.now_ms -= HOUR_MS
    assert await commit(first, "b") == before
    restarted = opened(path, clock)
    assert await restarted.now_ms() == before
    assert await commit(restarted, "c") == before
    await first.close()
    await restarted.close()


async def test_a_running_process_follows_with_its_next_commit(tmp_path: Path) -> None:
    path, ahead, right = tmp_path / "ff.db", ManualClock(), ManualClock()
    other, first = opened(path, right), opened(path, ahead)
    ahead.advance(HOUR_MS)
    before = await commit(first, "a")
    ahead.now_ms -= HOUR_MS
    await commit(first, "b")
    assert await other.now_ms() < before
    assert await commit(other, "c") == before
    await first.close()
    await other.close()


async def test_no_time_is_stored_once_the_wall_clock_has_caught_up(tmp_path: Path) -> None:
    path, clock = tmp_path / "ff.db", ManualClock()
    store = opened(path, clock)
    before = await commit(store, "a")
    assert kept(path) == []
    clock.now_ms -= HOUR_MS
    await commit(store, "b")
    assert kept(path) == [before]
    clock.advance(HOUR_MS + 1)
    assert await commit(store, "c") == before + 1
    assert kept(path) == []
    await store.close()
