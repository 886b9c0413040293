"""A Valkey server for tests, started when the first test asks for it."""

from __future__ import annotations

from itertools import count

from flowfabric.store.clock import Clock
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.options import Options
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing.valkey import ValkeyServer

_CELLS = count()
_running: list[ValkeyServer] = []


def server() -> ValkeyServer:
    if not _running:
        _running.append(ValkeyServer().start())
    return _running[0]


def new_store(clock: Clock) -> ValkeyStore:
    """A store on a cell of its own."""
    return ValkeyStore(Options("127.0.0.1", server().port, f"test-{next(_CELLS)}"), clock=clock)


def new_url() -> str:
    """A cell that is empty."""
    return server().url_of(f"test-{next(_CELLS)}")


async def clear(options: Options) -> None:
    """Removes a cell, so that later tests do not walk over its keys."""
    connection, cursor = await Connection.open(options), "0"
    while True:
        found = await connection.command(
            "SCAN", cursor, "MATCH", f"{options.prefix}:*", "COUNT", "1000"
        )
        if found[1]:
            await connection.command("UNLINK", *found[1])
        cursor = found[0].decode()
        if cursor == "0":
            break
    await connection.close()


def stop() -> None:
    while _running:
        _running.pop().stop()
