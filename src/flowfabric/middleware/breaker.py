"""A circuit breaker: refuses calls for a while after repeated transport errors."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from flowfabric.errors import ConfigError, TransportError
from flowfabric.middleware.layer import Layer

BACKEND = "ff-sdk-layer"


class CircuitBreakerLayer(Layer):
    """Opens after `threshold` transport errors without a success between them.

    While open, calls are refused for `cool_down` seconds; then one probe is let through. Its
    success closes the breaker, and its transport error starts another cool-down. Any other error,
    which may precede the store, lets the next call probe.
    """

    def __init__(
        self,
        threshold: int = 5,
        cool_down: float = 30.0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(threshold, bool) or not isinstance(threshold, int) or threshold < 1:
            raise ConfigError(
                f"CircuitBreakerLayer: threshold: expected an integer from 1, got {threshold!r:.80}"
            )
        if (
            isinstance(cool_down, bool)
            or not isinstance(cool_down, int | float)
            or not cool_down >= 0
        ):
            raise ConfigError(
                f"CircuitBreakerLayer: cool_down: expected seconds from 0, got {cool_down!r:.80}"
            )
        self._threshold, self._cool_down, self._clock = threshold, cool_down, clock
        self._lock = threading.Lock()
        self._failures = 0
        self._opened_at: float | None = None
        self._probe: asyncio.Task[Any] | None = None

    def before(self, method: str) -> None:
        with self._lock:
            if self._opened_at is None:
                return
            cooled = self._clock() - self._opened_at >= self._cool_down
            if not cooled or (self._probe is not None and not self._probe.done()):
                raise TransportError(BACKEND, "circuit open")
            self._probe = asyncio.current_task()

    def after(self, method: str, elapsed: float, error: BaseException | None) -> None:
        """While open, only the probe counts: other calls started before the breaker opened."""
        unreachable = isinstance(error, TransportError) and error.backend != BACKEND
        with self._lock:
            if self._opened_at is None:
                self._count(error, unreachable=unreachable)
            elif self._probe is asyncio.current_task():
                self._judge(error, unreachable=unreachable)

    def _count(self, error: BaseException | None, *, unreachable: bool) -> None:
        if error is None:
            self._failures = 0
        elif unreachable:
            self._failures += 1
            if self._failures >= self._threshold:
                self._opened_at = self._clock()

    def _judge(self, error: BaseException | None, *, unreachable: bool) -> None:
        self._probe = None
        if error is None:
            self._failures, self._opened_at = 0, None
        elif unreachable:
            self._opened_at = self._clock()
