"""Behind a transaction-mode pooler no state is kept on a session, and all calls work."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from msgspec import structs

from flowfabric.connect import PostgresBackend
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import GraphEdge, SubmitFlowArgs
from flowfabric.store.postgres import poller
from flowfabric.store.postgres.connections import WRITER_SETTINGS, Options
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.store.wakeups import Wakeups
from tests import pgbouncer as bouncer
from tests.engine.helpers import claim, create, running, state, worker
from tests.pgbouncer import PgBouncer

from .helpers import PATIENCE_S, engine_on, one, opened, plain, until, world

POOLED = 2
SLACK_S = 1.5
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


@pytest.fixture
def pooled(options: Options) -> Options:
    return structs.replace(options, pooler=True)


async def a_whole_life(engine: PostgresBackend) -> None:
    """Create with a key, fail, retry by the loops, renew, complete, read, subscribe."""
    stream = await engine.subscribe_completion()
    ident, handle = await running(
        engine, idempotency_key="k", input_payload=b"in", tags={"app.a": "1"}
    )
    await engine.renew(handle)
    await engine.progress(handle, 50, "half")
    await engine.fail(handle, "boom", FailureClass.TRANSIENT)
    again = await engine.claim("default", (), worker(max_wait_ms=20_000))
    assert again is not None
    await engine.complete(again, b"out")
    assert await engine.get_execution_result(ident) == b"out"
    assert (await anext(stream)).execution_id == ident
    many = [await create(engine) for _ in range(20)]
    await asyncio.gather(*[engine.complete(await claim(engine)) for _ in many])
    assert [await state(engine, each) for each in many] == ["ENDED(success)"] * len(many)
    await world(engine)


async def on_every_session(engine: PostgresBackend, sql: str) -> list[Any]:
    """Runs on the engine's own connections, which must be idle."""
    links = engine.store.connections
    return [await link.current.fetchval(sql) for link in links if link.current is not None]


