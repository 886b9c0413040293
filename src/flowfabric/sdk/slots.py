"""The execution slots of a worker."""

from __future__ import annotations

import asyncio


class Slots:
    """Counts free slots. A claim reserves what it asks for.

    The count is negative for a moment when a completion brings the next execution with it.
    """

    def __init__(self, free: int) -> None:
        self.free = free
        self._reserved = 0
        self._available = asyncio.Event()
        self._available.set()

    @property
    def are_taken(self) -> bool:
        """Whether executions hold every slot, not counting reservations."""
        return self.free + self._reserved <= 0

    def reserve(self, count: int) -> None:
        self._reserved += count
        self.take(count)

    def settle(self, reserved: int, claimed: int) -> None:
        """Ends a reservation, of which `claimed` slots stay taken."""
        self._reserved -= reserved
        self.release(reserved - claimed)

    def take(self, count: int) -> None:
        self.free -= count
        if self.free <= 0:
            self._available.clear()

    def release(self, count: int = 1) -> None:
        self.free += count
        if self.free > 0:
            self._available.set()

    async def wait(self) -> None:
        """Until a slot is free, or `wake` is called."""
        await self._available.wait()

    def wake(self) -> None:
        self._available.set()
