"""What a system must offer to be measured, and the clocks that all of them share."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

BATCH = 1_000
WARM_UP = 10
IDLE_S = 0.02
PAYLOAD = b"x" * 64


class Reply(Struct):
    """How the system was set up, and the seconds measured; several only for round trips."""

    settings: str = ""
    seconds: list[float] = []


class System(Protocol):
    """One module per system. Everything runs in a child process, on a database of its own; seconds
    exclude connecting.
    """

    DRAIN_SETTINGS: str
    LATENCY_SETTINGS: str

    async def prepare(self, url: str) -> None:
        """Creates the schema in an empty database."""

    async def enqueue_many(self, url: str, n: int) -> float:
        """Enqueues n no-op jobs with PAYLOAD, at most BATCH a call; the seconds it took."""

    async def enqueue_each(self, url: str, n: int) -> float:
        """Enqueues n no-op jobs with PAYLOAD, each committed before the next; the
        seconds it took.
        """

    async def completed(self, url: str) -> int:
        """How many jobs the database says have succeeded."""

    async def drain(self, url: str, n: int) -> float:
        """Runs all n enqueued jobs; the seconds from the first job started to the last completion
        committed.
        """

    async def serve(self, url: str) -> None:
        """Runs jobs as they come, until this process is ended."""

    async def roundtrip(self, url: str, n: int) -> list[float]:
        """Enqueues n jobs one after the other, after WARM_UP others; the seconds until each was
        known to have succeeded.
        """


class Tally:
    """From the first job started to the last of n committed. Threads may share one."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._left = n
        self._first: float | None = None
        self._last: float | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        if self._first is None:
            with self._lock:
                self._first = self._first or time.perf_counter()

    def finish(self, count: int = 1) -> bool:
        """Whether these were the last."""
        with self._lock:
            self._left -= count
            if self._left == 0:
                self._last = time.perf_counter()
            return self._left <= 0

    @property
    def seconds(self) -> float:
        if self._left or self._first is None or self._last is None:
            raise RuntimeError(f"{self._n - self._left} completions of {self._n} jobs")
        return self._last - self._first


def batches(n: int) -> list[int]:
    """n, in batches of at most BATCH."""
    return [min(BATCH, n - at) for at in range(0, n, BATCH)]


async def sampled(once: Callable[[], Awaitable[None]], n: int) -> list[float]:
    """Seconds of each call. The pause before each lets the worker finish its bookkeeping, so that
    it waits, idle, as promised.
    """
    samples = []
    for _ in range(WARM_UP + n):
        await asyncio.sleep(IDLE_S)
        started = time.perf_counter()
        await once()
        samples.append(time.perf_counter() - started)
    return samples[WARM_UP:]
