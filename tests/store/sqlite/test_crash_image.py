"""However much of the log survives a crash, the file contains a prefix of the commits."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from pathlib import Path

from flowfabric.plan import Applied
from flowfabric.store.sqlite.registry import open_store

from .helpers import lane, lanes

COMMITS, IMAGES, SEED = 60, 40, 20240607


async def _running(folder: Path) -> Path:
    """A copy of a database and its log between two commits."""
    store = open_store(str(folder / "live.db"))
    for n in range(COMMITS):
        answer = await store.commit_together(
            [lane(f"{n:03}a", by="x" * (n * 37 % 900)), lane(f"{n:03}b"), lane(f"{n:03}c")]
        )
        assert isinstance(answer, Applied)
    image = folder / "image"
    await asyncio.to_thread(image.mkdir)
    for suffix in ("", "-wal"):
        await asyncio.to_thread(
            shutil.copy, f"{folder / 'live.db'}{suffix}", f"{image / 'ff.db'}{suffix}"
        )
    await store.close()
    return image


async def _survivors(path: Path) -> list[str]:
    store = open_store(str(path))
    try:
        assert await store.execute_for_test("PRAGMA integrity_check") == [("ok",)]
        found = await lanes(store)
        assert isinstance(await store.commit(lane("zzz after the crash")), Applied)
        return found
    finally:
        await store.close()


def test_a_log_cut_anywhere_leaves_a_prefix_of_whole_commits(tmp_path: Path) -> None:
    image = asyncio.run(_running(tmp_path))
    log = (image / "ff.db-wal").read_bytes()
    chance = random.Random(SEED)
    cuts = sorted(
        [
            0,
            1,
            31,
            32,
            len(log) - 1,
            len(log),
            *(chance.randrange(len(log)) for _ in range(IMAGES - 6)),
        ]
    )
    survived: list[int] = []
    for at, cut in enumerate(cuts):
        path = tmp_path / f"crash{at}.db"
        shutil.copy(image / "ff.db", path)
        Path(f"{path}-wal").write_bytes(log[:cut])
        found = asyncio.run(_survivors(path))
        commits = len(found) // 3
        assert found == [f"{n:03}{part}" for n in range(commits) for part in "abc"], (
            f"cut at {cut} of {len(log)}"
        )
        survived.append(commits)
    assert survived == sorted(survived)
    assert survived[0] == 0 and survived[-1] == COMMITS
    assert len(set(survived)) > 10, "the cuts fall between different commits"


def test_a_flipped_byte_in_the_log_loses_its_commit_and_those_after_it(tmp_path: Path) -> None:
    image = asyncio.run(_running(tmp_path))
    log = bytearray((image / "ff.db-wal").read_bytes())
    log[len(log) * 3 // 4] ^= 0xFF
    (image / "ff.db-wal").write_bytes(log)
    found = asyncio.run(_survivors(image / "ff.db"))
    commits = len(found) // 3
    assert found == [f"{n:03}{part}" for n in range(commits) for part in "abc"]
    assert 0 < commits < COMMITS


def test_a_clean_close_needs_no_log(tmp_path: Path) -> None:
    asyncio.run(_running(tmp_path))
    assert not (tmp_path / "live.db-wal").exists()
    db = sqlite3.connect(tmp_path / "live.db")
    assert db.execute("SELECT count(*) FROM ff_lane_registry").fetchone() == (COMMITS * 3,)
    db.close()
