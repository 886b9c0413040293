"""An engine around another: calls from outside pass through a wrapper."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.events.subscriptions import EventStream
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.engine.telemetry import Telemetry
from flowfabric.ids import ExecutionId
from flowfabric.model.event import (
    CompletionEvent,
    LeaseEvent,
    OperatorEvent,
    ScannerFilter,
    SignalEvent,
)
from flowfabric.model.lease import Capabilities, ClaimPolicy, Handle, HandleFields
from flowfabric.model.stream import StreamFrame, Visibility
from flowfabric.store.wakeups import WorkWaiter

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=EngineProtocol)
Operation = Callable[..., Awaitable[Any]]
Wrap = Callable[[str, Operation], Operation | None]
"""The operation to call in place of this one, or None for the operation itself."""


class _Delegation:
    """Hands everything but operations to the inner engine."""

    may_wait: bool

    def __init__(self, inner: EngineProtocol, wrap: Wrap) -> None:
        self.inner, self._wrap = inner, wrap
        self.may_wait = inner.may_wait

    def bind(self, name: str, method: Callable[Concatenate[Any, P], R]) -> Callable[P, R]:
        return self._wrapped(name, getattr(self.inner, name))

    def _wrapped(self, name: str, operation: Callable[P, R]) -> Callable[P, R]:
        wrapped: Any = self._wrap(name, operation)  # type: ignore[arg-type]
        return operation if wrapped is None else wrapped

    @property
    def backend_label(self) -> str:
        return self.inner.backend_label

    @property
    def durability(self) -> str:
        return self.inner.durability

    @property
    def telemetry(self) -> Telemetry:
        return self.inner.telemetry

    def watched_by(self, listener: Telemetry) -> None:
        self.inner.watched_by(listener)

    def fields(self, handle: Handle) -> HandleFields:
        return self.inner.fields(handle)

    async def ping(self) -> None:
        await self._wrapped("ping", self.inner.ping)()

    async def server_time_ms(self) -> int:
        return await self._wrapped("server_time_ms", self.inner.server_time_ms)()

    async def prepare(self) -> str | None:
        return await self.inner.prepare()

    def with_scanners(self, settings: LoopSettings | None = None) -> bool:
        return self.inner.with_scanners(settings)

    @property
    def loops_are_running(self) -> bool:
        return self.inner.loops_are_running

    async def shutdown_prepare(self, grace_s: float = 5.0) -> None:
        await self.inner.shutdown_prepare(grace_s)

    async def call_off(self, worker_instance_id: str) -> None:
        await self.inner.call_off(worker_instance_id)

    async def close(self) -> None:
        await self.inner.close()

    async def claim(
        self, lane: str, capabilities: Iterable[str], policy: ClaimPolicy
    ) -> Handle | None:
        return await self._wrapped("claim", self.inner.claim)(lane, capabilities, policy)

    async def work_bell(self, *lanes: str, namespace: str | None = "default") -> WorkWaiter:
        return await self.inner.work_bell(*lanes, namespace=namespace)

    def follow_stream(
        self,
        execution: ExecutionId,
        attempt_index: int = 0,
        after: str = "0-0",
        visibility: Visibility = Visibility.All,
        *,
        later_attempts: bool = True,
    ) -> AsyncIterator[tuple[int, StreamFrame]]:
        return self.inner.follow_stream(
            execution, attempt_index, after, visibility, later_attempts=later_attempts
        )

    def subscribe_completion(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> EventStream[CompletionEvent]:
        return self.inner.subscribe_completion(cursor, wanted)

    def subscribe_lease_history(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> EventStream[LeaseEvent]:
        return self.inner.subscribe_lease_history(cursor, wanted)

    def subscribe_operator_events(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> EventStream[OperatorEvent]:
        return self.inner.subscribe_operator_events(cursor, wanted)

    def subscribe_signal_delivery(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> EventStream[SignalEvent]:
        return self.inner.subscribe_signal_delivery(cursor, wanted)


class Proxy(_Delegation, EngineProtocol):
    """Around any engine. Calls that the inner engine makes of its own operations are not
    wrapped.
    """


class LocalProxy(_Delegation, LocalEngineProtocol):
    """Around an engine on a store."""

    inner: LocalEngineProtocol

    def __init__(self, inner: LocalEngineProtocol, wrap: Wrap) -> None:
        super().__init__(inner, wrap)
        self.store = inner.store

    def capabilities(self) -> Capabilities:
        return self.inner.capabilities()


@overload
def wrapped(engine: LocalEngineProtocol, wrap: Wrap) -> LocalEngineProtocol: ...


@overload
def wrapped(engine: EngineProtocol, wrap: Wrap) -> EngineProtocol: ...


def wrapped(engine: EngineProtocol, wrap: Wrap) -> EngineProtocol:
    """The same kind of engine, with its operations called through `wrap`."""
    if isinstance(engine, LocalEngineProtocol):
        return LocalProxy(engine, wrap)
    return Proxy(engine, wrap)
