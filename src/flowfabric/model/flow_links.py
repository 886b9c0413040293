"""The columns of executions that dependencies use, and the parent of a flow."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.state import ENDED_PHASES


class Member(Struct, frozen=True):
    """The columns of an execution that its dependencies use."""

    partition_key: int
    execution_id: UUID
    flow_id: UUID | None
    lane_id: str
    namespace: str
    lifecycle_phase: str
    ownership_state: str
    eligibility_state: str
    terminal_outcome: str
    attempt_state: str
    public_state: str
    total_attempt_count: int
    terminal_at_ms: int | None
    delay_until_ms: int | None
    version: int
    cancellation_reason: str | None = None

    @property
    def id(self) -> ExecutionId:
        return ExecutionId.of(self.partition_key, self.execution_id)

    @property
    def is_ended(self) -> bool:
        return self.lifecycle_phase in ENDED_PHASES

    @property
    def is_blocked(self) -> bool:
        return (
            self.lifecycle_phase == "runnable"
            and self.eligibility_state == "blocked_by_dependencies"
        )


class Upstream(Struct, frozen=True, gc=False):
    """The columns of an execution that its downstream executions use."""

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
    """The parent of a flow's members. Its end cancels them, except those in `detached`.

    When all members have ended, the parent is signalled at its open waitpoints of this key.
    """

    execution_id: ExecutionId
    waitpoint_key: str
    detached: Sequence[ExecutionId] = ()
