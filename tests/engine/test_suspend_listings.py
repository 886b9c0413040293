"""Pages of waitpoints and of suspended executions, and tokens for permitted callers."""

from __future__ import annotations

from uuid import uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs, Page, ReplayExecutionArgs
from flowfabric.model.waitpoint import (
    AllOf,
    Count,
    CountKind,
    FreshWaitpoint,
    OperatorOnly,
    Single,
    TimeoutOnly,
    all_of_waitpoints,
)
from flowfabric.testing import ManualClock

from .flow_helpers import change_row
from .helpers import new_id, other_uuid, running
from .suspend_helpers import claim_resumed, park, park_held, pending, seed, signal

KEYS = tuple("abcde")
SIGS = CountKind.DISTINCT_SIGNALS


async def test_open_waitpoints_in_pages(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held, "ahead", 100)
    clock.advance(1)
    parked = await park_held(
        engine,
        ident,
        held,
        *KEYS,
        resume_condition=all_of_waitpoints(*KEYS),
        timeout_at=clock() + 50,
    )
    await engine.close_waitpoint(ident, parked.by_key["c"].waitpoint_id)
    expected = sorted(
        w.waitpoint_id for w in (ahead, *parked.by_key.values()) if w.waitpoint_key != "c"
    )
    found, after = [], None
    for size in (2, 2, 1):
        page: Page = await engine.list_pending_waitpoints(ident, after, 2)
        assert len(page.items) == size
        found += page.items
        after = page.next_cursor
    assert after is None and [w.waitpoint_id for w in found] == expected
    assert [w.waitpoint_id for w in (await engine.list_pending_waitpoints(ident)).items] == expected
    one = next(w for w in found if w.waitpoint_key == "a")
    assert (one.state, one.created_at, one.activated_at, one.expires_at) == (
        "active",
        clock(),
        clock(),
        clock() + 50,
    )
    assert (one.execution_id, one.token_kid) == (ident, "k1")
    assert (
        one.token_fingerprint == parked.by_key["a"].waitpoint_token[3:19]
        and len(one.token_fingerprint) == 16
    )
    early = next(w for w in found if w.waitpoint_key == "ahead")
    assert (early.state, early.activated_at, early.required_signal_names) == ("pending", None, ())
    assert early.expires_at == clock() - 1 + 100
    await engine.resume_execution(ident)
    assert [w.waitpoint_key for w in (await engine.list_pending_waitpoints(ident)).items] == [
        "ahead"
    ]


async def test_limits_and_strangers(engine: Engine) -> None:
    await seed(engine)
    with pytest.raises(NotFound, match="execution"):
        await engine.list_pending_waitpoints(new_id())
    parked = await park(engine, *KEYS, resume_condition=all_of_waitpoints(*KEYS))
    assert len((await engine.list_pending_waitpoints(parked.ident, limit=0)).items) == 1
    assert len((await engine.list_pending_waitpoints(parked.ident, limit=5_000)).items) == 5
    other, _ = await running(engine)
    assert (await engine.list_pending_waitpoints(other)).items == []
    where = {
        "partition_key": parked.ident.partition_index,
        "waitpoint_id": parked.waitpoint.waitpoint_id,
    }
    await change_row(engine, "ff_waitpoint_pending", where, token_digest="malformed")
    shown = {w.waitpoint_id: w for w in (await engine.list_pending_waitpoints(parked.ident)).items}
    broken = shown[parked.waitpoint.waitpoint_id]
    assert (broken.token_kid, broken.token_fingerprint) == ("", "")


