"""The namespaces of a run on Valkey share its base cell: the checker compares one sequence of
events with one set of rows.
"""

from __future__ import annotations

from typing import Any

from flowfabric import Engine
from flowfabric.connect import ValkeyBackend, valkey_engine
from flowfabric.connect.valkey import valkey_options
from flowfabric.engine.core import Settings


def use_one_cell() -> None:
    """From now on, whatever connects in this process."""
    setattr(ValkeyBackend, "connect", staticmethod(connect))  # noqa: B010


async def connect(url: str, *, settings: Settings | None = None, **_: Any) -> Engine:
    from flowfabric.store.valkey.store import ValkeyStore

    store = ValkeyStore(valkey_options(url))
    try:
        return valkey_engine(await store.open(), settings)
    except BaseException:
        await store.close()
        raise
