"""Cancelling a flow that is too large for one transaction, while its process dies or its members
move.
"""

from __future__ import annotations

from collections import Counter
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
from flowfabric.testing import ManualClock

MANY = 21
DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def few_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancels, "MAX_TOGETHER", MANY - 1)


class Died(BaseException):
    """The process ends here."""


async def large(engine: Engine) -> UUID:
    flow = uuid4()
    nodes = [CreateExecutionArgs(execution_id=ExecutionId.for_flow(flow)) for _ in range(MANY)]
    await engine.submit_flow(SubmitFlowArgs(flow_id=flow, nodes=nodes))
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
