"""Reports each call to a sink."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from flowfabric import errors
from flowfabric.middleware.layer import Layer

_CATEGORIES: tuple[tuple[str, tuple[type[BaseException], ...]], ...] = (
    ("not_found", (errors.NotFound,)),
    ("validation", (errors.ValidationError,)),
    ("contention", (errors.Contention,)),
    ("conflict", (errors.Conflict,)),
    ("state", (errors.StateError,)),
    ("transport", (errors.TransportError,)),
    ("unavailable", (errors.Unavailable,)),
    (
        "bug",
        (errors.ConfigError, TypeError, ValueError, AttributeError, LookupError, AssertionError),
    ),
)
UNKNOWN = "unknown"


def category(error: BaseException) -> str:
    """The category of an error, one of nine; unknown for cancelled, timed-out and other calls."""
    return next((name for name, kinds in _CATEGORIES if isinstance(error, kinds)), UNKNOWN)


class Ok(Struct, frozen=True):
    """The call was answered."""


class Err(Struct, frozen=True):
    """The call failed."""

    category: str


class Sink(Protocol):
    def record_call(self, method: str, elapsed: float, outcome: Ok | Err) -> None:
        """`elapsed`: seconds; 0 if a layer prevented the call."""


class MetricsLayer(Layer):
    def __init__(self, sink: Sink) -> None:
        if not callable(getattr(sink, "record_call", None)):
            raise errors.ConfigError(
                "MetricsLayer: sink: expected an object with "
                f"record_call(method, elapsed, outcome), got {sink!r:.80}"
            )
        self._sink = sink

    def after(self, method: str, elapsed: float, error: BaseException | None) -> None:
        self._sink.record_call(method, elapsed, Ok() if error is None else Err(category(error)))
