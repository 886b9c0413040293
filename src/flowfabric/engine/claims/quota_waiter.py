"""A waiter for lanes whose work is under quotas: no commit announces that a quota opens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from flowfabric.engine.claims.next_opening import NextOpening
from flowfabric.store.wakeups import Topic, Waiter, Wakeups

LONGEST_WAIT_S = 30.0


class QuotaWaiter(Waiter):
    __slots__ = ("_next_opening",)

    def __init__(
        self,
        hub: Wakeups,
        topics: tuple[Topic, ...],
        next_opening: Callable[[], Awaitable[NextOpening]],
    ) -> None:
        super().__init__(hub, topics)
        self._next_opening = next_opening

    async def wait(self, timeout_s: float | None) -> bool:
        """True after a wake-up or when a quota opens, False after the timeout."""
        most = LONGEST_WAIT_S if timeout_s is None else timeout_s
        wait_s = (await self._next_opening()).wait_s(most)
        return await super().wait(wait_s) or wait_s < most
