"""What the cancel of a flow answers when some members could not be cancelled."""

from __future__ import annotations

from msgspec import Struct

from flowfabric.ids import ExecutionId


class PartiallyCancelled(Struct, frozen=True, tag=True):
    """The flow is cancelled, and some members could not be; they stay owed a cancel, and the
    reconciler tries again.
    """

    cancellation_policy: str
    member_execution_ids: list[ExecutionId]
    failed_member_execution_ids: list[ExecutionId]
