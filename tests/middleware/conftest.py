"""Fixtures of the tests of layers."""

from __future__ import annotations

import pytest

from flowfabric import Engine, memory_engine

from .helpers import Hands, Moody


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def memory() -> Engine:
    return memory_engine()


@pytest.fixture
def moody(memory: Engine, hands: Hands) -> Moody:
    return Moody(memory, hands)
