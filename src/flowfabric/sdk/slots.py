"""How many more executions a worker has room for."""

from __future__ import annotations

import asyncio


class Slots:
    """What is asked for is kept free. It is less than none for a moment where the next came with the end of the one before."""

    def __init__(self, left: int) -> None:
        self.left = left
        self._asked = 0
        self._some = asyncio.Event()
        self._some.set()

    @property
    def is_taken(self) -> bool:
        """All of it, and not by a question that is still open."""
        return self.left + self._asked <= 0

    def ask(self, number: int) -> None:
        self._asked += number
        self.take(number)

    def answer(self, asked: int, got: int) -> None:
        self._asked -= asked
        self.make(asked - got)

    def take(self, number: int) -> None:
        self.left -= number
        if self.left <= 0:
            self._some.clear()

    def make(self, number: int = 1) -> None:
        self.left += number
        if self.left > 0:
            self._some.set()

    async def wait(self) -> None:
        await self._some.wait()

    def call_off(self) -> None:
        """Whoever waits for room goes on without."""
        self._some.set()
