"""A layer: told before and after each call of an engine it stands around."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, overload

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.engine.proxy import Operation, wrapped
from flowfabric.errors import ConfigError

log = logging.getLogger("flowfabric.middleware")

STRAIGHT = frozenset({"prepare", "shutdown_prepare", "close", "work_bell"})
"""What opens, closes and wakes is not held back: a program that cannot close would be left with its connections."""


class Layer:
    """Subclass it for one of your own. One layer may stand around several engines, in several threads."""

    def before(self, method: str) -> None:
        """May raise, and the call is not made."""

    def after(self, method: str, elapsed: float, error: BaseException | None) -> None:
        """Always told: seconds, 0 if `before` raised, and the error that came of it, or None."""


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
    """The same engine with these around it; the last is the outermost, and asked first. Subscriptions pass by all of them."""
    for layer in checked(layers):
        engine = wrapped(engine, _Hooks(layer, clock).wrap)
    return engine


def checked(layers: Iterable[object]) -> list[Layer]:
    found: list[Layer] = []
    for layer in layers:
        if not isinstance(layer, Layer):
            raise ConfigError(
                f"layers: objects of a subclass of Layer, such as TracingLayer(), got {layer!r:.80}"
            )
        found.append(layer)
    return found


class _Hooks:
    def __init__(self, layer: Layer, clock: Callable[[], float]) -> None:
        self._layer, self._clock = layer, clock

    def wrap(self, name: str, operation: Operation) -> Operation | None:
        if name in STRAIGHT or not inspect.iscoroutinefunction(operation):
            return None

        @wraps(operation)
        async def layered(*args: Any, **named: Any) -> Any:
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
        """What was done is done, and its answer is not lost by telling of it."""
        try:
            self._layer.after(name, elapsed, error)
        except Exception:
            log.exception(
                "%s: %s could not take the end of a call", name, type(self._layer).__name__
            )
