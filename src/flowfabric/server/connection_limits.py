"""Who keeps a connection when there are too many: callers with a valid token first, the others make room."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

KEEP_ALIVE_S = 75
CROWDED_S = 2
"""How long a connection may idle between requests; the second for strangers while more than half of the places are taken."""


class Connection(Protocol):
    transport: Any
    connections: set[Any]

    @property
    def address(self) -> str: ...

    @property
    def is_idle(self) -> bool: ...


class Crowd:
    """Strangers are connections on which no valid token has been sent yet; the oldest come first."""

    def __init__(self, most: int, per_address: int) -> None:
        self._most, self._per_address = most, per_address
        self._strangers: dict[Connection, str] = {}
        self._at: Counter[str] = Counter()

    def enter(self, comer: Connection) -> None:
        self._strangers[comer] = comer.address
        self._at[comer.address] += 1
        if self._at[comer.address] > self._per_address:
            self._close_one(
                [
                    each
                    for each in self._others(comer)
                    if each.is_idle and each.address == comer.address
                ]
            )
        if len(comer.connections) >= self._most:
            others = self._others(comer)
            self._close_one([each for each in others if each.is_idle] or others)

    def know(self, member: Connection) -> None:
        """It sent a valid token: it keeps its place, and counts for no address. The same when it leaves."""
        address = self._strangers.pop(member, None)
        if address is not None:
            self._at[address] -= 1
            if not self._at[address]:
                del self._at[address]

    def keep_alive_s(self, member: Connection) -> int:
        crowded = len(member.connections) * 2 > self._most
        return CROWDED_S if crowded and member in self._strangers else KEEP_ALIVE_S

    def _others(self, comer: Connection) -> list[Connection]:
        return [each for each in self._strangers if each is not comer]

    def _close_one(self, oldest_first: list[Connection]) -> None:
        for each in oldest_first[:1]:
            self.know(each)
            each.connections.discard(each)
            each.transport.abort()


def vouch(scope: Any) -> None:
    """A request with a valid token came on this connection."""
    found = scope.get("state", {}).get("connection")
    if found is not None:
        found.crowd.know(found)
