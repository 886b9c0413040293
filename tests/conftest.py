"""Fixtures every test may use. An `async def` test runs on an event loop of its own."""

from __future__ import annotations

import asyncio
import gc
import inspect
import signal
from collections import defaultdict
from collections.abc import Coroutine, Generator, Iterable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import pytest
from hypothesis import settings

from flowfabric.connect import SqliteBackend, sqlite_engine
from flowfabric.engine.cells.cells_engine import CellsEngine
from flowfabric.engine.engine import Engine
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.store.memory import MemoryStore
from flowfabric.store.port import Store
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.store.sqlite.registry import open_store
from flowfabric.store.sqlite.store import SqliteStore
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing import ManualClock
from tests import kept, valkey
from tests.patience import patience, patient
from tests.postgres import clean_database

settings.register_profile(
    "flowfabric", deadline=None
)  # how fast the machine is says nothing about the code
settings.load_profile("flowfabric")
pytest_plugins = ["flowfabric.testing.plugin", "pytester"]

# A background job of a shell ignores SIGINT, and so would every process that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

STORES = ("memory", "sqlite-memory", "sqlite-file", "postgres", "valkey")
ENGINES = ("memory", "sqlite-file", "postgres", "valkey")
"""What SQLite does in memory, the conformance suite and the model ask; the engine above sees no
difference.
"""


ON_ONE_STORE = {
    "engine": ("sqlite-file", "postgres", "valkey", "valkey-cells"),
    "store": ("sqlite", "postgres", "valkey"),
    "kind": ("sqlite", "postgres", "server"),
}
"""Values of these parameters, of which a test of these folders runs one at a time."""
FOLDERS = tuple(
    f"tests/{folder}/"
    for folder in ("cli", "engine", "loops", "middleware", "remote", "sdk", "server", "stories")
)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The limit of one test follows the speed of the machine, as every other deadline."""
    if config.option.timeout is None:
        config.option.timeout = patience(float(config.getini("timeout")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Decides which tests run nightly only."""
    _one_of_each_durable_store(items)
    for item in items:
        for marker in item.iter_markers("sampled"):
            if crc32(item.nodeid.encode()) % marker.args[0]:
                item.add_marker(pytest.mark.nightly)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected here stays, so no collection of garbage has to look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def _one_of_each_durable_store(items: list[pytest.Item]) -> None:
    """A test of the engine, or of what is above it, runs on memory and on one durable store. On
    the others it runs nightly.

    The name of the test decides which, so each store runs its share of them. So it is with the
    tests of the command, on stores and on a server. The conformance suite, the model and the tests
    of one store are not affected.
    """
    same: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        for parameter, stores in ON_ONE_STORE.items():
            kind = params.get(parameter)
            if kind in stores and item.nodeid.startswith(FOLDERS):
                same[item.nodeid.replace(kind, "")].append(item)
    for name, alike in same.items():
        chosen = crc32(name.encode()) % len(alike)
        for item in alike[:chosen] + alike[chosen + 1 :]:
            item.add_marker(pytest.mark.nightly)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }
    kept.run(on_one_loop(pyfuncitem.obj(**wanted), wanted.values()))
    return True


def pytest_sessionfinish() -> None:
    kept.close()
    valkey.stop()


async def on_one_loop(test: Coroutine[Any, Any, None], used: Iterable[Any]) -> None:
    """Connections belong to the event loop they were opened on, so they open and close with the
    test.
    """
    engines = [each for each in used if isinstance(each, Engine)]
    stores = [getattr(each, "store", each) for each in used]
    opened = [await store.open(check=False) for store in stores if isinstance(store, PostgresStore)]
    for store in opened:
        await listening(store)
    try:
        await test
    finally:
        for engine in engines:
            await (
                engine.parts.streams.watcher.stop()
            )  # who lingers would open a connection while the others are closed
        for store in opened:
            await store.close()
        for each in used:
            if isinstance(each, CellsEngine):
                await valkey.release(each)
        for each in stores:
            if isinstance(each, ValkeyStore):
                await each.release()


async def listening(store: PostgresStore) -> None:
    """A store wakes all waiters once when it begins to listen. No test counts the effects of
    that.
    """
    async with patient(30):
        while not (store.options.pooler or store.notifier.is_listening):  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def make_store(kind: str, clock: ManualClock, folder: Path) -> Store:
    """A fresh, empty store of the kind named."""
    if kind == "memory":
        return MemoryStore(clock)
    if kind == "postgres":
        return PostgresStore(kept.KeptOptions(clean_database("kept").url), clock=clock)
    if kind == "valkey":
        return valkey.new_store(clock)
    if kind == "sqlite-memory":
        return open_store(f"file:{folder.name}-{id(clock)}?mode=memory&cache=shared", clock=clock)
    path = folder / "ff.db"
    if not path.exists():
        path.write_bytes(_new_file())
    return open_store(str(path), clock=clock)


@cache
def _new_file() -> bytes:
    """A database file with nothing in it: making its tables takes longer than most tests."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ff.db"
        asyncio.run(open_store(str(path)).close())
        return path.read_bytes()


def make_engine(kind: str, clock: ManualClock, folder: Path) -> LocalEngineProtocol:
    if kind == "valkey-cells":
        return valkey.new_cells_engine(clock)
    store = make_store(kind, clock, folder)
    return sqlite_engine(store, seed=1) if isinstance(store, SqliteStore) else Engine(store, seed=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[Store]:
    made = make_store(request.param, clock, tmp_path)
    yield made
    asyncio.run(made.close())


@pytest.fixture(params=ENGINES)
def engine(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> Iterator[LocalEngineProtocol]:
    """The engine on each store, with a clock that does not move and without loops."""
    made = make_engine(request.param, clock, tmp_path)
    yield made
    asyncio.run(made.close())


@pytest.fixture(params=["sqlite-file", "postgres"])
def in_sql(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> Iterator[LocalEngineProtocol]:
    """The engine on each store that can be asked in SQL."""
    made = make_engine(request.param, clock, tmp_path)
    yield made
    asyncio.run(made.close())


@pytest.fixture
def sqlite(clock: ManualClock, tmp_path: Path) -> Iterator[SqliteBackend]:
    made = sqlite_engine(open_store(str(tmp_path / "ff.db"), clock=clock), seed=1)
    yield made
    asyncio.run(made.close())
