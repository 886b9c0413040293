"""The server's clock, read now and then and continued by the monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from flowfabric.store.clock import monotonic_ms
from flowfabric.store.single_flight import SingleFlight

READ_EVERY_S = 10.0


class ServerClock:
    """Never ahead of the server, and never decreasing.

    A caller that wakes before the server's time finds nothing due and sleeps again.
    """

    def __init__(self, read: Callable[[], Awaitable[int]]) -> None:
        self._read = read
        self._flight = SingleFlight()
        self._offset_ms = time.time_ns() // 1_000_000 - monotonic_ms()
        self._valid_until = float("-inf")
        self._latest = 0

    async def now_ms(self) -> int:
        if time.monotonic() > self._valid_until:
            await self._flight.once("clock", self._set)
        self._latest = max(self._latest, self.estimate_ms())
        return self._latest

    def estimate_ms(self) -> int:
        """From the last reading, without a round trip."""
        return monotonic_ms() + self._offset_ms

    def expire(self) -> None:
        """Reads the server's clock at the next call."""
        self._valid_until = float("-inf")

    async def _set(self) -> None:
        now = await self._read()
        self._offset_ms = now - monotonic_ms() - 1
        self._valid_until = time.monotonic() + READ_EVERY_S
