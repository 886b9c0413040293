"""One store per database and process, for as long as it has users."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flowfabric.connect import SqliteBackend
from flowfabric.errors import TransportError
from flowfabric.plan import Applied
from flowfabric.store.sqlite.jobs import Execute
from flowfabric.store.sqlite.registry import open_store
from flowfabric.store.sqlite.store import SqliteStore
from tests.patience import patience

from .helpers import lane, lanes, pragma

_names = iter(range(10_000))


@pytest.fixture
def memory_name() -> Iterator[str]:
    return iter([f"file:registry-{next(_names)}?mode=memory"])


async def test_the_same_file_is_one_store_however_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spellings = ["new.db", str(tmp_path / "new.db"), "./new.db", "file:new.db"]
    opened = [await SqliteBackend.new(text, dev=True) for text in spellings]
    assert len({id(backend.store) for backend in opened}) == 1
    assert len({id(backend) for backend in opened}) == len(opened)
    for backend in opened:
        await backend.close()


async def test_a_new_file_in_a_linked_folder_is_known_by_its_real_path_afterwards(
    tmp_path: Path,
) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    os.mkdir(real)
    os.symlink(real, link)
    opened = [open_store(str(folder / "new.db")) for folder in (link, link, real)]
    assert len({id(store) for store in opened}) == 1
    for store in opened:
        await store.close()


async def test_different_files_and_names_are_different_stores(tmp_path: Path) -> None:
    names = [
        str(tmp_path / "a.db"),
        str(tmp_path / "b.db"),
        "file:reg-x?mode=memory",
        "file:reg-y?mode=memory",
    ]
    opened = [open_store(name) for name in names]
    assert len({id(store) for store in opened}) == 4
    for at, store in enumerate(opened):
        await store.commit(lane(f"l{at}"))
    for at, store in enumerate(opened):
        assert await lanes(store) == [f"l{at}"]
        await store.close()


async def test_a_store_closes_with_its_last_user_and_can_be_opened_again(tmp_path: Path) -> None:
    path = str(tmp_path / "ff.db")
    first, second = open_store(path), open_store(path)
    await first.commit(lane("kept"))
    await first.close()
    assert not second.closed
    assert await lanes(second) == ["kept"]
    await second.close()
    assert first.closed
    with pytest.raises(TransportError, match="closed"):
        await first.commit(lane("late"))
    again = open_store(path)
    assert again is not first
    assert await lanes(again) == ["kept"]
    await again.close()


async def test_a_closing_store_is_not_reused(tmp_path: Path) -> None:
    path = str(tmp_path / "ff.db")
    store, gate = open_store(path), threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    busy = loop.run_in_executor(None, gate.wait, 10)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    again = open_store(path)
    gate.set()
    await asyncio.gather(busy, closing)
    assert isinstance(await again.commit(lane("a")), Applied)
    await again.close()


async def test_closing_finishes_what_is_queued(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "ff.db"))
    gate, entered = threading.Event(), threading.Event()
    held = store.writer.submit(Execute(lambda db: (entered.set(), gate.wait(10))))
    assert await asyncio.to_thread(entered.wait, 5)
    queued = [store.commit(lane(f"l{n}")) for n in range(20)]
    closing = asyncio.create_task(store.close())
    for _ in range(2_000):
        if not store.writer.is_open:
            break
        await asyncio.sleep(0.001)
    gate.set()
    await asyncio.wait_for(closing, patience(10))
    await held
    assert all(isinstance(answer, Applied) for answer in await asyncio.gather(*queued))


def test_threads_that_open_at_once_get_one_store(tmp_path: Path) -> None:
    path, start = str(tmp_path / "ff.db"), threading.Barrier(8)

    def opening() -> SqliteStore:
        start.wait(10)
        return open_store(path)

    with ThreadPoolExecutor(8) as pool:
        stores = [f.result(10) for f in [pool.submit(opening) for _ in range(8)]]
    assert len({id(store) for store in stores}) == 1

    async def close() -> None:
        for at, store in enumerate(stores):
            assert store.closed is False, f"closed after {at} of 8"
            await store.close()

    asyncio.run(close())
    assert stores[0].closed


def test_a_failed_open_does_not_stop_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "ff.db"
    with pytest.raises(TransportError, match="cannot open") as caught:
        open_store(str(path))
    assert str(path) in str(caught.value)
    path.parent.mkdir()
    asyncio.run(open_store(str(path)).close())


def test_a_collected_store_closes_itself(tmp_path: Path) -> None:
    path = str(tmp_path / "ff.db")
    store = open_store(path)
    thread, gone = store.writer.thread, weakref.ref(store)
    del store
    gc.collect()
    assert gone() is None
    thread.join(5)
    assert not thread.is_alive()
    asyncio.run(open_store(path).close())


FORKS = """
import asyncio, os, signal, sys
from flowfabric.store.sqlite.registry import open_store

