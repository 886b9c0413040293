"""Reading an outbox without losing events.

A number is drawn when a row is inserted but seen when its transaction commits, so a gap below a number may still fill. A gap is
dead once every transaction that was running when it was seen has ended: then its number belongs to one that was rolled back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from flowfabric.store.port import Row
from flowfabric.store.postgres.executor import Session
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
        self._page = f"SELECT {names}, (SELECT {_HORIZON}), (SELECT {_NEXT}) FROM {channel} WHERE event_id > $1 ORDER BY event_id LIMIT $2"
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
                return _decoded(self._channel, page)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)
        return []

    async def _look(self, session: Session, after: int, limit: int) -> Sequence[Any] | None:
        """A page, or None when a gap comes first."""
        dead = (
            self._settled
        )  # what others settle while this page is under way may be missing from it
        rows = await session.fetch(self._page, after, limit)
        if not rows:
            return []
        page = _up_to_gap(rows, after, max(dead, self._decided(rows[0][-2], rows[0][-1])))
        if len(page) < len(rows) and self._fence is None:
            self._fence = (rows[-1][0], (await session.fetch(_FENCE))[0][0])
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
        arrived: set[int] = {
            row[0] for row in await run(lambda session: session.fetch(self._between, gap, highest))
        } - set(numbers)
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


def _up_to_gap(rows: Sequence[Any], after: int, dead: int) -> Sequence[Any]:
    if rows[-1][0] - after == len(rows):
        return rows
    for at, row in enumerate(rows):
        number = row[0]
        if number != after + 1 and number - 1 > dead:
            return rows[:at]
        after = number
    return rows


def _decoded(channel: str, rows: Sequence[Any]) -> list[Row]:
    """A row that cannot be read comes as it is stored: it must not hold up those behind it."""
    width = len(TABLES[channel].names)
    try:
        return decode_rows(channel, rows, width=width)
    except (ValueError, TypeError, AttributeError):
        return [_decoded_or_not(channel, row, width) for row in rows]


def _decoded_or_not(channel: str, row: Any, width: int) -> Row:
    try:
        return decode_rows(channel, [row], width=width)[0]
    except (ValueError, TypeError, AttributeError):
        return tuple(row)[:width]


def _first_gap(numbers: list[int], first: int) -> int:
    """The first number missing from a rising list."""
    for number in numbers:
        if number > first:
            break
        if number == first:
            first += 1
    return first
