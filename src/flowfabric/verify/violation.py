"""The result of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.verify.snapshot import Key, Snapshot


class Violation(Struct, frozen=True):
    invariant: str
    subject: str
    says: str


Check = Callable[[Snapshot], Iterator[Violation]]


def about(key: Key) -> str:
    return str(ExecutionId.of(*key))


def violation(invariant: str, key: Key, says: str) -> Violation:
    """A violation of one execution."""
    return Violation(invariant, about(key), says)
