"""How much there is to do, counted."""

from __future__ import annotations

from msgspec import Struct


class LaneLoad(Struct, frozen=True):
    """Executions of a lane that have not ended, by public state, and how long the oldest has been waiting for a worker."""

    lane: str
    states: dict[str, int]
    oldest_ready_ms: int = 0


class Census(Struct, frozen=True):
    """A sample. Counting stops at a maximum, so a large number may mean that there are more."""

    lanes: tuple[LaneLoad, ...]
    workers: dict[str, int]
    cancel_backlog: int
    oldest_overdue_ms: int = 0
