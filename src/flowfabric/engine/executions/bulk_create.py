"""Bulk creates. Creates that differ only in ids and payloads are checked and planned as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.engine import validation
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import (
    MAX_PAYLOAD_BYTES,
    Created,
    CreateExecutionArgs,
    Duplicate,
)
from flowfabric.model.policy import ExecutionPolicy, parse_policy

Results = list[Created | Duplicate]


class IdenticalCreates(Struct, frozen=True):
    """Adjacent creates that differ only in ids and payloads; `policy` is that of all."""

    first: CreateExecutionArgs
    policy: ExecutionPolicy | None
    others: list[CreateExecutionArgs]


def checked_runs(many: Sequence[CreateExecutionArgs]) -> list[IdenticalCreates]:
    """Groups of identical creates in the order given; the first invalid create raises."""
    runs = []
    for run in _runs(many):
        first = validation.creation(run[0])
        if len(run) > 1:  # the planned creates must not share tags that the caller can change
            first = replace(first, tags=dict(first.tags))
        runs.append(IdenticalCreates(first, parse_policy(first.policy), run[1:]))
    return runs


def _runs(many: Sequence[CreateExecutionArgs]) -> Iterator[list[CreateExecutionArgs]]:
    start = 0
    for at in range(1, len(many) + 1):
        if at == len(many) or not is_like(many[at], many[start]):
            yield list(many[start:at])
            start = at


def is_like(args: CreateExecutionArgs, first: CreateExecutionArgs) -> bool:
    """Whether checking `first` has checked `args` too.

    Compares identities: an equal value may be of another type, which is not accepted.
    """
    return (
        type(args) is type(first) is CreateExecutionArgs
        and type(args.execution_id) is ExecutionId
        and type(args.input_payload) is bytes
        and len(args.input_payload) <= MAX_PAYLOAD_BYTES
        and args.lane_id is first.lane_id
        and args.namespace is first.namespace
        and args.execution_kind is first.execution_kind
        and args.creator_identity is first.creator_identity
        and args.payload_encoding is first.payload_encoding
        and args.priority is first.priority
        and args.policy is first.policy
        and args.delay_until is first.delay_until
        and args.execution_deadline_at is first.execution_deadline_at
        and args.now is first.now
        and args.partition_id is first.partition_id is None
        and args.idempotency_key is first.idempotency_key is None
        and args.key_digest is first.key_digest
        and (
            args.tags is first.tags
            or (type(args.tags) is type(first.tags) is dict and not args.tags and not first.tags)
        )
    )


def distinct_runs(many: Sequence[CreateExecutionArgs]) -> Iterator[tuple[int, int]]:
    """The bounds of runs that end before a repeated id or key."""
    start, seen = 0, set[object]()
    for at, args in enumerate(many):
        names: set[object] = {str(args.execution_id)}
        if args.idempotency_key:
            names.add((args.namespace, args.idempotency_key))
        if names & seen:
            yield start, at
            start, seen = at, set()
        seen |= names
    yield start, len(many)
