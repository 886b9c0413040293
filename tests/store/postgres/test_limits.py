"""Limits across processes, by the server's own clock, and inside a user's transaction."""

from __future__ import annotations

import asyncio

import asyncpg

from flowfabric.engine.claims.claims import POLL_S
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.store.postgres.connections import Options
from flowfabric.verify.invariants import check
from tests.engine.helpers import create, fields, new_id, parked, row, worker
from tests.engine.limit_helpers import ids, quota_lane, several, take

from .helpers import engine_on, world
from .test_two_engines import two


async def test_a_completion_in_one_process_admits_a_waiting_claim_in_another(
    options: Options,
) -> None:
    async with two(options) as (here, there):
        await quota_lane(here, cap=1)
        first, second = await several(here, 2)
        (handle,) = await take(here)
        assert ids([handle]) == [first]
        waiting = asyncio.ensure_future(there.claim("default", (), worker(2, max_wait_ms=60_000)))
        await parked(there, "ff_lease_event")
        began = asyncio.get_running_loop().time()
        await here.complete(handle)
        found = await waiting
        assert found is not None and fields(found).execution_id == second
        assert asyncio.get_running_loop().time() - began < POLL_S / 2


async def test_an_attachment_made_in_one_process_is_known_in_another_at_once(
    options: Options,
) -> None:
    async with two(options) as (here, there):
        await create(there)
        limit = await quota_lane(here, cap=1, lane="jobs")
        async with asyncio.timeout(1):
            while (await row(there, await create(there, lane_id="jobs"))).quota_policy_id != limit:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_two_processes_that_race_stay_within_cap_and_window(options: Options) -> None:
    async with two(options) as (here, there):
        await quota_lane(here, cap=5, rate=60, window_s=600)
        await several(here, 120)
        done: list[int] = []

        async def work(engine: object, number: int) -> None:
            policy = ClaimPolicy("w", f"w-{number}", 60_000)
            for _ in range(40):
                handle = await engine.claim("default", (), policy)  # type: ignore[attr-defined]
                if handle is not None:
                    await engine.complete(handle)  # type: ignore[attr-defined]
                    done.append(number)

        await asyncio.gather(*(work((here, there)[n % 2], n) for n in range(12)))
        assert len(done) == 60
        found = await world(here)
        assert len(found.quota_windows) == 60 and check(found) == []


async def test_work_created_in_a_users_transaction_is_under_the_limits(options: Options) -> None:
    async with engine_on(options) as engine:
        limit = await quota_lane(engine, cap=1)
        connection = await asyncpg.connect(options.url)
        try:
            async with connection.transaction():
                made = new_id()
                await engine.create_execution(
                    CreateExecutionArgs(execution_id=made), connection=connection
                )
                many = [CreateExecutionArgs(execution_id=new_id()) for _ in range(2)]
                await engine.create_executions(many, connection=connection)
                assert await take(engine, 5) == []
        finally:
            await connection.close()
        found = await row(engine, made)
        assert (found.quota_policy_id, found.gate) == (limit, str(limit))
        assert len(await take(engine, 5)) == 1
