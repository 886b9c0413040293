"""What is particular to a store: where it lives, how it is opened, and what a crash must leave of it."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Protocol

from flowfabric import Engine, FlowFabricError, SqliteBackend
from flowfabric.connect import read_tables, sqlite_path
from flowfabric.store.port import Row
from flowfabric.verify import invariants
from flowfabric.verify.invariants import Violation
from flowfabric.verify.world import TABLES_READ, world_of

from .plan import SETTINGS

CUTS = 3
FRAME_HEADER, WAL_HEADER = 24, 32


async def open_engine(url: str) -> Engine:
    """The one way every process of a run opens its database."""
    return await SqliteBackend.new(sqlite_path(url), dev=True, settings=SETTINGS)


class StoreCase(Protocol):
    url: str

    def tables(self) -> dict[str, list[Row]]:
        """Everything the checker reads, on one snapshot."""

    def survives(self, rng: Random) -> Iterator[Violation]:
        """Looks at what the last kill left behind, before anything else opens it."""


class SqliteCase:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / "chaos.db"
        self.url = f"sqlite:///{self.path}"
        self.images = 0

    def tables(self) -> dict[str, list[Row]]:
        return read_tables(self.url, TABLES_READ)

    def survives(self, rng: Random) -> Iterator[Violation]:
        """The file as it lies, its crash image, and images whose log is cut short: each opens, is sound and keeps the rules."""
        cuts = [None, *self._cuts(rng)]
        images = [self._image(at, cut) for at, cut in enumerate(cuts)]
        kept: dict[str, list[Row]] | None = None
        for path, cut in zip(images, cuts, strict=True):
            what = "crash image" if cut is None else f"crash image cut at byte {cut} of its log"
            try:
                asyncio.run(_open_and_close(path))
                yield from _sound(path, what)
                tables = read_tables(str(path), TABLES_READ)
            except (FlowFabricError, sqlite3.Error) as error:
                yield Violation("recovery", path.name, f"{what}: {error}")
                continue
            kept = tables if cut is None else kept
            for violation in invariants.check(world_of(tables)):
                yield Violation(violation.invariant, violation.subject, f"{what}: {violation.says}")
        yield from _sound(self.path, "database")
        try:
            if kept is not None and {t: set(r) for t, r in kept.items()} != {t: set(r) for t, r in self.tables().items()}:
                yield Violation("recovery", self.path.name, "the recovered image differs from the database it was taken of")
        except FlowFabricError as error:
            yield Violation("recovery", self.path.name, str(error))
        self.images = len(images)

    def _image(self, number: int, cut: int | None) -> Path:
        folder = self._folder / f"image-{number}"
        folder.mkdir()
        copy = folder / self.path.name
        shutil.copyfile(self.path, copy)
        wal = _beside(self.path, "-wal")
        if wal.exists():
            logged = wal.read_bytes()
            _beside(copy, "-wal").write_bytes(logged if cut is None else logged[:cut])
        return copy

    def _cuts(self, rng: Random) -> list[int]:
        """Only where a crash could have cut: behind what was copied into the database already."""
        shm = _beside(self.path, "-shm")
        head = shm.read_bytes()[:100] if shm.exists() else b""
        if len(head) < 100 or head[:48] != head[48:96]:
            return []
        page = int.from_bytes(head[14:16], "little") or 65_536
        page = 65_536 if page == 1 else page
        last, copied = int.from_bytes(head[16:20], "little"), int.from_bytes(head[96:100], "little")
        first_byte, last_byte = (WAL_HEADER + frames * (page + FRAME_HEADER) for frames in (copied, last))
        return [rng.randint(first_byte, last_byte) for _ in range(CUTS)] if last_byte > first_byte else []


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


async def _open_and_close(path: Path) -> None:
    engine = await open_engine(str(path))
    await engine.ping()
    await engine.close()


def _sound(path: Path, what: str) -> Iterator[Violation]:
    db = sqlite3.connect(path)
    try:
        for pragma, fine in (("integrity_check", [("ok",)]), ("foreign_key_check", [])):
            said = db.execute(f"PRAGMA {pragma}").fetchall()
            if said != fine:
                yield Violation(pragma, path.name, f"{what}: {said[:3]}")
    except sqlite3.Error as error:
        yield Violation("recovery", path.name, f"{what}: {error}")
    finally:
        db.close()


def case_of(store: str, folder: Path) -> StoreCase:
    if store == "sqlite":
        return SqliteCase(folder)
    raise ValueError(f"--store {store}: only sqlite so far")
