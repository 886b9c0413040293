"""Fixtures of the SDK tests."""

from __future__ import annotations

import pytest

from flowfabric import App, Engine, memory_engine


@pytest.fixture
def memory() -> Engine:
    return memory_engine()


@pytest.fixture
def app(memory: Engine) -> App:
    return App("memory://", engine=memory)
