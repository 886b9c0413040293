"""Deadlines of tests follow the speed of the machine, so that they hold beside other processes."""

from __future__ import annotations

import asyncio
import os
import time

ROUNDS = 100_000
QUIET_S = 0.0025
"""The time these rounds take on a machine that does nothing else."""
SAMPLES = 4
KEPT_S = 10.0
MOST = 20.0
_last: list[tuple[float, float]] = []


def slowness() -> float:
    """How many times longer work takes than on a quiet machine; at least 1."""
    now = time.monotonic()
    if not _last or now - _last[0][0] > KEPT_S:
        _last[:] = [(now, min(max(1.0, _sampled(), _crowd()), MOST))]
    return _last[0][1]


def patience(seconds: float) -> float:
    """The deadline for what takes at most so many seconds on a quiet machine."""
    return seconds * slowness()


def patient(seconds: float) -> asyncio.Timeout:
    return asyncio.timeout(patience(seconds))


class Allowance:
    """Seconds of a quiet machine. Each lasts as long as work takes longer than there."""

    def __init__(self, seconds: float) -> None:
        self._left_s, self._seen = seconds, time.monotonic()

    def left_s(self) -> float:
        """The rest, in seconds of a quiet machine. Asked often, it follows a changing load."""
        now = time.monotonic()
        self._left_s -= (now - self._seen) / slowness()
        self._seen = now
        return self._left_s

    @property
    def is_spent(self) -> bool:
        return self.left_s() < 0


def _sampled() -> float:
    began = time.perf_counter()
    for _ in range(SAMPLES):
        sum(n & 7 for n in range(ROUNDS))
    return (time.perf_counter() - began) / (SAMPLES * QUIET_S)


def _crowd() -> float:
    """A sample can fit between two time slices of other processes, so the load counts as well."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)
