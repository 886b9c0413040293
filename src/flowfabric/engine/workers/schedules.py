"""How far schedules have got, kept for all processes."""

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
    """Marks of schedules, shared by all processes."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def begin_schedule(self, namespace: str, name: str) -> None:
        """From now on it has ticks; one that has begun before goes on from where it was."""
        await self._store.commit(
            schedules.add(checked_name(namespace, "namespace"), checked_name(name, "name"))
        )

    async def read_schedules(self, namespace: str) -> ScheduleMarks:
        """How far each schedule of a namespace has got."""
        group = {"namespace": checked_name(namespace, "namespace")}
        loaded = await self._store.load(
            (Scan("schedules", group, limit=MAX_SCHEDULES, columns=_COLUMNS),)
        )
        marks = (ScheduleMark(at[0], at[1], at[2], bool(at[3])) for at in loaded.rows[0])
        return ScheduleMarks({mark.name: mark for mark in marks}, loaded.now_ms)

    async def move_schedule(self, mark: ScheduleMark, cursor_ms: int) -> bool:
        """Whether it was still at this mark and has moved; else somebody else has moved it."""
        validation.timestamp(cursor_ms, "cursor_ms")
        validation.timestamp(mark.cursor_ms, "mark.cursor_ms")
        checked_name(mark.namespace, "mark.namespace")
        checked_name(mark.name, "mark.name")
        plan = schedules.move(mark.namespace, mark.name, mark.cursor_ms, cursor_ms)
        return isinstance(await self._store.commit(plan), Applied)

    async def pause_schedule(self, namespace: str, name: str) -> bool:
        """Whether it was running. Its ticks are left out until it is resumed."""
        await self.begin_schedule(namespace, name)
        return isinstance(await self._store.commit(schedules.pause(namespace, name)), Applied)

    async def resume_schedule(self, namespace: str, name: str) -> bool:
        """Whether it was paused. It goes on with the ticks that are still to come."""
        await self.begin_schedule(namespace, name)
        return isinstance(await self._store.commit(schedules.resume(namespace, name)), Applied)
