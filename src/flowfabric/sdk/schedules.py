"""Tasks by the clock: one tick is one run, however many processes there are, and however long they were away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec import Struct

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError, EngineError
from flowfabric.ids import name as checked_name
from flowfabric.model.schedule import ScheduleMark
from flowfabric.sdk.cron import Cron
from flowfabric.sdk.exceptions import IdempotencyConflict

if TYPE_CHECKING:
    from flowfabric.sdk.app import App
    from flowfabric.sdk.task import Task

log = logging.getLogger("flowfabric.schedule")

CatchUp = Literal["skip", "one", "all"]
LATE_MS = 60_000
"""Up to here a tick is on time, whatever held it up."""
AHEAD_MS = 300_000
"""A mark further ahead than this was set when the clock was wrong."""
MAX_AT_ONCE = 500
LONGEST_S, SHORTEST_S = 30.0, 0.01


class Schedule:
    """Made by `@app.schedule(...)`; found in `app.schedules` by name."""

    def __init__(
        self,
        app: App,
        task: Task[..., Any],
        cron: Cron,
        *,
        name: str,
        catch_up: CatchUp,
        paused: bool,
        arguments: Mapping[str, Any],
    ) -> None:
        self.app, self.task, self.cron, self.name = app, task, cron, name
        self.catch_up, self.paused, self.arguments = catch_up, paused, dict(arguments)

    def __repr__(self) -> str:
        return f"Schedule({self.name!r}, {self.cron.line!r}, {self.cron.tz!r})"

    async def pause(self) -> bool:
        """Leaves out its ticks, in every process, until it is resumed; whether it was running."""
        return await (await self.app.engine()).pause_schedule(self.app.namespace, self.name)

    async def resume(self) -> bool:
        """Goes on with the ticks still to come; whether it was paused. One that is declared `paused` stays so."""
        return await (await self.app.engine()).resume_schedule(self.app.namespace, self.name)

    def following(self, after: datetime) -> datetime | None:
        """The tick after this time, in the schedule's own zone."""
        tick = self.cron.following(round(after.timestamp() * 1_000))
        return None if tick is None else _shown(tick, self.cron)


def made(
    app: App, task: Task[..., Any], line: object, tz: object, options: dict[str, Any]
) -> Schedule:
    """Checked from end to end, so that a mistake is told when the program begins."""
    name = checked_name(options.pop("name", None) or task.name, "name")
    field = f"schedule {name}"
    if task.app is not app:
        raise ConfigError(f"{field}: task {task.name} is another App's")
    if name in app.schedules:
        raise ConfigError(f"{field}: there is one of that name already; give one of them name=...")
    catch_up, paused, arguments = (
        options.pop("catch_up", "skip"),
        options.pop("paused", False),
        options.pop("arguments", {}),
    )
    if options:
        accepted = "tz, catch_up, paused, name and arguments"
        raise ConfigError(
            f"{field}: {', '.join(sorted(options))}: unknown; {accepted} are accepted"
        )
    if catch_up not in get_args(CatchUp):
        raise ConfigError(f'{field}: catch_up: "skip", "one" or "all", got {catch_up!r:.80}')
    if not isinstance(paused, bool):
        raise ConfigError(f"{field}: paused: True or False, got {paused!r:.80}")
    task.payload((), arguments)
    return Schedule(
        app,
        task,
        Cron.of(line, tz, field),
        name=name,
        catch_up=catch_up,
        paused=paused,
        arguments=arguments,
    )


class Due(Struct, frozen=True):
    """What is to be submitted now, and how far the schedule has got then."""

    ticks: list[int]
    cursor_ms: int


def due(cron: Cron, catch_up: CatchUp, cursor_ms: int, now_ms: int) -> Due:
    """On time are those of the last minute. Of those missed, none, the latest, or all are made up for."""
    if catch_up == "all":
        ticks = cron.between(cursor_ms, now_ms, MAX_AT_ONCE)
        return Due(ticks, now_ms if len(ticks) < MAX_AT_ONCE else ticks[-1])
    ticks = cron.between(max(cursor_ms, now_ms - LATE_MS - 1), now_ms, MAX_AT_ONCE)
    if not ticks and catch_up == "one":
        latest = cron.last(cursor_ms, now_ms)
        ticks = [] if latest is None else [latest]
    return Due(ticks, now_ms)


class Ticker:
    """Submits what is due. Any number of them may run; the mark and the key of each tick keep them from doing it twice.

    A tick is submitted before the mark moves: whoever dies in between has left it to the next, who finds it submitted.
    """

    def __init__(self, app: App, engine: EngineProtocol) -> None:
        self._app, self._engine = app, engine
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._app.schedules and self._task is None:
            self._task = asyncio.create_task(self._run(), name="flowfabric-ticker")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            pause = LONGEST_S
            try:
                pause = await self.look()
            except EngineError as error:
                log.warning("schedules cannot be looked at (%s); trying again", error)
                pause = 1.0
            except Exception:
                log.exception("schedules cannot be looked at; trying again")
            await asyncio.sleep(pause)

    async def look(self) -> float:
        """Submits what is due by the store's clock; in how many seconds there is something to look at again."""
        found = await self._engine.read_schedules(self._app.namespace)
        pause = LONGEST_S
        for schedule in self._app.schedules.values():
            mark = found.marks.get(schedule.name)
            if mark is None:
                await self._engine.begin_schedule(self._app.namespace, schedule.name)
                pause = 0
                continue
            done = await self._tick(schedule, mark, found.now_ms)
            following = schedule.cron.following(found.now_ms)
            if done >= MAX_AT_ONCE:
                pause = 0
            elif following is not None:
                pause = min(pause, (following - found.now_ms) / 1_000)
        return max(pause, SHORTEST_S)

    async def _tick(self, schedule: Schedule, mark: ScheduleMark, now_ms: int) -> int:
        """How many were submitted."""
        if mark.cursor_ms > now_ms:
            if mark.cursor_ms > now_ms + AHEAD_MS:
                log.warning(
                    "schedule %s: its mark lies ahead of the clock; it goes on from now",
                    schedule.name,
                )
                await self._engine.move_schedule(mark, now_ms)
            return 0
        if schedule.paused or mark.paused:
            if schedule.cron.last(mark.cursor_ms, now_ms) is not None:
                await self._engine.move_schedule(mark, now_ms)
            return 0
        found = due(schedule.cron, schedule.catch_up, mark.cursor_ms, now_ms)
        for tick in found.ticks:
            await self._submit(schedule, tick)
        if found.ticks:
            await self._engine.move_schedule(mark, found.cursor_ms)
        return len(found.ticks)

    async def _submit(self, schedule: Schedule, tick: int) -> None:
        tags = {
            "schedule.name": schedule.name,
            "schedule.tick": _shown(tick, schedule.cron).isoformat(),
        }
        try:
            await schedule.task.submit(
                **schedule.arguments, key=f"{schedule.name}@{tick}", tags=tags
            )
        except IdempotencyConflict as other:  # of a deploy that gives the schedule other arguments
            log.info(
                "schedule %s: its tick was submitted with other arguments, as %s",
                schedule.name,
                other.run_id,
            )


def _shown(tick_ms: int, cron: Cron) -> datetime:
    return datetime.fromtimestamp(tick_ms / 1_000, UTC).astimezone(cron.zone)