store = open_store(sys.argv[1])
held = [store.writer._submitting]
if store.inline_reads is not None:
    held.append(store.inline_reads.lock)
for lock in held:
    lock.acquire()
child = os.fork()
if child == 0:
    signal.alarm(int(sys.argv[2]))
    if "closes" in sys.argv:
        asyncio.run(store.close())
    sys.exit(0)
_, status = os.waitpid(child, 0)
for lock in held:
    lock.release()
assert status == 0, "the child did not exit by itself"

async def use_and_close():
    assert await store.execute_for_test("SELECT 1") == [(1,)]
    await store.close()

asyncio.run(use_and_close())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("more", [(), ("closes",)], ids=["exits", "closes"])
@pytest.mark.parametrize("name", ["ff.db", "file:forked?mode=memory"])
def test_a_child_forked_while_locks_are_held_exits_and_the_parent_goes_on(
    tmp_path: Path, name: str, more: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS, name, str(round(patience(20))), *more],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patience(40),
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "ff.db-wal").exists(), "it was not closed"


def test_an_idle_memory_database_keeps_its_rows(memory_name: Iterator[str]) -> None:
    name = next(memory_name)
    store = open_store(name)
    asyncio.run(_commit(store, "kept"))
    gc.collect()
    other = open_store(name)
    assert other is store
    assert asyncio.run(lanes(other)) == ["kept"]
    asyncio.run(other.close())
    assert asyncio.run(lanes(store)) == ["kept"]
    asyncio.run(store.close())
    fresh = open_store(name)
    assert asyncio.run(lanes(fresh)) == []
    asyncio.run(fresh.close())


async def _commit(store: SqliteStore, name: str) -> None:
    assert isinstance(await store.commit(lane(name)), Applied)


def test_a_store_serves_one_event_loop_after_another(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "ff.db"))
    for n in range(5):
        asyncio.run(_commit(store, f"l{n}"))
    assert asyncio.run(lanes(store)) == [f"l{n}" for n in range(5)]
    asyncio.run(store.close())


# ---- settings


async def test_a_file_is_in_wal_mode_with_full_synchronisation(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "ff.db"))
    assert await pragma(store, "journal_mode") == "wal"
    assert await pragma(store, "synchronous") == 2
    assert await pragma(store, "foreign_keys") == 1
    assert await pragma(store, "busy_timeout") == 5_000
    assert store.durability == "full"
    await store.close()


@pytest.mark.parametrize(
    ("settings", "journal"), [({"wal": False}, "delete"), ({"wal": True}, "wal")]
)
async def test_wal_can_be_turned_off(
    tmp_path: Path, settings: dict[str, bool], journal: str
) -> None:
    store = open_store(str(tmp_path / "ff.db"), **settings)
    assert await pragma(store, "journal_mode") == journal
    await _commit(store, "a")
    assert await lanes(store) == ["a"]
    await store.close()


async def test_memory_has_no_wal_and_no_durability(memory_name: Iterator[str]) -> None:
    store = open_store(next(memory_name))
    assert await pragma(store, "journal_mode") == "memory"
    assert store.durability not in ("full", "process")
    await store.close()


async def test_normal_synchronisation_survives_the_process_only(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "ff.db"), synchronous="NORMAL")
    assert await pragma(store, "synchronous") == 1
    assert store.durability == "process"
    await store.close()


async def test_readers_cannot_write(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "ff.db"))
    with pytest.raises(TransportError, match="readonly"):
        await store.read(lambda db: db.execute("DELETE FROM ff_lane_registry"))
    await store.close()


async def test_the_banner_is_logged_once_per_database(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "flowfabric.sqlite")
    path = str(tmp_path / "ff.db")
    first, second = open_store(path), open_store(path)
    said = [r for r in caplog.records if r.name == "flowfabric.sqlite"]
    assert [r.levelno for r in said] == [logging.INFO]
    assert (
        "not meant for production" in said[0].getMessage()
        and "Durability: full" in said[0].getMessage()
    )
    await first.close()
    await second.close()
    await open_store(path).close()
    assert len([r for r in caplog.records if r.name == "flowfabric.sqlite"]) == 1
