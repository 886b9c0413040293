"""Each operation twice: the call of the engine, and the expectation of the specification."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from uuid import UUID

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.loops.supervisor import all_loops
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import (
    CancelExecutionArgs,
    ChangePriorityArgs,
    CreateExecutionArgs,
    ReplayExecutionArgs,
)
from flowfabric.model.lease import (
    ClaimExecutionArgs,
    ClaimPolicy,
    ClaimResumedArgs,
    IssueGrantArgs,
    ReclaimExecutionArgs,
    ResumeGrant,
    ResumeToken,
    RevokeLeaseArgs,
)
from flowfabric.model.worker import RegisterWorkerArgs

from .fleet import Ends, Fleet
from .shapes import NO_POLICY, Held, Policy

LOOPS = tuple(loop.name for loop in all_loops(LoopSettings()))


class Op(NamedTuple):
    name: str
    call: Callable[[Engine], Awaitable[Any]]
    expect: Callable[[Fleet], Any]


def as_json(policy: Policy) -> dict[str, Any] | None:
    """The policy as a caller writes it."""
    if policy is NO_POLICY:
        return None
    made: dict[str, Any] = {
        "max_reclaim_count": policy.losses,
        "max_replay_count": policy.replays,
        "dedup_window_ms": policy.dedup,
    }
    if policy.max_retries is not None:
        backoff = {
            "type": "exponential",
            "initial_delay_ms": policy.first_ms,
            "multiplier": policy.factor,
            "max_delay_ms": policy.most_ms,
        }
        made["retry_policy"] = {
            "max_retries": policy.max_retries,
            "backoff": backoff,
            "retryable_categories": list(policy.categories),
        }
    limits = {"attempt_timeout_ms": policy.timeout, "execution_deadline_ms": policy.deadline}
    made["timeout_policy"] = {name: value for name, value in limits.items() if value is not None}
    if policy.caps:
        made["routing_requirements"] = {"required_capabilities": sorted(policy.caps)}
    if policy.retain is not None:
        made["stream_policy"] = {"retention_ttl_ms": policy.retain}
    if policy.retain_failed is not None:
        made["retention_policy"] = {"failed_ms": policy.retain_failed}
    return made


def create(
    ident: ExecutionId,
    lane: str,
    namespace: str,
    prio: int,
    key: str,
    policy: Policy,
    delay: int | None,
) -> Op:
    args = CreateExecutionArgs(
        execution_id=ident,
        lane_id=lane,
        namespace=namespace,
        priority=prio,
        idempotency_key=key or None,
        policy=as_json(policy),
        delay_until=delay,
        tags={"cairn.instance_id": namespace},
    )
    return Op(
        "create",
        lambda e: e.create_execution(args),
        lambda s: s.create(ident, lane, namespace, prio, key, policy, delay),
    )


def claim(
    lane: str, caps: frozenset[str], worker: str, ttl: int, n: int = 1, of: str | None = "default"
) -> Op:
    policy = ClaimPolicy(worker, f"{worker}-1", ttl, namespace=of)
    return Op(
        "claim",
        lambda e: e.claim_many(lane, caps, policy, n),
        lambda s: s.claim(lane, caps, of, worker, f"{worker}-1", ttl, n),
    )


def issue_claim_grant(ident: ExecutionId, worker: str, caps: frozenset[str], ttl: int) -> Op:
    args = IssueGrantArgs(
        execution_id=ident,
        worker_id=worker,
        worker_instance_id=f"{worker}-1",
        grant_ttl_ms=ttl,
        worker_capabilities=caps,
    )
    return Op(
        "issue_claim_grant",
        lambda e: e.issue_claim_grant(args),
        lambda s: s.issue_claim_grant(ident, worker, caps, ttl),
    )


def claim_execution(
    ident: ExecutionId,
    worker: str,
    ttl: int,
    timeout: int | None = None,
    deadline: int | None = None,
) -> Op:
    args = ClaimExecutionArgs(
        execution_id=ident,
        worker_id=worker,
        worker_instance_id=f"{worker}-1",
        lease_ttl_ms=ttl,
        attempt_timeout_ms=timeout,
        execution_deadline_at=deadline,
    )
    return Op(
        "claim_execution",
        lambda e: e.claim_execution(args),
        lambda s: s.claim_execution(ident, worker, f"{worker}-1", ttl, timeout, deadline),
    )


def claim_resumed(ident: ExecutionId, worker: str, ttl: int, remaining: int | None = None) -> Op:
    args = ClaimResumedArgs(
        execution_id=ident,
        worker_id=worker,
        worker_instance_id=f"{worker}-1",
        lease_ttl_ms=ttl,
        remaining_attempt_timeout_ms=remaining,
    )
    return Op(
        "claim_resumed",
        lambda e: e.claim_resumed_execution(args),
        lambda s: s.claim_resumed(ident, worker, f"{worker}-1", ttl, remaining),
    )


def grant_and_claim(ident: ExecutionId, lane: str, ttl: int) -> Op:
    return Op(
        "grant_and_claim",
        lambda e: e.issue_grant_and_claim(ident, lane, ttl),
        lambda s: s.grant_and_claim(ident, lane, ttl),
    )


def resume(ident: ExecutionId, worker: str, ttl: int, until: int) -> Op:
    token = ResumeToken(ResumeGrant(ident, "", "any", until, ""), worker, f"{worker}-1", ttl)
    return Op(
        "resume",
        lambda e: e.claim_from_resume_grant(token),
        lambda s: s.resume(ident, worker, f"{worker}-1", ttl, until),
    )


def renew(h: Held) -> Op:
    return Op("renew", lambda e: e.renew(h.handle), lambda s: s.renew(h))


def progress(h: Held, percent: int = 5) -> Op:
    return Op("progress", lambda e: e.progress(h.handle, percent), lambda s: s.report(h, percent))


def complete(h: Held, result: bytes | None = b"ok") -> Op:
    return Op("complete", lambda e: e.complete(h.handle, result), lambda s: s.complete(h, result))


def complete_and_claim(
    many: Ends,
    lane: str,
    caps: frozenset[str],
    worker: str,
    ttl: int,
    n: int = 1,
    of: str | None = "default",
) -> Op:
    policy = ClaimPolicy(worker, f"{worker}-1", ttl, namespace=of)

    async def call(engine: Engine) -> tuple[Any, ...]:
        answers, works = await engine.complete_and_claim(
            [(h.handle, result) for h, result in many], lane, caps, policy, n
        )
        return *answers, works

    return Op(
        "complete_and_claim",
        call,
        lambda s: s.complete_and_claim(many, lane, caps, of, worker, f"{worker}-1", ttl, n),
    )


def fail(h: Held, kind: str = "transient") -> Op:
    return Op(
        "fail",
        lambda e: e.fail(h.handle, "boom", FailureClass(kind)),
        lambda s: s.fail(h, kind, "boom"),
    )


def delay(h: Held, until: int) -> Op:
    return Op("delay", lambda e: e.delay(h.handle, until), lambda s: s.postpone(h, until))


def give_up(h: Held) -> Op:
    return Op("give_up", lambda e: e.cancel(h.handle, "enough"), lambda s: s.give_up(h))


def cancel(
    ident: ExecutionId, source: str, epoch: int | None = None, lease: UUID | None = None
) -> Op:
    args = CancelExecutionArgs(
        execution_id=ident, reason="stop", source=source, lease_epoch=epoch, lease_id=lease
    )
    return Op(
        "cancel",
        lambda e: e.cancel_execution(args),
        lambda s: s.cancel(ident, source, epoch, lease),
    )


def revoke(ident: ExecutionId, instance: str = "", lease: str = "") -> Op:
    args = RevokeLeaseArgs(
        execution_id=ident,
        worker_instance_id=instance,
        expected_lease_id=lease or None,
        reason="why not",
    )
    return Op("revoke", lambda e: e.revoke_lease(args), lambda s: s.revoke(ident, instance, lease))


def change_priority(ident: ExecutionId, prio: int) -> Op:
    args = ChangePriorityArgs(execution_id=ident, new_priority=prio)
    return Op(
        "change_priority",
        lambda e: e.change_priority(args),
        lambda s: s.change_priority(ident, prio),
    )


def replay(ident: ExecutionId) -> Op:
    args = ReplayExecutionArgs(execution_id=ident)
    return Op("replay", lambda e: e.replay_execution(args), lambda s: s.replay(ident))


def expire(ident: ExecutionId, phase: str) -> Op:
    return Op(
        "expire", lambda e: e.expire_execution(ident, phase), lambda s: s.expire(ident, phase)
    )


def promote(ident: ExecutionId) -> Op:
    return Op("promote", lambda e: e.promote_delayed(ident), lambda s: s.promote(ident))


def block(ident: ExecutionId, reason: str) -> Op:
    return Op(
        "block", lambda e: e.block_route(ident, reason, "held"), lambda s: s.block(ident, reason)
    )


def unblock(ident: ExecutionId, expected: str) -> Op:
    return Op(
        "unblock",
        lambda e: e.unblock_execution(ident, expected),
        lambda s: s.unblock(ident, expected),
    )


def mark(ident: ExecutionId) -> Op:
    return Op("mark", lambda e: e.mark_lease_expired_if_due(ident), lambda s: s.mark(ident))


def requeue(ident: ExecutionId, grace: int) -> Op:
    return Op("requeue", lambda e: e.requeue_lost(ident, grace), lambda s: s.requeue(ident, grace))


def issue_reclaim_grant(ident: ExecutionId, worker: str, caps: frozenset[str], ttl: int) -> Op:
    args = IssueGrantArgs(
        execution_id=ident,
        worker_id=worker,
        worker_instance_id=f"{worker}-1",
        grant_ttl_ms=ttl,
        worker_capabilities=caps,
    )
    return Op(
        "issue_reclaim_grant",
        lambda e: e.issue_reclaim_grant(args),
        lambda s: s.issue_reclaim_grant(ident, worker, caps, ttl),
    )


def reclaim(ident: ExecutionId, worker: str, ttl: int, limit: int | None = None) -> Op:
    args = ReclaimExecutionArgs(
        execution_id=ident,
        worker_id=worker,
        worker_instance_id=f"{worker}-1",
        lease_ttl_ms=ttl,
        max_reclaim_count=limit,
    )
    return Op(
        "reclaim",
        lambda e: e.reclaim_execution(args),
        lambda s: s.reclaim(ident, worker, f"{worker}-1", ttl, limit),
    )


def lane(name: str, state: str) -> Op:
    return Op("lane", lambda e: e.set_lane_state(name, state), lambda s: s.lane(name, state))


def trim(name: str, kept: int) -> Op:
    return Op("trim", lambda e: e.trim_retention(name, kept), lambda s: s.trim(name, kept))


def register(namespace: str, instance: str, worker: str, caps: frozenset[str], ttl: int) -> Op:
    args = RegisterWorkerArgs(
        worker_id=worker,
        worker_instance_id=instance,
        capabilities=caps,
        liveness_ttl_ms=ttl,
        namespace=namespace,
    )
    return Op(
        "register",
        lambda e: e.register_worker(args),
        lambda s: s.register(namespace, instance, worker, caps, ttl),
    )


def heartbeat(namespace: str, instance: str) -> Op:
    return Op(
        "heartbeat",
        lambda e: e.heartbeat_worker(instance, namespace),
        lambda s: s.heartbeat(namespace, instance),
    )


def bury(namespace: str, instance: str) -> Op:
    return Op(
        "bury",
        lambda e: e.mark_worker_dead(instance, "gone", namespace),
        lambda s: s.bury(namespace, instance),
    )


def loop(name: str) -> Op:
    async def call(engine: Engine) -> None:
        await next(each for each in all_loops(LoopSettings()) if each.name == name).run(engine)

    return Op("loop", call, lambda s: s.loop(name))


def loops() -> Op:
    """One pass of every loop."""

    async def call(engine: Engine) -> None:
        for each in all_loops(LoopSettings()):
            await each.run(engine)

    def expect(spec: Fleet) -> None:
        for name in LOOPS:
            spec.loop(name)

    return Op("loops", call, expect)
