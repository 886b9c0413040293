"""Creates that differ only in their ids and payloads, as most of a bulk do: they are checked and planned as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.engine import validation
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import MAX_PAYLOAD_BYTES, CreateExecutionArgs
from flowfabric.model.policy import ExecutionPolicy, parse_policy


class IdenticalCreates(Struct, frozen=True):
    """The first of them, its policy, and the others."""

    first: CreateExecutionArgs
    policy: ExecutionPolicy | None
    others: list[CreateExecutionArgs]


def checked_runs(many: Sequence[CreateExecutionArgs]) -> list[IdenticalCreates]:
    """In the order given, so that the first one that is wrong is the one that is told."""
    runs = []
    for run in _runs(many):
        first = validation.creation(run[0])
        if len(run) > 1:
            first = replace(
                first, tags=dict(first.tags)
            )  # what the caller does to his concerns nobody else
        runs.append(IdenticalCreates(first, parse_policy(first.policy), run[1:]))
    return runs


def _runs(many: Sequence[CreateExecutionArgs]) -> Iterator[list[CreateExecutionArgs]]:
    start = 0
    for at in range(1, len(many) + 1):
        if at == len(many) or not is_like(many[at], many[start]):
            yield list(many[start:at])
            start = at


def is_like(args: CreateExecutionArgs, first: CreateExecutionArgs) -> bool:
    """Whether nothing is left to check once `first` was. By identity: what is merely equal need not be of the type accepted."""
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
