"""What is going to happen, from the seed alone: which executions there are, and what a worker does with each lease."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from msgspec import Struct

from flowfabric import LoopSettings, RetryPolicy, Settings
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, partition_of
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import EdgePolicy, GraphEdge, SubmitFlowArgs

LANES = ("alpha", "beta")
LEASE_MS = (400, 600)
SETTINGS = Settings(
    default_retry_policy=RetryPolicy(max_retries=3, backoff={"type": "fixed", "delay_ms": 60}), lease_reclaim_grace_ms=50
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
)
EXECUTIONS_PER_FLOW = 12
FIRST_OF_FLOWS = 1_000_000


class Job(Struct, frozen=True):
    """One execution and what its creator does with it afterwards. `twin` is the id of a second create under the same key."""

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
    """What the holder of one lease does with it. `brink_ms` ends it so long after its expiry, whatever `seconds` says."""

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
    """A chain of three, or three of whom the fourth needs two; its members have ordinals that no job has."""
    rng = Random(f"{seed}/flow/{number}")
    ident = UUID(int=rng.getrandbits(128), version=4)
    chain = rng.random() < 0.4
    nodes = [
        CreateExecutionArgs(
            execution_id=ExecutionId.of(partition_of(ident, FLOW_PARTITIONS), UUID(int=rng.getrandbits(128), version=4)),
            lane_id=rng.choice(LANES),
            input_payload=f"{FIRST_OF_FLOWS + 4 * number + at}:".encode(),
        )
        for at in range(3 if chain else 4)
    ]
    ids = [node.execution_id for node in nodes]
    pairs = [(0, 1), (1, 2)] if chain else [(0, 3), (1, 3), (2, 3)]
    edges = [GraphEdge(ids[up], ids[down], edge_id=UUID(int=rng.getrandbits(128), version=4)) for up, down in pairs]
    return SubmitFlowArgs(flow_id=ident, nodes=nodes, edges=edges, policies={} if chain else {ids[3]: EdgePolicy.quorum(2)})


def _ident(rng: Random) -> ExecutionId:
    return ExecutionId.of(rng.randrange(256), UUID(int=rng.getrandbits(128), version=4))


def _policy(rng: Random) -> dict[str, Any] | None:
    roll = rng.random()
    if roll < 0.4:
        return None
    policy: dict[str, Any] = {
        "retry_policy": {
            "max_retries": rng.randint(0, 4),
            "backoff": {"type": "exponential", "initial_delay_ms": rng.choice((0, 20, 80)), "max_delay_ms": 300, "jitter": True},
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


def step(seed: int, ordinal: int, epoch: int) -> Step:
    rng = Random(f"{seed}/step/{ordinal}/{epoch}")
    end = rng.choices(("complete", "fail", "fail_for_good", "delay", "give_up", "vanish"), (74, 12, 3, 7, 2, 2))[0]
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
        end, seconds, renews, brink_ms, progress, rng.random() < 0.1, rng.randint(0, 300), rng.choice((32, 32, 500, 5_000))
    )


def result(token: str, size: int) -> bytes:
    """The bytes of a result from the digest that is logged for it."""
    digest = bytes.fromhex(token)
    return (digest * (size // len(digest) + 1))[:size]
