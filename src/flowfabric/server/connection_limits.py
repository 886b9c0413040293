"""Limits on connections: above them, connections without a valid token are closed first."""

from __future__ import annotations

from collections import Counter
from collections.abc import MutableMapping
from typing import Any, Protocol

KEEP_ALIVE_S = 75
CROWDED_KEEP_ALIVE_S = 2
"""Idle seconds between requests; the second value applies to unauthenticated connections while
more than half of the connections are in use."""


class Connection(Protocol):
    transport: Any
    connections: set[Any]

    @property
    def address(self) -> str: ...

    @property
    def is_idle(self) -> bool: ...


class ConnectionLimits:
    """Tracks the connections on which no valid token has been received, oldest first."""

    def __init__(self, maximum: int, per_address: int) -> None:
        self._maximum, self._per_address = maximum, per_address
        self._unauthenticated: dict[Connection, str] = {}
        self._by_address: Counter[str] = Counter()

    def add(self, new: Connection) -> None:
        self._unauthenticated[new] = new.address
        self._by_address[new.address] += 1
        others = [each for each in self._unauthenticated if each is not new]
        idle = [each for each in others if each.is_idle]
        if self._by_address[new.address] > self._per_address:
            self._close_first([each for each in idle if each.address == new.address])
        if len(new.connections) >= self._maximum:
            self._close_first(self._still_open(idle) or self._still_open(others))

    def exempt(self, connection: Connection) -> None:
        """Stop counting a connection, because it sent a valid token or was closed."""
        address = self._unauthenticated.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def keep_alive_s(self, connection: Connection) -> int:
        crowded = len(connection.connections) * 2 > self._maximum
        unauthenticated = connection in self._unauthenticated
        return CROWDED_KEEP_ALIVE_S if crowded and unauthenticated else KEEP_ALIVE_S

    def _still_open(self, connections: list[Connection]) -> list[Connection]:
        return [each for each in connections if each in self._unauthenticated]

    def _close_first(self, oldest_first: list[Connection]) -> None:
        for each in oldest_first[:1]:
            self.exempt(each)
            each.connections.discard(each)
            each.transport.abort()


def mark_authenticated(scope: MutableMapping[str, Any]) -> None:
    """Exempt the connection of a request with a valid token."""
    found = scope.get("state", {}).get("connection")
    if found is not None:
        found.limits.exempt(found)
