"""The checks of budgets: what is counted lies within its limits, and covers what is on accounts."""

from __future__ import annotations

from collections.abc import Iterator

from flowfabric.verify.snapshot import Snapshot
from flowfabric.verify.violation import Check, Violation


def usage_within_limits(world: Snapshot) -> Iterator[Violation]:
    """I13: never below nothing, never above the highest hard limit there was."""
    for (budget, dimension), used in world.usage.items():
        policy = world.budgets.get(budget)
        hard = 0 if policy is None else policy.limits.hard_limits.get(dimension, 0)
        most = hard if policy is None else policy.limits.formerly.get(dimension, hard)
        if used < 0 or (hard and most and used > most):
            yield Violation(
                "I13", str(budget), f"{dimension}: {used} used, the limit is {hard or 'none'}"
            )


def accounts_are_covered(world: Snapshot) -> Iterator[Violation]:
    """I13: what executions are charged with was counted."""
    for (budget, dimension), charged in world.accounts.items():
        used = world.usage.get((budget, dimension), 0)
        if charged > used:
            yield Violation("I13", str(budget), f"{dimension}: {charged} on accounts, {used} used")


BUDGET_CHECKS: dict[str, Check] = {
    "I13: limits": usage_within_limits,
    "I13: accounts": accounts_are_covered,
}
