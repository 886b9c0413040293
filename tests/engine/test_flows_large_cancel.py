"""Cancelling a flow that is too large for one transaction, while its process dies or its members
move.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric import (
    CancelFlowPolicy,
    ClaimPolicy,
    CreateExecutionArgs,
    Engine,
    ExecutionId,
    SubmitFlowArgs,
)
from flowfabric.engine.flows import cancels
from flowfabric.model.flow import CancelFlowArgs, FlowAlreadyTerminal, FlowCancelled, GraphEdge
from flowfabric.testing import ManualClock

MANY = 21
DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def few_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancels, "MAX_TOGETHER", MANY - 1)
    monkeypatch.setattr(cancels, "MAX_PENDING", 5)
    monkeypatch.setattr(cancels, "MAX_PAGE", 7)


class Died(BaseException):
    """The process ends here."""


async def large(engine: Engine, *, line: bool = False) -> UUID:
    """Members without edges, or each behind the one before."""
    flow = uuid4()
    nodes = [CreateExecutionArgs(execution_id=ExecutionId.for_flow(flow)) for _ in range(MANY)]
    ids = [node.execution_id for node in nodes]
    edges = [GraphEdge(*pair) for pair in pairwise(ids)] if line else []
    await engine.submit_flow(SubmitFlowArgs(flow_id=flow, nodes=nodes, edges=edges))
    return flow


async def states(engine: Engine, flow: UUID) -> dict[str, int]:
    return dict(Counter(member.public_state for member in await engine.flow_members(flow)))


async def owed(engine: Engine) -> dict[str, int]:
    dumped = await engine.store.dump(("ff_cancel_backlog", "ff_cancel_backlog_member"))
    return {table: len(rows) for table, rows in dumped.items()}


async def test_all_members_are_cancelled_and_the_backlog_is_empty(engine: Engine) -> None:
    flow = await large(engine)
    assert len((await engine.cancel_flow(flow)).member_execution_ids) == MANY
    assert await states(engine, flow) == {"cancelled": MANY}
    assert set((await owed(engine)).values()) == {0}


@pytest.mark.meets("flow", "cancel", "crash")
async def test_another_process_finishes_what_one_began(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await large(engine)
    finishing = engine.parts.core.cascade.members.cancel

    async def die(*args: Any, **more: Any) -> Any:
        raise Died

    monkeypatch.setattr(engine.parts.core.cascade.members, "cancel", die)
    with pytest.raises(Died):
        await engine.cancel_flow(flow)
    assert await states(engine, flow) == {"waiting": MANY}
    monkeypatch.setattr(engine.parts.core.cascade.members, "cancel", finishing)
    clock.advance(DAY_MS)
    while await engine.reconcile_cancel_backlog():
        pass
    assert await states(engine, flow) == {"cancelled": MANY}
    assert set((await owed(engine)).values()) == {0}


async def test_who_could_not_be_settled_stays_owed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await large(engine)
    real = engine.parts.core.cascade.members.cancel

    async def give_up_on_one(partition: int, members: Any, *args: Any, **more: Any) -> Any:
        first, *rest = members
        done, left = await real(partition, rest, *args, **more)
        return done, {*left, first}

    monkeypatch.setattr(engine.parts.core.cascade.members, "cancel", give_up_on_one)
    await engine.cancel_flow(flow)
    left = (await states(engine, flow))["waiting"]
    assert left and await owed(engine) == {"ff_cancel_backlog": 1, "ff_cancel_backlog_member": left}


async def test_what_was_claimed_meanwhile_runs_on_where_only_pending_ones_are_cancelled(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await large(engine)
    real = engine.parts.core.cascade.members.cancel
    claimed: list[Any] = []

    async def claim_first(*args: Any, **more: Any) -> Any:
        if not claimed:
            claimed.extend(
                await engine.claim_many("default", (), ClaimPolicy("w", "w-1", 60_000), 1)
            )
        return await real(*args, **more)

    monkeypatch.setattr(engine.parts.core.cascade.members, "cancel", claim_first)
    await engine.cancel_flow(flow, CancelFlowPolicy.CANCEL_PENDING)
    assert await states(engine, flow) == {"active": 1, "cancelled": MANY - 1}
    await engine.complete(claimed[0].handle)


class DiesBehind:
    """Cancels so many pages of members, then the process ends."""

    def __init__(self, engine: Engine, pages: int) -> None:
        self._members = engine.parts.core.cascade.members
        self._cancel, self.left = self._members.cancel, pages

    async def __call__(self, *args: Any, **more: Any) -> Any:
        if not self.left:
            raise Died
        self.left -= 1
        return await self._cancel(*args, **more)


@pytest.mark.meets("flow", "cancel", "crash")
@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("pages", [0, 1, 3])
async def test_a_cancel_that_ends_between_two_pages_is_finished_by_the_reconciler(
    engine: Engine,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    pages: int,
    header: bool,
) -> None:
    flow = await large(engine, line=True)
    args = CancelFlowArgs(flow_id=flow, reason="enough", cancellation_policy="cancel_all")
    with monkeypatch.context() as patch:
        patch.setattr(engine.parts.core.cascade.members, "cancel", DiesBehind(engine, pages))
        with pytest.raises(Died):
            await (engine.cancel_flow_header(args) if header else engine.cancel_flow(flow))
    assert (await states(engine, flow)).get("cancelled", 0) == 5 * pages
    assert (await owed(engine))["ff_cancel_backlog"] == 1
    assert await engine.reconcile_cancel_backlog() == 0, "within the grace of the caller"
    clock.advance(30_000)
    while await engine.reconcile_cancel_backlog():
        pass
    await engine.dispatch_completions()
    await engine.parts.core.cascade.finish()
    assert await states(engine, flow) == {"cancelled": MANY}
    assert set((await owed(engine)).values()) == {0}
    assert await engine.dispatch_completions(grace_ms=0) == 0


async def test_members_of_a_line_are_cancelled_and_not_skipped(engine: Engine) -> None:
    flow = await large(engine, line=True)
    answer = await engine.cancel_flow(flow)
    assert len(answer.member_execution_ids) == MANY
    assert await states(engine, flow) == {"cancelled": MANY}


async def test_a_caller_and_the_reconciler_cancel_the_same_pages(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await large(engine)
    other = Engine(engine.store)
    real, reconciled = engine.parts.core.cascade.members.cancel, []

    async def beside_another(*args: Any, **more: Any) -> Any:
        clock.advance(30_000)
        done, found = await asyncio.gather(real(*args, **more), other.reconcile_cancel_backlog())
        reconciled.append(found)
        return done

    monkeypatch.setattr(engine.parts.core.cascade.members, "cancel", beside_another)
    answer = await engine.cancel_flow(flow)
    assert len(answer.member_execution_ids) + sum(reconciled) == MANY and any(reconciled)
    assert await states(engine, flow) == {"cancelled": MANY}
    assert set((await owed(engine)).values()) == {0}
    ends = (await engine.store.dump(("ff_completion_event",)))["ff_completion_event"]
    assert len(ends) == MANY


async def test_a_header_keeps_its_members_until_they_are_acknowledged(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await large(engine)
    real, acked = engine.parts.core.cascade.members.cancel, []

    async def acknowledged_early(*args: Any, **more: Any) -> Any:
        for member in acked:
            await engine.ack_cancel_member(flow, member)
        done, left = await real(*args, **more)
        acked[:] = done
        return done, left

    monkeypatch.setattr(engine.parts.core.cascade.members, "cancel", acknowledged_early)
    args = CancelFlowArgs(flow_id=flow, reason="enough", cancellation_policy="cancel_all")
    answer = await engine.cancel_flow_header(args)
    assert isinstance(answer, FlowCancelled)
    assert len(answer.member_execution_ids) == MANY
    again = await engine.cancel_flow_header(args)
    assert isinstance(again, FlowAlreadyTerminal)
    for member in again.member_execution_ids:
        assert (await owed(engine))["ff_cancel_backlog"] == 1
        await engine.ack_cancel_member(flow, member)
    assert set((await owed(engine)).values()) == {0}
    assert await states(engine, flow) == {"cancelled": MANY}
    last = await engine.cancel_flow_header(args)
    assert isinstance(last, FlowAlreadyTerminal) and len(last.member_execution_ids) == MANY


async def test_a_large_flow_alone_is_cancelled_without_its_members(engine: Engine) -> None:
    flow = await large(engine)
    assert (await engine.cancel_flow(flow, "flow_only")).member_execution_ids == []
    assert await states(engine, flow) == {"waiting": MANY}
    assert set((await owed(engine)).values()) == {0}
