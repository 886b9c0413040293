"""The progress of schedules."""

from __future__ import annotations

from msgspec import Struct

MAX_SCHEDULES = 1_000


class ScheduleMark(Struct, frozen=True):
    """Every tick up to `cursor_ms` has been submitted or skipped."""

    namespace: str
    name: str
    cursor_ms: int
    paused: bool


class ScheduleMarks(Struct, frozen=True):
    """The schedules of a namespace by name, and the store's time of the read."""

    marks: dict[str, ScheduleMark]
    now_ms: int
