"""The engine of a deployment whose namespaces are cells: each call goes to the cells it concerns.

An operation that names a namespace goes to its cell, and one about an entity to the cell that has
it. Lists and counts without a namespace gather over the registered cells. The cell of the namespace
`default` is the base cell, which also has the tokens and the register.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from flowfabric.engine.background import BackgroundLoops, LoopSettings
from flowfabric.engine.cells import locate
from flowfabric.engine.cells.calls import CellCalls
from flowfabric.engine.cells.events import CellEvents
from flowfabric.engine.cells.jobs import Jobs
from flowfabric.engine.cells.listings import Listings
from flowfabric.engine.cells.locate import Locator
from flowfabric.engine.cells.overview import Overview
from flowfabric.engine.cells.pool import Cells
from flowfabric.engine.cells.routes import ROUTES
from flowfabric.engine.cells.work import CellWork
from flowfabric.engine.core import Settings
from flowfabric.engine.events.subscriptions import Event, EventChannel, EventStream
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.telemetry import Telemetry
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model.event import ScannerFilter
from flowfabric.model.lease import Capabilities, Handle, HandleFields
from flowfabric.model.stream import StreamFrame, Visibility
from flowfabric.store.wakeups import WorkWaiter

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class CellsEngine(LocalEngineProtocol):
    """`close_link` ends what the cells share."""

    def __init__(self, cells: Cells, close_link: Callable[[], Awaitable[None]]) -> None:
        self.cells, self.close_link = cells, close_link
        self.store = cells.base.store
        self._locator = Locator(cells)
        self._calls = CellCalls(cells, self._locator)
        self._work = CellWork(cells, self._locator, self._calls)
        self._events = CellEvents(cells)
        self._gathering = (
            self._work,
            self._events,
            Listings(cells, self._locator),
            Overview(cells),
            Jobs(cells),
        )
        self._closed = False

    def in_namespace(self, namespace: str) -> CellsEngine:
        return CellsEngine(self.cells.limited_to(namespace), self.close_link)

    def bind(self, name: str, method: Callable[Concatenate[S, P], R]) -> Callable[P, R]:
        if name in ROUTES:
            return cast("Callable[P, R]", self._calls.operation(name, method))
        part = next(each for each in self._gathering if hasattr(each, name))
        bound: Callable[P, R] = getattr(part, name)
        return bound

    # ---- what is not an operation

    @property
    def settings(self) -> Settings:
        return self.cells.base.settings

    @property
    def backend_label(self) -> str:
        return self.cells.base.backend_label

    @property
    def durability(self) -> str:
        return self.cells.base.durability

    @property
    def telemetry(self) -> Telemetry:
        return self.cells.base.telemetry

    @property
    def loops(self) -> BackgroundLoops:
        return self.cells.base.loops

    @property
    def loops_are_running(self) -> bool:
        return self.cells.base.loops_are_running

    def watched_by(self, listener: Telemetry) -> None:
        for engine in self.cells.engines():
            engine.watched_by(listener)

    def capabilities(self) -> Capabilities:
        return self.cells.base.capabilities()

    async def ping(self) -> None:
        await self.cells.base.ping()

    async def server_time_ms(self) -> int:
        return await self.cells.base.server_time_ms()

    async def prepare(self) -> str | None:
        return await self.cells.base.prepare()

    def with_scanners(self, settings: LoopSettings | None = None) -> bool:
        return self.cells.base.with_scanners(settings)

    async def shutdown_prepare(self, grace_s: float = 5.0) -> None:
        await self.cells.base.shutdown_prepare(grace_s)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for engine in self.cells.engines():
            await engine.close()
        await self.close_link()

    def fields(self, handle: Handle) -> HandleFields:
        return self.cells.base.fields(handle)

    async def work_bell(self, *lanes: str, namespace: str | None = "default") -> WorkWaiter:
        return await self._work.work_bell(*lanes, namespace=namespace)

    def subscribe(
        self, channel: EventChannel[Event], cursor: bytes, wanted: ScannerFilter | None
    ) -> EventStream[Event]:
        return self._events.subscribe(channel, cursor, wanted)

    async def follow_stream(
        self,
        execution: ExecutionId,
        attempt_index: int = 0,
        after: str = "0-0",
        visibility: Visibility = Visibility.All,
        *,
        later_attempts: bool = True,
    ) -> AsyncIterator[tuple[int, StreamFrame]]:
        cell = await self._locator.cell_of((locate.EXECUTION, execution_id(execution)))
        frames: Any = cell.follow_stream(
            execution, attempt_index, after, visibility, later_attempts=later_attempts
        )
        async for frame in frames:
            yield frame
