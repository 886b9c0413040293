"""Fixtures for tests of tasks. They need nothing but pytest and something that runs async tests.

async def test_a_reminder(ff_clock, ff_worker):
    ff_worker(app)
    run = await remind.submit("ann")
    await ff_clock.advance("30d")
    assert await run.result() == "reminded"
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flowfabric.connect import memory_engine
from flowfabric.engine.engine import Engine
from flowfabric.sdk.app import App
from flowfabric.sdk.worker import Worker
from flowfabric.testing.faults import Faults
from flowfabric.testing.virtual import VirtualClock


@pytest.fixture
def ff_clock() -> VirtualClock:
    """Stands still until it is moved: `await ff_clock.advance("1h")`."""
    return VirtualClock()


@pytest.fixture
def ff_engine(ff_clock: VirtualClock) -> Engine:
    """An engine in memory, under that clock."""
    engine = memory_engine(ff_clock.manual)
    ff_clock.drive(engine)
    return engine


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
