"""How much there is to do, counted."""

from __future__ import annotations

from msgspec import Struct


class LaneLoad(Struct, frozen=True):
    """Executions of a lane that have not ended, by public state, and how long the oldest has been
    waiting for a worker.
    """

    lane: str
    states: dict[str, int]
    oldest_ready_ms: int = 0


LONG_WRITING_MS = 10_000
"""A transaction that has been writing for longer holds back events noticeably."""


class LongWriter(Struct, frozen=True, tag="long_writer"):
    """A transaction of any client of the database server that has been writing for long. Events
    committed after it began are not
    told before it ends: it might have begun to write one with a smaller number.
    """

    pid: int
    for_ms: int
    database: str
    application: str

    def __str__(self) -> str:
        who = f" ({self.application})" if self.application else ""
        return (
            f"backend {self.pid}{who} of database {self.database or '?'} has been writing for "
            f"{self.for_ms // 1_000} s"
        )


class QueueStats(Struct, frozen=True):
    """A sample. Counting stops at a maximum, so a large number may mean that there are more."""

    lanes: tuple[LaneLoad, ...]
    workers: dict[str, int]
    cancel_backlog: int
    oldest_overdue_ms: int = 0
