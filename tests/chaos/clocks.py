"""A wall clock that can be set: it reads its error from a file that the nemesis writes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

FILE = "clock"
LOOK_EVERY_NS = 20_000_000
true_ns: Callable[[], int] = time.time_ns
"""The wall clock as it was when the process began."""


class SetClock:
    def __init__(self, folder: str | Path) -> None:
        self._path = Path(folder) / FILE
        self._wrong_ns, self._look_at = 0, 0

    def __call__(self) -> int:
        now = time.monotonic_ns()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_NS
            if self._path.exists():
                self._wrong_ns = int(self._path.read_text() or "0") * 1_000_000
        return true_ns() + self._wrong_ns


def set_clock(folder: str | Path, wrong_ms: int) -> None:
    """Sets the clock of every process that reads this file."""
    fresh = Path(folder) / f"{FILE}.fresh"
    fresh.write_text(str(wrong_ms))
    os.replace(fresh, Path(folder) / FILE)


def read_set_clock(folder: str | Path) -> None:
    """Replaces the wall clock of this process. The monotonic clock is unchanged."""
    clock = SetClock(folder)
    time.time_ns = clock
    time.time = lambda: clock() / 1e9
