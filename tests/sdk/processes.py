"""Worker processes: forked from a server that has imported everything, and ended one by one."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from flowfabric import LoopSettings
from flowfabric.connect import migrate_postgres
from tests import valkey
from tests.patience import patience
from tests.postgres import database

STORES = ("sqlite", "postgres", "valkey")
LEASE = "1s"
LOOPS = LoopSettings(
    lease_expiry_ms=100, delayed_promoter_ms=100, suspension_timeout_ms=100, route_ms=100
)
DEADLINE_S = 60.0
_nursery = multiprocessing.get_context("forkserver")
_nursery.set_forkserver_preload(
    [
        "tests.sdk.crashing",
        "tests.sdk.families",
        "tests.sdk.labours",
        "tests.sdk.ticking",
        "asyncpg",
        "flowfabric.store.postgres.store",
        "flowfabric.store.valkey.store",
    ]
)


def url_on(store: str, folder: Path) -> str:
    """The url of a new database that other processes can reach."""
    if store == "sqlite":
        return f"sqlite:///{folder / 'ff.db'}"
    if store == "valkey":
        return valkey.server().url_of(f"sdk-{folder.name[:40]}")
    url = database(f"sdk_{folder.name[:40]}".replace("-", "_"))
    asyncio.run(migrate_postgres(url))
    return url


def _live(main: Callable[..., Coroutine[Any, Any, None]], args: tuple[Any, ...]) -> None:
    logging.disable(logging.CRITICAL)
    asyncio.run(main(*args))


@contextmanager
def started(main: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> Iterator[BaseProcess]:
    """A process that runs this function and has ended at the end of the block."""
    process = _nursery.Process(target=_live, args=(main, args), daemon=True)
    process.start()
    try:
        yield process
    finally:
        if process.is_alive():
            process.kill()
        process.join()
        process.close()


def ask_to_end(process: BaseProcess) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)


def note(path: Path | str, line: str) -> None:
    """Appends in one write, which a kill right afterwards does not undo."""
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(out, f"{line}\n".encode())
    os.close(out)


def noted(path: Path | str) -> list[str]:
    found = Path(path)
    return found.read_text(encoding="utf-8").splitlines() if found.exists() else []


async def eventually(
    holds: Callable[[], Any], every_s: float = 0.02, progress: Callable[[], Any] = lambda: None
) -> None:
    """Polls with a deadline that starts again at every progress. `holds` may be async."""
    seen, ends = progress(), time.monotonic() + patience(DEADLINE_S)
    while True:
        found = holds()
        if await found if asyncio.iscoroutine(found) else found:
            return
        if (now := progress()) != seen:
            seen, ends = now, time.monotonic() + patience(DEADLINE_S)
        assert time.monotonic() < ends, "it did not come to be"
        await asyncio.sleep(every_s)


async def ended(process: BaseProcess) -> int:
    """Waits for the process; its exit code."""
    await eventually(lambda: not process.is_alive())
    assert process.exitcode is not None
    return process.exitcode
