"""The plan of a run, from the seed alone: the executions, and the behaviour of a worker under each
lease.
"""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from msgspec import Struct

from flowfabric import LoopSettings, RetryPolicy, Settings
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, partition_of
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import EdgePolicy, GraphEdge, SubmitFlowArgs
from flowfabric.model.waitpoint import (
    Condition,
    Count,
    CountKind,
    FreshWaitpoint,
    Single,
    SuspendArgs,
    TimeoutBehavior,
    UsePending,
    all_of_waitpoints,
    any_of_waitpoints,
)

LANES = ("alpha", "beta")
LEASE_MS = (400, 600)
SETTINGS = Settings(
    default_retry_policy=RetryPolicy(max_retries=3, backoff={"type": "fixed", "delay_ms": 60}),
    lease_reclaim_grace_ms=50,
)
LOOPS = LoopSettings(
    lease_expiry_ms=150,
    delayed_promoter_ms=150,
    attempt_timeout_ms=200,
    execution_deadline_ms=300,
    route_ms=1_000,
    worker_reaper_ms=1_000,
    dependency_reconciler_ms=300,
    edge_cancel_dispatcher_ms=200,
    edge_cancel_reconciler_ms=500,
    flow_projector_ms=1_000,
    suspension_timeout_ms=200,
    pending_waitpoint_ms=300,
)
KID, SECRET = "k1", "5e" * 32
AHEAD_MS = 2_000
EXECUTIONS_PER_FLOW = 12
FIRST_OF_FLOWS, FIRST_OF_PROBES = 1_000_000, 2_000_000


class Job(Struct, frozen=True):
    """One execution and the later operations of its creator. `twin` is the id of a second create
    under the same key.
    """

    ordinal: int
    execution: ExecutionId
    lane: str
    priority: int
    delay_ms: int
    key: str | None
    twin: ExecutionId | None
    policy: dict[str, Any] | None
    payload: bytes
    revoke_after_s: float | None
    cancel_after_s: float | None
    replays: bool


class Step(Struct, frozen=True):
    """The behaviour under one lease. `brink_ms` ends it that long after its expiry, regardless of
    `seconds`.
    """

    end: str
    seconds: float
    renews: bool
    brink_ms: int | None
    progress: int | None
    again: bool
    delay_ms: int
    size: int


def job(seed: int, ordinal: int) -> Job:
    rng = Random(f"{seed}/job/{ordinal}")
    keyed = rng.random() < 0.2
    fate = rng.random()
    return Job(
        ordinal,
        _ident(rng),
        rng.choice(LANES),
        rng.choice((0, 0, 0, 10, 500, 9_000)),
        rng.randint(50, 1_200) if rng.random() < 0.15 else 0,
        f"key-{ordinal}" if keyed else None,
        _ident(rng) if keyed else None,
        _policy(rng),
        f"{ordinal}:".encode() + rng.randbytes(rng.choice((0, 10, 300, 3_000))),
        rng.uniform(0, 0.4) if fate < 0.04 else None,
        rng.uniform(0, 0.8) if 0.04 <= fate < 0.10 else None,
        0.08 <= fate < 0.15,
    )


def flow(seed: int, number: int) -> SubmitFlowArgs:
    """A chain of three, or three upstreams of which the fourth needs two; the ordinals of members
    differ from those of jobs.
    """
    rng = Random(f"{seed}/flow/{number}")
    ident = UUID(int=rng.getrandbits(128), version=4)
    chain = rng.random() < 0.4
    nodes = [
        CreateExecutionArgs(
            execution_id=ExecutionId.of(
                partition_of(ident, FLOW_PARTITIONS), UUID(int=rng.getrandbits(128), version=4)
            ),
            lane_id=rng.choice(LANES),
            input_payload=f"{FIRST_OF_FLOWS + 4 * number + at}:".encode(),
        )
        for at in range(3 if chain else 4)
    ]
    ids = [node.execution_id for node in nodes]
    pairs = [(0, 1), (1, 2)] if chain else [(0, 3), (1, 3), (2, 3)]
    edges = [
        GraphEdge(ids[up], ids[down], edge_id=UUID(int=rng.getrandbits(128), version=4))
        for up, down in pairs
    ]
    return SubmitFlowArgs(
        flow_id=ident,
        nodes=nodes,
        edges=edges,
        policies={} if chain else {ids[3]: EdgePolicy.quorum(2)},
    )


