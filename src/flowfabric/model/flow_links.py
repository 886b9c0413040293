"""What ties an execution to others: those that wait for its end, and those whose parent it is."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.state import ENDED_PHASES


class Upstream(Struct, frozen=True, gc=False):
    """As much of an execution as those ask for who wait for its end."""

    partition_key: int
    execution_id: UUID
    flow_id: UUID | None
    lifecycle_phase: str
    terminal_outcome: str
    terminal_at_ms: int | None

    @property
    def is_ended(self) -> bool:
        return self.lifecycle_phase in ENDED_PHASES


class Parent(Struct, frozen=True, kw_only=True):
    """The execution that a flow's members are children of. They are cancelled when it ends, except those in `detached`.

    When all members have ended, the parent is signalled at its open waitpoints of this key.
    """

    execution_id: ExecutionId
    waitpoint_key: str
    detached: Sequence[ExecutionId] = ()
