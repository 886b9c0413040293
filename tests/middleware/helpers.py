"""A manual clock, a scripted engine and a recording layer."""

from __future__ import annotations

from typing import Any, cast

from flowfabric import Engine
from flowfabric.engine.proxy import Operation, Proxy
from flowfabric.errors import TransportError
from flowfabric.middleware import Err, Layer, Ok, with_layers

AWAY = TransportError("test", "away")


class Hands:
    """A clock."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Noted(Layer):
    def __init__(self, name: str, to: list[Any], refuses: Exception | None = None) -> None:
        self.name, self.to, self.refuses = name, to, refuses

    def before(self, method: str) -> None:
        self.to.append(f"{self.name} before {method}")
        if self.refuses is not None:
            raise self.refuses

    def after(self, method: str, elapsed: float, error: BaseException | None) -> None:
        self.to.append(f"{self.name} after {method} {elapsed} {type(error).__name__}")


class Written:
    """A sink."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float, Ok | Err]] = []

    def record_call(self, method: str, elapsed: float, outcome: Ok | Err) -> None:
        self.calls.append((method, elapsed, outcome))


class Moody:
    """Answers pings from a script; each takes two seconds of the clock."""

    def __init__(self, engine: Engine, clock: Hands) -> None:
        self.engine = cast(Engine, Proxy(engine, self._wrap))
        self.errors: list[BaseException | None] = []
        self.asked = 0
        self._clock = clock

    def _wrap(self, name: str, operation: Operation) -> Operation | None:
        return self._ping if name == "ping" else None

    async def _ping(self) -> None:
        self.asked += 1
        self._clock.now += 2
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error

    def under(self, *layers: Layer) -> Engine:
        return with_layers(self.engine, *layers, clock=self._clock)


async def pinged(engine: Engine) -> str:
    """How it went, in a word."""
    try:
        await engine.ping()
    except BaseException as error:
        return str(error)
    return "ok"
