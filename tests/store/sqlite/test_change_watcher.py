"""Commits of other processes wake waiters of this one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from flowfabric.plan import Applied
from flowfabric.store.sqlite import change_watcher
from flowfabric.store.sqlite.registry import open_store
from flowfabric.store.sqlite.store import SqliteStore
from flowfabric.store.wakeups import Waiter

from .helpers import lane, lanes, plain

_INSERT = (
    "INSERT INTO ff_lane_registry (lane_id, registered_at_ms, registered_by) VALUES (?, 1, 'other')"
)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_watcher, "WATCH_INTERVAL_S", 0.005)


async def _settled(waiter: Waiter) -> None:
    """The watcher has checked a few times without a change."""
    assert not await waiter.wait(0.1), "rung although nothing was committed"


async def _woken_for(store: SqliteStore, waiter: Waiter, name: str) -> None:
    assert await waiter.wait(5), "not woken"
    assert name in await lanes(store)
    waiter.arm()


async def test_a_commit_on_another_connection_wakes_a_waiter(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "ff.db"))
    other = plain(tmp_path / "ff.db")
    with store.hub.waiter(("whatever", None)) as waiter:
        await _settled(waiter)
        for n in range(3):
            other.execute(_INSERT, (f"l{n}",))
            await _woken_for(store, waiter, f"l{n}")
    other.close()
    await store.close()


async def test_a_rolled_back_transaction_of_another_process_wakes_no_waiter(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "ff.db"))
    other = plain(tmp_path / "ff.db")
    with store.hub.waiter(("whatever", None)) as waiter:
        await _settled(waiter)
        other.execute("BEGIN IMMEDIATE")
        other.execute(_INSERT, ("a",))
        other.execute("ROLLBACK")
        assert not await waiter.wait(0.1)
    other.close()
    await store.close()


async def test_a_commit_of_another_process_wakes_a_waiter(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    store = open_store(str(path))
    code = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2], "
        "('there',)); db.commit(); db.close()"
    )
    with store.hub.waiter(("whatever", None)) as waiter:
        await _settled(waiter)
        await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", code, str(path), _INSERT], check=True, timeout=20
        )
        await _woken_for(store, waiter, "there")
    await store.close()


async def test_two_processes_on_one_file_wake_each_other(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    store = open_store(str(path))
    assert isinstance(await store.commit(lane("mine")), Applied)
    code = (
        "import asyncio, sys\n"
        "from flowfabric.store.sqlite.registry import open_store\n"
        "from flowfabric.plan import Form, Insert\n"
        "form = Form('f', Insert('ff_lane_registry', {'lane_id': 'theirs', "
        "'registered_at_ms': 1, 'registered_by': 'x'}))\n"
        "async def main():\n"
        "    store = open_store(sys.argv[1])\n"
        "    assert len((await store.dump(['ff_lane_registry']))['ff_lane_registry']) == 1\n"
        "    await store.commit(form())\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    with store.hub.waiter(("whatever", None)) as waiter:
        await _settled(waiter)
        run = [sys.executable, "-c", code, str(path)]
        await asyncio.to_thread(
            subprocess.run, run, check=True, timeout=30, stderr=subprocess.DEVNULL
        )
        await _woken_for(store, waiter, "theirs")
    await store.close()
