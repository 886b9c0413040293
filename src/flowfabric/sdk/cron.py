"""The ticks of a cron line in a time zone. They do not depend on where a search begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from flowfabric.errors import ConfigError

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
