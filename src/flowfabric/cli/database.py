"""Opens a database for one command, to read it or to write to it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from flowfabric.connect import connect_store, look_at_store
from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError

DB_VARIABLE = "FLOWFABRIC_DB"
T = TypeVar("T")


def database_url(url: str | None) -> str:
    """The URL of `--db`, else of the environment."""
    found = url or os.environ.get(DB_VARIABLE)
    if not found:
        raise ConfigError(
            "--db: expected sqlite:///path, a path or postgresql://host/database; "
            f"or set {DB_VARIABLE}"
        )
    return found


def read(url: str, work: Callable[[Engine], Awaitable[T]]) -> T:
    return asyncio.run(_closing(look_at_store(url), work))


def write(url: str, work: Callable[[Engine], Awaitable[T]]) -> T:
    """Open a database for writing. It creates a missing one: the caller must check before."""
    logging.getLogger("flowfabric").setLevel(logging.ERROR)
    return asyncio.run(_closing(connect_store(url, dev=True, loops=False), work))


async def _closing(opening: Awaitable[Engine], work: Callable[[Engine], Awaitable[T]]) -> T:
    engine = await opening
    try:
        return await work(engine)
    finally:
        await engine.close()
