"""The depth of queues."""

from __future__ import annotations

from msgspec import Struct


class LaneLoad(Struct, frozen=True):
    """Open executions of a lane by public state, and the age of the oldest that is ready."""

    lane: str
    states: dict[str, int]
    oldest_ready_ms: int = 0


LONG_WRITING_MS = 10_000
"""A transaction that writes for longer delays events noticeably."""


class LongWriter(Struct, frozen=True, tag="long_writer"):
    """A long write transaction of any client; later events are not delivered until it ends."""

    pid: int
    for_ms: int
    database: str
    application: str

    def __str__(self) -> str:
        application = f" ({self.application})" if self.application else ""
        backend = f"backend {self.pid}{application} of database {self.database or '?'}"
        return f"{backend} has been writing for {self.for_ms // 1_000} s"


class QueueStats(Struct, frozen=True):
    """A sample of the queues."""

    lanes: tuple[LaneLoad, ...]
    workers: dict[str, int]
    cancel_backlog: int
    oldest_overdue_ms: int = 0
