"""Why the engine repeats a commit, how often, and how long it pauses in between."""

from __future__ import annotations

import asyncio
import random

from msgspec import Struct

from flowfabric.errors import Contention, ContentionKind


class Reason(Struct, frozen=True):
    """The number of tries, and the bounds of the growing pauses between them."""

    most: int
    first_s: float
    longest_s: float


CHANGED = Reason(3, 0.01, 0.02)
"""Another call changed the rows between the load and the commit."""
CONTENDED = Reason(1_000, 0.001, 0.02)
"""Other calls change the rows all the time: counters of budgets, versions of quotas."""
OTHER_WRITER = Reason(20, 0.001, 0.05)
"""Another process appends to the same stream."""


async def pause(why: Reason, tries: int) -> None:
    """Waits before another try. Raises after the last one."""
    if tries >= why.most:
        raise Contention(ContentionKind.RETRY_EXHAUSTED)
    longest = min(why.first_s * 2 ** min(tries - 1, 10), why.longest_s)
    await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 - jitter, not a secret
