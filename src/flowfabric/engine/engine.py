"""The engine: every operation, once, over any store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from flowfabric.engine.background import BackgroundLoops, LoopSettings, NoLoops
from flowfabric.engine.capabilities import FLAGS, NOT_OFFERED, package_version
from flowfabric.engine.core import Settings
from flowfabric.engine.events import subscriptions
from flowfabric.engine.events.long_poll import LongPoll
from flowfabric.engine.events.subscriptions import Event, EventChannel, EventStream
from flowfabric.engine.leases.facts import LeaseCache
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.omitted_events import WithoutEvents
from flowfabric.engine.operation import operation
from flowfabric.engine.parts import Parts
from flowfabric.engine.telemetry import Telemetry
from flowfabric.engine.workers.steps import Steps
from flowfabric.model.event import LEASE_EVENTS, ScannerFilter
from flowfabric.model.lease import Capabilities
from flowfabric.store.port import Store

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


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
        self.settings = (settings or Settings()).checked()
        if self.settings.lease_events == "off":
            store = WithoutEvents(store, LEASE_EVENTS)
        self.store = store
        self.loops: BackgroundLoops = loops or NoLoops()
        self.parts = Parts(store, self.settings, seed)
        self._closed = False

    def bind(self, name: str, method: Callable[Concatenate[S, P], R]) -> Callable[P, R]:
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
        return Capabilities(identity, {flag: flag not in NOT_OFFERED for flag in FLAGS})

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

    def subscribe(
        self, channel: EventChannel[Event], cursor: bytes, wanted: ScannerFilter | None
    ) -> EventStream[Event]:
        return subscriptions.subscribe(self.store, self.parts.events, channel, cursor, wanted)

    fields = operation(LeaseCache.fields)
    work_bell = operation(Steps.work_bell)
    follow_stream = operation(LongPoll.follow_stream)
