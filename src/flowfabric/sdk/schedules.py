"""Schedules: one run per tick of a cron line, however many processes there are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError, EngineError
from flowfabric.ids import name as checked_name
from flowfabric.model.schedule import ScheduleMark
from flowfabric.sdk.exceptions import IdempotencyConflict
from flowfabric.sdk.options import CatchUp, ScheduleOptions, check_options

if TYPE_CHECKING:
    from flowfabric.sdk.app import App
    from flowfabric.sdk.task import AnyTask


FIELDS = 5
MARGIN = timedelta(hours=3)
"""Clocks are set back by less. A search that begins this much earlier treats a local time that
occurs twice, or not at all, in the same way as every other search."""
HOUR_MS = 3_600_000
WINDOWS_MS = tuple(HOUR_MS * hours for hours in (1, 24, 32 * 24, 367 * 24, 9 * 366 * 24))
_ACCEPTED = 'five fields, minute hour day month weekday, like "*/5 * * * *" or "30 2 * * MON-FRI"'


class Cron(Struct, frozen=True):
    """A validated cron line, made by `Cron.of(...)`."""

    line: str
    tz: str

    @classmethod
    def of(cls, line: object, tz: object, field: str) -> Cron:
        from cronsim import CronSim, CronSimError

        if not isinstance(line, str) or len(line.split()) != FIELDS or len(line) > 200:
            raise ConfigError(f"{field}: cron: {_ACCEPTED}; got {line!r:.80}")
        try:
            zone = ZoneInfo(tz) if isinstance(tz, str) and tz else None
        except (ZoneInfoNotFoundError, ValueError, OSError):
            zone = None
        if zone is None:
            raise ConfigError(f"{field}: tz: a time zone like Europe/Paris or UTC; got {tz!r:.80}")
        try:
            next(CronSim(line, datetime(2024, 1, 1, tzinfo=zone)))
        except (CronSimError, StopIteration, AssertionError) as error:
            reason = f"{error} in it" if str(error) else "there is never such a day"
            raise ConfigError(f"{field}: cron: {_ACCEPTED}; {reason}: {line!r:.80}") from None
        return cls(line, zone.key)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.tz)

    def between(self, after_ms: int, until_ms: int, limit: int) -> list[int]:
        """The first `limit` ticks after `after_ms`, up to `until_ms`."""
        from cronsim import CronSim

        found: list[int] = []
        begin = datetime.fromtimestamp(after_ms / 1_000, UTC) - MARGIN
        for at in CronSim(self.line, begin.astimezone(self.zone)):
            tick = round(at.timestamp() * 1_000)
            if tick > until_ms or len(found) >= limit:
                break
            # Several local times in a gap of the clock are one tick, right behind the gap.
            if tick > (found[-1] if found else after_ms):
                found.append(tick)
        return found

    def last(self, after_ms: int, until_ms: int) -> int | None:
        """The latest tick in the interval, searched in growing windows from its end."""
        for width in (*WINDOWS_MS, until_ms - after_ms):
            begin = max(after_ms, until_ms - width)
            ticks = self.between(begin, until_ms, width // 60_000 + 1)
            if ticks or begin == after_ms:
                return ticks[-1] if ticks else None
        return None

    def following(self, after_ms: int) -> int | None:
        """The next tick, within nine years."""
        for begin, end in pairwise((0, *WINDOWS_MS)):
            if ticks := self.between(after_ms + begin, after_ms + end, 1):
                return ticks[0]
        return None


log = logging.getLogger("flowfabric.schedule")

LATE_MS = 60_000
"""A tick counts as missed when it is later than this."""
AHEAD_MS = 300_000
"""A mark further ahead than this was set while the clock was wrong."""
MAX_AT_ONCE = 500
LONGEST_PAUSE_S, SHORTEST_PAUSE_S, ERROR_PAUSE_S = 30.0, 0.01, 1.0


class Schedule(Struct, frozen=True):
    """Made by `@app.schedule(...)`; `app.schedules` has them by name."""

    app: App
    task: AnyTask
    cron: Cron
    name: str
    catch_up: CatchUp
    paused: bool
    arguments: Mapping[str, object]

    def __repr__(self) -> str:
        return f"Schedule({self.name!r}, {self.cron.line!r}, {self.cron.tz!r})"

    async def pause(self) -> bool:
        """Skips its ticks, in every process, until `resume`. Returns whether it was running.

        Ticks of a pause are not made up for.
        """
        return await (await self.app.engine()).pause_schedule(self.app.namespace, self.name)

    async def resume(self) -> bool:
        """Continues with the next tick. Returns whether it was paused.

        A schedule that is declared with `paused=True` stays paused.
        """
        return await (await self.app.engine()).resume_schedule(self.app.namespace, self.name)

    def following(self, after: datetime) -> datetime | None:
        """The next tick after this time, in the schedule's zone; None without one in nine years."""
        tick = self.cron.following(round(after.timestamp() * 1_000))
        return None if tick is None else _local(tick, self.cron)


