"""Reading an outbox without losing events.

A number is drawn when a row is inserted and becomes visible when its transaction commits, so a gap
below a visible number may still fill. A gap is dead once every transaction has ended that was
running when the gap was seen: its number belongs to a transaction that was rolled back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import asyncpg

from flowfabric.store.port import Row
from flowfabric.store.postgres.executor import Session
from flowfabric.store.postgres.reader import decode_rows
from flowfabric.store.schema import TABLES
from flowfabric.store.sql.reads import events_sql
from flowfabric.store.sql.rows import SqlRows

_HORIZON = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
_NEXT = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_FENCE = "SELECT pg_current_xact_id()::text::bigint"
FIRST_PAUSE_S, LAST_PAUSE_S = 0.001, 0.05
MAX_PAUSES = 100
TAIL = 1_000
T = TypeVar("T")


class Run(Protocol):
    """Lends a connection to a function."""

    async def __call__(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T: ...


class GapReader:
    """One per channel and process. Every gap up to `_dead_up_to` is dead."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._dead_up_to = 0
        self._fence: tuple[int, int] | None = None
        snapshot = f", (SELECT {_HORIZON}), (SELECT {_NEXT})"
        self.page_sql = f"{events_sql(channel, snapshot)}$1 ORDER BY event_id LIMIT $2"
        trimmed = f"coalesce((SELECT event_id FROM ff_outbox_trim WHERE channel = '{channel}'), 0)"
        newest = f"SELECT event_id FROM {channel} ORDER BY event_id DESC LIMIT {TAIL}"
        self.tail_sql = f"SELECT {trimmed}, ARRAY({newest})"
        self.between_sql = (
            f"SELECT event_id FROM {channel} "
            "WHERE event_id >= $1 AND event_id < $2 ORDER BY event_id"
        )

    async def read(self, run: Run, after: int, limit: int) -> list[Row]:
        """Committed events above a number, up to the first gap that may still fill.

        Waits when that gap comes first, without a connection: `run` lends one for each try.
        """
        pause = FIRST_PAUSE_S
        for _ in range(MAX_PAUSES):
            page = await run(lambda session: self._try(session, after, limit))
            if page is not None:
                width = len(TABLES[self._channel].names)
                return decode_rows.events(self._channel, [row[:width] for row in page])
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)
        return []

    async def _try(self, session: Session, after: int, limit: int) -> SqlRows | None:
        """A page, or None when a gap comes first."""
        # Read before the page: the page may lack rows of gaps that are found dead meanwhile.
        dead = self._dead_up_to
        rows = await session.fetch(self.page_sql, after, limit)
        if not rows:
            return []
        page = _up_to_gap(rows, after, max(dead, self._decided(rows[0][-2], rows[0][-1])))
        if len(page) < len(rows) and self._fence is None:
            self._fence = (rows[-1][0], (await session.fetch(_FENCE))[0][0])
        return page or None

    async def last(self, run: Run, noted: Callable[[], None]) -> int:
        """A position after all committed events and before all others; if in doubt, earlier.

        `noted` is called as soon as no event committed later can be missed.
        """
        dead = self._dead_up_to
        trimmed, numbers = (await run(lambda session: session.fetch(self.tail_sql)))[0]
        noted()
        highest: int = max((trimmed, *numbers))
        gap = _first_gap(numbers[::-1], max(dead + 1, numbers[-1] if len(numbers) == TAIL else 1))
        if gap > highest:
            return highest
        fence = (await run(lambda session: session.fetch(_FENCE)))[0][0]
        pause = FIRST_PAUSE_S
        for _ in range(MAX_PAUSES):
            if (await run(lambda session: session.fetch(f"SELECT {_HORIZON}")))[0][0] >= fence:
                break
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)
        else:
            return gap - 1
        arrived: set[int] = {
            row[0]
            for row in await run(lambda session: session.fetch(self.between_sql, gap, highest))
        } - set(numbers)
        self._dead_up_to = max(self._dead_up_to, highest)
        return min(arrived) - 1 if arrived else highest

    def _decided(self, horizon: int, following: int) -> int:
        """The number up to which the fence shows that gaps are dead, or 0.

        The fence is a transaction id drawn after the gap was seen: a transaction that can still
        fill the gap has a smaller id. The fence wrote nothing, so a crash of the server may lose
        it: then its id is ahead, and another one is drawn.
        """
        if self._fence is None:
            return 0
        number, drawn = self._fence
        if horizon < drawn:
            if following <= drawn:
                self._fence = None
            return 0
        self._fence = None
        self._dead_up_to = max(self._dead_up_to, number)
        return number


def _up_to_gap(rows: SqlRows, after: int, dead: int) -> SqlRows:
    if rows[-1][0] - after == len(rows):
        return rows
    for at, row in enumerate(rows):
        number = row[0]
        if number != after + 1 and number - 1 > dead:
            return rows[:at]
        after = number
    return rows


def _first_gap(numbers: list[int], first: int) -> int:
    """The first number missing from a rising list."""
    for number in numbers:
        if number > first:
            break
        if number == first:
            first += 1
    return first
