"""Checks of budgets: usage is within the limits and covers the charges of executions."""

from __future__ import annotations

from collections.abc import Iterator

from flowfabric.verify.snapshot import Snapshot
from flowfabric.verify.violation import Check, Violation


def usage_within_limits(snapshot: Snapshot) -> Iterator[Violation]:
    """I13: usage is not negative and not above the highest hard limit so far."""
    for (budget, dimension), used in snapshot.usage.items():
        policy = snapshot.budgets.get(budget)
        hard = 0 if policy is None else policy.limits.hard_limits.get(dimension, 0)
        most = hard if policy is None else policy.limits.formerly.get(dimension, hard)
        if used < 0 or (hard and most and used > most):
            yield Violation(
                "I13", str(budget), f"{dimension}: {used} used, the limit is {hard or 'none'}"
            )


def accounts_are_covered(snapshot: Snapshot) -> Iterator[Violation]:
    """I13: usage is at least the sum of the charges to executions."""
    for (budget, dimension), charged in snapshot.accounts.items():
        used = snapshot.usage.get((budget, dimension), 0)
        if charged > used:
            yield Violation("I13", str(budget), f"{dimension}: {charged} charged, {used} used")


BUDGET_CHECKS: dict[str, Check] = {
    "I13: limits": usage_within_limits,
    "I13: accounts": accounts_are_covered,
}
