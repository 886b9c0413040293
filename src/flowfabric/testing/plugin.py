"""Pytest fixtures for tests of tasks. Async tests need a plugin that runs them.

async def test_a_reminder(ff_clock, ff_worker):
    ff_worker(app)
    run = await remind.submit("ann")
    await ff_clock.advance("30d")
    assert await run.result() == "reminded"

`@pytest.mark.ff_backend("memory", "sqlite", "postgres", "valkey")` runs the test on each of them;
without the marker it runs in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.sdk.app import App
from flowfabric.sdk.worker import Worker
from flowfabric.testing.backends import (
    BACKENDS,
    Database,
    missing,
    new_cells,
    new_engine,
    valkey_cell_engine,
)
from flowfabric.testing.faults import Faults
from flowfabric.testing.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from flowfabric.testing.cells import Cells

MARKER = "ff_backend"


@pytest.fixture
def ff_clock() -> VirtualClock:
    """A clock that stands still until `await ff_clock.advance("1h")`."""
    return VirtualClock()


@pytest.fixture(scope="session")
def ff_database() -> Iterator[Callable[[], str]]:
    """Returns the url of an empty Postgres database. The first call starts a server."""
    opened: list[Database] = []

    def emptied() -> str:
        if not opened:
            opened.append(Database())
        opened[0].empty()
        return opened[0].url

    yield emptied
    for database in opened:
        database.close()


@pytest.fixture(scope="session")
def ff_cells() -> Iterator[Callable[[], Cells]]:
    """Returns what hands out empty cells of Valkey. The first call starts a server."""
    opened: list[Cells] = []

    def cells() -> Cells:
        if not opened:
            opened.append(new_cells())
        return opened[0]

    yield cells
    for each in opened:
        each.close()


@pytest.fixture
def ff_backend(request: pytest.FixtureRequest) -> str:
    """The backend of this test: one that the marker `ff_backend` names, or memory."""
    name: str = getattr(request, "param", "memory")
    reason = missing(name)
    if reason is not None:
        pytest.skip(reason)
    return name


@pytest.fixture
def ff_engine(
    ff_clock: VirtualClock,
    ff_backend: str,
    tmp_path: Path,
    ff_database: Callable[[], str],
    ff_cells: Callable[[], Cells],
) -> Iterator[Engine]:
    """An empty engine under `ff_clock`. A plain test on Postgres or Valkey opens it with
    `async with`.
    """
    if ff_backend == "valkey":
        engine = valkey_cell_engine(ff_cells().new(), ff_clock.manual)
    else:
        url = ff_database() if ff_backend == "postgres" else None
        engine = new_engine(ff_backend, ff_clock.manual, tmp_path, url)
    ff_clock.drive(engine)
    yield engine
    if ff_backend == "sqlite":
        asyncio.run(engine.close())


@pytest.fixture
def ff_app(ff_engine: Engine) -> Iterator[Callable[[App], App]]:
    """`ff_app(app)` makes an app use `ff_engine` for the length of the test."""
    borrowed: list[tuple[App, EngineProtocol | None]] = []

    def put(app: App) -> App:
        borrowed.append((app, app.use(ff_engine)))
        return app

    yield put
    for app, before in borrowed:
        app.use(before)


@pytest.fixture
def ff_worker(ff_app: Callable[[App], App], ff_clock: VirtualClock) -> Callable[..., Worker]:
    """`ff_worker(app, concurrency=2)` makes a worker that works when `ff_clock` is moved."""

    def make(app: App, **options: Any) -> Worker:
        worker = Worker(ff_app(app), loops=False, **options)
        ff_clock.workers.append(worker)
        return worker

    return make


@pytest.fixture
def ff_faults(ff_engine: Engine) -> Faults:
    """Crashes, lost leases and lost answers on demand."""
    return Faults(ff_engine)


def pytest_configure(config: pytest.Config) -> None:
    with contextlib.suppress(ValueError):
        config.addinivalue_line("markers", "flowfabric: tests of tasks on an engine in memory")
        config.addinivalue_line(
            "markers",
            f"{MARKER}(*names): runs the test on each of these backends: {', '.join(BACKENDS)}",
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker(MARKER)
    if marker is None:
        return
    unknown = [name for name in marker.args if name not in BACKENDS]
    if unknown or marker.kwargs or not marker.args:
        problem = f"{unknown[0]!r} is unknown" if unknown else "no backend is named"
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: {MARKER}: {problem}; accepted: {', '.join(BACKENDS)}"
        )
    if MARKER not in metafunc.fixturenames:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: {MARKER}: the test uses none of ff_engine, ff_app "
            "and ff_worker"
        )
    metafunc.parametrize(MARKER, marker.args, indirect=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A marked test opens and closes its engine inside: connections belong to an event loop."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker(MARKER) is None:
        return
    test = item.obj
    if not inspect.iscoroutinefunction(test):
        return

    @functools.wraps(test)
    async def within(*args: Any, **kwargs: Any) -> None:
        engine: Engine = item.funcargs["ff_engine"]  # type: ignore[assignment]
        async with engine:
            await test(*args, **kwargs)

    item.obj = within
