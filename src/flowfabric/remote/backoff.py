"""Growing pauses between the tries of a call."""

from __future__ import annotations

from collections.abc import Iterator


def pauses(first_s: float, factor: float, longest_s: float) -> Iterator[float]:
    pause = first_s
    while True:
        yield pause
        pause = min(pause * factor, longest_s)
