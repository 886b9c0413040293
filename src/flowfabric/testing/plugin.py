"""Fixtures for tests of tasks. They need nothing but pytest and something that runs async tests.

async def test_a_reminder(ff_clock, ff_worker):
    ff_worker(app)
    run = await remind.submit("ann")
    await ff_clock.advance("30d")
    assert await run.result() == "reminded"

With `@pytest.mark.ff_backend("memory", "sqlite", "postgres")` the test runs on each of them; without, in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.sdk.app import App
from flowfabric.sdk.worker import Worker
from flowfabric.testing.backends import BACKENDS, Database, made, missing
from flowfabric.testing.faults import Faults
from flowfabric.testing.virtual_clock import VirtualClock

MARKER = "ff_backend"


@pytest.fixture
def ff_clock() -> VirtualClock:
    """Stands still until it is moved: `await ff_clock.advance("1h")`."""
    return VirtualClock()


@pytest.fixture(scope="session")
def ff_database() -> Iterator[Callable[[], str]]:
    """Gives the url of an empty Postgres database; the server is started when the first test asks."""
    opened: list[Database] = []

    def emptied() -> str:
        if not opened:
            opened.append(Database())
        opened[0].empty()
        return opened[0].url

    yield emptied
    for database in opened:
        database.close()


@pytest.fixture
def ff_backend(request: pytest.FixtureRequest) -> str:
    """What this test runs on: one of those the marker `ff_backend` names, or memory."""
    name: str = getattr(request, "param", "memory")
    reason = missing(name)
    if reason is not None:
        pytest.skip(reason)
    return name


@pytest.fixture
def ff_engine(
    ff_clock: VirtualClock, ff_backend: str, tmp_path: Path, ff_database: Callable[[], str]
) -> Iterator[Engine]:
    """An engine under that clock, with nothing in it. A plain test that uses Postgres enters it: `async with ff_engine:`."""
    engine = made(
        ff_backend, ff_clock.manual, tmp_path, ff_database() if ff_backend == "postgres" else None
    )
    ff_clock.drive(engine)
    yield engine
    if ff_backend == "sqlite":
        asyncio.run(engine.close())


@pytest.fixture
def ff_app(ff_engine: Engine) -> Iterator[Callable[[App], App]]:
    """Puts an app of yours on that engine for the length of the test: `ff_app(app)`."""
    borrowed: list[tuple[App, Any]] = []

    def put(app: App) -> App:
        borrowed.append((app, app.use(ff_engine)))
        return app

    yield put
    for app, before in borrowed:
        app.use(before)


@pytest.fixture
def ff_worker(ff_app: Callable[[App], App], ff_clock: VirtualClock) -> Callable[..., Worker]:
    """A worker for an app, which works whenever time is moved: `ff_worker(app, concurrency=2)`."""

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
            f"{MARKER}(*names): runs the test on each of {', '.join(BACKENDS)} that is named",
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker(MARKER)
    if marker is None:
        return
    unknown = [name for name in marker.args if name not in BACKENDS]
    if unknown or marker.kwargs or not marker.args:
        said = f"{unknown[0]!r} is none" if unknown else "name some"
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: {MARKER}: {said} of {', '.join(BACKENDS)}"
        )
    if MARKER not in metafunc.fixturenames:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: {MARKER}: the test uses none of ff_engine, ff_app and ff_worker"
        )
    metafunc.parametrize(MARKER, marker.args, indirect=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Connections belong to the event loop they are opened on, so a marked test opens and closes its engine inside."""
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
