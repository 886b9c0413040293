"""Workers that a library starts by a command of its own, in processes of their own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.peers.protocol import SharedTally

URL, TALLY = "FF_BENCH_URL", "FF_BENCH_TALLY"
STOP_S = 5.0


def redis_url(url: str) -> str:
    """Their clients speak the protocol under its old name."""
    return url.replace("valkey://", "redis://", 1)


def url_of_worker() -> str:
    return redis_url(os.environ.get(URL, "valkey://127.0.0.1:6379/0"))


def tally_of_worker() -> SharedTally | None:
    folder = os.environ.get(TALLY)
    return SharedTally(Path(folder)) if folder else None


async def drained(url: str, n: int, *arguments: str, **settings: str) -> float:
    """Seconds from the first job started to the last one finished by that worker."""
    with TemporaryDirectory(prefix="ff-bench-") as folder:
        async with _running(url, arguments, {TALLY: folder, **settings}) as worker:
            counting = asyncio.ensure_future(SharedTally(Path(folder)).seconds(n))
            ended = asyncio.ensure_future(worker.wait())
            await asyncio.wait((counting, ended), return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            if not counting.done():
                counting.cancel()
                raise RuntimeError(f"the worker ended with {worker.returncode}")
            return counting.result()


async def served(url: str, *arguments: str, **settings: str) -> None:
    async with _running(url, arguments, settings) as worker:
        raise RuntimeError(f"the worker ended with {await worker.wait()}")


@asynccontextmanager
async def _running(
    url: str, arguments: tuple[str, ...], settings: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """In the process group of this child, which is ended as a whole."""
    environment = {**os.environ, URL: url, **settings}
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *arguments, env=environment, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        yield worker
    finally:
        if worker.returncode is None:
            worker.terminate()
            try:
                await asyncio.wait_for(worker.wait(), STOP_S)
            except TimeoutError:
                worker.kill()
                await worker.wait()
