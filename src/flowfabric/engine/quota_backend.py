"""The documented protocol, the part about quotas and what is attached to what."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import Blocked, Page
from flowfabric.model.quota import (
    Admission,
    BlockForAdmissionArgs,
    CheckAdmissionArgs,
    CreateQuotaPolicyArgs,
    LimitScope,
    QuotaLimits,
    QuotaPolicyAlreadySatisfied,
    QuotaPolicyCreated,
    QuotaPolicyUnchanged,
    QuotaPolicyUpdated,
    Reconciled,
    Rejected,
    Released,
    UpdateQuotaPolicyArgs,
)


class QuotaBackend(Protocol):
    async def create_quota_policy(
        self, args: CreateQuotaPolicyArgs
    ) -> QuotaPolicyCreated | QuotaPolicyAlreadySatisfied:
        """How many may run at once and how many may start per window. What exists is left as it is."""

    async def update_quota_policy(
        self, args: UpdateQuotaPolicyArgs
    ) -> QuotaPolicyUpdated | QuotaPolicyUnchanged:
        """Other limits for a quota that exists, from the next claim on. Claims that wait look again."""

    async def read_quota_policy_limits(self, quota_policy_id: UUID) -> QuotaLimits | None: ...

    async def close_quota(self, quota_policy_id: UUID, until_ms: int) -> None:
        """Nothing is admitted before this time: what an upstream means by Retry-After."""

    async def open_quota(self, quota_policy_id: UUID) -> None:
        """Takes a closing back."""

    async def quotas_open_at(self, *lanes: str, namespace: str = "default") -> int | None:
        """When the first of the full quotas of a namespace in these lanes opens by itself; None where none does."""

    async def check_admission(self, args: CheckAdmissionArgs) -> Admission:
        """Whether an execution may start under these limits; if so, it holds a slot until that is released."""

    async def release_admission(self, quota_policy_id: UUID, execution: ExecutionId) -> Released:
        """Gives back a slot taken by `check_admission`. Again, or without one, it is nothing."""

    async def block_execution_for_admission(
        self, args: BlockForAdmissionArgs
    ) -> Blocked | Rejected:
        """Holds a waiting execution back because of a limit."""

    async def attach_limit(
        self, kind: str, limit_id: UUID, scope_type: str, scope_id: str | UUID
    ) -> bool:
        """What is created there from now on is under this limit; whether it was not attached before.

        It reaches executions of its own namespace. A flow or a namespace that is not of it is refused.
        """

    async def read_limit_namespace(self, kind: str, limit_id: UUID) -> str | None:
        """Where a budget or a quota belongs; None for one that was never made."""

    async def detach_limit(
        self, kind: str, limit_id: UUID, scope_type: str, scope_id: str | UUID
    ) -> bool:
        """What is created there from now on is not under it any more; whether it was attached."""

    async def list_limit_scopes(
        self, after: LimitScope | None = None, limit: int = 1000, namespace: str | None = None
    ) -> Page[LimitScope]:
        """What is attached where, by scope; `after` is the last of the page before. None stands for all namespaces."""

    async def reconcile_quota_counters(self) -> Reconciled:
        """Entries older than their window go, and slots taken by hand for executions that neither run nor are about to."""

    async def release_limited(self, limit: int = 1000, wanted: ScannerFilter | None = None) -> int:
        """Lets go of executions held back for a budget or a quota that has room again; how many."""
