"""Following the outbox: in order, without gaps, from any cursor, narrowed by a filter."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.codec.event_cursor import BEGINNING, encode_cursor
from flowfabric.engine.engine import Engine
from flowfabric.engine.events.subscriptions import Subscription
from flowfabric.errors import StreamBackpressure, StreamDisconnected, TransportError
from flowfabric.ids import ExecutionId, lease_mark
from flowfabric.model.attempt import FailureClass
from flowfabric.model.event import CompletionEvent, LeaseEvent, OperatorEvent, ScannerFilter
from flowfabric.model.execution import CancelExecutionArgs, ChangePriorityArgs, CreateExecutionArgs
from flowfabric.store.port import EVENT_PAGE
from flowfabric.testing import ManualClock
from tests.patience import patience, patient

from .helpers import (
    LANE,
    claim,
    completed,
    create,
    fields,
    new_id,
    parked,
    running,
    two_stores,
    worker,
)

SOON_S = 5


async def nxt(following: Subscription[Any]) -> Any:
    return await asyncio.wait_for(anext(following), patience(SOON_S))


async def take(following: Subscription[Any], count: int) -> list[Any]:
    return [await nxt(following) for _ in range(count)]


async def silent(
    engine: Engine, following: Subscription[Any], channel: str = "ff_completion_event"
) -> bool:
    """No more events: the reader sleeps on its channel instead of returning."""
    task = asyncio.ensure_future(anext(following))
    await asyncio.wait(
        (task, asyncio.ensure_future(parked(engine, channel))), return_when=asyncio.FIRST_COMPLETED
    )
    await asyncio.wait((task,), timeout=0.03)
    done = task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return not done


async def cancelled(engine: Engine, count: int, **said: Any) -> list[ExecutionId]:
    """Ends this many executions the cheap way; one completion event each."""
    many = [CreateExecutionArgs(execution_id=new_id(), **said) for _ in range(count)]
    await engine.create_executions(many)
    await asyncio.gather(
        *(engine.cancel_execution(CancelExecutionArgs(execution_id=a.execution_id)) for a in many)
    )
    return [a.execution_id for a in many]


# ---- where it starts


async def test_a_tail_sees_what_is_committed_after_the_call(engine: Engine) -> None:
    await completed(engine)
    following = await engine.subscribe_completion()
    ident, _ = await completed(engine)
    event = await nxt(following)
    assert (event.execution_id, event.outcome) == (ident, "Success")


async def test_a_tail_on_an_empty_channel_sees_the_first_event(engine: Engine) -> None:
    following = await engine.subscribe_completion()
    ident, _ = await completed(engine)
    assert (await nxt(following)).execution_id == ident


async def test_from_the_beginning_everything_is_seen(engine: Engine) -> None:
    made = [(await completed(engine))[0] for _ in range(3)]
    assert [e.execution_id for e in await take(engine.subscribe_completion(BEGINNING), 3)] == made


async def test_a_resumed_subscriber_skips_what_it_has_seen(engine: Engine) -> None:
    made = [(await completed(engine))[0] for _ in range(4)]
    first = engine.subscribe_completion(BEGINNING)
    seen = await take(first, 2)
    assert first.cursor == seen[-1].cursor
    rest = await take(engine.subscribe_completion(seen[-1].cursor), 2)
    assert [e.execution_id for e in seen + rest] == made


async def test_any_cursor_yields_exactly_the_suffix(engine: Engine) -> None:
    for _ in range(6):
        await completed(engine)
    everything = await take(engine.subscribe_lease_history(BEGINNING), 12)
    cursors = [e.cursor for e in everything]
    assert cursors == sorted(cursors) and len(set(cursors)) == 12
    for at in range(11):
        rest = await take(engine.subscribe_lease_history(cursors[at]), 11 - at)
        assert rest == everything[at + 1 :]


async def test_a_cursor_ahead_of_everything_waits_for_what_comes_later(engine: Engine) -> None:
    await completed(engine)
    following = engine.subscribe_completion(encode_cursor(2))
    await completed(engine)
    third, _ = await completed(engine)
    assert (await nxt(following)).execution_id == third


# ---- what it carries


async def test_lease_events_carry_the_lease(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    clock.advance(4)
    await engine.renew(handle)
    first, second = await take(engine.subscribe_lease_history(BEGINNING), 2)
    held = fields(handle)
    assert isinstance(first, LeaseEvent)
    assert (first.execution_id, first.kind, first.lease_id, first.lease_epoch) == (
        ident,
        "acquired",
        lease_mark(held.lease_id),
        1,
    )
    assert (second.kind, second.worker_instance_id, second.at) == ("renewed", "w1-i1", clock())


@pytest.mark.parametrize(
    ("end", "outcome"),
    [("complete", "Success"), ("fail", "Failure"), ("cancel", "Cancelled"), ("expire", "expired")],
)
async def test_completion_events_carry_the_outcome(
    engine: Engine, clock: ManualClock, end: str, outcome: str
) -> None:
    ident, handle = await running(
        engine, execution_id=new_id(42), execution_deadline_at=clock() + 5
    )
    match end:
        case "complete":
            await engine.complete(handle)
        case "fail":
            await engine.fail(handle, "boom", FailureClass.PERMANENT)
        case "cancel":
            await engine.cancel(handle)
        case _:
            clock.advance(5)
            await engine.expire_execution(ident, "execution_deadline")
    event = await nxt(engine.subscribe_completion(BEGINNING))
    assert isinstance(event, CompletionEvent)
    assert (event.execution_id, event.outcome, event.at, event.flow_id) == (
        ident,
        outcome,
        clock(),
        None,
    )
    assert str(event.execution_id).startswith("{fp:42}:")


async def test_operator_events_carry_their_details(engine: Engine, clock: ManualClock) -> None:
    ident = await create(engine)
    await engine.change_priority(ChangePriorityArgs(execution_id=ident, new_priority=8))
    event = await nxt(engine.subscribe_operator_events(BEGINNING))
    assert isinstance(event, OperatorEvent)
    assert (event.subject_id, event.execution_id, event.kind) == (
        ident.uuid,
        ident,
        "priority_changed",
    )
    assert event.details == {"old_priority": 0, "new_priority": 8}


# ---- filters


@two_stores
@pytest.mark.parametrize(
    "wanted",
    [
        ScannerFilter(namespace="mine"),
        ScannerFilter(instance_tag=("cairn.instance_id", "blue")),
        ScannerFilter(instance_tag=("app.colour", "blue")),
        ScannerFilter("mine", ("app.colour", "blue")),
    ],
    ids=["namespace", "instance", "another tag", "both"],
)
@pytest.mark.parametrize("channel", ["completion", "lease_history", "operator_events"])
async def test_a_filtered_subscriber_sees_the_filter_of_everything(
    engine: Engine, wanted: ScannerFilter, channel: str
) -> None:
    mine = {"namespace": "mine", "tags": {"cairn.instance_id": "blue", "app.colour": "blue"}}
    other = {"namespace": "other", "tags": {"cairn.instance_id": "red", "app.colour": "red"}}
    made: list[ExecutionId] = []
    for said in (other, mine, {"namespace": "other"}, mine, other):
        ident = await create(engine, **said)
        await engine.change_priority(ChangePriorityArgs(execution_id=ident, new_priority=1))
        await engine.complete(await claim(engine, worker(namespace=said["namespace"])))
        if said is mine:
            made.append(ident)
    following = getattr(engine, f"subscribe_{channel}")(BEGINNING, wanted)
    per = 2 if channel == "lease_history" else 1
    seen = await take(following, 2 * per)
    assert [e.execution_id for e in seen] == [i for i in made for _ in range(per)]
    table = {
        "completion": "ff_completion_event",
        "lease_history": "ff_lease_event",
        "operator_events": "ff_operator_event",
    }
    assert await silent(engine, following, table[channel])


async def test_both_parts_of_a_filter_must_match(engine: Engine) -> None:
    following = await engine.subscribe_completion(
        b"", ScannerFilter("mine", ("app.colour", "blue"))
    )
    await completed(engine, namespace="mine", tags={"app.colour": "red"})
    await completed(engine, namespace="other", tags={"app.colour": "blue"})
    await completed(engine, namespace="mine")
    ident, _ = await completed(engine, namespace="mine", tags={"app.colour": "blue"})
    assert (await nxt(following)).execution_id == ident


async def test_filtered_rows_do_not_stall_the_reader(engine: Engine) -> None:
    """More than two pages that do not match, then one that does."""
    await cancelled(engine, 2 * EVENT_PAGE + 10, namespace="noise")
    (ident,) = await cancelled(engine, 1, namespace="mine")
    following = engine.subscribe_completion(BEGINNING, ScannerFilter(namespace="mine"))
    assert (await nxt(following)).execution_id == ident


async def test_filtered_rows_are_not_read_again(engine: Engine) -> None:
    following = await engine.subscribe_completion(b"", ScannerFilter(namespace="mine"))
    before = following.cursor
    await cancelled(engine, 3, namespace="noise")
    assert await silent(engine, following)
    assert following.cursor > before


async def test_pages_follow_each_other_without_gap_or_repeat(engine: Engine) -> None:
    made = set(await cancelled(engine, EVENT_PAGE + 30))
    following = engine.subscribe_completion(BEGINNING)
    seen = await take(following, EVENT_PAGE + 30)
    assert {e.execution_id for e in seen} == made
    cursors = [e.cursor for e in seen]
    assert cursors == sorted(set(cursors))
    assert await silent(engine, following)


# ---- waking and closing


async def test_a_waiting_subscriber_is_woken_right_after_the_commit(engine: Engine) -> None:
    following = await engine.subscribe_completion()
    ident, handle = await running(engine)
    waiting = asyncio.create_task(anext(following))  # type: ignore[arg-type]
    await parked(engine, "ff_completion_event")
    await asyncio.wait((waiting,), timeout=0.02)
    assert not waiting.done()
    await engine.complete(handle)
    event = await asyncio.wait_for(waiting, 2)
    assert event.execution_id == ident


async def test_two_subscribers_each_see_everything(engine: Engine) -> None:
    one, two = await engine.subscribe_completion(), await engine.subscribe_completion()
    tasks = [asyncio.create_task(take(s, 3)) for s in (one, two)]
    made = [(await completed(engine))[0] for _ in range(3)]
    for seen in await asyncio.gather(*tasks):
        assert [e.execution_id for e in seen] == made


async def test_close_releases_waiters_and_ends_the_iteration(engine: Engine) -> None:
    following = await engine.subscribe_completion()

    async def follow() -> list[Any]:
        return [event async for event in following]

    task = asyncio.create_task(follow())
    ident, _ = await completed(engine)
    async with patient(SOON_S):
        while following.cursor == BEGINNING:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await parked(engine, "ff_completion_event")
    following.close()
    assert [e.execution_id for e in await asyncio.wait_for(task, 2)] == [ident]
    assert engine.store.hub.waiters == {}


async def test_closing_one_does_not_close_another(engine: Engine) -> None:
    one, two = await engine.subscribe_completion(), await engine.subscribe_completion()
    waiting = asyncio.create_task(nxt(two))
    one.close()
    with pytest.raises(StopAsyncIteration):
        await anext(one)
    ident, _ = await completed(engine)
    assert (await waiting).execution_id == ident


# ---- retention and failures


async def test_a_trimmed_cursor_is_reported_once_and_then_continues(
    engine: Engine, clock: ManualClock
) -> None:
    await completed(engine)
    cursor = (await nxt(engine.subscribe_completion(BEGINNING))).cursor
    await completed(engine)
    clock.advance(10)
    kept, _ = await completed(engine)
    assert await engine.trim_retention(LANE, 10) == 2
    following = engine.subscribe_completion(cursor)
    with pytest.raises(StreamBackpressure) as caught:
        await nxt(following)
    assert caught.value.code == "stream_backpressure" and not caught.value.retryable
    event = await nxt(following)
    assert event.execution_id == kept
    assert await silent(engine, engine.subscribe_completion(event.cursor))


async def test_a_cursor_at_or_above_what_was_trimmed_is_not_bothered(
    engine: Engine, clock: ManualClock
) -> None:
    await completed(engine)
    cursor = (await nxt(engine.subscribe_completion(BEGINNING))).cursor
    await engine.trim_retention(LANE, 0)
    ident, _ = await completed(engine)
    assert (await nxt(engine.subscribe_completion(cursor))).execution_id == ident
    assert (await nxt(engine.subscribe_completion(encode_cursor(1)))).execution_id == ident


async def test_a_passing_failure_of_the_store_is_not_shown(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, _ = await completed(engine)
    read, failures = engine.store.read_events, [TransportError("x", "away")]

    async def shaky(*asked: Any) -> Any:
        if failures:
            raise failures.pop()
        return await read(*asked)

    monkeypatch.setattr(engine.store, "read_events", shaky)
    monkeypatch.setattr("flowfabric.engine.events.subscriptions.FIRST_RETRY_S", 0.001)
    assert (await nxt(engine.subscribe_completion(BEGINNING))).execution_id == ident


async def test_a_lasting_failure_disconnects_at_the_last_cursor(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await completed(engine)
    following = engine.subscribe_completion(BEGINNING)
    event = await nxt(following)

    async def gone(*asked: Any) -> Any:
        raise TransportError("x", "closed", backend_kind="protocol")

    monkeypatch.setattr(engine.store, "read_events", gone)
    with pytest.raises(StreamDisconnected) as caught:
        await nxt(following)
    assert caught.value.cursor == event.cursor
