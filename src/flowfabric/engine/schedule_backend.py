"""The documented protocol, the part about how far schedules have got."""

from __future__ import annotations

from typing import Protocol

from flowfabric.model.schedule import ScheduleMark, ScheduleMarks


class ScheduleBackend(Protocol):
    async def begin_schedule(self, namespace: str, name: str) -> None:
        """From now on it has ticks; one that has begun before goes on from where it was."""

    async def read_schedules(self, namespace: str) -> ScheduleMarks:
        """How far each schedule of a namespace has got."""

    async def move_schedule(self, mark: ScheduleMark, cursor_ms: int) -> bool:
        """Whether it was still at this mark and has moved; else somebody else has moved it."""

    async def pause_schedule(self, namespace: str, name: str) -> bool:
        """Whether it was running. Its ticks are left out until it is resumed."""

    async def resume_schedule(self, namespace: str, name: str) -> bool:
        """Whether it was paused. It goes on with the ticks that are still to come."""
