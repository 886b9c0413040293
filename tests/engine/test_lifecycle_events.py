"""The event matrix: each operation writes exactly these rows to the outbox, with the
truth in them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs, ChangePriorityArgs, ReplayExecutionArgs
from flowfabric.model.lease import (
    ClaimExecutionArgs,
    ClaimResumedArgs,
    Handle,
    ReclaimExecutionArgs,
    ResumeGrant,
    ResumeToken,
    RevokeLeaseArgs,
)
from flowfabric.model.policy import ExecutionPolicy
from flowfabric.model.state import ExpirePhase
from flowfabric.testing import ManualClock

from .helpers import (
    GRACE_MS,
    LANE,
    TTL_MS,
    claim,
    create,
    fields,
    grant_args,
    outbox,
    row,
    told,
    two_stores,
    worker,
)

TENANT = "tenant"


class Case:
    """One execution, alone on its store, and the operations on it."""

    def __init__(self, engine: Engine, clock: ManualClock, ident: ExecutionId) -> None:
        self.engine, self.clock, self.ident = engine, clock, ident
        self.handle: Handle | None = None

    @property
    def held(self) -> Handle:
        assert self.handle is not None
        return self.handle

    async def claim(self) -> None:
        self.handle = await claim(self.engine, worker(namespace=TENANT))

    async def lose(self) -> None:
        await self.claim()
        self.clock.advance(TTL_MS)
        await self.mark()

    async def revoke(self) -> None:
        await self.engine.revoke_lease(RevokeLeaseArgs(execution_id=self.ident))

    async def interrupt(self) -> None:
        await self.claim()
        await self.revoke()

    async def requeue(self) -> None:
        assert await self.engine.requeue_lost(self.ident, 0) == "requeued"

    async def end(self) -> None:
        await self.claim()
        await self.engine.complete(self.held)

    async def mark(self) -> None:
        await self.engine.mark_lease_expired_if_due(self.ident)

    async def cancel(self) -> None:
        await self.engine.cancel_execution(CancelExecutionArgs(execution_id=self.ident))

    async def fail(self, failure: FailureClass = FailureClass.TRANSIENT) -> None:
        await self.engine.fail(self.held, "boom", failure)

    async def expire(self) -> None:
        at = self.clock() + 10**9
        assert (
            await self.engine.expire_execution(self.ident, ExpirePhase.EXECUTION_DEADLINE, now=at)
            is not None
        )

    async def replay(self) -> None:
        await self.engine.replay_execution(ReplayExecutionArgs(execution_id=self.ident))

    async def delayed(self) -> None:
        await self.claim()
        await self.engine.delay(self.held, self.clock())

    async def blocked(self) -> None:
        await self.engine.block_route(self.ident, "paused_by_operator")

    async def grant(self) -> None:
        await self.engine.issue_claim_grant(grant_args(self.ident))

    async def reclaim_grant(self) -> None:
        await self.lose()
        await self.engine.issue_reclaim_grant(grant_args(self.ident))

    async def claim_execution(self) -> None:
        args = ClaimExecutionArgs(
            execution_id=self.ident, worker_id="w1", worker_instance_id="i", lease_ttl_ms=9
        )
        await self.engine.claim_execution(args)

    async def claim_resumed(self) -> None:
        args = ClaimResumedArgs(
            execution_id=self.ident, worker_id="w1", worker_instance_id="i", lease_ttl_ms=9
        )
        await self.engine.claim_resumed_execution(args)

    async def resume_grant(self) -> None:
        grant = ResumeGrant(self.ident, "{fp:0}", "k", self.clock() + 9, LANE)
        assert (
            await self.engine.claim_from_resume_grant(ResumeToken(grant, "w1", "i", 9)) is not None
        )

    async def reclaim(self, cap: int | None = None) -> None:
        args = ReclaimExecutionArgs(
            execution_id=self.ident,
            worker_id="w1",
            worker_instance_id="i",
            lease_ttl_ms=9,
            max_reclaim_count=cap,
        )
        await self.engine.reclaim_execution(args)

    async def turn_over(self) -> None:
        assert await self.engine.complete_and_claim(
            [(self.held, None)], "nothing", (), worker(), 1
        ) == ([None], [])

    async def nothing(self) -> None:
        pass


Step = Callable[[Case], Awaitable[Any]]
MATRIX: list[tuple[str, Step, Step, str, str, str]] = [
    ("create", Case.nothing, Case.nothing, "", "", ""),
    ("promote", Case.delayed, lambda c: c.engine.promote_delayed(c.ident), "", "", ""),
    ("block", Case.nothing, Case.blocked, "", "", ""),
    ("unblock", Case.blocked, lambda c: c.engine.unblock_execution(c.ident), "", "", ""),
    ("issue claim grant", Case.nothing, Case.grant, "", "", ""),
    (
        "issue reclaim grant",
        Case.lose,
        lambda c: c.engine.issue_reclaim_grant(grant_args(c.ident)),
        "",
        "",
        "",
    ),
    ("progress", Case.claim, lambda c: c.engine.progress(c.held, 5), "", "", ""),
    ("tags", Case.nothing, lambda c: c.engine.set_execution_tag(c.ident, "a.b", "c"), "", "", ""),
    ("claim", Case.nothing, Case.claim, "acquired", "", ""),
    ("claim of an interrupted one", Case.interrupt, Case.claim, "acquired", "", ""),
    ("claim_execution", Case.grant, Case.claim_execution, "acquired", "", ""),
    (
        "issue_grant_and_claim",
        Case.nothing,
        lambda c: c.engine.issue_grant_and_claim(c.ident, LANE, 9),
        "acquired",
        "",
        "",
    ),
    ("claim_resumed_execution", Case.interrupt, Case.claim_resumed, "acquired", "", ""),
    ("claim_from_resume_grant", Case.interrupt, Case.resume_grant, "reclaimed", "", ""),
    ("claim_from_resume_grant of a lost one", Case.lose, Case.resume_grant, "reclaimed", "", ""),
    ("reclaim", Case.reclaim_grant, Case.reclaim, "reclaimed", "", ""),
    ("reclaim cap exceeded", Case.reclaim_grant, lambda c: c.reclaim(0), "revoked", "failed", ""),
    ("renew", Case.claim, lambda c: c.engine.renew(c.held), "renewed", "", ""),
    ("complete", Case.claim, lambda c: c.engine.complete(c.held), "revoked", "success", ""),
    (
        "complete_many",
        Case.claim,
        lambda c: c.engine.complete_many([(c.held, None)]),
        "revoked",
        "success",
        "",
    ),
    ("complete_and_claim", Case.claim, Case.turn_over, "revoked", "success", ""),
    ("fail, retry scheduled", Case.claim, Case.fail, "revoked", "", ""),
    (
        "fail, terminal",
        Case.claim,
        lambda c: c.fail(FailureClass.PERMANENT),
        "revoked",
        "failed",
        "",
    ),
    ("delay", Case.claim, lambda c: c.engine.delay(c.held, c.clock() + 1), "revoked", "", ""),
    ("cancel by handle", Case.claim, lambda c: c.engine.cancel(c.held), "revoked", "cancelled", ""),
    ("cancel, leased", Case.claim, Case.cancel, "revoked", "cancelled", ""),
    ("cancel, not leased", Case.nothing, Case.cancel, "", "cancelled", ""),
    ("cancel, lost", Case.lose, Case.cancel, "", "cancelled", ""),
    ("revoke", Case.claim, Case.revoke, "revoked", "", ""),
    ("mark expired", Case.claim, lambda c: _advance_and(c, c.mark), "expired", "", ""),
    ("a late complete", Case.claim, lambda c: _advance_and(c, lambda: _late(c)), "expired", "", ""),
    ("requeue after expiry", Case.lose, Case.requeue, "", "", ""),
    ("expire, running", Case.claim, Case.expire, "revoked", "expired", ""),
    ("expire, lost", Case.lose, Case.expire, "", "expired", ""),
    ("expire, waiting", Case.nothing, Case.expire, "", "expired", ""),
    ("expire, interrupted", Case.interrupt, Case.expire, "", "expired", ""),
    (
        "change_priority",
        Case.nothing,
        lambda c: c.engine.change_priority(
            ChangePriorityArgs(execution_id=c.ident, new_priority=1)
        ),
        "",
        "",
        "priority_changed",
    ),
    ("replay", Case.end, Case.replay, "", "", "replayed"),
    ("cancel again", Case.cancel, Case.cancel, "", "", ""),
    ("complete again", Case.end, lambda c: c.engine.complete(c.held), "", "", ""),
    ("mark again", Case.lose, Case.mark, "", "", ""),
]


async def _advance_and(case: Case, step: Callable[[], Awaitable[None]]) -> None:
    case.clock.advance(TTL_MS)
    await step()


async def _late(case: Case) -> None:
    with pytest.raises(Exception, match="lease_expired"):
        await case.engine.complete(case.held)


@two_stores
@pytest.mark.parametrize(
    ("prepare", "act", "lease", "done", "oper"), [m[1:] for m in MATRIX], ids=[m[0] for m in MATRIX]
)
async def test_an_operation_writes_exactly_its_events(
    engine: Engine, clock: ManualClock, prepare: Step, act: Step, lease: str, done: str, oper: str
) -> None:
    tags = {"cairn.instance_id": "blue"}
    ident = await create(engine, namespace=TENANT, tags=tags, execution_deadline_at=clock() + 10**8)
    case = Case(engine, clock, ident)
    await prepare(case)
    before = await told(engine, ident)
    await act(case)
    after = await told(engine, ident)
    written = {channel: after[channel][len(before[channel]) :] for channel in after}
    assert written == {"LEASE": lease.split(), "DONE": done.split(), "OPER": oper.split()}
    for channel in ("ff_lease_event", "ff_completion_event", "ff_operator_event"):
        for event in await outbox(engine, channel):
            assert (event["execution_id"], event["partition_key"]) == (ident.uuid, 0)
            assert (event["namespace"], event["instance_tag"]) == (TENANT, "blue")


async def test_every_lease_event_names_the_lease_and_the_worker(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine)
    handle = await claim(engine)
    await engine.renew(handle)
    await engine.delay(handle, clock())
    await engine.promote_delayed(ident)
    second = await claim(engine, worker(2))
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(ident)
    events = await outbox(engine, "ff_lease_event", ident)
    leases: list[tuple[str, UUID, str]] = [
        (e["event_type"], e["lease_id"], e["worker_instance_id"]) for e in events
    ]
    one, two = fields(handle).lease_id, fields(second).lease_id
    assert leases == [
        ("acquired", one, "w1-i1"),
        ("renewed", one, "w1-i1"),
        ("revoked", one, "w1-i1"),
        ("acquired", two, "w2-i1"),
        ("expired", two, "w2-i1"),
    ]


async def test_a_changed_instance_tag_is_on_the_events_that_follow(engine: Engine) -> None:
    ident = await create(engine, tags={"cairn.instance_id": "blue"})
    handle = await claim(engine)
    await engine.set_execution_tag(ident, "cairn.instance_id", "green")
    await engine.complete(handle)
    assert [e["instance_tag"] for e in await outbox(engine, "ff_lease_event", ident)] == [
        "blue",
        "green",
    ]
    assert [e["instance_tag"] for e in await outbox(engine, "ff_completion_event", ident)] == [
        "green"
    ]


async def test_event_numbers_rise_and_one_generation_ends_once(
    engine: Engine, clock: ManualClock
) -> None:
    """Three generations: one completion each, in the order of their commits."""
    ident = await create(engine, policy=ExecutionPolicy())
    for outcome in ("success", "cancelled", "failed"):
        handle = await claim(engine)
        if outcome == "success":
            await engine.complete(handle)
        elif outcome == "cancelled":
            await engine.cancel_execution(CancelExecutionArgs(execution_id=ident))
        else:
            await engine.fail(handle, "boom", FailureClass.PERMANENT)
            break
        clock.advance(GRACE_MS)
        await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    events = await outbox(engine, "ff_completion_event", ident)
    assert [e["outcome"] for e in events] == ["success", "cancelled", "failed"]
    numbers = [e["event_id"] for e in events]
    assert numbers == sorted(set(numbers))
    assert (await row(engine, ident)).replay_count == 2
