"""A limit on concurrent operations: an operation above it is refused at once, not queued."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flowfabric.errors import ResourceExhausted, Unavailable


class ConcurrencyLimit:
    def __init__(self, pool: str, maximum: int) -> None:
        self._pool, self._maximum, self.used, self._open = pool, maximum, 0, True

    def close(self) -> None:
        """Refuse new operations; running ones may finish."""
        self._open = False

    @contextmanager
    def slot(self) -> Iterator[None]:
        if not self._open:
            raise Unavailable(self._pool)
        if self.used >= self._maximum:
            raise ResourceExhausted(self._pool, self._maximum)
        self.used += 1
        try:
            yield
        finally:
            self.used -= 1
