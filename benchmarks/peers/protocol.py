"""What a system must offer to be measured, and the clocks that all of them share."""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

BATCH = 1_000
WARM_UP = 10
IDLE_S = 0.02
PAYLOAD = b"x" * 64
SHARED_POLL_S = 0.01
_TIMES = struct.Struct("=ddq")
"""The first start, the last end, and how many have ended."""


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


class SharedTally:
    """The same for workers of several processes, each of which writes a file of its own.

    The clock is that of the machine, so that the times of processes compare.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._own: dict[int, mmap.mmap] = {}

    def start(self) -> None:
        with self._lock:
            first, last, count = _TIMES.unpack_from(self._file())
            if not first:
                _TIMES.pack_into(self._file(), 0, time.perf_counter(), last, count)

    def finish(self) -> None:
        with self._lock:
            first, _, count = _TIMES.unpack_from(self._file())
            _TIMES.pack_into(self._file(), 0, first, time.perf_counter(), count + 1)

    def _file(self) -> mmap.mmap:
        """A forked process makes its own."""
        own = self._own.get(os.getpid())
        if own is None:
            with (self._folder / str(os.getpid())).open("w+b") as file:
                file.truncate(_TIMES.size)
                own = self._own[os.getpid()] = mmap.mmap(file.fileno(), _TIMES.size)
        return own

    async def seconds(self, n: int) -> float:
        """From the first job started to the last of n finished, in any process."""
        while True:
            found = [_TIMES.unpack(data) for data in self._written() if len(data) == _TIMES.size]
            if sum(count for _, _, count in found) >= n:
                first: float = min(first for first, _, _ in found if first)
                last: float = max(last for _, last, _ in found)
                return last - first
            await asyncio.sleep(SHARED_POLL_S)

    def _written(self) -> list[bytes]:
        return [path.read_bytes() for path in self._folder.iterdir()]


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
