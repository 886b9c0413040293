"""The operations of suspension twice: the call of the engine, and the expectation of the
specification.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Handle
from flowfabric.model.waitpoint import (
    DeliverSignalArgs,
    FreshWaitpoint,
    ResumePolicy,
    ResumeSignal,
    SuspendArgs,
    UsePending,
)

from .ops import Op
from .shapes import Held
from .suspend_shapes import Asked, Sent


def seed(kid: str, secret: str) -> Op:
    return Op(
        "seed", lambda e: e.seed_waitpoint_hmac_secret(kid, secret), lambda s: s.seed(kid, secret)
    )


def rotate(kid: str, secret: str, grace: int) -> Op:
    async def call(engine: Engine) -> Any:
        (entry,) = await engine.rotate_waitpoint_hmac_secret_all(kid, secret, grace)
        return entry.result.code if isinstance(entry.result, EngineError) else entry.result

    return Op(f"rotate to {kid}, grace {grace}", call, lambda s: s.rotate(kid, secret, grace))


def create_waitpoint(h: Held, key: str, lasts: int) -> Op:
    return Op(
        f"create_waitpoint {key}",
        lambda e: e.create_waitpoint(h.handle, key, lasts),
        lambda s: s.create_waitpoint(h, key, lasts),
    )


def suspend_args(asked: Asked) -> SuspendArgs:
    return SuspendArgs(
        suspension_id=asked.name,
        waitpoints=[UsePending(asked.ahead)]
        if asked.ahead
        else [FreshWaitpoint(name, key) for name, key in asked.fresh],
        resume_condition=asked.until,
        reason_code=asked.reason,
        resume_policy=ResumePolicy(resume_delay_ms=asked.delay),
        timeout_at=asked.timeout,
        timeout_behavior=asked.behavior,
        idempotency_key=asked.once,
    )


def suspend(h: Held, asked: Asked) -> Op:
    return Op(
        f"suspend {asked}",
        lambda e: e.suspend(h.handle, suspend_args(asked)),
        lambda s: s.suspend(h, asked),
    )


def deliver(ident: ExecutionId, box: UUID, token: str, sent: Sent) -> Op:
    args = DeliverSignalArgs(
        execution_id=ident,
        waitpoint_id=box,
        signal_id=sent.name,
        waitpoint_token=token,
        signal_name=sent.word,
        source_type=sent.source[0],
        source_identity=sent.source[1],
        payload=sent.payload,
        idempotency_key=sent.once,
        dedup_ttl_ms=sent.ttl,
        resume_delay_ms=sent.delay,
    )

    async def call(engine: Engine) -> Any:
        """A refused token is recorded on the execution; the kind of refusal is compared as an
        answer.
        """
        try:
            return await engine.deliver_signal(args)
        except ValidationError as refused:
            if refused.kind is not ValidationKind.INVALID_TOKEN:
                raise
            return refused.detail

    return Op(f"deliver {sent} to {box}", call, lambda s: s.deliver(ident, box, token, sent))


def resume_execution(ident: ExecutionId, delay: int = 0) -> Op:
    return Op(
        "resume_execution",
        lambda e: e.resume_execution(ident, "operator", delay),
        lambda s: s.resume_execution(ident, delay),
    )


def close_waitpoint(ident: ExecutionId, box: UUID) -> Op:
    return Op(
        "close_waitpoint",
        lambda e: e.close_waitpoint(ident, box),
        lambda s: s.close_waitpoint(ident, box),
    )


def time_out(ident: ExecutionId) -> Op:
    return Op(
        "expire_suspension", lambda e: e.expire_suspension(ident), lambda s: s.time_out(ident)
    )


def observe(h: Held, parked: Handle | None = None) -> Op:
    """With the handle of a lease, or with that of the suspension in which it ended."""

    async def call(engine: Engine) -> list[ResumeSignal]:
        found = await engine.observe_signals(parked or h.handle)
        return sorted(
            found, key=lambda each: (each.accepted_at, each.signal_name == "timeout")
        )  # its id is random

    return Op("observe", call, lambda s: s.observe(h, parked=parked is not None))
