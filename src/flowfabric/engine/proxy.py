"""An engine around another: calls from outside pass through a wrapper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from flowfabric.engine.events.subscriptions import Event, EventChannel, EventStream
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.operation import operation
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.engine.telemetry import Telemetry
from flowfabric.model.event import ScannerFilter
from flowfabric.model.lease import Capabilities

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
Operation = Callable[..., Any]
Wrap = Callable[[str, Operation], Operation | None]
"""The operation to call in place of this one, or None for the operation itself."""
NOT_WRAPPED = frozenset(
    {
        "call_off",
        "close",
        "fields",
        "follow_stream",
        "prepare",
        "shutdown_prepare",
        "watched_by",
        "with_scanners",
        "work_bell",
    }
)
"""An engine must always be able to open and to close its connections."""


class _Delegation:
    """Hands everything but operations to the inner engine."""

    may_wait: bool

    def __init__(self, inner: EngineProtocol, wrap: Wrap) -> None:
        self.inner, self._wrap = inner, wrap
        self.may_wait = inner.may_wait

    def bind(self, name: str, method: Callable[Concatenate[S, P], R]) -> Callable[P, R]:
        inner: Callable[P, R] = getattr(self.inner, name)
        wrapped = None if name in NOT_WRAPPED else self._wrap(name, inner)
        return inner if wrapped is None else wrapped

    @property
    def backend_label(self) -> str:
        return self.inner.backend_label

    @property
    def durability(self) -> str:
        return self.inner.durability

    @property
    def telemetry(self) -> Telemetry:
        return self.inner.telemetry

    @property
    def loops_are_running(self) -> bool:
        return self.inner.loops_are_running

    def subscribe(
        self, channel: EventChannel[Event], cursor: bytes, wanted: ScannerFilter | None
    ) -> EventStream[Event]:
        return self.inner.subscribe(channel, cursor, wanted)

    call_off = operation(EngineProtocol.call_off)
    claim = operation(EngineProtocol.claim)
    close = operation(EngineProtocol.close)
    fields = operation(EngineProtocol.fields)
    follow_stream = operation(EngineProtocol.follow_stream)
    ping = operation(EngineProtocol.ping)
    prepare = operation(EngineProtocol.prepare)
    server_time_ms = operation(EngineProtocol.server_time_ms)
    shutdown_prepare = operation(EngineProtocol.shutdown_prepare)
    watched_by = operation(EngineProtocol.watched_by)
    with_scanners = operation(EngineProtocol.with_scanners)
    work_bell = operation(EngineProtocol.work_bell)


class Proxy(_Delegation, EngineProtocol):
    """Around any engine. Calls of the inner engine to its own operations are not wrapped."""

    def in_namespace(self, namespace: str) -> EngineProtocol:
        inner = self.inner.in_namespace(namespace)
        return self if inner is self.inner else Proxy(inner, self._wrap)


class LocalProxy(_Delegation, LocalEngineProtocol):
    """Around an engine on a store."""

    inner: LocalEngineProtocol

    def __init__(self, inner: LocalEngineProtocol, wrap: Wrap) -> None:
        super().__init__(inner, wrap)
        self.store = inner.store

    def in_namespace(self, namespace: str) -> LocalEngineProtocol:
        inner = self.inner.in_namespace(namespace)
        return self if inner is self.inner else LocalProxy(inner, self._wrap)

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
