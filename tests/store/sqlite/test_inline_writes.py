"""A job or two without competition are written inline; all other jobs by the thread."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowfabric.errors import TransportError
from flowfabric.plan import Applied
from flowfabric.store.sqlite import writer as writer_module
from flowfabric.store.sqlite.jobs import Execute
from flowfabric.store.sqlite.registry import open_store
from flowfabric.store.sqlite.store import SqliteStore
from tests.patience import patience

from .helpers import failing, lane, lanes, plain


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """No group counts as slow, whatever the machine."""
    monkeypatch.setattr(writer_module, "SLOW_S", 1e9)
    store = open_store(str(tmp_path / "ff.db"))
    yield store
    asyncio.run(store.close())


class Threads:
    """Records which thread ran a statement."""

    def __init__(self, store: SqliteStore, statement: str) -> None:
        self._real: Any = None
        self._statement, self.seen = statement, list[int]()
        store.writer.group_commit.replace_cursor(self._wrap)

    def _wrap(self, real: sqlite3.Cursor) -> Any:
        self._real = real
        return self

    def execute(self, sql: str, *params: Any) -> Any:
        if sql.startswith(self._statement):
            self.seen.append(threading.get_ident())
        return self._real.execute(sql, *params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


async def test_a_lone_job_is_written_on_the_calling_thread(store: SqliteStore) -> None:
    threads = Threads(store, "COMMIT")
    assert isinstance(await store.commit(lane("a")), Applied)
    assert isinstance(await store.commit_together([lane("b"), lane("c")]), Applied)
    assert threads.seen == [threading.get_ident()] * 2
    assert await lanes(store) == ["a", "b", "c"]


async def test_many_jobs_share_a_transaction_of_the_writer_thread(store: SqliteStore) -> None:
    threads = Threads(store, "COMMIT")
    await asyncio.gather(*(store.commit(lane(f"l{n}")) for n in range(20)))
    assert threads.seen == [store.writer.thread.ident]


@pytest.mark.parametrize("count", [1, 9])
async def test_a_large_job_is_written_by_the_thread(store: SqliteStore, count: int) -> None:
    threads = Threads(store, "COMMIT")
    await store.commit_many([lane(f"l{n}") for n in range(count)])
    assert (threads.seen == [threading.get_ident()]) is (count == 1)
    assert len(await lanes(store)) == count


async def test_no_job_overtakes_the_writer_thread(store: SqliteStore) -> None:
    """A job submitted behind `last_event` is written behind its answer."""
    gate, order = threading.Event(), list[str]()
    held = store.writer.submit(Execute(lambda db: gate.wait(10)))
    last = store.writer.submit(Execute(lambda db: order.append("asked")))
    await asyncio.sleep(0)
    writing = asyncio.ensure_future(store.commit(lane("a")))
    writing.add_done_callback(lambda _: order.append("written"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert order == []
    gate.set()
    await asyncio.gather(held, last, writing)
    assert order == ["asked", "written"]


async def test_after_a_slow_group_the_thread_writes_the_next_groups(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "SLOW_S", -1.0)
    await store.commit(lane("slow"))
    monkeypatch.setattr(writer_module, "SLOW_S", 1e9)
    threads = Threads(store, "COMMIT")
    for n in range(writer_module.GROUPS_AFTER_SLOW + 2):
        await store.commit(lane(f"l{n}"))
    here = [seen == threading.get_ident() for seen in threads.seen]
    assert here == [False] * writer_module.GROUPS_AFTER_SLOW + [True] * 2


async def test_a_lock_of_another_process_blocks_the_thread_and_not_the_event_loop(
    store: SqliteStore, tmp_path: Path
) -> None:
    other = plain(tmp_path / "ff.db")
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(store.commit(lane("a")))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    assert isinstance(await asyncio.wait_for(waiting, patience(10)), Applied)
    assert await lanes(store) == ["a"]


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "INSERT", "COMMIT"])
@pytest.mark.parametrize("code", [5, 6])
async def test_a_busy_inline_write_is_repeated_once_by_the_thread(
    store: SqliteStore, statement: str, code: int
) -> None:
    cursor = failing(store, statement, code, 1)
    assert isinstance(await store.commit(lane("a")), Applied)
    assert (cursor.raised, store.writer.inline_groups) == (1, 0)
    assert await lanes(store) == ["a"]


async def test_a_disk_error_of_an_inline_write_stops_all_writing(store: SqliteStore) -> None:
    failing(store, "COMMIT", 10, 1)
    for _ in range(2):
        with pytest.raises(TransportError, match="writing stopped"):
            await store.commit(lane("a"))


def test_an_interrupt_of_an_inline_write_leaves_no_transaction_open(store: SqliteStore) -> None:
    """Ctrl-C between two statements: the loop ends, but the file is not left locked."""
    failing(store, "INSERT", 5, 1).error = KeyboardInterrupt()

    async def commit(name: str) -> list[str]:
        await store.commit(lane(name))
        return await lanes(store)

    loop = asyncio.new_event_loop()
    interrupted = loop.create_task(commit("a"))
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(interrupted)
    interrupted.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(interrupted)
    loop.close()
    assert not store.writer.group_commit.db.in_transaction
    assert asyncio.run(commit("b")) == ["b"]


async def test_a_job_cancelled_before_it_is_written_changes_nothing(store: SqliteStore) -> None:
    gone = store.commit(lane("a"))
    asyncio.ensure_future(gone).cancel()
    await asyncio.sleep(0)
    assert await lanes(store) == []
    assert isinstance(await store.commit(lane("b")), Applied)


def test_a_job_of_a_closed_event_loop_does_not_block_another_loop(store: SqliteStore) -> None:
    """The loop ended before the write: the thread writes the job, and another loop works."""

    async def leave() -> None:
        store.commit(lane("a"))

    async def go_on() -> list[str]:
        assert isinstance(await store.commit(lane("b")), Applied)
        return await lanes(store)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(asyncio.wait_for(leave(), 5))
    loop.close()
    assert asyncio.run(go_on()) == ["a", "b"]


async def test_closing_writes_gathered_jobs(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "other.db"))
    queued = store.commit(lane("a"))
    store.writer.stop()
    assert isinstance(await asyncio.wait_for(asyncio.ensure_future(queued), patience(10)), Applied)
    await store.close()
