"""Planted bugs of schedules, for the machine of schedules to notice."""

from __future__ import annotations

from typing import Any

from flowfabric.engine.workers.schedules import Schedules
from flowfabric.ids import name as checked_name
from flowfabric.model.schedule import ScheduleMark, ScheduleMarks
from flowfabric.plan import Applied, Now
from flowfabric.rules.workers import schedules

from .mutants import Patch, Plant, put, with_set, without_guards, without_set

SCHEDULE_MUTANTS: dict[str, Plant] = {}


def mutant(plant: Plant) -> Plant:
    SCHEDULE_MUTANTS[plant.__name__] = plant
    return plant


@mutant
def whoever_comes_later_moves_it_again(patch: Patch) -> None:
    put(patch, schedules, "MOVE", lambda f: without_guards(f, "cursor_ms"))


@mutant
def a_namesake_elsewhere_is_moved(patch: Patch) -> None:
    honest = schedules.move
    patch.setattr(schedules, "move", lambda namespace, *rest: honest("a", *rest))


@mutant
def a_neighbour_is_paused(patch: Patch) -> None:
    honest = schedules.pause
    patch.setattr(schedules, "pause", lambda namespace, name: honest(namespace, "x"))


@mutant
def beginning_again_begins_anew(patch: Patch) -> None:
    honest = Schedules.begin_schedule

    async def begin_schedule(self: Any, namespace: str, name: str) -> None:
        await honest(self, namespace, name)
        await self._store.commit(
            with_set(without_guards(schedules.RESUME, "paused"), paused=0)(
                namespace=namespace, name=name
            )
        )

    patch.setattr(Schedules, "begin_schedule", begin_schedule)


@mutant
def pausing_twice_is_a_pause_each(patch: Patch) -> None:
    put(patch, schedules, "PAUSE", lambda f: without_guards(f, "paused"))


@mutant
def resuming_what_runs_leaves_ticks_out(patch: Patch) -> None:
    put(patch, schedules, "RESUME", lambda f: without_guards(f, "paused"))


@mutant
def ticks_of_a_pause_are_made_up_for(patch: Patch) -> None:
    put(patch, schedules, "RESUME", lambda f: without_set(f, "cursor_ms"))


@mutant
def resumed_and_still_paused(patch: Patch) -> None:
    put(patch, schedules, "RESUME", lambda f: with_set(f, paused=1))


@mutant
def moving_ends_a_pause(patch: Patch) -> None:
    put(patch, schedules, "MOVE", lambda f: with_set(f, paused=0))


@mutant
def it_is_moved_to_now_whatever_was_said(patch: Patch) -> None:
    put(patch, schedules, "MOVE", lambda f: with_set(f, cursor_ms=Now()))


@mutant
def pausing_moves_the_mark(patch: Patch) -> None:
    put(patch, schedules, "PAUSE", lambda f: with_set(f, cursor_ms=Now()))


@mutant
def what_has_not_begun_cannot_be_paused(patch: Patch) -> None:
    async def pause_schedule(self: Any, namespace: str, name: str) -> bool:
        checked = checked_name(namespace, "namespace"), checked_name(name, "name")
        return isinstance(await self._store.commit(schedules.pause(*checked)), Applied)

    patch.setattr(Schedules, "pause_schedule", pause_schedule)


@mutant
def a_move_is_always_a_success(patch: Patch) -> None:
    honest = Schedules.move_schedule

    async def move_schedule(self: Any, mark: ScheduleMark, cursor_ms: int) -> bool:
        await honest(self, mark, cursor_ms)
        return True

    patch.setattr(Schedules, "move_schedule", move_schedule)


@mutant
def paused_ones_are_not_shown(patch: Patch) -> None:
    honest = Schedules.read_schedules

    async def read_schedules(self: Any, namespace: str) -> ScheduleMarks:
        found = await honest(self, namespace)
        return ScheduleMarks(
            {name: mark for name, mark in found.marks.items() if not mark.paused}, found.now_ms
        )

    patch.setattr(Schedules, "read_schedules", read_schedules)


@mutant
def moved_by_what_was_read_and_not_by_what_is(patch: Patch) -> None:
    """Reads first, then writes without a condition: two concurrent readers both move it."""

    async def move_schedule(self: Any, mark: ScheduleMark, cursor_ms: int) -> bool:
        now = (await honest_read(self, mark.namespace)).marks.get(mark.name)
        if now is None or now.cursor_ms != mark.cursor_ms or not 0 <= cursor_ms <= 2**53 - 1:
            return await honest(self, mark, cursor_ms)
        await self._store.commit(
            without_guards(schedules.MOVE, "cursor_ms")(**_values(mark, cursor_ms))
        )
        return True

    honest, honest_read = Schedules.move_schedule, Schedules.read_schedules
    patch.setattr(Schedules, "move_schedule", move_schedule)


def _values(mark: ScheduleMark, cursor_ms: int) -> dict[str, Any]:
    return {
        "namespace": mark.namespace,
        "name": mark.name,
        "was_ms": mark.cursor_ms,
        "cursor_ms": cursor_ms,
    }