async def test_the_names_each_waits_for(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    condition = AllOf(
        (
            Single("a", "y"),
            Single("b"),
            Count(1, SIGS, ("a", "b"), "x"),
            Single("a", "y"),
            OperatorOnly(),
            TimeoutOnly(),
        )
    )
    parked = await park(engine, "a", "b", resume_condition=condition, timeout_at=clock() + 10)
    found = {
        w.waitpoint_key: w.required_signal_names
        for w in (await engine.list_pending_waitpoints(parked.ident)).items
    }
    both = ("__operator_only__", "__timeout_only__")
    assert found == {"a": ("y", "x", *both), "b": ("x", *both)}


async def test_all_open_waitpoints_oldest_first(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    for key in KEYS:
        clock.advance(1)
        await park(engine, key, made={"lane_id": key})
    done = await park(engine, "done", made={"lane_id": "done"})
    await signal(engine, done)
    found, after = [], None
    for size in (2, 2, 1):
        page: Page = await engine.list_open_waitpoints(after, 2)
        assert len(page.items) == size
        found += [w.waitpoint_key for w in page.items]
        after = page.next_cursor
    assert after is None and tuple(found) == KEYS


async def suspended_in_turn(
    engine: Engine, clock: ManualClock, count: int = 5
) -> list[ExecutionId]:
    """In one partition, ids rising with the time of their suspension."""
    idents = sorted((new_id(7) for _ in range(count)), key=lambda i: i.uuid)
    for at, ident in enumerate(idents):
        clock.advance(1)
        await park(
            engine,
            made={"execution_id": ident, "lane_id": f"l{at}"},
            reason_code="waiting_for_approval",
        )
    return idents


async def test_suspended_executions_in_pages(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    idents = await suspended_in_turn(engine, clock)
    await park(engine, made={"execution_id": new_id(8), "lane_id": "elsewhere"})
    found, cursor = [], None
    for size in (2, 2, 1):
        page: Page = await engine.list_suspended(7, cursor, 2)
        assert len(page.items) == size
        found += page.items
        cursor = page.next_cursor
    assert cursor is None and [s.execution_id for s in found] == idents
    assert [s.suspended_at_ms for s in found] == [clock() - 4 + at for at in range(5)]
    assert {s.reason for s in found} == {"waiting_for_approval"}
    assert await engine.list_suspended(7, limit=0) == Page([])
    with pytest.raises(ValidationError, match="list_suspended: partition") as caught:
        await engine.list_suspended("nonsense")
    assert caught.value.kind is ValidationKind.INVALID_INPUT


async def test_a_cursor_whose_execution_went_on(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    idents = await suspended_in_turn(engine, clock)
    page: Page = await engine.list_suspended(7, None, 2)
    assert page.next_cursor == idents[1]
    await engine.resume_execution(idents[1])
    assert [s.execution_id for s in (await engine.list_suspended(7, idents[1], 9)).items] == idents[
        2:
    ]
    await claim_resumed(engine, idents[1])
    assert [s.execution_id for s in (await engine.list_suspended(7, idents[1], 9)).items] == idents[
        2:
    ]


async def test_tokens_of_open_waitpoints_only(engine: Engine) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held, "ahead")
    parked = await park_held(
        engine, ident, held, waitpoints=[FreshWaitpoint(uuid4())], resume_condition=OperatorOnly()
    )
    assert parked.waitpoint.waitpoint_key == f"wpk:{parked.waitpoint.waitpoint_id}"
    at = ident.partition_index
    for bound in (ahead, parked.waitpoint):
        assert await engine.read_waitpoint_token(at, bound.waitpoint_id) == bound.waitpoint_token
        assert await engine.read_waitpoint_token(at + 1, bound.waitpoint_id) is None
        await engine.close_waitpoint(ident, bound.waitpoint_id)
        assert await engine.read_waitpoint_token(at, bound.waitpoint_id) is None
    assert await engine.read_waitpoint_token(at, other_uuid()) is None
    with pytest.raises(ValidationError, match="partition"):
        await engine.read_waitpoint_token("nonsense", ahead.waitpoint_id)


@pytest.mark.meets("suspend", "cancel", "replay")
@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
async def test_waitpoints_that_an_ended_execution_never_used_are_not_listed(
    engine: Engine, clock: ManualClock, end: str
) -> None:
    await seed(engine)
    ident, held = await running(engine)
    unused = await pending(engine, held, "unused")
    clock.advance(1)
    other = await park(engine, "asked")
    assert [each.waitpoint_id for each in (await engine.list_open_waitpoints()).items] == [
        unused.waitpoint_id,
        other.waitpoint.waitpoint_id,
    ]
    if end == "complete":
        await engine.complete(held, b"")
    elif end == "fail":
        await engine.fail(held, "boom", FailureClass.PERMANENT)
    else:
        await engine.cancel_execution(CancelExecutionArgs(execution_id=ident))
    for size in (1, 2, 100):
        page: Page = await engine.list_open_waitpoints(None, size)
        assert ([each.waitpoint_id for each in page.items], page.next_cursor) == (
            [other.waitpoint.waitpoint_id],
            None,
        )
    assert (await engine.list_pending_waitpoints(ident)).items == []
    await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    if end != "cancel":
        assert [
            each.waitpoint_id for each in (await engine.list_pending_waitpoints(ident)).items
        ] == [unused.waitpoint_id]
