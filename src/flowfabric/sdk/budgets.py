"""Budgets by name."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid5

from msgspec import Struct

from flowfabric.errors import ConfigError
from flowfabric.model.budget import CreateBudgetArgs, HardLimitAction
from flowfabric.sdk.times import Span, millis

_NAMES = UUID("6ef4c1f0-6f52-5b0a-9d5e-0d1f3a3f7c11")


def budget_id(namespace: str, budget: str | UUID) -> UUID:
    """The id behind a name: the same in every process."""
    return budget if isinstance(budget, UUID) else uuid5(_NAMES, f"{namespace}/{budget}")


class Budget(Struct, frozen=True):
    """Limits on what tasks may spend, per dimension: `Budget("acme/day", hard={"tokens": 100_000}, resets="1d")`."""

    name: str
    hard: Mapping[str, int] = {}
    soft: Mapping[str, int] = {}
    resets: Span | None = None
    on_hard_limit: HardLimitAction = HardLimitAction.REJECT

    def creation(self, namespace: str) -> CreateBudgetArgs:
        dimensions = sorted({*self.hard, *self.soft})
        if not dimensions:
            raise ConfigError(f"budget {self.name}: say at least one limit, like hard={{'tokens': 100_000}}")
        return CreateBudgetArgs(
            budget_id=budget_id(namespace, self.name),
            scope_type="name",
            scope_id=self.name,
            on_hard_limit=self.on_hard_limit,
            reset_interval_ms=0 if self.resets is None else millis(self.resets, f"budget {self.name}: resets"),
            dimensions=dimensions,
            hard_limits=[self.hard.get(name, 0) for name in dimensions],
            soft_limits=[self.soft.get(name, 0) for name in dimensions],
        )
