"""Signals: duplicates, limits, senders, approvals, and what the worker receives."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, StateKind, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.lease import Handle
from flowfabric.model.policy import ExecutionPolicy
from flowfabric.model.waitpoint import (
    MAX_SIGNAL_BYTES,
    ApprovalSignalArgs,
    BoundWaitpoint,
    Count,
    CountKind,
    FreshWaitpoint,
    OperatorOnly,
    SignalAccepted,
    SignalDuplicate,
    Single,
    all_of_waitpoints,
)
from flowfabric.store.port import Row
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock

from .helpers import LANE, claim, dump, new_id, other_uuid, outbox, refused, row, running, state
from .suspend_helpers import (
    KEY,
    Parked,
    bad_token,
    claim_resumed,
    duplicate,
    park,
    park_held,
    pending,
    seed,
    signal,
    signal_args,
    signals,
    sound,
    suspension,
)

MET, ADDED = "resume_condition_satisfied", "appended_to_waitpoint"
STAMP = TABLES["ff_exec_core"].names.index("last_hmac_validation_failed_at")


# ---- doubles


async def test_a_key_is_taken_once_before_and_after_the_end(
    engine: Engine, clock: ManualClock
) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=Single(KEY, "go"))
    first, last = other_uuid(), other_uuid()
    assert await signal(engine, parked, "wait", idempotency_key="a", signal_id=first) == ADDED
    before = await dump(engine)
    assert await duplicate(engine, parked, "go", idempotency_key="a") == first
    assert await dump(engine) == before
    assert await signal(engine, parked, "go", idempotency_key="b", signal_id=last) == MET
    before = await dump(engine)
    assert await duplicate(engine, parked, idempotency_key="a") == first
    assert await duplicate(engine, parked, idempotency_key="b") == last
    assert await dump(engine) == before
    other = signal_args(parked.ident, parked.waitpoint, idempotency_key="c")
    await refused(engine.deliver_signal(other), StateKind.TARGET_NOT_SIGNALABLE)
    taken = await claim_resumed(engine, parked.ident)
    await engine.complete(taken.handle)
    assert await duplicate(engine, parked, idempotency_key="b") == last
    await refused(engine.deliver_signal(other), StateKind.TARGET_NOT_SIGNALABLE)
    await sound(engine)


async def test_a_key_is_forgotten_in_time(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=OperatorOnly())
    one, two = other_uuid(), other_uuid()
    await signal(engine, parked, idempotency_key="a", signal_id=one, dedup_ttl_ms=100)
    clock.advance(99)
    assert await duplicate(engine, parked, idempotency_key="a") == one
    clock.advance(1)
    assert await signal(engine, parked, idempotency_key="a", signal_id=two) == ADDED
    assert await duplicate(engine, parked, idempotency_key="a") == two
    assert await signal(engine, parked, idempotency_key="a", dedup_ttl_ms=0) == ADDED
    for key in (None, ""):
        assert await signal(engine, parked, idempotency_key=key) == ADDED
    assert await engine.forget_signal_keys() == 0
    clock.advance(86_400_000)
    assert await engine.forget_signal_keys() == 1


async def test_a_key_belongs_to_its_waitpoint(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine, "a", "b", resume_condition=all_of_waitpoints("a", "b"))
    assert await signal(engine, parked, key="a", idempotency_key="k") == ADDED
    assert await signal(engine, parked, key="b", idempotency_key="k") == MET


async def test_an_early_double_is_buffered_once(engine: Engine) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held)
    first = await engine.deliver_signal(signal_args(ident, ahead, idempotency_key="k"))
    again = await engine.deliver_signal(signal_args(ident, ahead, idempotency_key="k"))
    assert isinstance(first, SignalAccepted) and again == SignalDuplicate(first.signal_id)
    assert len(await signals(engine, ident)) == 1


# ---- limits


async def test_so_many_signals_and_no_more(engine: Engine) -> None:
    await seed(engine)
    parked = await park(
        engine, "a", "b", resume_condition=Count(9, CountKind.DISTINCT_SIGNALS, ("a", "b"))
    )
    for at, key in enumerate("aba"):
        await signal(engine, parked, key=key, max_signals_per_execution=at + 1)
    before = await dump(engine)
    for key in "ab":
        with pytest.raises(ValidationError) as caught:
            await signal(engine, parked, key=key, max_signals_per_execution=3)
        assert caught.value.kind is ValidationKind.SIGNAL_LIMIT_EXCEEDED
    assert await dump(engine) == before
    assert await signal(engine, parked, max_signals_per_execution=0) == ADDED
    assert await signal(engine, parked) == ADDED


@pytest.mark.parametrize(
    ("stated", "asked", "most"), [(2, 10_000, 2), (2, 0, 2), (5, 2, 2), (0, 2, 2), (10_000, 3, 3)]
)
async def test_the_policy_of_an_execution_limits_its_signals_too(
    engine: Engine, stated: int, asked: int, most: int
) -> None:
    await seed(engine)
    policy = ExecutionPolicy(max_signals_per_execution=stated)
    parked = await park(engine, made={"policy": policy}, resume_condition=OperatorOnly())
    for _ in range(most):
        assert await signal(engine, parked, max_signals_per_execution=asked) == ADDED
    with pytest.raises(ValidationError) as caught:
        await signal(engine, parked, max_signals_per_execution=asked)
    assert caught.value.kind is ValidationKind.SIGNAL_LIMIT_EXCEEDED
    assert len(await signals(engine, parked.ident)) == most


async def test_the_limit_holds_ahead_and_over_suspensions(engine: Engine) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held, "ahead")
    await engine.deliver_signal(signal_args(ident, ahead, max_signals_per_execution=1))
    with pytest.raises(ValidationError) as caught:
        await engine.deliver_signal(signal_args(ident, ahead, max_signals_per_execution=1))
    assert caught.value.kind is ValidationKind.SIGNAL_LIMIT_EXCEEDED
    parked = await park_held(engine, ident, held)
    assert await signal(engine, parked, max_signals_per_execution=2) == MET
    taken = await claim_resumed(engine, ident)
    again = await park_held(engine, ident, taken.handle, "b")
    with pytest.raises(ValidationError) as caught:
        await signal(engine, again, max_signals_per_execution=2)
    assert caught.value.kind is ValidationKind.SIGNAL_LIMIT_EXCEEDED


async def test_the_same_signal_again_counts_once_for_the_limit(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=OperatorOnly())
    one = other_uuid()
    for _ in range(3):
        assert await signal(engine, parked, signal_id=one, max_signals_per_execution=2) == ADDED
    assert await signal(engine, parked, max_signals_per_execution=2) == ADDED
    with pytest.raises(ValidationError) as caught:
        await signal(engine, parked, max_signals_per_execution=2)
    assert caught.value.kind is ValidationKind.SIGNAL_LIMIT_EXCEEDED


async def test_a_waitpoint_used_again_does_not_forget_what_it_was_sent(engine: Engine) -> None:
    await seed(engine)
    again = [FreshWaitpoint(other_uuid(), KEY)]
    parked = await park(engine, waitpoints=again)
    await signal(engine, parked)
    taken = await claim_resumed(engine, parked.ident)
    second = await park_held(engine, parked.ident, taken.handle, waitpoints=again)
    with pytest.raises(ValidationError) as caught:
        await signal(engine, second, max_signals_per_execution=1)
    assert caught.value.kind is ValidationKind.SIGNAL_LIMIT_EXCEEDED


async def test_a_payload_has_a_size(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=OperatorOnly())
    largest = bytes(range(256)) * (MAX_SIGNAL_BYTES // 256)
    assert await signal(engine, parked, payload=largest, payload_encoding="nonsense") == ADDED
    assert [s.payload for s in await engine.observe_signals(parked.handle)] == [largest]
    before = await dump(engine)
    for token in (parked.waitpoint.waitpoint_token, ""):
        with pytest.raises(ValidationError) as caught:
            await signal(engine, parked, payload=largest + b"x", waitpoint_token=token)
        assert caught.value.kind is ValidationKind.PAYLOAD_TOO_LARGE
    assert await dump(engine) == before
    assert await signal(engine, parked, payload=b"") == ADDED
    assert sorted(s.payload or b"" for s in await engine.observe_signals(parked.handle)) == [
        b"",
        largest,
    ]


# ---- a bad token wins over everything


def unstamped(tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    cores = [(*core[:STAMP], None, *core[STAMP + 1 :]) for core in tables["ff_exec_core"]]
    return {**tables, "ff_exec_core": cores}


async def in_every_state(
    engine: Engine,
) -> dict[str, tuple[ExecutionId, BoundWaitpoint, StateKind | None]]:
    """Waitpoints of executions in each state, and what a good signal to them is answered."""
    found: dict[str, tuple[ExecutionId, BoundWaitpoint, StateKind | None]] = {}
    over, done = (
        await park(engine, made={"lane_id": "over"}),
        await park(engine, made={"lane_id": "done"}),
    )
    await engine.cancel_execution(CancelExecutionArgs(execution_id=over.ident))
    await signal(engine, done)
    found["terminal"] = (over.ident, over.waitpoint, StateKind.TARGET_NOT_SIGNALABLE)
    found["resumable"] = (done.ident, done.waitpoint, StateKind.TARGET_NOT_SIGNALABLE)
    active = await park(engine, made={"lane_id": "active"})
    await signal(engine, active)
    await claim_resumed(engine, active.ident)
    found["active"] = (active.ident, active.waitpoint, StateKind.TARGET_NOT_SIGNALABLE)
    again = await park(engine, made={"lane_id": "again"})
    await signal(engine, again)
    taken = await claim_resumed(engine, again.ident)
    await park_held(engine, again.ident, taken.handle)
    found["of an earlier suspension"] = (again.ident, again.waitpoint, StateKind.WAITPOINT_CLOSED)
    closed = await park(engine, made={"lane_id": "closed"})
    await engine.close_waitpoint(closed.ident, closed.waitpoint.waitpoint_id)
    found["closed"] = (closed.ident, closed.waitpoint, StateKind.WAITPOINT_CLOSED)
    ident, held = await running(engine, lane_id="pending")
    found["pending"] = (ident, await pending(engine, held), None)
    waiting = await park(engine, made={"lane_id": "waiting"})
    found["suspended"] = (waiting.ident, waiting.waitpoint, None)
    return found


def tampered(token: str) -> str:
    return token[:-1] + ("0" if token[-1] != "0" else "1")


async def test_a_bad_token_wins_over_every_state(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    everyone = await in_every_state(engine)
    strange = (await park(engine, made={"lane_id": "strange"})).waitpoint
    for ident, mailbox, kind in everyone.values():
        before = await dump(engine)
        token = mailbox.waitpoint_token
        for wrong, code in (
            ("", "missing_token"),
            ("nonsense", "invalid_token"),
            (":" + token.split(":")[1], "invalid_token"),
            (token + "0", "invalid_token"),
            ("k9:" + token.split(":")[1], "invalid_token"),
            (tampered(token), "invalid_token"),
            (token.upper().replace("K1", "k1"), "invalid_token"),
            (strange.waitpoint_token, "invalid_token"),
        ):
            clock.advance(1)
            await bad_token(
                engine.deliver_signal(signal_args(ident, mailbox, waitpoint_token=wrong)), code
            )
            assert (await row(engine, ident)).last_hmac_validation_failed_at == clock()
        foreign = structs.replace(signal_args(ident, mailbox), waitpoint_id=strange.waitpoint_id)
        await bad_token(engine.deliver_signal(foreign), "invalid_token")
        await bad_token(
            engine.deliver_signal(
                structs.replace(foreign, waitpoint_token=strange.waitpoint_token)
            ),
            "invalid_token",
        )
        unknown = structs.replace(foreign, waitpoint_id=other_uuid())
        await bad_token(engine.deliver_signal(unknown), "invalid_token")
        assert unstamped(await dump(engine)) == unstamped(before)
        before = await dump(engine)
        if kind is not None:
            await refused(engine.deliver_signal(signal_args(ident, mailbox)), kind)
            assert await dump(engine) == before


async def test_a_bad_token_is_refused_before_a_duplicate(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine)
    await signal(engine, parked, idempotency_key="k")
    wrong = signal_args(
        parked.ident,
        parked.waitpoint,
        idempotency_key="k",
        waitpoint_token=tampered(parked.waitpoint.waitpoint_token),
    )
    await bad_token(engine.deliver_signal(wrong), "invalid_token")


async def test_an_unknown_execution(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine)
    with pytest.raises(NotFound, match="execution"):
        await engine.deliver_signal(signal_args(new_id(), parked.waitpoint))


# ---- approvals


def approval(parked: Parked, **said: Any) -> ApprovalSignalArgs:
    known: dict[str, Any] = {
        "execution_id": parked.ident,
        "lane_id": LANE,
        "waitpoint_id": parked.waitpoint.waitpoint_id,
    }
    return ApprovalSignalArgs(**{**known, **said})


async def test_approvals(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=Single(KEY, "approved"))
    before = await dump(engine)
    with pytest.raises(NotFound, match="execution"):
        await engine.deliver_approval_signal(approval(parked, execution_id=new_id()))
    with pytest.raises(
        ValidationError, match=r"lane_mismatch: args\.lane_id=other exec_core\.lane_id=default"
    ):
        await engine.deliver_approval_signal(
            approval(parked, lane_id="other", waitpoint_id=other_uuid())
        )
    with pytest.raises(NotFound, match="waitpoint"):
        await engine.deliver_approval_signal(approval(parked, waitpoint_id=other_uuid()))
    assert await dump(engine) == before
    no = await engine.deliver_approval_signal(
        approval(parked, signal_name="rejected", idempotency_suffix="1")
    )
    assert isinstance(no, SignalAccepted) and no.effect == ADDED
    again = await engine.deliver_approval_signal(
        approval(parked, signal_name="rejected", idempotency_suffix="1")
    )
    assert again == SignalDuplicate(no.signal_id)
    clock.advance(1)
    yes = await engine.deliver_approval_signal(approval(parked, idempotency_suffix="1"))
    assert isinstance(yes, SignalAccepted) and yes.effect == MET
    assert await engine.deliver_approval_signal(
        approval(parked, idempotency_suffix="1")
    ) == SignalDuplicate(yes.signal_id)
    stored = (await signals(engine, parked.ident))[-1]
    assert (stored.signal_category, stored.source_type, stored.source_identity) == (
        "approval",
        "operator",
        "",
    )
    assert (stored.target_scope, stored.idempotency_key, stored.payload) == (
        "execution",
        "approval:approved:1",
        None,
    )
    late = approval(parked, idempotency_suffix="2")
    await refused(engine.deliver_approval_signal(late), StateKind.TARGET_NOT_SIGNALABLE)
    await sound(engine)


async def test_all_approvals_come_from_one_source(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=Count(2, CountKind.DISTINCT_SOURCES, (KEY,)))
    effects = [
        await engine.deliver_approval_signal(approval(parked, idempotency_suffix=str(at)))
        for at in range(2)
    ]
    assert [getattr(e, "effect", "") for e in effects] == [ADDED, "appended_to_waitpoint_duplicate"]


# ---- what the worker sees


async def names(engine: Engine, handle: Handle) -> list[str]:
    return [seen.signal_name for seen in await engine.observe_signals(handle)]


async def test_what_each_kind_of_handle_sees(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    assert await names(engine, held) == []
    parked = await park_held(
        engine, ident, held, "a", "b", resume_condition=all_of_waitpoints("a", "b")
    )
    assert await names(engine, parked.handle) == []
    for name, key in (("one", "a"), ("double", "a"), ("two", "b")):
        clock.advance(1)
        await signal(
            engine,
            parked,
            name,
            key,
            payload=name.encode(),
            correlation_id="c",
            signal_category="cat",
        )
    assert await names(engine, parked.handle) == ["one", "double", "two"]
    taken = await claim_resumed(engine, ident)
    seen = await engine.observe_signals(taken.handle)
    assert [(s.signal_name, s.payload, s.correlation_id, s.signal_category) for s in seen] == [
        ("one", b"one", "c", "cat"),
        ("two", b"two", "c", "cat"),
    ]
    assert seen[-1].accepted_at == clock()
    assert await names(engine, parked.handle) == ["one", "double", "two"]
    again = await park_held(engine, ident, taken.handle, resume_condition=OperatorOnly())
    assert await names(engine, again.handle) == [] == await names(engine, parked.handle)
    await signal(engine, again, "late")
    assert await names(engine, again.handle) == ["late"]
    await engine.resume_execution(ident)
    assert await names(engine, (await claim_resumed(engine, ident)).handle) == []


async def test_another_attempt_sees_nothing(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    parked = await park(engine)
    await signal(engine, parked)
    taken = await claim_resumed(engine, parked.ident)
    assert await names(engine, taken.handle) == ["go"]
    await engine.fail(taken.handle, "again")
    clock.advance(60_000)
    await engine.promote_delayed(parked.ident)
    retried = await claim(engine)
    assert await names(engine, retried) == []
    assert await names(engine, parked.handle) == ["go"]


async def test_every_signal_has_an_event(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held, "ahead")
    stream = await engine.subscribe_signal_delivery()
    await engine.deliver_signal(signal_args(ident, ahead))
    parked = await park_held(engine, ident, held, resume_condition=Single(KEY, "go"))
    await signal(engine, parked, "other")
    await signal(engine, parked, idempotency_key="k")
    await duplicate(engine, parked, idempotency_key="k")
    events = [await anext(stream) for _ in range(3)]
    assert [e.effect for e in events] == ["Buffered", ADDED, "Satisfied"]
    assert {e.execution_id for e in events} == {ident} and {e.at for e in events} == {clock()}
    assert [e.source_identity for e in events] == ["tester"] * 3
    assert [e.signal_id for e in events] == [
        e["signal_id"] for e in await outbox(engine, "ff_signal_event", ident)
    ]
    assert (await suspension(engine, ident)).closer_signal_id == events[-1].signal_id
    resumed = engine.subscribe_signal_delivery(events[0].cursor)
    assert (await anext(resumed)).signal_id == events[1].signal_id
    assert await state(engine, ident) == "READY"
