"""The positions of schedules, shared by all processes."""

from __future__ import annotations

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.ids import name as checked_name
from flowfabric.model.schedule import MAX_SCHEDULES, ScheduleMark, ScheduleMarks
from flowfabric.plan import Applied
from flowfabric.rules.workers import schedules
from flowfabric.store.port import Scan

_COLUMNS = ("namespace", "name", "cursor_ms", "paused")


class Schedules:
    """Stores the mark of each schedule: its position and whether it is paused."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def begin_schedule(self, namespace: str, name: str) -> None:
        """Stores a mark at the current time, unless the schedule has one."""
        await self._store.commit(
            schedules.add(checked_name(namespace, "namespace"), checked_name(name, "name"))
        )

    async def read_schedules(self, namespace: str) -> ScheduleMarks:
        """The marks of a namespace by the name of the schedule."""
        group = {"namespace": checked_name(namespace, "namespace")}
        loaded = await self._store.load(
            (Scan("schedules", group, limit=MAX_SCHEDULES, columns=_COLUMNS),)
        )
        marks = {
            name: ScheduleMark(namespace, name, cursor_ms, bool(paused))
            for namespace, name, cursor_ms, paused in loaded.rows[0]
        }
        return ScheduleMarks(marks, loaded.now_ms)

    async def move_schedule(self, mark: ScheduleMark, cursor_ms: int) -> bool:
        """Moves a schedule; False when another process has moved it since the mark was read."""
        validation.timestamp(cursor_ms, "cursor_ms")
        validation.timestamp(mark.cursor_ms, "mark.cursor_ms")
        checked_name(mark.namespace, "mark.namespace")
        checked_name(mark.name, "mark.name")
        plan = schedules.move(mark.namespace, mark.name, mark.cursor_ms, cursor_ms)
        return isinstance(await self._store.commit(plan), Applied)

    async def pause_schedule(self, namespace: str, name: str) -> bool:
        """Skips the ticks until the schedule is resumed; False when it was paused before."""
        await self.begin_schedule(namespace, name)
        return isinstance(await self._store.commit(schedules.pause(namespace, name)), Applied)

    async def resume_schedule(self, namespace: str, name: str) -> bool:
        """Continues with the ticks to come; False when the schedule was not paused."""
        await self.begin_schedule(namespace, name)
        return isinstance(await self._store.commit(schedules.resume(namespace, name)), Applied)