def _ident(rng: Random) -> ExecutionId:
    return ExecutionId.of(rng.randrange(256), UUID(int=rng.getrandbits(128), version=4))


def _policy(rng: Random) -> dict[str, Any] | None:
    roll = rng.random()
    if roll < 0.4:
        return None
    policy: dict[str, Any] = {
        "retry_policy": {
            "max_retries": rng.randint(0, 4),
            "backoff": {
                "type": "exponential",
                "initial_delay_ms": rng.choice((0, 20, 80)),
                "max_delay_ms": 300,
                "jitter": True,
            },
        }
    }
    if roll < 0.5:
        policy["max_reclaim_count"] = rng.randint(0, 2)
    elif roll < 0.54:
        policy["timeout_policy"] = {"attempt_timeout_ms": rng.randint(300, 1_500)}
    elif roll < 0.58:
        policy["timeout_policy"] = {"execution_deadline_ms": rng.randint(500, 3_000)}
    return policy


def ordinal_of(payload: bytes) -> int:
    return int(payload.partition(b":")[0])


def probe_of(role: str) -> str:
    """A capability of this worker only."""
    return f"probe:{role}"


def step(seed: int, ordinal: int, epoch: int) -> Step:
    if ordinal >= FIRST_OF_PROBES:
        return Step("complete", 0.001, True, None, None, False, 0, 32)
    rng = Random(f"{seed}/step/{ordinal}/{epoch}")
    ends = {
        "complete": 66,
        "fail": 12,
        "fail_for_good": 3,
        "delay": 7,
        "suspend": 8,
        "give_up": 2,
        "vanish": 2,
    }
    end = rng.choices(tuple(ends), tuple(ends.values()))[0]
    pace = rng.random()
    longest = LEASE_MS[1] / 1000
    if pace < 0.82:
        seconds, renews = rng.uniform(0.001, 0.015), True
    elif pace < 0.92:
        seconds, renews = rng.uniform(0.8, 2.0) * longest, True
    else:
        seconds, renews = rng.uniform(0.9, 1.8) * longest, False
    progress = rng.randint(0, 100) if rng.random() < 0.3 else None
    brink_ms = rng.randint(-4, 12) if pace >= 0.96 else None
    return Step(
        end,
        seconds,
        renews,
        brink_ms,
        progress,
        rng.random() < 0.1,
        rng.randint(0, 300),
        rng.choice((32, 32, 500, 5_000)),
    )


ON_ONE: tuple[Condition, ...] = (
    Single("a"),
    Single("a", "go"),
    Count(2, CountKind.DISTINCT_SOURCES, ("a",)),
)
ON_TWO: tuple[Condition, ...] = (all_of_waitpoints("a", "b"), any_of_waitpoints("a", "b"))


def starts_ahead(seed: int, ordinal: int, epoch: int) -> bool:
    """The holder creates its waitpoint before it suspends, so that signals may arrive first."""
    return Random(f"{seed}/ahead/{ordinal}/{epoch}").random() < 0.4


def takes_the_next(seed: int, ordinal: int, epoch: int) -> bool:
    """The holder completes and claims in one call."""
    return Random(f"{seed}/turn/{ordinal}/{epoch}").random() < 0.5


def wait(seed: int, ordinal: int, epoch: int, now_ms: int, ahead: UUID | None) -> SuspendArgs:
    """The wait of a lease; repeated under the same key regardless of the first answer."""
    rng = Random(f"{seed}/wait/{ordinal}/{epoch}")
    until = rng.choice(ON_ONE if ahead is not None else ON_ONE + ON_TWO)
    names = [UUID(int=rng.getrandbits(128), version=4) for _ in range(3)]
    fresh = [
        FreshWaitpoint(name, key)
        for name, key in zip(names, "ab" if until in ON_TWO else "a", strict=False)
    ]
    timed = rng.random() < 0.3
    return SuspendArgs(
        suspension_id=names[2],
        waitpoints=fresh if ahead is None else [UsePending(ahead)],
        resume_condition=until,
        timeout_at=now_ms + rng.choice((5, 40, 400)) if timed else None,
        timeout_behavior=rng.choice(tuple(TimeoutBehavior)),
        idempotency_key=f"{epoch}",
    )


def result(token: str, size: int) -> bytes:
    """The bytes of a result from the digest that is logged for it."""
    digest = bytes.fromhex(token)
    return (digest * (size // len(digest) + 1))[:size]
