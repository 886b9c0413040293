"""Reading an outbox without losing events.

A number is drawn when a row is inserted but seen when its transaction commits, so a gap below a number may still fill. A gap is
dead once every transaction that was running when it was seen has ended: then its number belongs to one that was rolled back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from flowfabric.store.port import Row
from flowfabric.store.postgres.apply import Session
from flowfabric.store.postgres.reader import decode_rows
from flowfabric.store.schema import TABLES

_HORIZON = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
_NEXT = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_FENCE = "SELECT pg_current_xact_id()::text::bigint"
FIRST_PAUSE_S, LAST_PAUSE_S = 0.001, 0.05
MAX_PAUSES = 100
TAIL = 1_000
Run = Callable[[Callable[[Session], Awaitable[Any]]], Awaitable[Any]]


class GapReader:
    """One per channel and process. Every gap up to `settled` is known to be dead."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._settled = 0
        self._fence: tuple[int, int] | None = None
        names = ", ".join(TABLES[channel].names)
        self._page = f"SELECT {_HORIZON}, {_NEXT}, {names} FROM {channel} WHERE event_id > $1 ORDER BY event_id LIMIT $2"
        trimmed = f"coalesce((SELECT event_id FROM ff_outbox_trim WHERE channel = '{channel}'), 0)"
        self._tail = f"SELECT {trimmed}, ARRAY(SELECT event_id FROM {channel} ORDER BY event_id DESC LIMIT {TAIL})"
        self._between = f"SELECT event_id FROM {channel} WHERE event_id >= $1 AND event_id < $2 ORDER BY event_id"

    async def read(self, run: Run, after: int, limit: int) -> list[Row]:
        """Committed events above a number, up to the first gap that may still fill; waits where that gap comes first.

        No connection is held meanwhile: `run` lends one for each look.
        """
        pause = FIRST_PAUSE_S
        for _ in range(MAX_PAUSES):
            page = await run(lambda session: self._look(session, after, limit))
            if page is not None:
                return decode_rows(self._channel, page)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)
        return []

    async def _look(self, session: Session, after: int, limit: int) -> list[Any] | None:
        """A page, or None when a gap comes first."""
        dead = self._settled  # what others settle while this page is under way may be missing from it
        rows = await session.fetch(self._page, after, limit)
        if not rows:
            return []
        page = _up_to_gap(rows, after, max(dead, self._decided(rows[0][0], rows[0][1])))
        if len(page) < len(rows) and self._fence is None:
            self._fence = (rows[-1][2], (await session.fetch(_FENCE))[0][0])
        return page or None

    async def last(self, run: Run, noted: Callable[[], None]) -> int:
        """A position behind everything committed so far and before everything that is not; in doubt rather too early.

        `noted` is called once nothing that is committed from then on can be missed.
        """
        dead = self._settled
        trimmed, numbers = (await run(lambda session: session.fetch(self._tail)))[0]
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
        arrived: set[int] = {row[0] for row in await run(lambda session: session.fetch(self._between, gap, highest))} - set(
            numbers
        )
        self._settled = max(self._settled, highest)
        return min(arrived) - 1 if arrived else highest

    def _decided(self, horizon: int, following: int) -> int:
        """The fence was drawn after the gap was seen: whoever could still fill it has a smaller transaction id.

        It wrote nothing, so a crash may have forgotten it; then its id lies ahead, and another fence is drawn.
        """
        if self._fence is None:
            return 0
        number, drawn = self._fence
        if horizon < drawn:
            if following <= drawn:
                self._fence = None
            return 0
        self._fence = None
        self._settled = max(self._settled, number)
        return number


def _up_to_gap(rows: Any, after: int, dead: int) -> list[Any]:
    page: list[Any] = []
    for row in rows:
        number = row[2]
        if number != after + 1 and number - 1 > dead:
            break
        page.append(tuple(row)[2:])
        after = number
    return page


def _first_gap(numbers: list[int], first: int) -> int:
    """The first number missing from a rising list."""
    for number in numbers:
        if number > first:
            break
        if number == first:
            first += 1
    return first