async def test_no_state_is_kept_on_a_session(pooled: Options, options: Options) -> None:
    prepared = "SELECT count(*) FROM pg_prepared_statements WHERE name <> ''"
    chosen = "SELECT setting FROM pg_settings WHERE name = 'plan_cache_mode'"
    async with engine_on(pooled) as engine:
        engine.with_scanners(LoopSettings(delayed_promoter_ms=50))
        await a_whole_life(engine)
        with plain(options) as db:
            names = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                "application_name = 'flowfabric'"
            )
            assert one(db, names) == 0
            assert one(db, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'") == 0
            assert one(db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
        await engine.shutdown_prepare()
        assert set(await on_every_session(engine, prepared)) == {0}
        assert set(await on_every_session(engine, chosen)) == {"auto"}
    async with engine_on(options) as engine:
        await create(engine)
        assert max(await on_every_session(engine, prepared)) > 0
        assert WRITER_SETTINGS["plan_cache_mode"] in await on_every_session(engine, chosen)


async def test_leadership_needs_no_session(pooled: Options) -> None:
    async with engine_on(pooled) as engine, engine_on(pooled) as other:
        assert engine.with_scanners() and other.with_scanners()
        await until(lambda: leads(engine) or leads(other))
        assert leads(engine) is not leads(other)
        assert await engine.store.execute_for_test("SELECT backend FROM ff_leader") == [(0,)]


def leads(engine: PostgresBackend) -> bool:
    return engine.loops.leads


async def test_no_notifications_accumulate_without_listeners(pooled: Options) -> None:
    async with engine_on(pooled) as engine:
        for n in range(20):
            await create(engine, lane_id=f"lane{n}")
        assert (
            engine.store.notifier.pending.topics == {} and engine.store.notifier.pending.dues == {}
        )


async def test_a_waiting_claim_is_woken_by_its_own_process(pooled: Options) -> None:
    async with engine_on(pooled) as engine:
        waiting = asyncio.ensure_future(engine.claim("default", (), worker(max_wait_ms=60_000)))
        await until(lambda: ("ready", "default") in engine.store.hub.waiters)
        async with asyncio.timeout(2):
            await create(engine)
            assert await waiting is not None


# ---- without notifications


async def test_a_commit_of_another_process_is_seen_within_a_second(pooled: Options) -> None:
    async with engine_on(pooled) as here, engine_on(pooled) as there:
        waiting = asyncio.ensure_future(here.claim("default", (), worker(max_wait_ms=60_000)))
        await until(lambda: ("ready", "default") in here.store.hub.waiters)
        for _ in range(3):
            began = time.monotonic()
            await create(there)
            assert await waiting is not None
            assert time.monotonic() - began < poller.POLL_S + SLACK_S
            waiting = asyncio.ensure_future(here.claim("default", (), worker(max_wait_ms=60_000)))
        await create(there)
        await waiting


async def test_no_statement_is_sent_while_nothing_waits(
    pooled: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "POLL_S", 0.01)
    async with opened(pooled) as store:
        await asyncio.sleep(0.1)
        assert await on_every_session_query(store) == set()
        with store.hub.waiter(("ready", "default")) as waiter:
            assert await waiter.wait(PATIENCE_S)
            assert await on_every_session_query(store) == {poller.SNAPSHOT}


async def on_every_session_query(store: PostgresStore) -> set[str]:
    """The last statement of each reader that is connected."""
    with plain(store.options) as db:
        rows = db.execute(
            "SELECT query FROM pg_stat_activity WHERE datname = current_database() "
            "AND query LIKE '%pg_current_snapshot%' AND pid <> pg_backend_pid()"
        ).fetchall()
    return {row[0] for row in rows}


async def test_a_poll_that_fails_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "POLL_S", 0.001)
    hub, answers = Wakeups(), [[("1:1:",)], OSError("gone"), [("1:1:",)]]

    async def fetch(_: str) -> Any:
        answer = answers.pop(0) if answers else [("1:1:",)]
        if isinstance(answer, OSError):
            raise answer
        return answer

    polling = poller.Poller(fetch, hub)
    with hub.waiter(("ready", "default")) as waiter:
        polling.start()
        assert await waiter.wait(PATIENCE_S)
        waiter.arm()
        assert await waiter.wait(PATIENCE_S), "something may have been missed"
        waiter.arm()
        assert not await waiter.wait(0.05), "nothing was committed"
    await polling.stop()


async def test_a_direct_url_brings_notifications_and_a_leader_by_session(
    pooled: Options, options: Options
) -> None:
    direct = structs.replace(pooled, listen_url=options.url)
    async with engine_on(direct) as here, engine_on(direct) as there:
        await until(lambda: here.store.notifier.is_listening and there.store.notifier.is_listening)
        here.with_scanners()
        await until(lambda: here.loops.leads)
        assert await here.store.execute_for_test("SELECT backend > 0 FROM ff_leader") == [(True,)]
        heard = here.store.notifier.received
        await create(there)
        await until(lambda: here.store.notifier.received > heard)


# ---- a real one, where there is one


@pytest.fixture
def pgbouncer(options: Options) -> Iterator[PgBouncer]:
    if bouncer.BINARY is None:
        pytest.skip("needs pgbouncer")
    with PgBouncer(options.url, POOLED) as running:
        yield running


async def test_a_whole_execution_behind_pgbouncer(pgbouncer: PgBouncer, options: Options) -> None:
    pooled = Options(pgbouncer.url, pooler=True)
    async with engine_on(pooled) as engine, engine_on(pooled) as other:
        engine.with_scanners(LoopSettings(delayed_promoter_ms=50))
        await a_whole_life(engine)
        await asyncio.gather(
            *(create(each, idempotency_key=f"{n}") for n, each in enumerate((engine, other) * 20))
        )
        await world(other)
        with plain(options) as db:
            assert (
                one(
                    db,
                    "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()",
                )
                <= POOLED + 1
            )


def of_a_flow(engine_now_ms: int) -> tuple[SubmitFlowArgs, list[ExecutionId]]:
    """A root, two delayed branches and a join."""
    flow = uuid4()
    root, left, right, join = ids = [ExecutionId.for_flow(flow) for _ in range(4)]
    nodes = [
        CreateExecutionArgs(
            execution_id=ident, delay_until=engine_now_ms + 200 if ident in (left, right) else None
        )
        for ident in ids
    ]
    pairs = ((root, left), (root, right), (left, join), (right, join))
    return SubmitFlowArgs(
        flow_id=flow, nodes=nodes, edges=[GraphEdge(*pair) for pair in pairs]
    ), ids


def started(number: int, url: str, listen_url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store.postgres.pooled_child", url, str(number)]
    return subprocess.Popen(
        [*command, *([listen_url] if listen_url else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    "listens",
    [pytest.param(False, marks=pytest.mark.nightly), True],
    ids=["polling", "listening"],
)
async def test_processes_behind_pgbouncer_share_the_work(
    pgbouncer: PgBouncer, options: Options, listens: bool
) -> None:
    """Creates, bulks, flows, retries and delays by one process; two others work."""
    listen_url = options.url if listens else ""
    with plain(options) as db:
        deadlocks = one(db, DEADLOCKS)
    children = [started(n, pgbouncer.url, listen_url) for n in (1, 2)]
    try:
        for child in children:
            assert child.stdout is not None
            assert await asyncio.to_thread(child.stdout.readline) == "ready\n"
        pooled = Options(pgbouncer.url, pooler=True, listen_url=listen_url)
        async with engine_on(pooled) as engine, asyncio.timeout(60):
            wanted = await submitted(engine)
            await all_ended(engine, wanted)
            await world(engine)
    finally:
        told = [child.communicate(timeout=30) for child in children]
    assert told == [("stopped\n", "")] * 2
    with plain(options) as db:
        assert one(db, DEADLOCKS) == deadlocks


async def submitted(engine: Engine) -> list[ExecutionId]:
    now = await engine.store.now_ms()
    bulk = [CreateExecutionArgs(execution_id=ExecutionId.solo("default")) for _ in range(60)]
    await engine.create_executions(bulk)
    late = [await create(engine, delay_until=now + 300) for _ in range(5)]
    singles = await asyncio.gather(*(create(engine) for _ in range(40)))
    flows = [of_a_flow(now) for _ in range(3)]
    for args, _ in flows:
        await engine.submit_flow(args)
    return [
        *(args.execution_id for args in bulk),
        *late,
        *singles,
        *(ident for _, ids in flows for ident in ids),
    ]


async def all_ended(engine: Engine, wanted: list[ExecutionId]) -> None:
    """Also shows that waiting for an outcome is woken by other processes."""
    for ident in wanted:
        while not (found := await engine.wait_for_outcome(ident, 20_000)).ended:
            pass
        assert found is not None
        assert await state(engine, ident) == "ENDED(success)"
