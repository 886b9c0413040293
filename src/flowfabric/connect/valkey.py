"""The engine on Valkey, and its background loops."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from flowfabric.connect.elected_loops import ElectedLoops
from flowfabric.connect.postgres import POSTGRES_LOOPS
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.cells.cells_engine import CellsEngine
from flowfabric.engine.cells.pool import Cells
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError
from flowfabric.loops.cell_loops import CellLoops
from flowfabric.loops.leader_only import LeaderOnly
from flowfabric.store.clock import Clock
from flowfabric.store.wakeups import Wakeups

if TYPE_CHECKING:
    from flowfabric.store.valkey.cells import Link
    from flowfabric.store.valkey.options import Options
    from flowfabric.store.valkey.store import ValkeyStore


class ValkeyBackend:
    """Opens engines on Valkey, one per event loop."""

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        durability: str | None = None,
    ) -> CellsEngine:
        """Opens valkey://[user:password@]host:6379/CELL, which needs no migration. Each namespace
        but `default` has a cell of its own beside it.

        With `durability="replicated"`, a commit is answered when a replica has it in its append
        file. None: as the URL says.
        """
        options = valkey_options(url, durability)
        with needs_libraries():
            from flowfabric.store.valkey.cells import Link
            from flowfabric.store.valkey.store import ValkeyStore
        link = Link(options)
        store = ValkeyStore(options, clock=clock, link=link)
        try:
            return cells_engine(await store.open(), link, settings)
        except BaseException:
            await store.close()
            await link.close()
            raise


@contextmanager
def needs_libraries() -> Iterator[None]:
    """Imports in it say what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("glide", "msgpack"):
            raise
        raise ConfigError(
            "Valkey needs two more libraries: pip install 'flowfabric[valkey]'"
        ) from None


def valkey_options(url: str, durability: str | None = None) -> Options:
    from flowfabric.store.valkey.options import options_of

    return options_of(url, durability)


def valkey_engine(
    store: ValkeyStore, settings: Settings | None = None, *, seed: int | None = None
) -> Engine:
    """The engine of one cell. Namespaces have no cells of their own in it."""
    return Engine(store, settings, loops=ElectedLoops(partial(_elected, store)), seed=seed)


def _elected(store: ValkeyStore, settings: Settings, loops: LoopSettings | None) -> LeaderOnly:
    from flowfabric.store.valkey.leader import Election

    wanted = loops or POSTGRES_LOOPS
    return LeaderOnly(Election(store.options), lambda: _led(store, settings, wanted))


def cells_engine(
    store: ValkeyStore, link: Link, settings: Settings | None = None, *, seed: int | None = None
) -> CellsEngine:
    """The engine of a base cell on a shared connection, and of the cells beside it."""
    from flowfabric.store.valkey.cells import Registry

    def open_cell(namespace: str) -> Engine:
        return Engine(_beside(store, namespace, link), settings, seed=seed)

    base = valkey_engine(store, settings, seed=seed)
    return CellsEngine(Cells(base, Registry(store.options, link), open_cell), link.close)


def _beside(
    base: ValkeyStore, namespace: str, link: Link, hub: Wakeups | None = None
) -> ValkeyStore:
    from flowfabric.store.valkey.cells import cell_of

    options = cell_of(base.options, namespace)
    return type(base)(options, clock=base.clock, hub=hub, link=link)


@asynccontextmanager
async def _led(
    store: ValkeyStore, settings: Settings, loops: LoopSettings
) -> AsyncIterator[CellLoops]:
    """On a connection of its own, since a connection belongs to an event loop."""
    from flowfabric.store.valkey.cells import Link, Registry

    link = Link(store.options)
    own = type(store)(store.options, clock=store.clock, hub=store.hub, link=link)
    base = Engine(own, settings)

    async def open_cell(namespace: str, hub: Wakeups) -> Engine:
        return Engine(_beside(store, namespace, link, hub), settings)

    try:
        await base.prepare()
        yield CellLoops(base, Registry(store.options, link), open_cell, loops)
    finally:
        await base.close()
        await link.close()
