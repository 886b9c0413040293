"""Rows of a suspension: waitpoints, signals, and the keys that sign tokens."""

from __future__ import annotations

from functools import reduce
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from flowfabric.codec.token import mint, sealed
from flowfabric.model.execution import Execution
from flowfabric.model.signing_key import HmacKey
from flowfabric.model.waitpoint import (
    AllOf,
    BoundWaitpoint,
    Condition,
    CountKind,
    DeliverSignalArgs,
    FreshWaitpoint,
    ResumePolicy,
    Signal,
    Single,
    SuspendArgs,
    Suspension,
    UsePending,
    Waitpoint,
)
from flowfabric.plan import Plan
from flowfabric.rules.waits.conditions import encode
from flowfabric.rules.waits.suspend import ConditionState, SuspendSnapshot, encode_policy, suspend
from flowfabric.store.memory import MemoryStore

from .factory import IDENT, NOW, TABLE_OF, defaults, execution, handle, run

SUSPENSION_ID, OTHER_SUSPENSION = UUID(int=0x51), UUID(int=0x52)
WAITPOINT_ID, SECOND, THIRD = UUID(int=0x61), UUID(int=0x62), UUID(int=0x63)
SIGNAL_ID = UUID(int=0x71)
KEY = HmacKey("k1", NOW - 1_000, 1, None, b"\x2a" * 32)

WAITPOINTS, SIGNALS, SOURCES = CountKind

T = TypeVar("T")


def suspended(**columns: Any) -> Execution:
    waits = {"current_suspension_id": SUSPENSION_ID, "current_waitpoint_id": WAITPOINT_ID}
    return execution("SUSPENDED", **{**waits, **columns})


def suspension(condition: Condition = Single("a"), **columns: Any) -> Suspension:  # noqa: B008
    row = {
        **defaults("ff_suspension_current"),
        "partition_key": IDENT.partition_index,
        "execution_id": IDENT.uuid,
        "suspension_id": SUSPENSION_ID,
        "suspended_at_ms": NOW - 500,
        "reason_code": "waiting_for_signal",
        "condition": encode(condition),
        "resume_policy": encode_policy(ResumePolicy()),
        "primary_waitpoint_id": WAITPOINT_ID,
        **columns,
    }
    return Suspension(**row)


def waitpoint(
    ident: UUID = WAITPOINT_ID, key: str = "a", state: str = "active", **columns: Any
) -> Waitpoint:
    bound = (
        {"suspension_id": SUSPENSION_ID, "activated_at_ms": NOW - 500} if state == "active" else {}
    )
    row = {
        **defaults("ff_waitpoint_pending"),
        "partition_key": IDENT.partition_index,
        "execution_id": IDENT.uuid,
        "waitpoint_id": ident,
        "waitpoint_key": key,
        "state": state,
        "token_kid": KEY.kid,
        "token_digest": sealed(mint(KEY, IDENT, ident)),
        "created_at_ms": NOW - 900,
        "version": 3,
        **bound,
        **columns,
    }
    return Waitpoint(**row)


def signal(name: str = "go", key: str = "a", ident: UUID = SIGNAL_ID, **columns: Any) -> Signal:
    row = {
        **defaults("ff_signal"),
        "partition_key": IDENT.partition_index,
        "execution_id": IDENT.uuid,
        "signal_id": ident,
        "waitpoint_id": WAITPOINT_ID,
        "waitpoint_key": key,
        "signal_name": name,
        "created_at_ms": NOW - 100,
        "accepted_at_ms": NOW - 100,
        "observed_effect": "buffered_for_pending_waitpoint",
        **columns,
    }
    return Signal(**row)


FRESH = FreshWaitpoint(WAITPOINT_ID, "a")
PENDING = UsePending(WAITPOINT_ID)


def suspend_args(condition: Condition = Single("a"), *bindings: Any, **more: Any) -> SuspendArgs:  # noqa: B008
    return SuspendArgs(
        suspension_id=SUSPENSION_ID,
        waitpoints=bindings or (FRESH,),
        resume_condition=condition,
        **more,
    )


def deliver_args(name: str = "go", **more: Any) -> DeliverSignalArgs:
    given = {
        "execution_id": IDENT,
        "waitpoint_id": WAITPOINT_ID,
        "signal_id": SIGNAL_ID,
        "waitpoint_token": "k1:x",
        **more,
    }
    return DeliverSignalArgs(signal_name=name, **given)


def around(
    *stored: Waitpoint, suspension: Suspension | None = None, now_ms: int = NOW, signals: Any = ()
) -> SuspendSnapshot:
    return SuspendSnapshot(now_ms, suspension, {row.waitpoint_id: row for row in stored}, signals)


def bound_to(args: SuspendArgs, at: SuspendSnapshot) -> list[BoundWaitpoint]:
    """Bindings with their tokens; a waitpoint that was created ahead keeps its token."""
    made = []
    for binding in args.waitpoints:
        key = (
            binding.waitpoint_key
            if isinstance(binding, FreshWaitpoint)
            else at.waitpoints[binding.waitpoint_id].waitpoint_key
        )
        made.append(
            BoundWaitpoint(binding.waitpoint_id, key, mint(KEY, IDENT, binding.waitpoint_id))
        )
    return made


def suspend_plans(
    of: Execution,
    args: SuspendArgs,
    at: SuspendSnapshot | None = None,
    found: ConditionState | None = None,
) -> list[Plan]:
    at = at or around()
    return suspend(handle(of), args, at, bound_to(args, at), found or ConditionState(), KEY.kid)


def rows_of(store: MemoryStore, kind: type[T]) -> list[T]:
    table = TABLE_OF[kind]
    return [kind(*row) for row in run(store.dump((table,)))[table]]


def one(store: MemoryStore, kind: type[T], **columns: Any) -> T:
    (row,) = (
        r
        for r in rows_of(store, kind)
        if all(getattr(r, name) == value for name, value in columns.items())
    )
    return row


def changed(row: T, **columns: Any) -> T:
    return msgspec.structs.replace(row, **columns)  # type: ignore[type-var]


def nested(depth: int, leaf: Condition = Single("a")) -> Condition:  # noqa: B008
    """Nested composites."""
    return reduce(lambda inner, _: AllOf((inner,)), range(depth), leaf)
