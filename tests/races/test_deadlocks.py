"""Statements lock rows in one order, regardless of the order of the call: a server with a short
deadlock timeout finds none.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import asyncpg
import pytest

from flowfabric.engine.engine import Engine
from flowfabric.model.execution import CancelExecutionArgs, CreateExecutionArgs, Execution
from flowfabric.model.lease import ClaimPolicy, IssueGrantArgs
from flowfabric.plan import Applied, Plan
from flowfabric.rules.claims.grants import NOTE_MISMATCH
from flowfabric.rules.executions.operator_actions import CANCEL, SET_TAGS
from flowfabric.rules.fence import SWEEP_EXPIRED
from flowfabric.rules.fragments import lease_of, named
from flowfabric.rules.leases.expiry import REVOKE
from flowfabric.store.postgres.connections import Options
from flowfabric.testing import ManualClock

from .helpers import create_all, engines, ident, sound_world
from .hunting import deadlocks, gate

ROWS = 60
STORES = 4
MIDDLE = ident(ROWS // 2, 0)


async def all_rows(engine: Engine) -> list[Execution]:
    return [Execution(*row) for row in (await engine.store.dump(["ff_exec_core"]))["ff_exec_core"]]


async def fresh(engine: Engine, count: int = ROWS) -> None:
    """Priorities fall as keys rise, so a claim finds rows in reverse key order."""
    await create_all(
        engine, (CreateExecutionArgs(execution_id=ident(n, 0), priority=n) for n in range(count))
    )


async def test_the_hunt_would_notice_a_deadlock(options: Options) -> None:
    async with engines(options, 1) as (engine,):
        await fresh(engine, 2)
    first, second = await asyncpg.connect(options.url), await asyncpg.connect(options.url)
    lock = "SELECT 1 FROM ff_exec_core WHERE execution_id = $1 FOR UPDATE"
    await first.execute("BEGIN")
    await second.execute("BEGIN")
    await first.fetch(lock, ident(0, 0).uuid)
    await second.fetch(lock, ident(1, 0).uuid)
    both = await asyncio.gather(
        first.fetch(lock, ident(1, 0).uuid),
        second.fetch(lock, ident(0, 0).uuid),
        return_exceptions=True,
    )
    assert sum(isinstance(each, asyncpg.DeadlockDetectedError) for each in both) == 1
    await first.close()
    await second.close()
    assert await deadlocks(options) == 1


def _mismatch(execution: Execution, now: int) -> Plan:
    """Locks in the update."""
    return NOTE_MISMATCH(**named(execution))


def _tags(execution: Execution, now: int) -> Plan:
    return SET_TAGS(**named(execution), tags=f'{{"at":"{now}"}}', instance_tag=None)


def _cancel(execution: Execution, now: int) -> Plan:
    """Changes rows of other tables."""
    values = {
        "lease_epoch": execution.lease_epoch,
        "attempt_index": 0,
        "attempt_reason": "x",
        "now": now,
    }
    return CANCEL.leased(
        **named(execution),
        **lease_of(execution),
        **values,
        reason="x",
        source="operator_override",
    )


def _revoke(execution: Execution, now: int) -> Plan:
    """Locks before the update, and changes rows of other tables."""
    return REVOKE(**named(execution), lease_epoch=execution.lease_epoch, blocking_detail="x")


def _orders(rows: list[Execution]) -> list[list[Execution]]:
    rising = sorted(rows, key=lambda e: e.execution_id)
    shuffled = random.Random(1).sample(rising, len(rising))
    return [rising, rising[::-1], shuffled, shuffled[::-1]]


@pytest.mark.parametrize(
    "forms",
    [(_mismatch,), (_cancel,), (_revoke,), (_mismatch, _tags), (_tags, _cancel), (_tags, _revoke)],
    ids=lambda several: " and ".join(form.__name__.strip("_") for form in several),
)
async def test_batches_in_opposite_orders(
    options: Options, clock: ManualClock, forms: tuple[Any, ...]
) -> None:
    async with engines(options, STORES, clock) as several:
        await fresh(several[0])
        await several[0].claim_many("default", (), ClaimPolicy("w", "w-1", 60_000, None), ROWS)
        rows = await all_rows(several[0])
        batches = [
            [forms[at % len(forms)](e, clock()) for e in order]
            for at, order in enumerate(_orders(rows))
        ]
        async with gate(options, "ff_exec_core", MIDDLE) as stopped:
            running = asyncio.gather(
                *(e.store.commit_many(plans) for e, plans in zip(several, batches, strict=True))
            )
            await stopped(STORES)
        answers = [answer for each in await running for answer in each]
        await sound_world(several[0])
    assert sum(isinstance(answer, Applied) for answer in answers) == ROWS, (
        "of four that want a version one gets it"
    )
    assert await deadlocks(options) == 0


async def granted(engine: Engine, clock: ManualClock) -> None:
    """Every row with an expired grant."""
    await fresh(engine)
    args = (
        IssueGrantArgs(
            execution_id=ident(n, 0), worker_id="w", worker_instance_id="w-1", grant_ttl_ms=10
        )
        for n in range(ROWS)
    )
    await asyncio.gather(*map(engine.issue_claim_grant, args))
    clock.advance(11)


async def test_a_claim_beside_grants_that_are_dropped(options: Options, clock: ManualClock) -> None:
    """A claim finds its rows in claim order and removes their grants in key order, as other
    statements do.
    """
    async with engines(options, 2, clock) as several:
        await granted(several[0], clock)
        async with gate(options, "ff_claim_grant", MIDDLE) as stopped:
            claim = several[0].claim_many(
                "default", (), ClaimPolicy("other", "other-1", 1_000, None), ROWS
            )
            running = asyncio.gather(claim, several[1].drop_expired_grants())
            await stopped(2)
        taken, _ = await running
        world = await sound_world(several[0])
    assert [work.execution_id for work in taken] == [ident(n, 0) for n in reversed(range(ROWS))]
    assert world.grants == []
    assert await deadlocks(options) == 0


async def test_claims_and_sweeps_pass_by_what_others_hold(
    options: Options, clock: ManualClock
) -> None:
    """Locked rows are skipped if there are others."""
    async with engines(options, STORES, clock) as several:
        await fresh(several[0])
        async with gate(options, "ff_exec_core", MIDDLE):
            policy = ClaimPolicy("w", "w-1", 1_000, None)
            taken = await asyncio.gather(
                *(engine.claim_many("default", (), policy, ROWS) for engine in several)
            )
            assert sum(map(len, taken)) == ROWS - 1
            clock.advance(1_000)
            swept = await asyncio.gather(
                *(engine.store.sweep(SWEEP_EXPIRED(), ROWS) for engine in several)
            )
            assert sum(map(len, swept)) == ROWS - 1
        await sound_world(several[0])
    assert await deadlocks(options) == 0


async def test_trims_beside_cancels(options: Options, clock: ManualClock) -> None:
    """Engines trim the same executions with their rows while others are cancelled."""
    async with engines(options, STORES, clock) as several:
        trimmed = 0
        for _ in range(6):
            await fresh(several[0])
            await several[0].claim_many(
                "default", (), ClaimPolicy("w", "w-1", 60_000, None), ROWS // 2
            )
            who = [ident(n, 0) for n in range(ROWS)]
            cancels = [
                several[at].cancel_execution(CancelExecutionArgs(execution_id=each))
                for at, order in enumerate((who[::2], who[::-1][::2]))
                for each in order
            ]
            trims = [
                engine.trim_retention("default", 0, batch=1_000)
                for engine in several
                for _ in range(3)
            ]
            done = await asyncio.gather(*cancels[:50], *trims[:4], *cancels[50:], *trims[4:])
            trimmed += sum(each for each in done if isinstance(each, int))
            trimmed += await several[0].trim_retention("default", 0, batch=1_000)
        world = await sound_world(several[0])
    assert trimmed == 6 * ROWS and world.executions == {}
    assert await deadlocks(options) == 0


async def test_concurrent_creates_under_the_same_keys(options: Options, clock: ManualClock) -> None:
    """A key and its execution are written together; the second caller gets the first execution."""
    keys = [f"key-{n}" for n in range(40)]
    async with engines(options, STORES, clock) as several:
        for turn in range(4):

            async def create(at: int, turn: int = turn) -> dict[str, str]:
                order = list(enumerate(keys))
                random.Random(at + turn).shuffle(order)
                args = [
                    CreateExecutionArgs(
                        execution_id=ident(1_000 * turn + 100 * at + n, 0),
                        idempotency_key=key,
                        policy={"dedup_window_ms": 500},
                    )
                    for n, key in order
                ]
                if at % 2:
                    made = await several[at].create_executions(args)
                else:
                    made = list(await asyncio.gather(*map(several[at].create_execution, args)))
                return {
                    key: str(answer.execution_id)
                    for (_, key), answer in zip(order, made, strict=True)
                }

            told = await asyncio.gather(*map(create, range(STORES)))
            assert all(each == told[0] for each in told)
            clock.advance(500)
            await asyncio.gather(*(engine.forget_idempotency_keys() for engine in several))
        await sound_world(several[0])
    assert await deadlocks(options) == 0
