"""Checks a run of many minutes while it is in progress."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg

from flowfabric import FlowFabricError
from flowfabric.connect import (
    index_faults,
    is_postgres,
    is_server,
    is_valkey,
    sqlite_path,
    valkey_options,
)
from flowfabric.store.schema import TABLES
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.lua_schema import TABLE_CODES
from flowfabric.store.valkey.options import Options
from flowfabric.verify import invariants
from flowfabric.verify.invariants import Violation
from flowfabric.verify.snapshot import snapshot_of
from tests.chaos.child import CALM
from tests.chaos.evidence import Evidence
from tests.chaos.logs import Log, read_history
from tests.chaos.run import Found, Run, Watch
from tests.chaos.summary import Table
from tests.chaos.survivors import outages

from . import level
from .follow import every_minute_ran, frames_came_in_order

SAMPLE_EVERY_S, VERIFY_EVERY_S = 5.0, 60.0
BACK_NS, UNLOCKED_NS = 3_000_000_000, 1_000_000_000
"""A process reaches its store again, and has done what had waited, within this: after a restart or
a freeze of its own, and after another process held the lock of the file.
"""
GROWING = (
    "ff_idempotency",
    "ff_budget_usage_dedup",
    "ff_worker_registry_event",
    "ff_operator_event",
)
"""Rows that are kept for a day: of keys, of usage reports, of workers that came and went."""
CONNECTIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND "
    "pid <> pg_backend_pid()"
)


class Soak(Watch):
    """Samples the store, and checks the invariants on a snapshot every minute."""

    def __init__(self, lasts_s: float, spared: tuple[str, ...]) -> None:
        self._lasts_s, self._spared = lasts_s, spared
        self._log: Log | None = None
        self._began_ns = self._began_ms = 0
        self._beside = ThreadPoolExecutor(1)
        self._jobs: list[tuple[float, float, Callable[[Run], list[Violation]]]] = []
        self._under_way: Future[list[Violation]] | None = None
        self._verified = 0
        self._tables: dict[str, Table] = {}

    def look(self, run: Run) -> None:
        now = time.monotonic()
        if self._log is None:
            self._log = Log(run.folder, "soak-1")
            self._began_ns, self._began_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
            self._jobs = [
                (now, SAMPLE_EVERY_S, self._sample),
                (now + VERIFY_EVERY_S, VERIFY_EVERY_S, self.verify),
            ]
        faults = [*run.fleet.faults, *self.ended(run)]
        if faults:
            raise Found([Violation("process", *fault) for fault in faults])
        if self._under_way is not None:
            if not self._under_way.done():
                return
            found, self._under_way = self._under_way.result(), None
            if found:
                raise Found(found)
        for at, (due, every, job) in enumerate(self._jobs):
            if now >= due:
                self._jobs[at] = (now + every, every, job)
                self._under_way = self._beside.submit(job, run)
                return

    def ended(self, run: Run) -> Iterator[tuple[str, str]]:
        """Spared processes that ended before the faults were over."""
        if (run.folder / CALM).exists():
            return
        for role in self._spared:
            member = run.fleet.members[role]
            if member.lives > 1 or (member.lives and not member.alive):
                yield member.instance, "was to live through the run"

    def _sample(self, run: Run) -> list[Violation]:
        assert self._log is not None
        try:
            found = sample(run.case.url)
        except (FlowFabricError, psycopg.Error, sqlite3.Error):
            return []  # it is away
        self._log.write("note", "sample", **found)
        return []

    def verify(self, run: Run) -> list[Violation]:
        try:
            world = snapshot_of(run.case.tables())
            faults = index_faults(run.case.url) or []
        except (FlowFabricError, psycopg.Error, sqlite3.Error):
            return []
        self._verified += 1
        indexes = [Violation("indexes", subject, says) for subject, says in faults]
        return [*invariants.check(world), *indexes]

    def judge(self, run: Run, seen: Evidence) -> list[Violation]:
        notes, away = seen.history.notes, self._away(run, seen)
        series = level.series_of(notes, self._began_ns, self._lasts_s)
        samples = level.latencies(notes, self._began_ns, self._lasts_s, away)
        slow = level.slowness(samples, level.controls(notes, self._began_ns), self._lasts_s)
        self._tables = {
            "level in the second half": _levels(series, self._lasts_s),
            "enqueue to result": _slowness(slow, len(samples), self._lasts_s),
            "looked at": {"snapshots verified": self._verified, "samples left out": len(away)},
        }
        ended_ms = self._began_ms + int(self._lasts_s * 1000)
        return [
            *level.leaks(series, self._lasts_s, GROWING),
            *level.missing(series, self._spared),
            *level.slower(slow, self._lasts_s),
            *frames_came_in_order(notes, away),
            *every_minute_ran(read_history(run.folder, "taskworker*"), self._began_ms, ended_ms),
        ]

    def _away(self, run: Run, seen: Evidence) -> list[tuple[int, int]]:
        """The times at which the store, or a measuring process, could not answer. On SQLite a
        stopped process may hold the lock of the file.
        """
        spans = [(down, up + BACK_NS) for down, up in outages(seen)]
        for note in seen.history.notes:
            if note["op"] in ("stop", "freeze"):
                spared = note["target"].rpartition("-")[0] in self._spared
                if spared or not is_server(run.case.url):
                    thawed = note["t"] + int(float(note["seconds"]) * 1e9)
                    spans.append((note["t"], thawed + (BACK_NS if spared else UNLOCKED_NS)))
        return spans

    def report(self) -> dict[str, Table]:
        return self._tables

    def close(self) -> None:
        self._beside.shutdown(cancel_futures=True)


def sample(url: str) -> dict[str, Any]:
    """Rows of every table, and the connections of a server."""
    if is_valkey(url):
        return asyncio.run(sample_cell(valkey_options(url)))
    if is_postgres(url):
        with psycopg.connect(url, autocommit=True) as db:
            rows = {name: db.execute(f"SELECT count(*) FROM {name}").fetchone() for name in TABLES}
            connections = db.execute(CONNECTIONS).fetchone()
        assert connections is not None
        return {
            "connections": connections[0],
            "rows": {name: row[0] for name, row in rows.items() if row is not None},
        }
    with closing(sqlite3.connect(sqlite_path(url), timeout=5.0)) as db:
        counted = {
            name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in TABLES
        }
    return {"connections": None, "rows": counted}


async def sample_cell(options: Options) -> dict[str, Any]:
    link = await Connection.open(options)
    try:
        rows = {}
        for name, code in TABLE_CODES.items():
            rows[name] = int(await link.command("ZCARD", f"{options.prefix}:{code}"))
        told = (await link.command("INFO", "clients")).decode()
    finally:
        await link.close()
    named = dict(line.split(":", 1) for line in told.splitlines() if ":" in line)
    return {"connections": int(named["connected_clients"]) - 1, "rows": rows}


def _levels(series: dict[tuple[str, str], level.Series], ends_s: float) -> Table:
    """The table whose rows rose most."""
    shown: dict[str, str] = {}
    for (what, where), values in sorted(series.items()):
        middle = level.quarters(values, ends_s)
        if middle is None or (what == "rows" and middle[1] <= middle[0]):
            continue
        kept = ", kept by design" if where in GROWING else ""
        before, after = middle
        shown[f"{what} {where}"] = f"{before:.1f} -> {after:.1f}{kept}"
    return shown


def _slowness(found: list[level.Slowness], samples: int, ends_s: float) -> Table:
    shown: dict[str, Any] = {
        "results, seconds compared": f"{samples}, {level.window_s(ends_s):.0f}"
    }
    for each in found:
        shown[f"p{each.share * 100:.0f}"] = (
            f"{each.first_s * 1e3:.1f} -> {each.last_s * 1e3:.1f} ms, {each.ratio:.2f} times; "
            f"the machine {each.control:.2f} times"
        )
    return shown
