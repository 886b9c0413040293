"""Helpers of suspension tests: an engine with a key, suspending in one line, signals, reads of the
rows.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from msgspec import Struct

from flowfabric.engine.engine import Engine
from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Claimed, ClaimResumedArgs, Handle
from flowfabric.model.signing_key import Seeded
from flowfabric.model.waitpoint import (
    BoundWaitpoint,
    ConditionMet,
    DeliverSignalArgs,
    FreshWaitpoint,
    Signal,
    SignalAccepted,
    SignalDuplicate,
    Single,
    SuspendArgs,
    Suspended,
    Suspension,
    Waitpoint,
)
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

from .helpers import TTL_MS, invalid, running

KID, SECRET = "k1", "2a" * 32
KEY = "wp"


class Parked(Struct, frozen=True):
    """A suspended execution: the handle it had, the one it got, and its waitpoints by key."""

    ident: ExecutionId
    held: Handle
    handle: Handle
    suspension_id: UUID
    by_key: dict[str, BoundWaitpoint]

    @property
    def waitpoint(self) -> BoundWaitpoint:
        return next(iter(self.by_key.values()))


async def seed(engine: Engine) -> None:
    assert await engine.seed_waitpoint_hmac_secret(KID, SECRET) == Seeded(KID)


def fresh(*keys: str) -> list[FreshWaitpoint]:
    return [FreshWaitpoint(uuid4(), key) for key in keys]


def suspend_args(*keys: str, **said: Any) -> SuspendArgs:
    """One new waitpoint for each key; by default, any signal on the first is enough."""
    keys = keys or (KEY,)
    known: dict[str, Any] = {
        "suspension_id": uuid4(),
        "waitpoints": fresh(*keys),
        "resume_condition": Single(keys[0]),
    }
    return SuspendArgs(**{**known, **said})


async def park(
    engine: Engine, *keys: str, made: dict[str, Any] | None = None, **said: Any
) -> Parked:
    """A new execution, claimed and suspended. `made` is what it is created with."""
    ident, held = await running(engine, **(made or {}))
    return await park_held(engine, ident, held, *keys, **said)


async def park_held(
    engine: Engine, ident: ExecutionId, held: Handle, *keys: str, **said: Any
) -> Parked:
    args = suspend_args(*keys, **said)
    done = await engine.suspend(held, args)
    assert isinstance(done, Suspended)
    return Parked(
        ident,
        held,
        done.handle,
        args.suspension_id,
        {w.waitpoint_key: w for w in done.details.waitpoints},
    )


def signal_args(
    ident: ExecutionId, to: BoundWaitpoint, name: str = "go", **said: Any
) -> DeliverSignalArgs:
    known: dict[str, Any] = {
        "execution_id": ident,
        "waitpoint_id": to.waitpoint_id,
        "signal_id": uuid4(),
        "waitpoint_token": to.waitpoint_token,
        "signal_name": name,
        "source_type": "test",
        "source_identity": "tester",
    }
    return DeliverSignalArgs(**{**known, **said})


async def signal(
    engine: Engine, parked: Parked, name: str = "go", key: str | None = None, **said: Any
) -> str:
    """Delivers one signal and says its effect."""
    to = parked.waitpoint if key is None else parked.by_key[key]
    args = signal_args(parked.ident, to, name, **said)
    answer = await engine.deliver_signal(args)
    assert isinstance(answer, SignalAccepted) and answer.signal_id == args.signal_id
    return answer.effect


async def duplicate(engine: Engine, parked: Parked, name: str = "go", **said: Any) -> UUID:
    answer = await engine.deliver_signal(signal_args(parked.ident, parked.waitpoint, name, **said))
    assert isinstance(answer, SignalDuplicate)
    return answer.existing_signal_id


async def pending(
    engine: Engine, held: Handle, key: str = KEY, expires_in_ms: int = 3_600_000
) -> BoundWaitpoint:
    made = await engine.create_waitpoint(held, key, expires_in_ms)
    return BoundWaitpoint(made.waitpoint_id, key, made.hmac_token)


async def claim_resumed(
    engine: Engine, ident: ExecutionId, number: int = 2, **said: Any
) -> Claimed:
    args = ClaimResumedArgs(
        execution_id=ident,
        worker_id=f"w{number}",
        worker_instance_id=f"w{number}-i1",
        lease_ttl_ms=TTL_MS,
        **said,
    )
    return await engine.claim_resumed_execution(args)


async def bad_token(call: Any, code: str) -> ValidationError:
    error = await invalid(call, code)
    assert (error.kind, error.detail) == (ValidationKind.INVALID_TOKEN, code)
    return error


def met(answer: Suspended | ConditionMet) -> ConditionMet:
    assert isinstance(answer, ConditionMet)
    return answer


# ---- behind the engine's back


async def suspension(engine: Engine, ident: ExecutionId) -> Suspension:
    rows = (await engine.store.dump(["ff_suspension_current"]))["ff_suspension_current"]
    return next(s for s in (Suspension(*r) for r in rows) if s.execution_id == ident.uuid)


async def waitpoints(engine: Engine, ident: ExecutionId) -> dict[UUID, Waitpoint]:
    rows = (await engine.store.dump(["ff_waitpoint_pending"]))["ff_waitpoint_pending"]
    return {
        w.waitpoint_id: w for w in (Waitpoint(*r) for r in rows) if w.execution_id == ident.uuid
    }


async def waitpoint(engine: Engine, ident: ExecutionId, bound: BoundWaitpoint) -> Waitpoint:
    return (await waitpoints(engine, ident))[bound.waitpoint_id]


async def closed_for(engine: Engine, ident: ExecutionId) -> tuple[str | None, set[str | None]]:
    """Why the suspension closed, and why its waitpoints did; every one of them has."""
    found = (await waitpoints(engine, ident)).values()
    assert all(w.state == "closed" and w.closed_at_ms is not None for w in found)
    ended = await suspension(engine, ident)
    assert (ended.closed_at_ms is None) == (ended.close_reason is None)
    return ended.close_reason, {w.close_reason for w in found}


async def signals(engine: Engine, ident: ExecutionId) -> list[Signal]:
    rows = [Signal(*r) for r in (await engine.store.dump(["ff_signal"]))["ff_signal"]]
    return sorted(
        (s for s in rows if s.execution_id == ident.uuid),
        key=lambda s: (s.accepted_at_ms, s.signal_id),
    )


async def sound(engine: Engine) -> None:
    """Every invariant holds."""
    await engine.parts.core.cascade.finish()
    assert [str(v) for v in check(snapshot_of(await engine.store.dump(TABLES_READ)))] == []
