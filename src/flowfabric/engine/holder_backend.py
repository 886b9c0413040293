"""The documented protocol, the part of those who hold a lease."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from flowfabric.errors import EngineError
from flowfabric.model.attempt import Delayed, FailOutcome, FailureClass, FailureReason
from flowfabric.model.lease import (
    ClaimPolicy,
    Completed,
    CompleteExecutionArgs,
    DelayExecutionArgs,
    FailExecutionArgs,
    Handle,
    LeaseRenewal,
    Renewed,
    RenewLeaseArgs,
    UpdateProgressArgs,
    Work,
)


class HolderBackend(Protocol):
    async def are_held(self, handles: Sequence[Handle]) -> list[bool]:
        """Which of these leases are still the current ones, without renewing them."""

    async def renew(self, handle: Handle) -> LeaseRenewal:
        """Holds the lease for another of its own time-to-live."""

    async def progress(
        self, handle: Handle, percent: int | None = None, message: str | None = None
    ) -> None:
        """Says how far the work is. What is None stays as it was."""

    async def complete(
        self, handle: Handle, payload: bytes | None = None, *, settle: bool = True
    ) -> None:
        """Ends the execution with success. Sent again by the same lease, it answers the same.

        Members of its flow that wait for it hear of it before this returns; with settle=False, right afterwards.
        """

    async def complete_many(
        self, many: Sequence[tuple[Handle, bytes | None]]
    ) -> list[EngineError | None]:
        """Each as `complete` would answer it: None, or the error for that one."""

    async def complete_and_claim(
        self,
        many: Sequence[tuple[Handle, bytes | None]],
        lane: str,
        capabilities: Iterable[str],
        policy: ClaimPolicy,
        n: int,
    ) -> tuple[list[EngineError | None], list[Work]]:
        """Ends executions as `complete_many` does and takes up to n others in the same journey to the store.

        For a worker that has its hands full. It waits for nothing, and looks once: who gets nothing asks with `claim_many`.
        """

    async def fail(
        self,
        handle: Handle,
        reason: FailureReason | str,
        failure_class: FailureClass = FailureClass.TRANSIENT,
        *,
        retry_after_ms: int | None = None,
    ) -> FailOutcome:
        """Ends the attempt; the class and the policy decide whether there is another, `retry_after_ms` when, if given."""

    async def delay(self, handle: Handle, delay_until: int) -> None:
        """Parks the execution until a time; the same attempt goes on then."""

    async def cancel(self, handle: Handle, reason: str = "") -> None:
        """The holder gives its own execution up."""

    async def renew_lease(self, args: RenewLeaseArgs) -> Renewed: ...

    async def update_progress(self, args: UpdateProgressArgs) -> None:
        """Lifecycle, revocation and expiry first, then the lease named here."""

    async def complete_execution(self, args: CompleteExecutionArgs) -> Completed: ...

    async def fail_execution(self, args: FailExecutionArgs) -> FailOutcome:
        """The policy is the one given here; without one, the failure is final."""

    async def delay_execution(self, args: DelayExecutionArgs) -> Delayed: ...
