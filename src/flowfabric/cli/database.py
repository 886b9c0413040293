"""Opening a database to read it and to put one thing into it, for a command's length."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from flowfabric.connect import connect_store, look_at_store
from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError

DB_VARIABLE = "FLOWFABRIC_DB"
T = TypeVar("T")


def chosen_db(url: str | None) -> str:
    """What `--db` says, else the environment."""
    where = url or os.environ.get(DB_VARIABLE)
    if not where:
        raise ConfigError(
            f"--db: sqlite:///path, a path or postgresql://host/database; or say it once in {DB_VARIABLE}"
        )
    return where


async def looking(url: str, work: Callable[[Engine], Awaitable[T]]) -> T:
    engine = await look_at_store(url)
    try:
        return await work(engine)
    finally:
        await engine.close()


async def writing(url: str, work: Callable[[Engine], Awaitable[T]]) -> T:
    """Look at it first: this one would create what is not there."""
    logging.getLogger("flowfabric").setLevel(logging.ERROR)
    engine = await connect_store(url, dev=True, loops=False)
    try:
        return await work(engine)
    finally:
        await engine.close()
