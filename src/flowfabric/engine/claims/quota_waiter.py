"""The bell of lanes whose work is under quotas: the wait for it ends when a quota opens, which no commit tells of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from flowfabric.engine.claims.gated_claims import NextOpening
from flowfabric.store.wakeups import Topic, Waiter, Wakeups

LONGEST_WAIT_S = 30.0


class QuotaWaiter(Waiter):
    __slots__ = ("_later",)

    def __init__(
        self, hub: Wakeups, topics: tuple[Topic, ...], later: Callable[[], Awaitable[NextOpening]]
    ) -> None:
        super().__init__(hub, topics)
        self._later = later

    async def wait(self, timeout_s: float | None) -> bool:
        """True when rung or when a quota opens, False when the time is up."""
        most = LONGEST_WAIT_S if timeout_s is None else timeout_s
        wait_s = (await self._later()).wait_s(most)
        return await super().wait(wait_s) or wait_s < most
