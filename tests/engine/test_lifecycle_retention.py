"""Forgetting: what retention deletes, when, and what it leaves."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.errors import ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass, FailureReason
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import CancelExecutionArgs, ChangePriorityArgs, ReplayExecutionArgs
from flowfabric.model.flow_links import Parent
from flowfabric.model.policy import ExecutionPolicy, RetentionPolicy, StreamPolicy
from flowfabric.model.state import ExpirePhase
from flowfabric.store.port import Scan
from flowfabric.testing import ManualClock

from .flow_helpers import finish, submit
from .helpers import LANE, claim, completed, create, dump, new_id, outbox, running, stored

DAY_MS = 86_400_000


def kept_for(ms: int) -> ExecutionPolicy:
    return ExecutionPolicy(stream_policy=StreamPolicy(retention_ttl_ms=ms))


async def ended(
    engine: Engine, clock: ManualClock, outcome: str, **how: Any
) -> tuple[ExecutionId, str]:
    """One that ended like this, and its lane."""
    if outcome == "skipped":
        graph = await submit(engine, "first>second")
        handle = await claim(engine, lane="first")
        await engine.fail(handle, FailureReason("r", b"c"), FailureClass.PERMANENT)
        return graph["second"], "second"
    if outcome == "expired":
        ident = await create(engine, execution_deadline_at=clock() + 1, **how)
        clock.advance(1)
        await engine.expire_execution(ident, ExpirePhase.EXECUTION_DEADLINE)
    elif outcome == "cancelled":
        ident = await create(engine, **how)
        await engine.cancel_execution(CancelExecutionArgs(execution_id=ident))
    else:
        ident, handle = await running(engine, **how)
        if outcome == "failed":
            await engine.fail(handle, FailureReason("r", b"c"), FailureClass.PERMANENT)
        else:
            await engine.complete(handle)
    return ident, LANE


async def test_what_ended_is_kept_for_a_day_to_the_millisecond(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await completed(engine)
    clock.advance(DAY_MS - 1)
    assert await engine.trim_retention(LANE) == 0
    clock.advance(1)
    assert await engine.trim_retention(LANE) == 1
    assert await engine.describe_execution(ident) is None
    assert await engine.trim_retention(LANE) == 0


@pytest.mark.parametrize(
    ("outcome", "days"),
    [
        ("success", 1),
        ("cancelled", 1),
        ("skipped", 1),
        ("failed", 7),
        ("expired", 7),
    ],
)
async def test_what_failed_is_kept_longer_than_what_did_not(
    engine: Engine, clock: ManualClock, outcome: str, days: int
) -> None:
    ident, lane = await ended(engine, clock, outcome)
    await engine.finish()
    found = await stored(engine, ident)
    assert (
        found is not None and found.terminal_outcome == outcome and found.terminal_at_ms is not None
    )
    clock.advance(found.terminal_at_ms + days * DAY_MS - 1 - clock())
    assert await engine.trim_retention(lane) == 0
    clock.advance(1)
    assert await engine.trim_retention(lane) >= 1
    assert await stored(engine, ident) is None


@pytest.mark.parametrize(
    ("outcome", "kept_ms"), [("success", 30), ("cancelled", 30), ("failed", 50), ("expired", 50)]
)
async def test_both_ages_are_settings(
    engine: Engine, clock: ManualClock, outcome: str, kept_ms: int
) -> None:
    ident, _ = await ended(engine, clock, outcome)
    found = await stored(engine, ident)
    assert found is not None and found.terminal_at_ms is not None
    other = Engine(engine.store, Settings(retention_completed_ms=30, retention_failed_ms=50))
    assert await other.trim_retention(LANE, now=found.terminal_at_ms + kept_ms - 1) == 0
    assert await other.trim_retention(LANE, now=found.terminal_at_ms + kept_ms) == 1


@pytest.mark.parametrize(("outcome", "kept_ms"), [("success", 30), ("failed", 50)])
async def test_a_policy_has_an_age_for_each_kind_of_end(
    engine: Engine, clock: ManualClock, outcome: str, kept_ms: int
) -> None:
    policy = ExecutionPolicy(retention_policy=RetentionPolicy(completed_ms=30, failed_ms=50))
    ident, _ = await ended(engine, clock, outcome, policy=policy)
    clock.advance(kept_ms - 1)
    assert await engine.trim_retention(LANE, 0) == 0
    clock.advance(1)
    assert await engine.trim_retention(LANE) == 1
    assert await stored(engine, ident) is None


@pytest.mark.parametrize(("outcome", "days"), [
    ("success", 1), ("cancelled", 1), ("skipped", 1), ("failed", 7), ("expired", 7),
])  # fmt: skip
async def test_a_lane_is_due_when_its_oldest_end_is(
    engine: Engine, clock: ManualClock, outcome: str, days: int
) -> None:
    ident, lane = await ended(engine, clock, outcome)
    await engine.finish()
    found = await stored(engine, ident)
    assert found is not None and found.terminal_at_ms is not None
    clock.advance(found.terminal_at_ms + days * DAY_MS - 1 - clock())
    assert lane not in await engine.lanes_due([lane, "empty"])
    clock.advance(1)
    assert await engine.lanes_due([lane, "empty"]) == [lane]
    assert await engine.lanes_due(["empty"]) == [] == await engine.lanes_due([])


async def test_a_lane_is_due_by_the_age_of_a_policy(engine: Engine, clock: ManualClock) -> None:
    policy = ExecutionPolicy(retention_policy=RetentionPolicy(completed_ms=30, failed_ms=50))
    await ended(engine, clock, "success", policy=policy)
    clock.advance(29)
    assert await engine.lanes_due([LANE]) == []
    clock.advance(1)
    assert await engine.lanes_due([LANE]) == [LANE]


async def test_failed_ones_that_are_kept_do_not_stop_the_trim_and_are_not_read_again(
    engine: Engine, clock: ManualClock
) -> None:
    """They are most of what there is after a bad night, and a pass comes every minute
    for a week.
    """
    for _ in range(5):
        await ended(engine, clock, "failed")
    for _ in range(2):
        await ended(engine, clock, "success")
    clock.advance(2 * DAY_MS)
    reads: list[tuple[str, int]] = []
    honest = engine.store.load

    async def load(wanted: Any) -> Any:
        answer = await honest(wanted)
        reads.extend(
            (read.index, len(rows))
            for read, rows in zip(wanted, answer.rows, strict=True)
            if isinstance(read, Scan)
        )
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.store, "load", load)
        assert await engine.trim_retention(LANE) == 2
    assert reads == [("ended", 2), ("failed", 0), ("retained", 0)]


@pytest.mark.parametrize("field", ["retention_completed_ms", "retention_failed_ms"])
@pytest.mark.parametrize("age", [-1, 10 * 365 * DAY_MS + 1, 1.5, "7d", True, None])
async def test_an_age_that_makes_no_sense_is_refused(engine: Engine, field: str, age: Any) -> None:
    with pytest.raises(ValidationError, match=f"{field}: a whole number from 0 to "):
        Engine(engine.store, Settings(**{field: age}))


async def test_everything_that_belongs_to_it_goes_and_the_neighbour_stays(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine, priority=1, idempotency_key="k")
    await engine.change_priority(ChangePriorityArgs(execution_id=ident, new_priority=2))
    handle = await claim(engine)
    await engine.complete(handle, b"r")
    neighbour, _ = await running(engine)
    before = await dump(engine)
    assert await engine.trim_retention(LANE, 0) == 1
    after = await dump(engine)
    for table in ("ff_exec_core", "ff_attempt"):
        assert [r[1] for r in after[table]] == [neighbour.uuid]
    for channel in ("ff_lease_event", "ff_completion_event", "ff_operator_event"):
        assert await outbox(engine, channel, ident) == []
    assert len(await outbox(engine, "ff_lease_event", neighbour)) == 1
    assert after["ff_idempotency"] == before["ff_idempotency"] != []
    assert after["ff_lane_registry"] == before["ff_lane_registry"]


async def test_the_highest_event_removed_is_remembered_per_channel(
    engine: Engine, clock: ManualClock
) -> None:
    await completed(engine)
    clock.advance(1)
    second, _ = await completed(engine)
    last = {
        "ff_lease_event": (await outbox(engine, "ff_lease_event", second))[-1]["event_id"],
        "ff_completion_event": (await outbox(engine, "ff_completion_event", second))[-1][
            "event_id"
        ],
    }
    await engine.trim_retention(LANE, 0, now=clock())
    assert dict((await dump(engine))["ff_outbox_trim"]) == last
    clock.advance(1)
    ident, _ = await completed(engine)
    await engine.trim_retention(LANE, 0)
    assert await stored(engine, ident) is None
    assert (
        dict((await dump(engine))["ff_outbox_trim"])["ff_lease_event"] == last["ff_lease_event"] + 2
    )
    assert await engine.store.last_event("ff_lease_event") == last["ff_lease_event"] + 2


@pytest.mark.parametrize(
    ("own_ms", "lane_ms", "after_ms", "gone"),
    [
        (50, DAY_MS, 50, True),
        (50, DAY_MS, 49, False),
        (500, 10, 499, False),
        (500, 10, 500, True),
        (0, DAY_MS, 0, True),
    ],
)
async def test_its_own_time_may_shorten_or_lengthen_the_lanes(
    engine: Engine, clock: ManualClock, own_ms: int, lane_ms: int, after_ms: int, gone: bool
) -> None:
    ident, _ = await completed(engine, policy=kept_for(own_ms))
    clock.advance(after_ms)
    assert await engine.trim_retention(LANE, lane_ms) == int(gone)
    assert (await stored(engine, ident) is None) is gone


async def test_the_oldest_go_first_and_no_more_than_the_batch(
    engine: Engine, clock: ManualClock
) -> None:
    made = []
    for n in range(5):
        made.append((await completed(engine, policy=kept_for(0) if n % 2 else None))[0])
        clock.advance(1)
    assert await engine.trim_retention(LANE, 0, batch=2) == 2
    assert [await stored(engine, i) is None for i in made] == [True, True, False, False, False]
    assert await engine.trim_retention(LANE, 0, batch=0) == 0
    assert await engine.trim_retention(LANE, 0) == 3


async def test_every_ended_state_is_trimmed_and_no_other(
    engine: Engine, clock: ManualClock
) -> None:
    cancelled = await create(engine)
    await engine.cancel_execution(CancelExecutionArgs(execution_id=cancelled))
    alive = [await create(engine), await create(engine, delay_until=clock() + 9)]
    clock.advance(DAY_MS)
    assert await engine.trim_retention(LANE) == 1
    assert await stored(engine, cancelled) is None
    assert all([await stored(engine, i) is not None for i in alive])


async def test_lane_partition_and_filter_narrow_the_trim(
    engine: Engine, clock: ManualClock
) -> None:
    here, _ = await completed(engine, namespace="a", tags={"cairn.instance_id": "blue", "x.y": "1"})
    there, _ = await completed(engine, namespace="b", execution_id=new_id(7))
    assert await engine.trim_retention("other", 0) == 0
    for wanted in (
        ScannerFilter(namespace="c"),
        ScannerFilter(instance_tag=("cairn.instance_id", "red")),
        ScannerFilter(instance_tag=("x.y", "2")),
        ScannerFilter(namespace="b", instance_tag=("x.y", "1")),
    ):
        assert await engine.trim_retention(LANE, 0, wanted=wanted) == 0
    assert await engine.trim_retention(LANE, 0, partition="{fp:3}") == 0
    assert await engine.trim_retention(LANE, 0, partition=7) == 1
    assert await stored(engine, there) is None
    assert await engine.trim_retention(LANE, 0, wanted=ScannerFilter("a", ("x.y", "1"))) == 1
    assert await stored(engine, here) is None


async def test_rows_the_filter_skips_do_not_stop_the_trim(
    engine: Engine, clock: ManualClock
) -> None:
    for n in range(7):
        await completed(engine, namespace="keep" if n < 6 else "trim")
        clock.advance(1)
    assert (
        await engine.trim_retention(LANE, 0, batch=2, wanted=ScannerFilter(namespace="trim")) == 1
    )


async def test_a_replay_rescues_the_row(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await completed(engine, policy=kept_for(5))
    await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    clock.advance(DAY_MS)
    assert await engine.trim_retention(LANE) == 0
    handle = await claim(engine)
    await engine.complete(handle)
    clock.advance(4)
    assert await engine.trim_retention(LANE) == 0
    clock.advance(1)
    assert await engine.trim_retention(LANE) == 1


async def test_an_id_that_was_trimmed_may_be_used_again(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await completed(engine)
    await engine.trim_retention(LANE, 0)
    await create(engine, execution_id=ident)
    assert (await outbox(engine, "ff_lease_event", ident)) == []


@pytest.mark.meets("retention", "flow")
async def test_a_member_is_kept_until_its_flow_has_ended(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "fast>last slow>last")
    await finish(engine, graph, "fast")
    clock.advance(2 * DAY_MS)
    assert await engine.trim_retention("fast") == 0
    assert (outcome := await engine.read_outcome(graph["fast"])) is not None
    assert outcome.result == b"done"
    await finish(engine, graph, "slow")
    await finish(engine, graph, "last")
    await engine.finish()
    assert await engine.trim_retention("fast") == 1


@pytest.mark.meets("retention", "flow")
@pytest.mark.parametrize(
    "own", [kept_for(0), ExecutionPolicy(retention_policy=RetentionPolicy(completed_ms=5))]
)
async def test_an_age_of_its_own_does_not_take_a_member_from_its_flow(
    engine: Engine, clock: ManualClock, own: ExecutionPolicy
) -> None:
    graph = await submit(engine, "fast>last", nodes={"fast": {"policy": own}})
    await finish(engine, graph, "fast")
    clock.advance(2 * DAY_MS)
    assert await engine.trim_retention("fast") == 0
    await finish(engine, graph, "last")
    await engine.finish()
    assert await engine.trim_retention("fast") == 1


@pytest.mark.meets("retention", "child")
async def test_a_child_is_kept_until_its_parent_has_ended(
    engine: Engine, clock: ManualClock
) -> None:
    parent, _ = await running(engine)
    graph = await submit(
        engine, "child", parent=Parent(execution_id=parent, waitpoint_key="children:0")
    )
    await finish(engine, graph, "child")
    clock.advance(2 * DAY_MS)
    assert await engine.trim_retention("child") == 0
    await engine.cancel_execution(CancelExecutionArgs(execution_id=parent))
    await engine.finish()
    assert await engine.trim_retention("child") == 1
