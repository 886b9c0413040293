"""A clock that a test moves."""

from __future__ import annotations

START_MS = 1_800_000_000_000


class ManualClock:
    """Returns milliseconds since the epoch. The time changes with `advance(ms)` only."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, ms: int) -> int:
        self.now_ms += ms
        return self.now_ms
