"""Events, as subscribers receive them."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId

LEASE_EVENTS = "ff_lease_event"
COMPLETION_EVENTS = "ff_completion_event"
OPERATOR_EVENTS = "ff_operator_event"
SIGNAL_EVENTS = "ff_signal_event"
RESUMABLE = "resumable"
"""The outcome of the completion event of a suspension that ends: the execution itself continues."""
LEASE_KINDS = frozenset({"acquired", "renewed", "expired", "reclaimed", "revoked"})


def is_end(outcome: str) -> bool:
    """Whether a completion event of this outcome means that the execution has ended."""
    return outcome != RESUMABLE


class ScannerFilter(Struct, frozen=True):
    """Every part that is set must match. A value that cannot be read does not match."""

    namespace: str | None = None
    instance_tag: tuple[str, str] | None = None

    @property
    def empty(self) -> bool:
        return self.namespace is None and self.instance_tag is None


class LeaseEvent(Struct, frozen=True):
    """`kind` is one of `LEASE_KINDS`; `lease_id` is the lease's mark, not the id itself."""

    cursor: bytes
    execution_id: ExecutionId
    kind: str
    lease_id: UUID | None
    lease_epoch: int | None
    worker_instance_id: str | None
    reason: str | None
    at: int


class CompletionEvent(Struct, frozen=True):
    """`outcome` is Success, Failure, Cancelled, or the stored word for anything else."""

    cursor: bytes
    execution_id: ExecutionId
    outcome: str
    flow_id: UUID | None
    at: int


class SignalEvent(Struct, frozen=True):
    """`effect` is Satisfied, Buffered, or the stored word for anything else."""

    cursor: bytes
    execution_id: ExecutionId
    signal_id: UUID
    waitpoint_id: UUID
    source_identity: str | None
    effect: str
    at: int


class OperatorEvent(Struct, frozen=True):
    """`subject_id` is the bare uuid of an execution or a flow."""

    cursor: bytes
    subject_id: UUID
    execution_id: ExecutionId
    kind: str
    details: dict[str, object]
    at: int


class Channel(StrEnum):
    COMPLETIONS = "completions"
    LEASES = "leases"
    SIGNALS = "signals"
    OPERATORS = "operators"


class EventPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Events of a channel and the cursor after them. `trimmed`: retention removed earlier ones."""

    cursor: bytes
    trimmed: bool = False
    completions: list[CompletionEvent] = []
    leases: list[LeaseEvent] = []
    signals: list[SignalEvent] = []
    operators: list[OperatorEvent] = []
