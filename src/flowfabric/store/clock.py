"""The clock of a store: injectable, and never running back."""

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
"""How far the clock may be ahead of the wall clock before it stops and waits for it."""


class Ratchet:
    """A clock that never decreases and does not stop.

    A wall clock that is set back must not revive an expired lease. While it is behind the latest
    time returned, the monotonic clock continues from there, an eighth slower, so that processes
    with different leads converge. An injected clock has its own `ticks`, or does not move.
    """

    __slots__ = ("_behind_since", "_clock", "_lock", "_ticks", "latest")

    def __init__(self, clock: Clock, ticks: Clock | None = None) -> None:
        self._clock, self.latest = clock, 0
        self._ticks = monotonic_ms if ticks is None and clock is system_clock else ticks
        self._behind_since: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def __call__(self) -> int:
        with self._lock:
            wall = self._clock()
            if wall >= self.latest:
                self.latest, self._behind_since = wall, None
            elif self._ticks is not None:
                ahead = min(self._continued(self._ticks()), wall + MAX_LEAD_MS)
                self.latest = max(self.latest, ahead)
            return self.latest

    @property
    def is_ahead(self) -> bool:
        """The wall clock is behind, so the monotonic clock determines the time."""
        with self._lock:
            return self._clock() < self.latest

    def raise_to(self, time_ms: int) -> None:
        """Another process of the same database has returned this time."""
        with self._lock:
            bounded = min(time_ms, self._clock() + MAX_LEAD_MS)
            if bounded > self.latest:
                self.latest, self._behind_since = bounded, None

    def _continued(self, tick: int) -> int:
        if self._behind_since is None:
            self._behind_since = self.latest, tick
        latest, since = self._behind_since
        return latest + (tick - since) * 7 // 8
