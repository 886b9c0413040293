"""The documented protocol, the part about suspensions and signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

from flowfabric.engine.events.subscriptions import Subscription
from flowfabric.ids import ExecutionId
from flowfabric.model.event import ScannerFilter, SignalEvent
from flowfabric.model.execution import Page
from flowfabric.model.lease import Handle, LeaseFence
from flowfabric.model.signing_key import AlreadySeeded, KidListing, RotationEntry, Seeded
from flowfabric.model.waitpoint import (
    ApprovalSignalArgs,
    ConditionMet,
    DeliverSignalArgs,
    PendingWaitpoint,
    Resumed,
    ResumeSignal,
    SignalAccepted,
    SignalDuplicate,
    SuspendArgs,
    Suspended,
    SuspendedListed,
    WaitpointListed,
)


class SuspensionBackend(Protocol):
    # ---- keys

    async def seed_waitpoint_hmac_secret(self, kid: str, secret_hex: str) -> Seeded | AlreadySeeded:
        """Installs the first signing key; safe to call at every start."""

    async def rotate_waitpoint_hmac_secret_all(
        self, new_kid: str, new_secret_hex: str, grace_ms: int
    ) -> list[RotationEntry]:
        """A new signing key; tokens of the old one stay good for the grace."""

    async def list_waitpoint_hmac_kids(self) -> KidListing:
        """Which key signs, and whose tokens are still accepted. Never a secret."""

    # ---- suspending

    async def create_waitpoint(
        self,
        handle: Handle,
        waitpoint_key: str = "",
        expires_in_ms: int = 86_400_000,
        signal_names: Sequence[str] = (),
        payload_schema: dict[str, Any] | None = None,
        approvers: Sequence[str] = (),
    ) -> PendingWaitpoint:
        """A mailbox ahead of the suspension: what arrives in it is kept. The lease stays."""

    async def suspend(self, handle: Handle, args: SuspendArgs) -> Suspended | ConditionMet:
        """Parks the attempt until its condition holds, without holding a worker; or says that it holds already."""

    async def suspend_by_triple(
        self, execution: ExecutionId, fence: LeaseFence, args: SuspendArgs
    ) -> Suspended | ConditionMet:
        """As `suspend`, for callers who name the lease instead of holding a handle."""

    async def observe_signals(self, handle: Handle) -> list[ResumeSignal]:
        """To a suspended handle all signals so far; to any other those that made it go on."""

    async def read_resume_signals(self, execution: ExecutionId) -> list[ResumeSignal]:
        """What ended the latest suspension, whichever attempt it was of: the one after a crash is to know it as well."""

    # ---- ending a suspension

    async def deliver_signal(self, args: DeliverSignalArgs) -> SignalAccepted | SignalDuplicate:
        """One signal to one waitpoint: its token is checked before anything else is looked at."""

    async def deliver_approval_signal(
        self, args: ApprovalSignalArgs
    ) -> SignalAccepted | SignalDuplicate:
        """An operator's decision; the engine shows the token itself."""

    async def resume_execution(
        self, execution: ExecutionId, trigger_type: str = "signal", resume_delay_ms: int = 0
    ) -> Resumed:
        """Ends a suspension whatever it waits for."""

    async def expire_suspension(
        self, execution: ExecutionId, *, partition: int | str | None = None, now: int | None = None
    ) -> str:
        """Does what was said for the case that nobody signals in time; the answer says what was found."""

    async def close_waitpoint(
        self, execution: ExecutionId, waitpoint_id: UUID, reason: str = "proactive_close"
    ) -> str:
        """Takes no more signals; a suspension that listens on it goes on waiting."""

    # ---- who waits

    async def read_waitpoint_token(self, partition: int | str, waitpoint_id: UUID) -> str | None:
        """The credential itself, of an open waitpoint. For those who may hand it out."""

    async def read_held_waitpoint_token(
        self, handle: Handle, waitpoint_id: UUID, approver: str = ""
    ) -> str | None:
        """The token of an open waitpoint of the execution whose live lease this is, or that of an approver's link."""

    async def look_at_waitpoint(
        self, execution: ExecutionId, waitpoint_id: UUID, token: str
    ) -> WaitpointListed:
        """What its token asks for. A token that does not fit tells nothing of what is there."""

    async def list_pending_waitpoints(
        self, execution: ExecutionId, after: UUID | None = None, limit: int = 100
    ) -> Page[WaitpointListed]:
        """Open waitpoints of an execution by id; a fingerprint stands for the token."""

    async def list_open_waitpoints(
        self,
        after: tuple[int, UUID] | None = None,
        limit: int = 100,
    ) -> Page[WaitpointListed]:
        """Open waitpoints of all executions, oldest first: what people are being asked."""

    async def list_suspended(
        self, partition: int | str, cursor: ExecutionId | None = None, limit: int = 100
    ) -> Page[SuspendedListed]:
        """Suspended executions of a partition, by when that was."""

    def subscribe_signal_delivery(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> Subscription[SignalEvent]:
        """Every signal that was accepted, and what it did."""

    # ---- what the loops call

    async def expire_waitpoints(self, limit: int = 100) -> int:
        """Closes waitpoints that no suspension used in time; how many."""

    async def forget_signal_keys(self) -> int:
        """Drops what is remembered of signals and suspends past its time; how many."""
