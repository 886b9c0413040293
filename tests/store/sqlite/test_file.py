"""The file itself: permissions, and its removal while open."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from glob import glob
from pathlib import Path

import pytest

from flowfabric.errors import TransportError
from flowfabric.store.sqlite.registry import open_store

from .helpers import lane


async def test_a_new_file_and_its_log_are_for_the_owner_only(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        store = open_store(str(tmp_path / "ff.db"))
        await store.commit(lane("a"))
        assert {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in map(Path, glob(f"{tmp_path}/*"))
        } == {
            "ff.db": 0o600,
            "ff.db-wal": 0o600,
            "ff.db-shm": 0o600,
        }
        await store.close()
    finally:
        os.umask(before)


async def test_the_mode_of_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    path.touch()
    path.chmod(0o640)
    store = open_store(f"file:{path}")
    await store.commit(lane("a"))
    await store.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def _deleted(path: Path) -> None:
    path.unlink()


def _replaced(path: Path) -> None:
    shutil.copy(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").rename(path)


@pytest.mark.parametrize("taken_away", [_deleted, _replaced])
async def test_a_commit_to_a_replaced_file_is_not_acknowledged(
    tmp_path: Path, taken_away: Callable[[Path], None]
) -> None:
    path = tmp_path / "ff.db"
    store = open_store(str(path))
    await store.commit(lane("a"))
    taken_away(path)
    for n in range(3):
        with pytest.raises(TransportError, match="deleted or replaced"):
            await store.commit(lane(f"b{n}"))
    await store.close()
