"""The engine on Valkey, and its background loops."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from flowfabric.connect.elected_loops import ElectedLoops
from flowfabric.connect.postgres import POSTGRES_LOOPS
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError
from flowfabric.loops.leader_only import LeaderOnly
from flowfabric.loops.supervisor import Supervisor
from flowfabric.store.clock import Clock

if TYPE_CHECKING:
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
    ) -> Engine:
        """Opens the cell of valkey://[user:password@]host:6379/CELL, which needs no migration.

        With `durability="replicated"`, a commit is answered when a replica has it in its append
        file. None: as the URL says.
        """
        options = valkey_options(url, durability)
        with needs_libraries():
            from flowfabric.store.valkey.store import ValkeyStore
        store = ValkeyStore(options, clock=clock)
        try:
            return valkey_engine(await store.open(), settings)
        except BaseException:
            await store.close()
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
    return Engine(store, settings, loops=ElectedLoops(partial(_elected, store)), seed=seed)


def _elected(store: ValkeyStore, settings: Settings, loops: LoopSettings | None) -> LeaderOnly:
    from flowfabric.store.valkey.leader import Election

    wanted = loops or POSTGRES_LOOPS
    return LeaderOnly(Election(store.options), lambda: _supervised(store, settings, wanted))


@asynccontextmanager
async def _supervised(
    store: ValkeyStore, settings: Settings, loops: LoopSettings
) -> AsyncIterator[Supervisor]:
    """On a connection of its own, since a connection belongs to an event loop."""
    own = type(store)(store.options, clock=store.clock, hub=store.hub)
    engine = Engine(await own.open(), settings)
    try:
        yield Supervisor(engine, loops)
    finally:
        await engine.close()
