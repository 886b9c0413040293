"""Fixtures of the tests of metrics, logs and traces."""

from __future__ import annotations

import pytest

from flowfabric import Engine, memory_engine
from flowfabric.observe import Metrics


@pytest.fixture
def memory() -> Engine:
    return memory_engine()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()
