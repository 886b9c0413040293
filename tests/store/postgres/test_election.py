"""The election: a lease on a row, by the server's clock, that a leader resigns when it gets no
answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flowfabric.store.postgres import leader
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.leader import Election
from tests.patience import patient

from .helpers import plain

SOON_S = 30.0
NOW = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"


@asynccontextmanager
async def candidate(options: Options) -> AsyncIterator[Election]:
    election = Election(options)
    try:
        yield election
    finally:
        await election.resign()


def held(options: Options, until: str) -> None:
    """By a process whose session cannot be seen, as behind a pooler."""
    with plain(options) as db:
        db.execute("DELETE FROM ff_leader")
        db.execute(
            f"INSERT INTO ff_leader (name, holder, backend, until_ms) VALUES ('loops', "
            f"'another', 0, {until})"
        )


async def test_a_leader_that_is_not_answered_stops(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "TTL_S", 0.5)
    monkeypatch.setattr(leader, "ASK_EVERY_S", 0.05)
    async with candidate(options) as election:
        async with patient(SOON_S):
            await election.won()
        monkeypatch.setattr(leader, "ANSWER_S", 0.05)
        with plain(options, autocommit=False) as other:
            other.execute("LOCK TABLE ff_leader IN ACCESS EXCLUSIVE MODE")
            async with patient(SOON_S):
                await election.lost()
            other.rollback()
        monkeypatch.setattr(leader, "ANSWER_S", SOON_S)


@pytest.mark.parametrize(
    ("until", "is_free"),
    [
        pytest.param(f"{NOW} - 1", True, id="run out"),
        pytest.param(f"{NOW} + 7000", False, id="held"),
        pytest.param(
            f"{NOW} + 3600000",
            True,
            id="the clock was set back",
            marks=pytest.mark.meets("clock_step", "leader_change"),
        ),
    ],
)
async def test_when_the_lead_is_free(options: Options, until: str, is_free: bool) -> None:
    held(options, until)
    async with candidate(options) as election:
        assert await election.ask(look_first=True) is is_free
        assert await election.ask() is is_free
