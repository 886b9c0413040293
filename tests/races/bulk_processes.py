"""Processes that run a bulk job and are killed at a given call of the store."""

from __future__ import annotations

from functools import wraps
from typing import Any
from uuid import UUID

from flowfabric import Engine
from flowfabric.connect import connect_store, is_valkey, valkey_engine
from flowfabric.connect.valkey import valkey_options
from flowfabric.engine.bulk import bulk_actions
from flowfabric.store.valkey.store import ValkeyStore
from tests.sdk.crashing import Fuse

PAGE = 7
CALLS = ("load", "commit_together", "commit_many", "commit")


def with_small_pages() -> None:
    """Many pages for few executions."""
    bulk_actions.PAGE_SIZE = PAGE
    bulk_actions.PAGE_SIZES = {}


async def opened(url: str) -> Engine:
    """An engine without loops: nothing else moves the job. On Valkey, that of one cell."""
    if is_valkey(url):
        return valkey_engine(await ValkeyStore(valkey_options(url)).open())
    engine = await connect_store(url, dev=True, loops=False)
    assert isinstance(engine, Engine)
    return engine


def fused(engine: Engine, fuse: Fuse) -> None:
    """Burns before and after each call of the store."""
    for name in CALLS:
        setattr(engine.store, name, _burning(getattr(engine.store, name), fuse))


def _burning(call: Any, fuse: Fuse) -> Any:
    @wraps(call)
    async def burning(*args: Any) -> Any:
        fuse.burn()
        answer = await call(*args)
        fuse.burn()
        return answer

    return burning


async def run_job(url: str, job: str, point: int) -> None:
    """Runs a job to its end, or to the call at which the process is killed."""
    with_small_pages()
    engine = await opened(url)
    fused(engine, Fuse(point))
    try:
        await engine.run_bulk(UUID(job), 100)
    finally:
        await engine.close()
