"""Commits of independent plans."""

from __future__ import annotations

from collections.abc import Sequence

from flowfabric.plan import Applied, Plan
from flowfabric.store.port import Store


async def commit_all(store: Store, plans: Sequence[Plan]) -> int:
    """Commits each plan on its own; returns how many were applied."""
    answers = await store.commit_many(plans) if plans else ()
    return sum(isinstance(answer, Applied) for answer in answers)
