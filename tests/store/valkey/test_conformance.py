"""The conformance suite on Valkey."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from flowfabric.store.valkey.connection import Address
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import *  # noqa: F403
from flowfabric.testing.valkey import ValkeyServer

_CELLS = count()


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def store(valkey_server: ValkeyServer, clock: ManualClock) -> ValkeyStore:
    address = Address("127.0.0.1", valkey_server.port)
    return ValkeyStore(address, f"test-{next(_CELLS)}", clock)
