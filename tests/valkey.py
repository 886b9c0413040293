"""A Valkey server for tests, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from flowfabric.connect.valkey import cells_engine
from flowfabric.engine.cells.cells_engine import CellsEngine
from flowfabric.engine.cells.pool import BASE, Cells
from flowfabric.store.clock import Clock
from flowfabric.store.port import Row
from flowfabric.store.valkey.cells import Link
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.options import Options
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing.valkey import ValkeyServer

CELLS = count()
_running: list[ValkeyServer] = []


def server() -> ValkeyServer:
    if not _running:
        _running.append(ValkeyServer().start())
    return _running[0]


def new_store(clock: Clock) -> ValkeyStore:
    """A store on a cell of its own."""
    return ValkeyStore(Options("127.0.0.1", server().port, f"test-{next(CELLS)}"), clock=clock)


def new_url() -> str:
    """A cell that is empty."""
    return server().url_of(f"test-{next(CELLS)}")


class GatheringStore(ValkeyStore):
    """A base cell whose dump is that of all cells, as tests read what a deployment has."""

    cells: Cells | None = None

    async def dump(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        listed = list(tables)
        found = await super().dump(listed)
        for name in [] if self.cells is None else await self.cells.names():
            if name != BASE and self.cells is not None:
                for table, rows in (await self.cells.cell(name).store.dump(listed)).items():
                    found[table] += rows
        return found


def new_cells_engine(clock: Clock) -> CellsEngine:
    """An engine on a base cell of its own, with a cell per namespace."""
    options = new_store(clock).options
    link = Link(options)
    store = GatheringStore(options, clock=clock, link=link)
    engine = cells_engine(store, link, seed=1)
    store.cells = engine.cells
    return engine


async def release(engine: CellsEngine) -> None:
    """Closes the connections, which belong to the event loop of a test."""
    for each in engine.cells.engines():
        await each.parts.streams.watcher.stop()
        assert isinstance(each.store, ValkeyStore)
        await each.store.release()
    await engine.close_link()


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
