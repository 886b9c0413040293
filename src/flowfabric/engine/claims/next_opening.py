"""When the full quotas of a queue open, and a waiter for it: no commit announces it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from flowfabric.rules.claims.admission import Capacity
from flowfabric.store.wakeups import Topic, Waiter, Wakeups

SHORTEST_WAIT_S, LONGEST_WAIT_S = 0.001, 30.0
Place = tuple[str, str]
"""A lane and a namespace."""


class NextOpening(Struct, frozen=True):
    """When another claim may succeed: at a time, or (`busy`) whenever a lease ends.

    `as_of_ms` is the store's time of the read, `seen` the monotonic time of this process after it.
    """

    opens_at_ms: int | None = None
    busy: bool = False
    as_of_ms: int = 0
    seen: float = 0.0

    def wait_s(self, most: float) -> float:
        """The time until a quota opens, at most `most`."""
        if self.opens_at_ms is None:
            return most
        until_s = (self.opens_at_ms - self.as_of_ms) / 1_000 - (time.monotonic() - self.seen)
        return min(max(until_s, SHORTEST_WAIT_S), most)

    def combined_with(self, other: NextOpening) -> NextOpening:
        """The earlier opening of two reads, as of the later read."""
        times = [at for at in (self.opens_at_ms, other.opens_at_ms) if at is not None]
        as_of_ms, seen = max((self.as_of_ms, self.seen), (other.as_of_ms, other.seen))
        return NextOpening(min(times, default=None), self.busy or other.busy, as_of_ms, seen)


NO_OPENING = NextOpening()


def opening_of(closed: Sequence[Capacity], now_ms: int) -> NextOpening:
    times = [found.opens_at_ms for found in closed if found.opens_at_ms is not None]
    is_busy = any(found.why == "concurrency" for found in closed)
    return NextOpening(min(times, default=None), is_busy, now_ms, time.monotonic())


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
