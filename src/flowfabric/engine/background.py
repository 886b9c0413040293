"""Background loops, as an engine sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from flowfabric.engine.telemetry import Telemetry
from flowfabric.model.event import ScannerFilter

if TYPE_CHECKING:
    from flowfabric.engine.engine import Engine


class LoopSettings(Struct, frozen=True):
    """The longest sleep of each loop; a due time ends it earlier. `wanted` narrows the work of this
    process.
    """

    lease_expiry_ms: int = 1_500
    delayed_promoter_ms: int = 750
    attempt_timeout_ms: int = 2_000
    execution_deadline_ms: int = 5_000
    route_ms: int = 5_000
    retention_ms: int = 60_000
    worker_reaper_ms: int = 30_000
    dependency_reconciler_ms: int = 15_000
    edge_cancel_dispatcher_ms: int = 1_000
    edge_cancel_reconciler_ms: int = 10_000
    cancel_reconciler_ms: int = 15_000
    flow_projector_ms: int = 15_000
    suspension_timeout_ms: int = 2_000
    pending_waitpoint_ms: int = 5_000
    budget_reset_ms: int = 15_000
    budget_reconciler_ms: int = 30_000
    quota_reconciler_ms: int = 30_000
    unblock_ms: int = 5_000
    store_maintenance_ms: int = 2_000
    bulk_actions_ms: int = 5_000
    wanted: ScannerFilter = ScannerFilter()


class BackgroundLoops(Protocol):
    """Starts and stops the loops of one engine."""

    @property
    def is_running(self) -> bool: ...

    @property
    def leads(self) -> bool:
        """True when this process runs the loops of a store that elects one."""

    def start(self, engine: Engine, settings: LoopSettings | None) -> bool:
        """False when they are started already."""

    def watched_by(self, listener: Telemetry) -> None: ...

    async def stop(self, grace_s: float) -> None: ...

    async def release(self) -> None:
        """The engine closes; loops that other engines share keep running."""


class NoLoops:
    """The loops of this engine run elsewhere, so they count as running."""

    is_running = True
    leads = False

    def start(self, engine: Engine, settings: LoopSettings | None) -> bool:
        return False

    def watched_by(self, listener: Telemetry) -> None: ...

    async def stop(self, grace_s: float) -> None: ...

    async def release(self) -> None: ...
