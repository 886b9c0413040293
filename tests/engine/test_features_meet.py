"""Features that meet in one execution: one after the other, and one in the midst of another."""

from __future__ import annotations

from random import Random

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.model.execution import Cancelled, Expired, ReplayExecutionArgs
from flowfabric.model.lease import (
    AlreadySatisfied,
    Claimed,
    NotReclaimable,
    ReclaimExecutionArgs,
    ReclaimGrant,
    Revoked,
)
from flowfabric.testing import ManualClock

from .helpers import LANE, TTL_MS, claim, dump, row, state, worker
from .lives import Life

FEATURES = ("delay", "retry", "suspend", "revoke", "reclaim", "timeout", "replay")
TOLD = {
    "delay": "delayed",
    "suspend": "resumed",
    "retry": "retried",
    "timeout": "retried",
    "revoke": "revoked",
}
TOLD |= {"reclaim": "reclaimed", "replay": "replayed"}
midst = pytest.mark.parametrize("midst", FEATURES)
NOTHING = ("AlreadySatisfied", "AlreadyTerminal", "NotReclaimable", "TerminalFailed")
"""Answers that tell how it stands and have changed nothing."""
ACTS = {("revoke", "reclaim"), ("timeout", "revoke")}
"""What has an effect in the midst of another; everything else is refused there, or finds nothing to
do.
"""


@pytest.mark.meets("delay", "retry", "suspend", "revoke", "reclaim", "timeout", "replay")
@pytest.mark.parametrize("first", FEATURES)
async def test_one_after_the_other(engine: Engine, clock: ManualClock, first: str) -> None:
    """Time under one lease adds up over waits and restarts with the lease; former holders are
    fenced off.
    """
    for then in FEATURES:
        life = await Life(engine, clock).begun()
        for feature in (first, then):
            await life.through(feature)
            await life.is_right()
        history = await life.completed()
        assert {TOLD[first], TOLD[then]} <= {*history}
        again = "retry", "timeout"
        assert (await row(engine, life.ident)).retry_count == (first in again) + (
            then in again
        )  # a replay resets nothing


@pytest.mark.meets("delay", "retry", "suspend", "revoke", "reclaim", "timeout", "replay")
@midst
async def test_an_inapplicable_operation_during_another_changes_nothing(
    engine: Engine, clock: ManualClock, midst: str
) -> None:
    life = await Life(engine, clock).begun()
    await life.begin(midst)
    before = await dump(engine)
    for feature in FEATURES:
        if feature != midst and (midst, feature) not in ACTS:
            answer = await life.meet(feature)
            assert answer is None or isinstance(
                answer, AlreadySatisfied | NotReclaimable | EngineError
            ), feature
            assert await dump(engine) == before, feature
    await life.finish(midst)
    await life.is_right()
    assert (await life.completed()).count(TOLD[midst]) == 1


@pytest.mark.meets("cancel", "delay", "replay")
@pytest.mark.meets("cancel", "retry", "replay")
@pytest.mark.meets("cancel", "suspend", "replay")
@pytest.mark.meets("cancel", "revoke", "replay")
@pytest.mark.meets("cancel", "reclaim", "replay")
@pytest.mark.meets("cancel", "timeout", "replay")
@pytest.mark.meets("deadline", "delay", "replay")
@pytest.mark.meets("deadline", "retry", "replay")
@pytest.mark.meets("deadline", "suspend", "replay")
@pytest.mark.meets("deadline", "revoke", "replay")
@pytest.mark.meets("deadline", "reclaim", "replay")
@pytest.mark.meets("deadline", "timeout", "replay")
@midst
@pytest.mark.parametrize("end", ["cancel", "deadline"])
async def test_an_end_during_another_operation_is_final_until_replay(
    engine: Engine, clock: ManualClock, midst: str, end: str
) -> None:
    life = await Life(engine, clock).begun()
    await life.begin(midst)
    assert isinstance(await life.meet(end), Cancelled if end == "cancel" else Expired)
    assert await state(engine, life.ident) == f"ENDED({life.ends[-1]})"
    assert await life.told() == life.ends
    await life.is_sound()
    ended = await dump(engine)
    for feature in ("delay", "retry", "suspend", "revoke", "reclaim", "timeout"):
        answer = await life.meet(feature)
        assert (
            answer is None or isinstance(answer, EngineError) or type(answer).__name__ in NOTHING
        ), feature
    await engine.promote_delayed(life.ident)
    await engine.requeue_lost(life.ident)
    await engine.mark_lease_expired_if_due(life.ident)
    assert await engine.claim(LANE, (), worker(4)) is None
    assert await dump(engine) == ended
    await engine.replay_execution(ReplayExecutionArgs(execution_id=life.ident))
    life.used_ms = 0
    life.handle = await claim(engine)
    await life.is_right()
    assert (await life.completed()).count("replayed") == 1 + (midst == "replay")


