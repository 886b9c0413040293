"""The engine: every operation, once, over any store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from flowfabric.engine.background import BackgroundLoops, LoopSettings, NoLoops
from flowfabric.engine.capabilities import offered_by, package_version
from flowfabric.engine.core import Settings
from flowfabric.engine.events.subscriptions import Subscription
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.parts import Parts
from flowfabric.engine.telemetry import Telemetry
from flowfabric.ids import ExecutionId
from flowfabric.model.event import (
    CompletionEvent,
    LeaseEvent,
    OperatorEvent,
    ScannerFilter,
    SignalEvent,
)
from flowfabric.model.lease import Capabilities, Handle, HandleFields
from flowfabric.model.stream import StreamFrame, Visibility
from flowfabric.store.port import Store
from flowfabric.store.wakeups import Waiter

P = ParamSpec("P")
R = TypeVar("R")


class Engine(LocalEngineProtocol):
    """Builds the parts over a store and binds the operations to them."""

    def __init__(
        self,
        store: Store,
        settings: Settings | None = None,
        *,
        loops: BackgroundLoops | None = None,
        seed: int | None = None,
    ) -> None:
        self.store = store
        self.settings = (settings or Settings()).checked()
        self.loops: BackgroundLoops = loops or NoLoops()
        self.parts = Parts(store, self.settings, seed)
        self._closed = False

    def bind(self, name: str, method: Callable[Concatenate[Any, P], R]) -> Callable[P, R]:
        part = self.parts.named(method.__qualname__.split(".")[0])
        bound: Callable[P, R] = getattr(part, method.__name__)
        return bound

    @property
    def backend_label(self) -> str:
        return self.store.label

    @property
    def durability(self) -> str:
        return self.store.durability

    async def ping(self) -> None:
        await self.read_lane("default")

    async def server_time_ms(self) -> int:
        return await self.store.now_ms()

    async def prepare(self) -> str | None:
        return await self.store.prepare()

    def capabilities(self) -> Capabilities:
        identity = {
            "family": self.store.label,
            "version": package_version(),
            "rfc017_stage": "unknown",
        }
        return Capabilities(identity, offered_by(type(self)))

    def fields(self, handle: Handle) -> HandleFields:
        return self.parts.leases.fields(handle)

    # ---- telemetry and background loops

    @property
    def telemetry(self) -> Telemetry:
        return self.parts.core.telemetry.listener

    def watched_by(self, listener: Telemetry) -> None:
        self.parts.core.telemetry.listener = listener
        self.loops.watched_by(listener)

    def with_scanners(self, settings: LoopSettings | None = None) -> bool:
        return self.loops.start(self, settings)

    @property
    def loops_are_running(self) -> bool:
        return self.loops.is_running

    async def shutdown_prepare(self, grace_s: float = 5.0) -> None:
        await self.loops.stop(grace_s)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self.loops.release()
            await self.finish()
            await self.store.close()

    async def finish(self) -> None:
        """Waits for work that continues after a call is answered; the store stays open."""
        await self.parts.finish()

    # ---- waiting and following

    async def work_bell(self, *lanes: str, namespace: str | None = "default") -> Waiter:
        return await self.parts.steps.work_bell(*lanes, namespace=namespace)

    def follow_stream(
        self,
        execution: ExecutionId,
        attempt_index: int = 0,
        after: str = "0-0",
        visibility: Visibility = Visibility.All,
        *,
        later_attempts: bool = True,
    ) -> AsyncIterator[tuple[int, StreamFrame]]:
        return self.parts.long_poll.follow_stream(
            execution, attempt_index, after, visibility, later_attempts=later_attempts
        )

    def subscribe_completion(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> Subscription[CompletionEvent]:
        return self.parts.subscriptions.subscribe_completion(cursor, wanted)

    def subscribe_lease_history(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> Subscription[LeaseEvent]:
        return self.parts.subscriptions.subscribe_lease_history(cursor, wanted)

    def subscribe_operator_events(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> Subscription[OperatorEvent]:
        return self.parts.subscriptions.subscribe_operator_events(cursor, wanted)

    def subscribe_signal_delivery(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> Subscription[SignalEvent]:
        return self.parts.subscriptions.subscribe_signal_delivery(cursor, wanted)
