"""The engine on Valkey, and its background loops."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from flowfabric.connect.postgres import POSTGRES_LOOPS
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.engine.telemetry import Telemetry
from flowfabric.errors import ConfigError
from flowfabric.loops.leader_only import LeaderOnly
from flowfabric.loops.loop_thread import LoopThread
from flowfabric.loops.supervisor import Supervisor
from flowfabric.store.clock import Clock

if TYPE_CHECKING:
    from flowfabric.store.valkey.options import Options
    from flowfabric.store.valkey.store import ValkeyStore


class ValkeyLoops:
    """Loops on a thread; of all processes on a cell the elected one runs them."""

    def __init__(self, store: ValkeyStore) -> None:
        self._store = store
        self.thread: LoopThread | None = None

    @property
    def is_running(self) -> bool:
        return self.thread is not None and self.thread.is_running

    @property
    def leads(self) -> bool:
        return self.thread is not None and self.thread.leads

    def start(self, engine: Engine, settings: LoopSettings | None) -> bool:
        if self.thread is not None:
            return False
        from flowfabric.store.valkey.leader import Election

        store, engine_settings = self._store, engine.settings
        loops = settings or POSTGRES_LOOPS
        self.thread = LoopThread(
            lambda: nullcontext(
                LeaderOnly(
                    Election(store.options), lambda: _supervised(store, engine_settings, loops)
                )
            )
        )
        self.thread.watched_by(engine.telemetry)
        self.thread.start()
        weakref.finalize(engine, self.thread.end).atexit = False
        return True

    def watched_by(self, listener: Telemetry) -> None:
        if self.thread is not None:
            self.thread.watched_by(listener)

    async def stop(self, grace_s: float) -> None:
        thread, self.thread = self.thread, None
        if thread is not None:
            await thread.stop(grace_s)

    async def release(self) -> None:
        await self.stop(5.0)


class ValkeyBackend:
    """Opens engines on Valkey, one per event loop."""

    @classmethod
    async def connect(
        cls, url: str, *, settings: Settings | None = None, clock: Clock | None = None
    ) -> Engine:
        """Opens the cell of valkey://[user:password@]host:6379/CELL, which needs no migration."""
        options = valkey_options(url)
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


def valkey_options(url: str) -> Options:
    from flowfabric.store.valkey.options import options_of

    return options_of(url)


def valkey_engine(
    store: ValkeyStore, settings: Settings | None = None, *, seed: int | None = None
) -> Engine:
    return Engine(store, settings, loops=ValkeyLoops(store), seed=seed)


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
