"""When a gap between events is dead, by transaction ids alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import pytest

from flowfabric.store.postgres import events
from flowfabric.store.postgres.events import GapReader
from flowfabric.store.schema import TABLES

CHANNEL = "ff_completion_event"


class Server:
    """Answers pages and fences from given numbers and transactions."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers
        self.oldest, self.following = 90, 100
        self.fences = 0

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]:
        if sql.startswith("SELECT pg_current_xact_id"):
            self.fences += 1
            self.following += 1
            return [(self.following - 1,)]
        after, limit = args
        shown = [n for n in self.numbers if n > after][:limit]
        return [
            (n, *[None] * (len(TABLES[CHANNEL].names) - 1), self.oldest, self.following)
            for n in shown
        ]

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return nullcontext()


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(events, "LAST_PAUSE_S", 0.0)
    monkeypatch.setattr(events, "MAX_PAUSES", 5)


async def read(reader: GapReader, server: Server, after: int) -> list[int]:
    return [row[0] for row in await reader.read(lambda work: work(server), after, 10)]


async def test_a_gap_holds_back_later_events_while_an_older_transaction_runs() -> None:
    server, reader = Server([1, 3]), GapReader(CHANNEL)
    assert await read(reader, server, 0) == [1]
    assert await read(reader, server, 1) == []
    server.numbers = [1, 2, 3]
    assert await read(reader, server, 1) == [2, 3]


async def test_a_gap_is_dead_once_all_older_transactions_have_ended() -> None:
    server, reader = Server([1, 3]), GapReader(CHANNEL)
    assert await read(reader, server, 0) == [1]
    server.oldest = server.following
    assert await read(reader, server, 1) == [3]
    assert server.fences == 1


async def test_a_fence_lost_in_a_crash_is_drawn_again() -> None:
    server, reader = Server([1, 3]), GapReader(CHANNEL)
    server.following = 500
    assert await read(reader, server, 0) == [1]
    server.oldest = server.following = 200
    assert await read(reader, server, 1) == [3]
    assert server.fences == 2
