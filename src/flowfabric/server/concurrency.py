"""So many at once and no more: who comes on top is told at once, not made to wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flowfabric.errors import ResourceExhausted, Unavailable


class Permits:
    def __init__(self, pool: str, most: int) -> None:
        self._pool, self._most, self.used, self._open = pool, most, 0, True

    def close(self) -> None:
        """The server stops: what runs may finish, nothing new begins."""
        self._open = False

    @contextmanager
    def one(self) -> Iterator[None]:
        if not self._open:
            raise Unavailable(self._pool)
        if self.used >= self._most:
            raise ResourceExhausted(self._pool, self._most)
        self.used += 1
        try:
            yield
        finally:
            self.used -= 1
