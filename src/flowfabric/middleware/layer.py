"""A layer: hooks before and after each call of an engine."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import overload

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.engine.proxy import Operation, wrapped
from flowfabric.errors import ConfigError

log = logging.getLogger("flowfabric.middleware")


class Layer:
    """Base class of layers. One layer may wrap several engines, in several threads."""

    def before(self, method: str) -> None:
        """Called before the operation; an exception prevents the call."""

    def after(self, method: str, elapsed: float, error: BaseException | None) -> None:
        """Called after the operation with its seconds (0 if `before` raised) and its error."""


@overload
def with_layers(
    engine: LocalEngineProtocol, *layers: Layer, clock: Callable[[], float] = ...
) -> LocalEngineProtocol: ...


@overload
def with_layers(
    engine: EngineProtocol, *layers: Layer, clock: Callable[[], float] = ...
) -> EngineProtocol: ...


def with_layers(
    engine: EngineProtocol, *layers: Layer, clock: Callable[[], float] = time.perf_counter
) -> EngineProtocol:
    """The engine wrapped in layers; the last is the outermost. Subscriptions bypass all layers."""
    for layer in checked(layers):
        engine = wrapped(engine, _Hooks(layer, clock).wrap)
    return engine


def checked(layers: Iterable[object]) -> list[Layer]:
    found: list[Layer] = []
    for layer in layers:
        if not isinstance(layer, Layer):
            raise ConfigError(
                "layers: expected objects of a subclass of Layer, such as TracingLayer(), "
                f"got {layer!r:.80}"
            )
        found.append(layer)
    return found


class _Hooks:
    def __init__(self, layer: Layer, clock: Callable[[], float]) -> None:
        self._layer, self._clock = layer, clock

    def wrap(self, name: str, operation: Operation) -> Operation | None:
        if not inspect.iscoroutinefunction(operation):
            return None

        @wraps(operation)
        async def layered(*args: object, **named: object) -> object:
            try:
                self._layer.before(name)
            except BaseException as error:
                self._after(name, 0.0, error)
                raise
            began = self._clock()
            try:
                answer = await operation(*args, **named)
            except BaseException as error:
                self._after(name, self._clock() - began, error)
                raise
            self._after(name, self._clock() - began, None)
            return answer

        return layered

    def _after(self, name: str, elapsed: float, error: BaseException | None) -> None:
        """Calls `after`; its failure does not affect the answer of the operation."""
        try:
            self._layer.after(name, elapsed, error)
        except Exception:
            fields = {"method": name, "layer": type(self._layer).__name__}
            log.exception("layer failed after a call", extra=fields)
