"""The time that counts: injectable, and never running backwards."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def system_clock() -> int:
    return time.time_ns() // 1_000_000


class Ratchet:
    """A clock that steps back never revives an expired lease: the latest time seen stands."""

    __slots__ = ("_clock", "_latest")

    def __init__(self, clock: Clock) -> None:
        self._clock, self._latest = clock, 0

    def __call__(self) -> int:
        now = self._clock()
        if now > self._latest:
            self._latest = now
        return self._latest
