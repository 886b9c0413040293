"""A run on Valkey: a server of its own with an append file, which is killed and started again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from flowfabric.connect import index_faults, read_tables
from flowfabric.errors import TransportError
from flowfabric.store.port import Row
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.options import options_of
from flowfabric.testing.valkey import ValkeyServer
from flowfabric.verify.invariants import Violation
from flowfabric.verify.snapshot import TABLES_READ

from .wire import Wire

CELL = "chaos"
_STEP = """
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local ahead = math.max(now + tonumber(ARGV[1]), tonumber(redis.call('GET', KEYS[1]) or '0'))
redis.call('SET', KEYS[1], string.format('%.0f', ahead))
"""
WRITTEN_S, LONGEST_S, LOOK_EVERY_S = 0.3, 10.0, 0.002
SYNCS = "bio_aof"
APPENDFSYNC = ("always", "everysec")


class ValkeyCase:
    """Some processes connect through a proxy that drops answers at times."""

    frozen_s, clock_ms, has_no_leader = (10.0, 12.0), (300_000, 900_000), False

    def __init__(self, folder: Path, appendfsync: str, wired: tuple[str, ...]) -> None:
        self._appendfsync, self._wired = appendfsync, wired
        self._server = ValkeyServer(
            "--appendonly", "yes", "--appendfsync", appendfsync, folder=folder
        )
        self.url = self._server.url_of(CELL)
        self._wire = Wire(self._server.port)
        try:
            self._server.start()
        except BaseException:
            self.close(keep=False)
            raise

    def url_of(self, role: str) -> str:
        if role not in self._wired:
            return self.url
        return self.url.replace(f":{self._server.port}/", f":{self._wire.port}/")

    def cut(self) -> int:
        return self._wire.cut()

    def is_writable(self) -> bool:
        return True

    def last_lease_event(self) -> int | None:
        return None

    def step_server(self, ahead_ms: int) -> bool:
        """What a step forward and back leaves: the time of the cell is ahead of the clock."""
        try:
            asyncio.run(_asked(self.url, "EVAL", _STEP, "1", f"{{{CELL}}}:T", str(ahead_ms)))
        except TransportError:
            return False
        return True

    def take_down(self, *, crash: bool) -> None:
        if crash:
            if self._appendfsync == "everysec":
                _await_written(self._server.pid)
            self._server.crash()
        else:
            self._server.shut_down()

    def bring_up(self) -> None:
        self._server.start()

    def close(self, *, keep: bool) -> None:
        self._wire.close()
        if keep:
            self._server.shut_down()
        else:
            self._server.stop()

    def tables(self) -> dict[str, list[Row]]:
        return read_tables(self.url, TABLES_READ)

    def survives(self, rng: Random) -> Iterator[Violation]:
        """The rows after the last calls are there after one more crash."""
        found = asyncio.run(_asked(self.url, "CONFIG", "GET", "append*"))
        settings = {name.decode(): value.decode() for name, value in found.items()}
        for name, wanted in (("appendonly", "yes"), ("appendfsync", self._appendfsync)):
            if settings[name] != wanted:
                says = f"is {settings[name]} and not {wanted}, so this run proves nothing"
                yield Violation("durability", name, says)
        before = self.tables()
        self.take_down(crash=True)
        self.bring_up()
        after = self.tables()
        if {t: set(r) for t, r in before.items()} != {t: set(r) for t, r in after.items()}:
            says = "what was there before the last crash differs from what is there after it"
            yield Violation("recovery", "server", says)
        for subject, says in index_faults(self.url) or ():
            yield Violation("indexes", subject, says)


def _await_written(pid: int) -> None:
    """Under everysec the server holds writes back while the file is synced, for two seconds at the
    most, and answers them. A crash in that time loses them, as docs/valkey.md says.
    """
    idle_since = began = time.monotonic()
    while (now := time.monotonic()) - idle_since < WRITTEN_S and now - began < LONGEST_S:
        if _is_syncing(pid):
            idle_since = now
        time.sleep(LOOK_EVERY_S)


def _is_syncing(pid: int) -> bool:
    """Whether the thread that syncs the append file has work."""
    for task in Path(f"/proc/{pid}/task").glob("*"):
        name, _, rest = (task / "stat").read_text().rpartition(")")
        if SYNCS in name:
            return not rest.split()[0].startswith("S")
    return False


async def _asked(url: str, *command: str) -> Any:
    connection = await Connection.open(options_of(url))
    try:
        return await connection.command(*command)
    finally:
        await connection.close()
