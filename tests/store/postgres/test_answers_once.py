"""A statement of ends and claims answers for the ends in one row, whatever number it claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from flowfabric import ClaimPolicy
from flowfabric.rules.claims.claims import CLAIM
from flowfabric.rules.leases.attempts import COMPLETE
from flowfabric.store.postgres.connections import Options
from flowfabric.store.sql.pg_combined import sweep_preceded_by
from tests.engine.helpers import LANE, create

from .helpers import engine_on

POLICY = ClaimPolicy("w", "w-1", 60_000)
COMBINED = sweep_preceded_by(COMPLETE, CLAIM).sql


@pytest.mark.parametrize("claimed", [0, 1, 5])
async def test_the_ends_are_answered_in_one_row(
    options: Options, claimed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Sequence[Any]] = []

    async def fetch(connection: Any, sql: str, *args: Any, **said: Any) -> Any:
        found = await original(connection, sql, *args, **said)
        if sql == COMBINED:
            answers.append(found)
        return found

    original = asyncpg.Connection.fetch
    monkeypatch.setattr(asyncpg.Connection, "fetch", fetch)
    async with engine_on(options) as engine:
        for _ in range(4 + claimed):
            await create(engine)
        works = await engine.claim_many(LANE, (), POLICY, 4)
        ends = [(work.handle, b"ok") for work in works]
        refused, more = await engine.complete_and_claim(ends, LANE, (), POLICY, 5)
    (rows,) = answers
    assert refused == [None] * 4 and len(more) == claimed
    assert len(rows) == max(claimed, 1)
    assert [len(row[0]) for row in rows if row[0] is not None] == [4]
