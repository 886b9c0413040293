"""The parts of a run that depend on the store: location, opening, and the requirements after a
crash.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing
from pathlib import Path
from random import Random
from typing import Any, Protocol

import psycopg

from flowfabric import Engine, FlowFabricError, PostgresBackend, SqliteBackend
from flowfabric.connect import (
    is_postgres,
    is_server,
    migrate_postgres,
    read_tables,
    sqlite_path,
)
from flowfabric.errors import TransportError
from flowfabric.store.port import Row
from flowfabric.testing.postgres import PostgresServer
from flowfabric.verify import invariants
from flowfabric.verify.invariants import Violation
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

from . import one_cell
from .plan import SETTINGS
from .valkey_case import ValkeyCase
from .wire import Wire

CUTS = 3
LOCKED_S = 1.0
FRAME_HEADER, WAL_HEADER = 24, 32
PAUSE_S = 0.05
QUIET_S = 10.0
DURABLE = ("fsync", "synchronous_commit", "full_page_writes")
STORES = ("sqlite", "postgres", "valkey")
WIRED = ("worker0", "worker1", "driver", "signaller", "taskworker0", "taskclient")


async def open_engine(url: str) -> Engine:
    """Opens the database as every process of a run does. Waits for an unavailable server."""
    if not is_server(url):
        return await SqliteBackend.new(sqlite_path(url), dev=True, settings=SETTINGS)
    connect = PostgresBackend.connect if is_postgres(url) else one_cell.connect
    while True:
        try:
            return await connect(url, settings=SETTINGS)
        except TransportError as error:
            if not error.retryable:
                raise
        await asyncio.sleep(PAUSE_S)


async def entered(stack: AsyncExitStack, made: AbstractAsyncContextManager[Any]) -> None:
    """Waits for an unavailable server."""
    while True:
        try:
            await stack.enter_async_context(made)
            return
        except TransportError as error:
            if not error.retryable:
                raise
        await asyncio.sleep(PAUSE_S)


class StoreCase(Protocol):
    """`frozen_s` is longer than every limit, including the lease of the leader. `clock_ms` is the
    error of the wall clock: if it is the store's, everything waits that long when it is set back.
    """

    url: str
    frozen_s: tuple[float, float]
    clock_ms: tuple[int, int]
    has_no_leader: bool

    def url_of(self, role: str) -> str:
        """The URL for a process of this role."""

    def cut(self) -> int:
        """Drops the answers on proxied connections; returns their number."""

    def is_writable(self) -> bool:
        """Whether no stopped process holds a lock that blocks writes."""

    def last_lease_event(self) -> int | None:
        """The number of the last lease event; None where a process's clock does not affect the
        store's.
        """

    def step_server(self, ahead_ms: int) -> bool:
        """Sets the clock of the server forward and back, where the run can do so."""

    def take_down(self, *, crash: bool) -> None:
        """Ends the server by crash or shutdown, if there is one."""

    def bring_up(self) -> None: ...

    def close(self, *, keep: bool) -> None: ...

    def tables(self) -> dict[str, list[Row]]:
        """Everything that the checker reads, in one snapshot."""

    def survives(self, rng: Random) -> Iterator[Violation]:
        """Checks what the last kill left, before any process opens it."""


class SqliteCase:
    frozen_s, clock_ms, has_no_leader = (4.0, 6.0), (1_500, 3_000), True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / "chaos.db"
        self.url = f"sqlite:///{self.path}"
        self.images = 0

    def url_of(self, role: str) -> str:
        return self.url

    def cut(self) -> int:
        raise ValueError("SQLite has no server")

    def is_writable(self) -> bool:
        with closing(sqlite3.connect(self.path, timeout=LOCKED_S, isolation_level=None)) as db:
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            db.execute("ROLLBACK")
            return True

    def last_lease_event(self) -> int | None:
        with closing(sqlite3.connect(self.path, timeout=LOCKED_S)) as db:
            return db.execute("SELECT coalesce(max(event_id), 0) FROM ff_lease_event").fetchone()[0]

    def step_server(self, ahead_ms: int) -> bool:
        return False

    def take_down(self, *, crash: bool) -> None:
        raise ValueError("SQLite has no server")

    def bring_up(self) -> None:
        raise ValueError("SQLite has no server")

    def close(self, *, keep: bool) -> None:
        """The run removes its folder."""

    def tables(self) -> dict[str, list[Row]]:
        return read_tables(self.url, TABLES_READ)

    def survives(self, rng: Random) -> Iterator[Violation]:
        """The file, its crash image, and images with a truncated log: each opens, is intact and
        satisfies the invariants.
        """
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
            for violation in invariants.check(snapshot_of(tables)):
                yield Violation(violation.invariant, violation.subject, f"{what}: {violation.says}")
        yield from _sound(self.path, "database")
        try:
            if kept is not None and {t: set(r) for t, r in kept.items()} != {
                t: set(r) for t, r in self.tables().items()
            }:
                yield Violation(
                    "recovery",
                    self.path.name,
                    "the recovered image differs from the database it was taken of",
                )
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
        """Positions at which a crash could truncate: after the frames that are in the database
        already.
        """
        shm = _beside(self.path, "-shm")
        head = shm.read_bytes()[:100] if shm.exists() else b""
        if len(head) < 100 or head[:48] != head[48:96]:
            return []
        page = int.from_bytes(head[14:16], "little") or 65_536
        page = 65_536 if page == 1 else page
        last, copied = int.from_bytes(head[16:20], "little"), int.from_bytes(head[96:100], "little")
        first_byte, last_byte = (
            WAL_HEADER + frames * (page + FRAME_HEADER) for frames in (copied, last)
        )
        return (
            [rng.randint(first_byte, last_byte) for _ in range(CUTS)]
            if last_byte > first_byte
            else []
        )


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
    except (
        sqlite3.Error,
        UnicodeDecodeError,
    ) as error:  # the text of an error names what is damaged
        yield Violation("recovery", path.name, f"{what}: {error}")
    finally:
        db.close()


class PostgresCase:
    """A separate server with default durability. Some processes connect through a proxy that drops
    answers at times.
    """

    frozen_s, clock_ms, has_no_leader = (9.0, 11.0), (300_000, 900_000), False

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)  # the server may have to run as somebody else
        self._server = PostgresServer(folder)
        self.url = self._server.url
        self._wire = Wire(self._server.port)
        try:
            self._server.start()
            asyncio.run(migrate_postgres(self.url))
        except BaseException:
            self.close(keep=False)
            raise

    def url_of(self, role: str) -> str:
        return (
            self.url.replace(f":{self._server.port}/", f":{self._wire.port}/")
            if role in WIRED
            else self.url
        )

    def cut(self) -> int:
        return self._wire.cut()

    def is_writable(self) -> bool:
        return True

    def last_lease_event(self) -> int | None:
        return None

    def step_server(self, ahead_ms: int) -> bool:
        return False

    def take_down(self, *, crash: bool) -> None:
        if crash:
            self._server.crash()
        else:
            self._server.stop()

    def bring_up(self) -> None:
        self._server.start()

    def close(self, *, keep: bool) -> None:
        self._wire.close()
        if keep:
            self._server.stop()
        else:
            self._server.close()

    def tables(self) -> dict[str, list[Row]]:
        return read_tables(self.url, TABLES_READ)

    def survives(self, rng: Random) -> Iterator[Violation]:
        """The rows after the last statements are there after one more crash and satisfy the
        invariants.
        """
        with psycopg.connect(self.url, autocommit=True) as db:
            for name in DURABLE:
                if db.execute(f"SHOW {name}").fetchone() != ("on",):
                    yield Violation(
                        "durability", name, "is switched off, so this run proves nothing"
                    )
            if not _is_quiet(db):
                yield Violation(
                    "recovery",
                    "server",
                    f"statements of dead processes run on after {QUIET_S:.0f} s",
                )
        before = self.tables()
        self.take_down(crash=True)
        self.bring_up()
        after = self.tables()
        if {t: set(r) for t, r in before.items()} != {t: set(r) for t, r in after.items()}:
            yield Violation(
                "recovery",
                "server",
                "what was there before the last crash differs from what is there after it",
            )


def _is_quiet(db: psycopg.Connection[Any]) -> bool:
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND "
        "pid <> pg_backend_pid()"
    )
    until = time.monotonic() + QUIET_S
    while db.execute(others).fetchone() != (0,):
        if time.monotonic() > until:
            return False
        time.sleep(PAUSE_S)
    return True


def case_of(store: str, folder: Path, appendfsync: str = "always") -> StoreCase:
    match store:
        case "sqlite":
            return SqliteCase(folder)
        case "postgres":
            return PostgresCase(folder)
    return ValkeyCase(folder, appendfsync, WIRED)
