"""Budgets, addressed by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID, uuid5

from msgspec import Struct

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError, NotFound
from flowfabric.model.budget import (
    BudgetCreated,
    CreateBudgetArgs,
    HardLimitAction,
    UpdateBudgetArgs,
)
from flowfabric.sdk.changed_limits import update_args, update_limits
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.exceptions import UnknownBudget

_NAMES = UUID("6ef4c1f0-6f52-5b0a-9d5e-0d1f3a3f7c11")


def budget_id(namespace: str, budget: str | UUID) -> UUID:
    """The id of a name follows from it: it is the same in every process."""
    return budget if isinstance(budget, UUID) else uuid5(_NAMES, f"{namespace}/{budget}")


@contextmanager
def unknown_budget_named(where: str, declared: Iterable[Budget]) -> Iterator[None]:
    """Turns the engine's error into one that lists the declared budgets."""
    try:
        yield
    except NotFound as error:
        if error.entity != "budget":
            raise
        known = ", ".join(sorted(each.name for each in declared)) or "none"
        raise UnknownBudget(f"{where}: there is no such budget; the app declares {known}") from None


class Budget(Struct, frozen=True):
    """Limits on what tasks may spend, by dimension. `App.budget` describes the fields.

    `Budget("acme/day", hard={"tokens": 100_000}, resets="1d")`
    """

    name: str
    hard: Mapping[str, int] = {}
    soft: Mapping[str, int] = {}
    resets: Span | None = None
    on_hard_limit: HardLimitAction = HardLimitAction.REJECT

    def creation(self, namespace: str) -> CreateBudgetArgs:
        dimensions = sorted({*self.hard, *self.soft})
        if not dimensions:
            raise ConfigError(
                f"budget {self.name}: say at least one limit, like hard={{'tokens': 100_000}}"
            )
        return CreateBudgetArgs(
            budget_id=budget_id(namespace, self.name),
            scope_type="name",
            scope_id=self.name,
            on_hard_limit=self.on_hard_limit,
            reset_interval_ms=0
            if self.resets is None
            else millis(self.resets, f"budget {self.name}: resets"),
            dimensions=dimensions,
            hard_limits=[self.hard.get(name, 0) for name in dimensions],
            soft_limits=[self.soft.get(name, 0) for name in dimensions],
            namespace=namespace,
        )

    async def make(self, engine: EngineProtocol, namespace: str, by: str) -> None:
        """Creates the budget, or gives the existing one these limits."""
        wanted = self.creation(namespace)
        if isinstance(await engine.create_budget(wanted), BudgetCreated):
            return

        async def is_same() -> bool:
            return (await engine.read_budget_usage_and_limits(wanted.budget_id)).limits == {
                f"{kind}:{dimension}": str(limit)
                for kind, limits in (("hard", wanted.hard_limits), ("soft", wanted.soft_limits))
                for dimension, limit in zip(wanted.dimensions, limits, strict=True)
            }

        await update_limits(
            engine.update_budget(update_args(UpdateBudgetArgs, wanted, by)),
            "budget",
            self.name,
            is_same,
        )
