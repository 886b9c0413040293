"""Bulk inserts: all rows are written at once, and duplicates are answered individually."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from msgspec import structs

from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Created, CreateExecutionArgs, Duplicate
from flowfabric.plan import Applied, Form, Plan, Refused
from flowfabric.rules.executions.create import CREATE_READY, create
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.effects import Effects
from flowfabric.store.postgres.executor import (
    OPTIMISTIC_FROM,
    run_many,
    run_plans,
    statement_of,
)
from tests.engine.helpers import new_id

from .helpers import ADD_LANE, engine_on, lane, lanes, opened, plain, until_somebody_waits, world
from .proxy import Lost, Proxy

OPTIMISTIC, TOLERANT = statement_of(ADD_LANE).optimistic, statement_of(ADD_LANE).sql


class Spied:
    """A connection that records its statements."""

    def __init__(self, connection: Any) -> None:
        self._connection, self.asked = connection, list[str]()

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]:
        self.asked.append(sql)
        found: Sequence[Any] = await self._connection.fetch(sql, *args)
        return found

    def transaction(self) -> Any:
        return self._connection.transaction()


def named(count: int, start: int = 0) -> list[Plan]:
    return [lane(f"lane-{n:03}") for n in range(start, start + count)]


@pytest.mark.parametrize("count", [OPTIMISTIC_FROM - 1, OPTIMISTIC_FROM, 3 * OPTIMISTIC_FROM])
async def test_many_are_written_as_if_all_were_new(
    options: Options, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def fetch(connection: Any, sql: str, *args: Any, **said: Any) -> Any:
        asked.append(sql)
        return await honest(connection, sql, *args, **said)

    async with opened(options) as store:
        honest = asyncpg.Connection.fetch
        monkeypatch.setattr(asyncpg.Connection, "fetch", fetch)
        answers = await store.commit_many(named(count))
        monkeypatch.undo()
        assert [type(answer) for answer in answers] == [Applied] * count and len(
            await lanes(store)
        ) == count
        assert [sql for sql in asked if "ff_lane" in sql] == [
            OPTIMISTIC if count >= OPTIMISTIC_FROM else TOLERANT
        ]


@pytest.mark.parametrize(
    "there",
    [[0], [OPTIMISTIC_FROM], [5, 6, 7], list(range(OPTIMISTIC_FROM + 1))],
    ids=["first", "last", "some", "all"],
)
async def test_existing_rows_are_refused_and_the_others_are_inserted(
    options: Options, there: list[int]
) -> None:
    plans = named(OPTIMISTIC_FROM + 1)
    async with opened(options) as store:
        connection = await asyncpg.connect(options.url)
        session = Spied(connection)
        await run_plans(session, [plans[n] for n in there], 7, Effects())
        session.asked.clear()
        answers = await run_many(session, plans, 8, Effects())
        assert answers == [
            Refused() if n in there else Applied(8) for n in range(OPTIMISTIC_FROM + 1)
        ]
        assert session.asked == [OPTIMISTIC, TOLERANT]
        assert len(await lanes(store)) == OPTIMISTIC_FROM + 1
        await connection.close()


async def test_another_error_is_not_taken_for_a_duplicate(options: Options) -> None:
    connection = await asyncpg.connect(options.url)
    session = Spied(connection)
    bad = [*named(OPTIMISTIC_FROM), lane("unfit", at=2**70)]
    with pytest.raises(asyncpg.DataError):
        await run_many(session, bad, 7, Effects())
    assert session.asked == [OPTIMISTIC]
    await connection.close()


async def test_only_inserted_rows_are_announced(options: Options) -> None:
    """The existing row is the only one of its lane, and its deadline the earliest."""

    def made(n: int) -> Plan:
        said = CreateExecutionArgs(
            execution_id=ExecutionId.of(n, UUID(int=n)),
            lane_id="there" if n == 1 else "new",
            execution_deadline_at=1_000 + n,
        )
        return create(said, None, 5).plan

    connection = await asyncpg.connect(options.url)
    plans = [made(n) for n in range(1, OPTIMISTIC_FROM + 1)]
    await run_plans(connection, plans[:1], 7, Effects())
    effects = Effects()
    answers = await run_many(connection, plans, 8, effects)
    assert answers == [Refused(), *[Applied(8)] * (OPTIMISTIC_FROM - 1)]
    assert (effects.topics, effects.dues) == ({("ready", "new"): None}, {"deadline": 1_002})
    await connection.close()


def test_only_inserts_that_can_meet_their_key_have_an_optimistic_statement() -> None:
    assert OPTIMISTIC is not None and "ON CONFLICT" not in OPTIMISTIC and "ON CONFLICT" in TOLERANT
    create: Form = CREATE_READY
    optimistic = statement_of(create).optimistic
    assert optimistic is not None and "NOT EXISTS" in optimistic, "a closed lane still refuses"


async def test_a_repeated_bulk_is_all_duplicates(options: Options) -> None:
    async with engine_on(options) as engine:
        many = [CreateExecutionArgs(execution_id=new_id()) for _ in range(3 * OPTIMISTIC_FROM)]
        first = await engine.create_executions(many[: 2 * OPTIMISTIC_FROM])
        assert all(isinstance(answer, Created) for answer in first)
        again = await engine.create_executions(many)
        assert [type(answer) for answer in again] == [Duplicate] * 2 * OPTIMISTIC_FROM + [
            Created
        ] * OPTIMISTIC_FROM
        await world(engine)


async def test_a_bulk_waits_for_a_transaction_that_writes_one_of_its_ids(options: Options) -> None:
    """After that commit, the row is a duplicate and the others are written."""
    many = [CreateExecutionArgs(execution_id=new_id()) for _ in range(OPTIMISTIC_FROM)]
    async with engine_on(options) as engine:
        await engine.set_lane_state("default", "active")
        connection = await asyncpg.connect(options.url)
        with plain(options) as looking:
            async with connection.transaction():
                assert isinstance(
                    await engine.create_execution(many[7], connection=connection), Created
                )
                creating = asyncio.ensure_future(engine.create_executions(many))
                await until_somebody_waits(looking)
                assert not creating.done()
        answers = await creating
        assert [type(answer) for answer in answers] == [
            Duplicate if n == 7 else Created for n in range(OPTIMISTIC_FROM)
        ]
        await connection.close()
        await world(engine)


@pytest.mark.parametrize("how", ["statement", "answer"])
@pytest.mark.parametrize(
    "word", ["INSERT INTO ff_exec_core", "ON CONFLICT DO NOTHING"], ids=["optimistic", "careful"]
)
async def test_a_bulk_whose_connection_is_lost_returns_the_true_result(
    options: Options, how: Lost, word: str
) -> None:
    many = [
        CreateExecutionArgs(execution_id=new_id(), input_payload=b"in")
        for _ in range(OPTIMISTIC_FROM)
    ]
    async with (
        Proxy(options.url) as proxy,
        engine_on(structs.replace(options, url=proxy.url)) as engine,
    ):
        await engine.create_execution(structs.replace(many[7], input_payload=b"before"))
        proxy.lose(how, word)
        answers = await engine.create_executions(many)
        assert [type(answer) for answer in answers] == [
            Duplicate if n == 7 else Created for n in range(OPTIMISTIC_FROM)
        ]
        assert proxy.lost == 1 and len((await world(engine)).executions) == OPTIMISTIC_FROM


async def test_a_bulk_behind_a_pooler(options: Options) -> None:
    many = [CreateExecutionArgs(execution_id=new_id()) for _ in range(2 * OPTIMISTIC_FROM)]
    async with engine_on(structs.replace(options, pooler=True)) as engine:
        await engine.create_execution(many[3])
        answers = await engine.create_executions(many)
        assert [type(answer) for answer in answers] == [
            Duplicate if n == 3 else Created for n in range(2 * OPTIMISTIC_FROM)
        ]
        await world(engine)


async def test_concurrent_bulks_of_the_same_ids_create_each_once(options: Options) -> None:
    """The second bulk learns which rows are duplicates."""
    ids = [new_id() for _ in range(4 * OPTIMISTIC_FROM)]
    async with engine_on(options) as here, engine_on(options) as there:

        async def bulk(engine: Any, order: list[ExecutionId]) -> list[Created | Duplicate]:
            made: list[Created | Duplicate] = await engine.create_executions(
                [CreateExecutionArgs(execution_id=i) for i in order]
            )
            return made

        for turn in range(4):
            mine = ids[turn * OPTIMISTIC_FROM : (turn + 1) * OPTIMISTIC_FROM]
            answers = await asyncio.gather(bulk(here, mine), bulk(there, mine[::-1]))
            created = [
                str(each.execution_id)
                for several in answers
                for each in several
                if isinstance(each, Created)
            ]
            assert sorted(created) == sorted(mine)
        await world(here)


async def test_a_duplicate_in_a_bulk_does_not_end_the_callers_transaction(options: Options) -> None:
    async with engine_on(options) as engine:
        known = new_id()
        await engine.create_execution(CreateExecutionArgs(execution_id=known))
        connection = await asyncpg.connect(options.url)
        many = [
            CreateExecutionArgs(execution_id=ident)
            for ident in (*(new_id() for _ in range(2 * OPTIMISTIC_FROM)), known)
        ]
        async with connection.transaction():
            answers = await engine.create_executions(many, connection=connection)
            assert [type(answer) for answer in answers] == [Created] * 2 * OPTIMISTIC_FROM + [
                Duplicate
            ]
            assert await connection.fetchval("SELECT 1") == 1
        await connection.close()
        await world(engine)
