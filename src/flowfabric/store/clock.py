"""The time that counts: injectable, and never running backwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

Clock = Callable[[], int]


def system_clock() -> int:
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


MAX_LEAD_MS = 24 * 3_600_000
"""Further ahead of the wall clock than this, time waits for it."""


class Ratchet:
    """A clock that never runs back, so a wall clock that steps back revives no expired lease, and that does not stop either.

    While the wall clock is behind the latest time told, time goes on by the monotonic clock, an eighth slower until the wall
    clock has caught up, so that processes with different leads come together again. An injected clock brings its own `ticks`,
    or stands still when it steps back.
    """

    __slots__ = ("_clock", "_latest", "_left", "_lock", "_ticks")

    def __init__(self, clock: Clock, ticks: Clock | None = None) -> None:
        self._clock, self._latest = clock, 0
        self._ticks = monotonic_ms if ticks is None and clock is system_clock else ticks
        self._left: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def __call__(self) -> int:
        with self._lock:
            wall = self._clock()
            if wall >= self._latest:
                self._latest, self._left = wall, None
            elif self._ticks is not None:
                self._latest = max(
                    self._latest, min(self._carried(self._ticks()), wall + MAX_LEAD_MS)
                )
            return self._latest

    @property
    def is_ahead(self) -> bool:
        """Whether time is told by the monotonic clock, for the wall clock is behind."""
        with self._lock:
            return self._clock() < self._latest

    def raise_to(self, told_ms: int) -> None:
        """Another process of the same database has told this time already."""
        with self._lock:
            bounded = min(told_ms, self._clock() + MAX_LEAD_MS)
            if bounded > self._latest:
                self._latest, self._left = bounded, None

    def _carried(self, tick: int) -> int:
        """From where the wall clock was left."""
        if self._left is None:
            self._left = self._latest, tick
        latest, since = self._left
        return latest + (tick - since) * 7 // 8
