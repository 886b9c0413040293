"""The first to end a suspension ends it for good: signals, timeouts, operators and cancels at once,
on several engines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import Contention, ContentionKind, EngineError, StateError, StateKind
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.waitpoint import Count, CountKind, SignalAccepted, Suspended, UsePending
from flowfabric.testing import ManualClock

from .helpers import row, running, state, told
from .suspend_helpers import (
    KEY,
    Parked,
    closed_for,
    park,
    pending,
    seed,
    signal_args,
    signals,
    sound,
    suspend_args,
    suspension,
    waitpoint,
)

ROUNDS = 6
MET = "resume_condition_satisfied"
Racer = Callable[[Engine, Parked], Awaitable[Any]]


def deliver(engine: Engine, parked: Parked) -> Awaitable[Any]:
    return engine.deliver_signal(signal_args(parked.ident, parked.waitpoint))


def time_out(engine: Engine, parked: Parked) -> Awaitable[Any]:
    return engine.expire_suspension(parked.ident)


def cancel(engine: Engine, parked: Parked) -> Awaitable[Any]:
    return engine.cancel_execution(CancelExecutionArgs(execution_id=parked.ident))


def resume(engine: Engine, parked: Parked) -> Awaitable[Any]:
    return engine.resume_execution(parked.ident)


async def outcome(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except EngineError as error:
        return error


async def at_once(engine: Engine, parked: Parked, *racers: Racer) -> list[Any]:
    """Each by an engine of its own on the same store."""
    return list(
        await asyncio.gather(*(outcome(racer(Engine(engine.store), parked)) for racer in racers))
    )


def won(answer: Any) -> bool:
    if isinstance(answer, SignalAccepted):
        return answer.effect == MET
    if isinstance(answer, str):
        return answer in ("failed", "auto_resumed")
    return not isinstance(answer, EngineError)


async def test_two_signals_complete_it_once(engine: Engine) -> None:
    await seed(engine)
    for at in range(ROUNDS):
        parked = await park(engine, made={"lane_id": f"l{at}"})
        answers = await at_once(engine, parked, deliver, deliver, deliver)
        assert sum(won(answer) for answer in answers) == 1
        for answer in answers:
            assert won(answer) or (
                isinstance(answer, StateError) and answer.kind is StateKind.TARGET_NOT_SIGNALABLE
            )
        assert (await told(engine, parked.ident))["DONE"] == ["resumable"]
        assert await state(engine, parked.ident) == "READY"
        assert len(await signals(engine, parked.ident)) == 1
    await sound(engine)


@pytest.mark.parametrize("behavior", ["fail", "auto_resume_with_timeout_signal"])
async def test_a_signal_against_the_timeout(
    engine: Engine, clock: ManualClock, behavior: str
) -> None:
    await seed(engine)
    for at in range(ROUNDS):
        parked = await park(
            engine, made={"lane_id": f"l{at}"}, timeout_at=clock() + 5, timeout_behavior=behavior
        )
        clock.advance(5)
        racers = (deliver, time_out) if at % 2 else (time_out, deliver)
        answers = await at_once(engine, parked, *racers)
        assert sum(won(answer) for answer in answers) == 1, answers
        reason, closed = await closed_for(engine, parked.ident)
        assert closed == {reason}
        assert len(await signals(engine, parked.ident)) == (0 if reason == "timed_out_fail" else 1)
        assert len((await told(engine, parked.ident))["DONE"]) == (
            0 if reason == "timed_out_auto_resume" else 1
        )
    await sound(engine)


async def test_a_signal_against_a_cancel(engine: Engine) -> None:
    """Cancelling works before and after: the signal is refused, or it resumed what is cancelled
    then.
    """
    await seed(engine)
    for at in range(ROUNDS):
        parked = await park(engine, made={"lane_id": f"l{at}"})
        racers = (deliver, cancel) if at % 2 else (cancel, deliver)
        answers = dict(zip(racers, await at_once(engine, parked, *racers), strict=True))
        assert won(answers[cancel])
        assert await state(engine, parked.ident) == "ENDED(cancelled)"
        signalled = won(answers[deliver])
        assert (await suspension(engine, parked.ident)).close_reason == (
            "resumed" if signalled else "cancelled"
        )
        assert (await told(engine, parked.ident))["DONE"] == (
            ["resumable"] if signalled else []
        ) + ["cancelled"]
        assert len(await signals(engine, parked.ident)) == int(signalled)
    await sound(engine)


async def test_a_signal_against_an_operator(engine: Engine) -> None:
    await seed(engine)
    for at in range(ROUNDS):
        parked = await park(engine, made={"lane_id": f"l{at}"})
        answers = await at_once(
            engine, parked, *((deliver, resume, resume) if at % 2 else (resume, deliver, resume))
        )
        assert sum(won(answer) for answer in answers) == 1, answers
        assert (await row(engine, parked.ident)).lease_epoch == 2
    await sound(engine)


async def test_no_signal_is_lost_among_many(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=Count(3, CountKind.DISTINCT_SIGNALS, (KEY,)))
    left, accepted = 9, 0
    while await state(engine, parked.ident) == "SUSPENDED" and left:
        left -= 1
        answers = await at_once(engine, parked, deliver, deliver)
        accepted += sum(isinstance(answer, SignalAccepted) for answer in answers)
    assert accepted == len(await signals(engine, parked.ident)) == 3
    assert (await waitpoint(engine, parked.ident, parked.waitpoint)).signal_count == 3
    await sound(engine)


async def test_one_key_is_accepted_once(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=Count(9, CountKind.DISTINCT_SIGNALS, (KEY,)))

    def keyed(by: Engine, waiting: Parked) -> Awaitable[Any]:
        return by.deliver_signal(signal_args(waiting.ident, waiting.waitpoint, idempotency_key="k"))

    answers = await at_once(engine, parked, keyed, keyed)
    assert sum(isinstance(answer, SignalAccepted) for answer in answers) == 1
    assert len(await signals(engine, parked.ident)) == 1


async def test_a_signal_while_its_mailbox_is_taken_into_use(engine: Engine) -> None:
    """It is either there already, or arrives afterwards: in both cases it ends the wait."""
    await seed(engine)
    for at in range(ROUNDS):
        ident, held = await running(engine, lane_id=f"l{at}")
        ahead = await pending(engine, held)
        calls = [
            engine.suspend(held, suspend_args(waitpoints=[UsePending(ahead.waitpoint_id)])),
            Engine(engine.store).deliver_signal(signal_args(ident, ahead)),
        ]
        answers = await asyncio.gather(*(calls if at % 2 else reversed(calls)))
        parked = next(answer for answer in answers if not isinstance(answer, SignalAccepted))
        assert await state(engine, ident) == (
            "READY" if isinstance(parked, Suspended) else "RUNNING"
        )
    await sound(engine)


async def test_suspending_twice_at_once(engine: Engine) -> None:
    await seed(engine)
    for at in range(ROUNDS):
        _, held = await running(engine, lane_id=f"l{at}")
        answers = await asyncio.gather(
            *(outcome(Engine(engine.store).suspend(held, suspend_args())) for _ in range(2))
        )
        assert sum(isinstance(answer, Suspended) for answer in answers) == 1
        (other,) = (answer for answer in answers if not isinstance(answer, Suspended))
        assert isinstance(other, Contention) and other.kind is ContentionKind.LEASE_CONFLICT
    await sound(engine)
