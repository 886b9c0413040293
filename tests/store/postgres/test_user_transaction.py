"""Work created inside a user's own transaction exists from its commit on, or never."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row

from flowfabric.engine.claims.claims import POLL_S
from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError, StateError, Unavailable, ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Created, CreateExecutionArgs, Duplicate
from flowfabric.plan import Applied, Refused
from flowfabric.store.postgres.connections import Options
from flowfabric.testing.conformance.helpers import LANE, execution, insert, uid
from flowfabric.testing.conformance.later_steps import add
from tests.engine.helpers import claim, fields, new_id, parked, stored, worker

from .helpers import engine_on, plain, until, world


class Theirs:
    """A caller's connection and how a transaction ends on it."""

    def __init__(self, connection: Any, run: Callable[[str], Awaitable[Any]]) -> None:
        self.connection, self.run = connection, run

    async def commit(self) -> None:
        await self.run("COMMIT")

    async def rollback(self) -> None:
        await self.run("ROLLBACK")


@asynccontextmanager
async def with_asyncpg(url: str) -> AsyncIterator[Theirs]:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("BEGIN")
        yield Theirs(connection, connection.execute)
    finally:
        await connection.close()


@asynccontextmanager
async def with_asyncpg_pool(url: str) -> AsyncIterator[Theirs]:
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
    ):
        await connection.execute("BEGIN")
        yield Theirs(connection, connection.execute)


@asynccontextmanager
async def with_psycopg(url: str, **said: Any) -> AsyncIterator[Theirs]:
    async with await psycopg.AsyncConnection.connect(url, **said) as connection:
        yield Theirs(connection, connection.execute)


@asynccontextmanager
async def with_psycopg_autocommit(url: str) -> AsyncIterator[Theirs]:
    async with with_psycopg(url, autocommit=True, row_factory=dict_row) as theirs:
        await theirs.run("BEGIN")
        yield theirs


@asynccontextmanager
async def with_blocking_psycopg(url: str) -> AsyncIterator[Theirs]:
    with psycopg.connect(url, row_factory=dict_row) as connection:

        async def run(sql: str) -> Any:
            return connection.execute(sql)

        yield Theirs(connection, run)