@pytest.mark.meets("cancel", "deadline", "replay")
async def test_a_deadline_that_comes_after_a_cancel_changes_nothing_and_is_dropped_by_the_replay(
    engine: Engine, clock: ManualClock
) -> None:
    life = await Life(engine, clock).begun()
    await life.meet("cancel")
    ended = await dump(engine)
    await life.meet("deadline")
    assert life.ends.pop() == "expired" and await dump(engine) == ended
    await engine.replay_execution(ReplayExecutionArgs(execution_id=life.ident))
    assert (await row(engine, life.ident)).deadline_at_ms is None
    life.handle = await claim(engine)
    await life.completed()


@pytest.mark.meets("revoke", "reclaim")
async def test_a_revoked_execution_is_kept_for_the_worker_that_may_reclaim_it(
    engine: Engine, clock: ManualClock
) -> None:
    life = await Life(engine, clock).begun()
    await life.begin("revoke")
    assert isinstance(await life.meet("reclaim"), ReclaimGrant)
    assert await engine.claim(LANE, (), worker(4)) is None
    args = ReclaimExecutionArgs(
        execution_id=life.ident, worker_id="w3", worker_instance_id="w3-i1", lease_ttl_ms=TTL_MS
    )
    got = await engine.reclaim_execution(args)
    assert isinstance(got, Claimed)
    life.handle = got.handle
    await life.is_right()
    assert {"revoked", "reclaimed"} <= {*await life.completed()}


@pytest.mark.meets("revoke", "timeout", "retry")
async def test_an_overdue_attempt_that_is_revoked_costs_no_retry_and_has_its_whole_time_again(
    engine: Engine, clock: ManualClock
) -> None:
    life = await Life(engine, clock).begun()
    await life.begin("timeout")
    assert isinstance(await life.meet("revoke"), Revoked)
    before = await dump(engine)
    assert await life.meet("timeout") is None and await dump(engine) == before
    life.handle = await claim(engine)
    await life.is_right()
    assert "retried" not in await life.completed()
    assert (await row(engine, life.ident)).retry_count == 0


@pytest.mark.meets(
    "cancel", "deadline", "delay", "retry", "suspend", "revoke", "reclaim", "timeout", "replay"
)
@pytest.mark.parametrize("order", range(4))
async def test_a_long_life(engine: Engine, clock: ManualClock, order: int) -> None:
    """Everything in any order, ended from outside in its midst, replayed, and
    everything once more.
    """
    chance, life = Random(order), await Life(engine, clock).begun()
    for end in chance.sample(["cancel", "deadline"], 2):
        features = chance.sample(FEATURES, len(FEATURES))
        for feature in features:
            await life.through(feature)
            await life.is_right()
        await life.begin(features[0])
        await life.meet(end)
        await life.is_sound()
        clock.advance(1)
        await engine.replay_execution(ReplayExecutionArgs(execution_id=life.ident))
        clock.advance(1)
        life.handle, life.used_ms = await claim(engine), 0
        await life.is_right()
    assert {*TOLD.values()} <= {*await life.completed()}
