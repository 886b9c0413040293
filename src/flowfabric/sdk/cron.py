"""When a cron line falls due, in a time zone. The same for whoever asks, from wherever he begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from flowfabric.errors import ConfigError

FIELDS = 5
MARGIN = timedelta(hours=3)
"""Clocks are set back by less. Looked at from before, a local time that comes twice or never is the same to everybody."""
HOUR_MS = 3_600_000
WINDOWS_MS = tuple(HOUR_MS * hours for hours in (1, 24, 32 * 24, 367 * 24, 9 * 366 * 24))
_ACCEPTED = 'five fields, minute hour day month weekday, like "*/5 * * * *" or "30 2 * * MON-FRI"'


class Cron(Struct, frozen=True):
    """A checked line. `Cron.of(...)` makes one."""

    line: str
    tz: str

    @classmethod
    def of(cls, line: object, tz: object, field: str) -> Cron:
        """Raises at once what would otherwise go wrong in the night."""
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
            said = f"{error} in it" if str(error) else "there is never such a day"
            raise ConfigError(f"{field}: cron: {_ACCEPTED}; {said}: {line!r:.80}") from None
        return cls(line, zone.key)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.tz)

    def between(self, after_ms: int, until_ms: int, limit: int) -> list[int]:
        """The ticks after the one and up to the other time, the first so many of them."""
        from cronsim import CronSim

        found: list[int] = []
        begin = datetime.fromtimestamp(after_ms / 1_000, UTC) - MARGIN
        for at in CronSim(self.line, begin.astimezone(self.zone)):
            tick = round(at.timestamp() * 1_000)
            if tick > until_ms or len(found) >= limit:
                break
            if tick > (
                found[-1] if found else after_ms
            ):  # what the clock leaps over comes at once behind the gap, once
                found.append(tick)
        return found

    def last(self, after_ms: int, until_ms: int) -> int | None:
        """The latest tick in there, without going through all of them."""
        for width in (*WINDOWS_MS, until_ms - after_ms):
            begin = max(after_ms, until_ms - width)
            ticks = self.between(begin, until_ms, width // 60_000 + 1)
            if ticks or begin == after_ms:
                return ticks[-1] if ticks else None
        return None

    def following(self, after_ms: int) -> int | None:
        """The next tick, if there is one within a few years."""
        for begin, end in pairwise((0, *WINDOWS_MS)):
            if ticks := self.between(after_ms + begin, after_ms + end, 1):
                return ticks[0]
        return None