Kind = Callable[[str], AbstractAsyncContextManager[Theirs]]
KINDS: dict[str, Kind] = {
    "asyncpg": with_asyncpg,
    "asyncpg pool": with_asyncpg_pool,
    "psycopg": with_psycopg,
    "psycopg autocommit": with_psycopg_autocommit,
    "blocking psycopg": with_blocking_psycopg,
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
with_and_without_key = pytest.mark.parametrize(
    "key",
    [None, pytest.param("order 17", marks=pytest.mark.sampled(2))],
    ids=["no key", "key"],
)


def args(ident: ExecutionId | None = None, **said: Any) -> CreateExecutionArgs:
    more = {"input_payload": b"\x00in", "tags": {"app.order": "17"}, "priority": 3, **said}
    return CreateExecutionArgs(execution_id=ident or new_id(), **more)


@each_kind
@with_and_without_key
async def test_a_creation_is_visible_after_the_callers_commit(
    options: Options, kind: Kind, key: str | None
) -> None:
    async with engine_on(options) as engine, kind(options.url) as theirs:
        ident = new_id()
        made = await engine.create_execution(
            args(ident, idempotency_key=key), connection=theirs.connection
        )
        assert isinstance(made, Created) and made.execution_id == ident
        assert await stored(engine, ident) is None
        await theirs.commit()
        found = await stored(engine, ident)
        assert found is not None and (found.payload, found.priority) == (b"\x00in", 3)
        handle = await claim(engine)
        assert fields(handle).execution_id == ident
        await engine.complete(handle)
        await world(engine)


@each_kind
@with_and_without_key
async def test_a_creation_is_rolled_back_with_the_callers_transaction(
    options: Options, kind: Kind, key: str | None
) -> None:
    async with engine_on(options) as engine, kind(options.url) as theirs:
        ident = new_id()
        await engine.create_execution(
            args(ident, idempotency_key=key), connection=theirs.connection
        )
        await theirs.rollback()
        assert await stored(engine, ident) is None
        assert isinstance(await engine.create_execution(args(ident, idempotency_key=key)), Created)
        await world(engine)


@each_kind
@with_and_without_key
async def test_a_duplicate_does_not_end_the_callers_transaction(
    options: Options, kind: Kind, key: str | None
) -> None:
    async with engine_on(options) as engine:
        first, other = new_id(), new_id()
        await engine.create_execution(args(first, idempotency_key=key))
        async with kind(options.url) as theirs:
            again = args(other if key else first, idempotency_key=key)
            made = await engine.create_execution(again, connection=theirs.connection)
            assert isinstance(made, Duplicate) and made.execution_id == first
            third = new_id()
            assert isinstance(
                await engine.create_execution(args(third), connection=theirs.connection), Created
            )
            await theirs.commit()
        assert await stored(engine, other) is None and await stored(engine, third) is not None
        await world(engine)


@each_kind
async def test_a_key_used_twice_in_one_transaction_is_a_duplicate(
    options: Options, kind: Kind
) -> None:
    async with engine_on(options) as engine, kind(options.url) as theirs:
        first = new_id()
        await engine.create_execution(
            args(first, idempotency_key="k"), connection=theirs.connection
        )
        made = await engine.create_execution(
            args(idempotency_key="k"), connection=theirs.connection
        )
        assert isinstance(made, Duplicate) and made.execution_id == first
        await theirs.commit()
        assert len((await world(engine)).executions) == 1


@each_kind
@with_and_without_key
async def test_many_executions_are_created_with_the_callers_rows(
    options: Options, kind: Kind, key: str | None
) -> None:
    async with engine_on(options) as engine, kind(options.url) as theirs:
        many = [args(idempotency_key=key and f"{key} {n}") for n in range(10)]
        many.append(many[4])
        await theirs.run("CREATE TABLE t_orders (id int)")
        made = await engine.create_executions(many, connection=theirs.connection)
        assert [type(each) for each in made] == [Created] * 10 + [Duplicate]
        await theirs.rollback()
        assert (await world(engine)).executions == {}
        assert await engine.store.execute_for_test("SELECT to_regclass('t_orders')") == [(None,)]


@each_kind
async def test_many_creations_are_visible_after_the_callers_commit(
    options: Options, kind: Kind
) -> None:
    async with engine_on(options) as engine, kind(options.url) as theirs:
        made = await engine.create_executions(
            [args(idempotency_key="one"), args(), args(idempotency_key="two")],
            connection=theirs.connection,
        )
        assert [type(each) for each in made] == [Created] * 3
        await theirs.commit()
        assert len((await world(engine)).executions) == 3


@each_kind
async def test_a_waiting_claim_elsewhere_is_woken_by_the_commit(
    options: Options, kind: Kind
) -> None:
    async with engine_on(options) as here, engine_on(options) as there, kind(options.url) as theirs:
        await until(lambda: listens(options) == 2)
        waiting = asyncio.ensure_future(there.claim("default", (), worker(max_wait_ms=60_000)))
        await parked(there, "ready", "default")
        ident = new_id()
        await here.create_execution(args(ident, idempotency_key="k"), connection=theirs.connection)
        assert there.store.notifier.received == 0 and not waiting.done(), (
            "nothing is said before the commit"
        )
        began = asyncio.get_running_loop().time()
        await theirs.commit()
        handle = await waiting
        assert handle is not None and fields(handle).execution_id == ident
        assert asyncio.get_running_loop().time() - began < POLL_S / 2
        assert there.store.notifier.received >= 1


def listens(options: Options) -> int:
    with plain(options) as db:
        sql = (
            "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND "
            "application_name = 'flowfabric'"
        )
        return sum(
            "LISTEN" in row[0] or "pg_notify" in row[0] for row in db.execute(sql).fetchall()
        )


@pytest.mark.parametrize(
    "wrong", [object(), 7, "postgresql://keeper:hunter2@host/any", psycopg, asyncpg.connect]
)
async def test_another_object_than_a_connection_is_refused(options: Options, wrong: Any) -> None:
    async with engine_on(options) as engine:
        for call in (
            engine.create_execution(args(), connection=wrong),
            engine.create_executions([args()], connection=wrong),
        ):
            with pytest.raises(ValidationError, match="connection") as caught:
                await call
            assert "hunter2" not in str(caught.value)


async def test_a_pool_is_not_a_connection(options: Options) -> None:
    async with (
        engine_on(options) as engine,
        asyncpg.create_pool(options.url, min_size=1, max_size=1) as pool,
    ):
        with pytest.raises(ValidationError, match="connection"):
            await engine.create_execution(args(), connection=pool)


@pytest.mark.parametrize("kind", [with_asyncpg, with_psycopg, with_blocking_psycopg])
async def test_a_closed_connection_is_an_engine_error(options: Options, kind: Kind) -> None:
    async with engine_on(options) as engine:
        async with kind(options.url) as theirs:
            pass
        with pytest.raises(EngineError):
            await engine.create_execution(args(), connection=theirs.connection)
        assert (await world(engine)).executions == {}


async def test_a_bad_argument_is_refused_before_the_callers_transaction_is_used(
    options: Options,
) -> None:
    async with engine_on(options) as engine, with_asyncpg(options.url) as theirs:
        with pytest.raises(ValidationError):
            await engine.create_execution(args(priority="high"), connection=theirs.connection)
        ident = new_id()
        await engine.create_execution(args(ident), connection=theirs.connection)
        await theirs.commit()
        assert await stored(engine, ident) is not None


@pytest.mark.parametrize("engine", ["memory", "sqlite-memory"], indirect=True)
async def test_other_stores_have_no_transaction_to_join(engine: Engine) -> None:
    for call in (
        engine.create_execution(args(), connection=object()),
        engine.create_executions([args()], connection=object()),
    ):
        with pytest.raises(Unavailable, match="connection"):
            await call


async def test_inside_a_transaction_block_of_the_library_the_block_decides(
    options: Options,
) -> None:
    async with (
        engine_on(options) as engine,
        await psycopg.AsyncConnection.connect(options.url) as theirs,
    ):
        kept, gone = new_id(), new_id()
        async with theirs.transaction():
            await engine.create_execution(args(kept, idempotency_key="kept"), connection=theirs)
            async with theirs.transaction(force_rollback=True):
                await engine.create_execution(args(gone, idempotency_key="gone"), connection=theirs)
        assert await stored(engine, kept) is not None and await stored(engine, gone) is None
    connection = await asyncpg.connect(options.url)
    async with engine_on(options) as engine:
        block = connection.transaction()
        await block.start()
        await engine.create_execution(args(gone, idempotency_key="gone"), connection=connection)
        await block.rollback()
        assert await stored(engine, gone) is None
    await connection.close()


async def test_without_a_transaction_a_creation_is_visible_at_once(options: Options) -> None:
    async with engine_on(options) as engine:
        plain_one = await asyncpg.connect(options.url)
        async with await psycopg.AsyncConnection.connect(options.url, autocommit=True) as second:
            for connection in (plain_one, second):
                ident = new_id()
                await engine.create_execution(
                    args(ident, idempotency_key=str(ident)), connection=connection
                )
                assert await stored(engine, ident) is not None
        await plain_one.close()
        with psycopg.connect(options.url, autocommit=True) as third:
            ident = new_id()
            await engine.create_execution(args(ident, idempotency_key="third"), connection=third)
            assert await stored(engine, ident) is not None


async def test_a_creation_that_fails_leaves_the_callers_transaction_usable(
    options: Options,
) -> None:
    """The lane is closed: the call raises, and the caller's earlier changes remain."""
    async with engine_on(options) as engine, with_psycopg(options.url) as theirs:
        await engine.drain_lane("closed")
        before = new_id()
        await engine.create_execution(args(before), connection=theirs.connection)
        for key in (None, "k"):
            with pytest.raises(StateError):
                await engine.create_execution(
                    args(lane_id="closed", idempotency_key=key), connection=theirs.connection
                )
        await theirs.commit()
        assert list((await world(engine)).executions) == [(before.partition_index, before.uuid)]


@each_kind
async def test_a_plan_refused_late_leaves_the_callers_transaction_unchanged(
    options: Options, kind: Kind
) -> None:
    """Some forms are refused by an error of the statement."""
    async with engine_on(options) as engine, kind(options.url) as theirs:
        inside = engine.store.inside(theirs.connection)
        await inside.commit_many(
            [execution(1), execution(2), insert(LANE, lane_id="there", registered_by="x")]
        )
        answers = await inside.commit_many([add(1, "there"), add(2, "new")])
        assert answers[0] == Refused(0, 1) and isinstance(answers[1], Applied)
        assert await inside.commit_together([add(1, "a"), add(2, "there", version=1)]) == Refused(
            1, 1
        )
        await theirs.commit()
        with plain(options) as db:
            rows = db.execute(
                "SELECT execution_id, version FROM ff_exec_core ORDER BY 1"
            ).fetchall()
        assert rows == [(uid(1), 0), (uid(2), 1)]
