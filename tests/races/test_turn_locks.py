"""`complete_and_claim` locks the rows to end in key order, and then skips locked rows of the
claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.model.execution import CancelExecutionArgs, CreateExecutionArgs, Execution
from flowfabric.model.lease import ClaimPolicy, IssueGrantArgs, RevokeLeaseArgs, Work
from flowfabric.plan import Plan
from flowfabric.rules.executions.operator_actions import SET_TAGS
from flowfabric.rules.fragments import named
from flowfabric.rules.leases.expiry import REVOKE
from flowfabric.store.postgres.connections import Options
from flowfabric.testing import ManualClock

from .helpers import create_all, engines, ident, sound_world, until
from .hunting import deadlocks, gate

ROWS = 60
HELD = ROWS // 2
MIDDLE = ident(HELD, 0)


def worker(name: str, ttl_ms: int = 60_000) -> ClaimPolicy:
    return ClaimPolicy(name, f"{name}-1", ttl_ms, None)


async def half_held(engine: Engine, ttl_ms: int = 60_000) -> list[Work]:
    """Of two rows with adjacent keys one is held and one waits; a claim finds the waiting ones in
    reverse key order.
    """
    await create_all(
        engine,
        (
            CreateExecutionArgs(execution_id=ident(n, 0), priority=n if n % 2 else 1_000 + n)
            for n in range(ROWS)
        ),
    )
    works = await engine.claim_many("default", (), worker("w", ttl_ms), HELD)
    assert [work.execution_id for work in works] == [ident(n, 0) for n in range(ROWS - 2, -1, -2)]
    return works


async def turn(
    engine: Engine, works: Sequence[Work], name: str, n: int
) -> tuple[list[EngineError | None], list[Work]]:
    return await engine.complete_and_claim(
        [(work.handle, None) for work in works], "default", (), worker(name), n
    )


async def test_nothing_is_taken_while_an_end_waits(options: Options, clock: ManualClock) -> None:
    async with engines(options, 2, clock) as (first, second):
        works = await half_held(first)
        async with gate(options, "ff_exec_core", MIDDLE) as stopped:
            turning = asyncio.ensure_future(turn(first, works, "turner", HELD))
            await stopped(1)
            meanwhile = await second.claim_many("default", (), worker("other"), ROWS)
            assert len(meanwhile) == ROWS - HELD
        assert await turning == ([None] * HELD, [])
        world = await sound_world(first)
    assert len(world.completions) == HELD
    assert await deadlocks(options) == 0


async def test_what_is_taken_after_a_wait_is_taken_at_that_time(options: Options) -> None:
    """A row held by another caller is not claimed before its release, and the lease lasts as long
    as requested.
    """
    ttl_ms = 60_000
    async with engines(options, 2) as (first, second):
        works = await half_held(first)
        async with gate(options, "ff_exec_core", MIDDLE) as stopped:
            turning = asyncio.ensure_future(turn(first, works, "turner", 1))
            await stopped(1)
            (best,) = await second.claim_many("default", (), worker("other"), 1)
            begun = await second.server_time_ms()

            async def later() -> bool:
                return await second.server_time_ms() > begun + 20

            await until(later)
            await second.fail(best.handle, "not me", retry_after_ms=0)
        _, (taken,) = await turning
        world = await sound_world(first)
    events = [
        (e["event_type"], e["occurred_at_ms"]) for e in world.leases[0, best.execution_id.uuid]
    ]
    assert taken.execution_id == best.execution_id
    assert [kind for kind, _ in events] == ["acquired", "revoked", "acquired"]
    assert [at for _, at in events] == sorted(at for _, at in events)
    assert taken.lease_expires_at == events[-1][1] + ttl_ms


def _tags(execution: Execution) -> Plan:
    """Locks in the update, held or not."""
    return SET_TAGS(**named(execution), tags='{"at":"x"}', instance_tag=None)


def _revoke(execution: Execution) -> Plan:
    """Locks before the update."""
    return REVOKE(**named(execution), lease_epoch=execution.lease_epoch, blocking_detail="x")


async def test_turns_beside_batches_in_the_order_of_keys(
    options: Options, clock: ManualClock
) -> None:
    """A batch holds rows that the call would claim and waits for one that it ends."""
    async with engines(options, 4, clock) as several:
        works = await half_held(several[0])
        stored = (
            Execution(*row)
            for row in (await several[0].store.dump(["ff_exec_core"]))["ff_exec_core"]
        )
        rows = sorted(stored, key=lambda e: e.execution_id)
        leased = [_revoke(e) for e in rows if e.lifecycle_phase == "active"]
        async with gate(options, "ff_exec_core", MIDDLE) as stopped:
            running: Any = asyncio.gather(
                turn(several[0], works, "one", 20),
                turn(several[1], works[::-1], "two", 20),
                several[2].store.commit_many([_tags(e) for e in rows]),
                several[3].store.commit_many(leased),
            )
            await stopped(4)
        one, two, _, _ = await running
        world = await sound_world(several[0])
    taken = [work.execution_id for _, works in (one, two) for work in works]
    assert len(set(taken)) == len(taken)
    assert all(len(events) == 1 for events in world.completions.values())
    assert await deadlocks(options) == 0


async def test_turns_beside_cancels_and_revokes_of_what_they_end_and_take(
    options: Options, clock: ManualClock
) -> None:
    async with engines(options, 4, clock) as several:
        works = await half_held(several[0])
        running: list[Awaitable[Any]] = [
            *(turn(several[at % 2], works[at : at + 5], f"t{at}", 5) for at in range(0, HELD, 5)),
            *(
                several[2].cancel_execution(CancelExecutionArgs(execution_id=ident(n, 0)))
                for n in range(0, ROWS, 3)
            ),
            *(
                several[3].revoke_lease(RevokeLeaseArgs(execution_id=work.execution_id))
                for work in works
            ),
            several[3].complete_many([(work.handle, None) for work in works]),
        ]
        done = await asyncio.gather(*running, return_exceptions=True)
        assert [
            each
            for each in done
            if isinstance(each, BaseException) and not isinstance(each, EngineError)
        ] == []
        world = await sound_world(several[0])
    taken = [work.execution_id for answer in done[:6] for work in answer[1]]
    assert len(set(taken)) == len(taken)
    assert all(len(events) == 1 for events in world.completions.values())
    assert await deadlocks(options) == 0


async def test_a_turn_beside_grants_that_are_dropped(options: Options, clock: ManualClock) -> None:
    """It removes grants in key order, as other statements do, while it holds the rows that it ended
    and claimed.
    """
    async with engines(options, 2, clock) as several:
        works = await half_held(several[0])
        args = (
            IssueGrantArgs(
                execution_id=ident(n, 0), worker_id="w", worker_instance_id="w-1", grant_ttl_ms=10
            )
            for n in range(1, ROWS, 2)
        )
        await asyncio.gather(*map(several[0].issue_claim_grant, args))
        clock.advance(11)
        async with gate(options, "ff_claim_grant", ident(31, 0)) as stopped:
            running = asyncio.gather(
                turn(several[0], works, "turner", ROWS), several[1].drop_expired_grants()
            )
            await stopped(2)
        (answers, taken), _ = await running
        world = await sound_world(several[0])
    assert answers == [None] * HELD
    assert [work.execution_id for work in taken] == [ident(n, 0) for n in range(ROWS - 1, 0, -2)]
    assert world.grants == []
    assert await deadlocks(options) == 0