def new_schedule(
    app: App, task: AnyTask, line: object, tz: object, options: dict[str, Any]
) -> Schedule:
    """Checks everything, the arguments included, so that mistakes show at program start."""
    name = checked_name(options.get("name") or task.name, "name")
    field = f"schedule {name}"
    if task.app is not app:
        raise ConfigError(f"{field}: task {task.name} belongs to another App")
    if name in app.schedules:
        raise ConfigError(f"{field}: already declared; give one of them another name=...")
    catch_up, paused = options.get("catch_up", "skip"), options.get("paused", False)
    arguments = options.get("arguments", {})
    check_options(field, options, ("tz", *ScheduleOptions.__annotations__))
    if catch_up not in get_args(CatchUp):
        raise ConfigError(f'{field}: catch_up: "skip", "one" or "all", got {catch_up!r:.80}')
    if not isinstance(paused, bool):
        raise ConfigError(f"{field}: paused: True or False, got {paused!r:.80}")
    task.payload((), arguments)
    return Schedule(app, task, Cron.of(line, tz, field), name, catch_up, paused, dict(arguments))


def due(cron: Cron, catch_up: CatchUp, cursor_ms: int, now_ms: int) -> tuple[list[int], int]:
    """The ticks to submit now, and the schedule's position afterwards.

    Ticks of the last minute are on time. `catch_up` decides about earlier, missed ones.
    """
    if catch_up == "all":
        ticks = cron.between(cursor_ms, now_ms, MAX_AT_ONCE)
        return ticks, now_ms if len(ticks) < MAX_AT_ONCE else ticks[-1]
    ticks = cron.between(max(cursor_ms, now_ms - LATE_MS - 1), now_ms, MAX_AT_ONCE)
    if not ticks and catch_up == "one":
        latest = cron.last(cursor_ms, now_ms)
        ticks = [] if latest is None else [latest]
    return ticks, now_ms


class Ticker:
    """Submits due ticks. Any number of tickers may run: each tick is submitted under its own key.

    A tick is submitted before the mark moves. After a crash in between the next ticker submits it
    again, and the key makes it the same run.
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
            pause = LONGEST_PAUSE_S
            try:
                pause = await self.submit_due()
            except EngineError as error:
                log.warning(
                    "schedules could not be read; trying again", extra={"reason": str(error)}
                )
                pause = ERROR_PAUSE_S
            except Exception:
                log.exception("schedules could not be read; trying again")
            await asyncio.sleep(pause)

    async def submit_due(self) -> float:
        """Submits what is due by the store's clock. Returns the seconds until the next tick."""
        found = await self._engine.read_schedules(self._app.namespace)
        pause = LONGEST_PAUSE_S
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
        return max(pause, SHORTEST_PAUSE_S)

    async def _tick(self, schedule: Schedule, mark: ScheduleMark, now_ms: int) -> int:
        """Submits the schedule's due ticks. Returns how many there were."""
        if mark.cursor_ms > now_ms:
            if mark.cursor_ms > now_ms + AHEAD_MS:
                log.warning(
                    "the mark of a schedule was ahead of the clock; set to the current time",
                    extra={"schedule": schedule.name},
                )
                await self._engine.move_schedule(mark, now_ms)
            return 0
        if schedule.paused or mark.paused:
            if schedule.cron.last(mark.cursor_ms, now_ms) is not None:
                await self._engine.move_schedule(mark, now_ms)
            return 0
        ticks, cursor_ms = due(schedule.cron, schedule.catch_up, mark.cursor_ms, now_ms)
        for tick in ticks:
            await self._submit(schedule, tick)
        if ticks:
            await self._engine.move_schedule(mark, cursor_ms)
        return len(ticks)

    async def _submit(self, schedule: Schedule, tick: int) -> None:
        tags = {
            "schedule.name": schedule.name,
            "schedule.tick": _local(tick, schedule.cron).isoformat(),
        }
        try:
            await schedule.task.submit(
                **schedule.arguments, key=f"{schedule.name}@{tick}", tags=tags
            )
        except IdempotencyConflict as conflict:  # another deployment has other arguments
            log.info(
                "a tick had been submitted with other arguments",
                extra={"schedule": schedule.name, "execution_id": str(conflict.run_id)},
            )


def _local(tick_ms: int, cron: Cron) -> datetime:
    return datetime.fromtimestamp(tick_ms / 1_000, UTC).astimezone(cron.zone)
