"""Budgets and quotas, addressed by name. Declared limits replace the stored ones."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar
from uuid import UUID, uuid5

from msgspec import Struct
from msgspec.structs import asdict

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError, NotFound
from flowfabric.ids import lane_id
from flowfabric.ids import name as checked_name
from flowfabric.model import budget as budgets
from flowfabric.model import quota as quotas
from flowfabric.model.budget import HardLimitAction
from flowfabric.model.quota import MAX_LIMIT_VALUE
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.exceptions import UnknownBudget

T = TypeVar("T", bound=Struct)
log = logging.getLogger("flowfabric.limits")

_BUDGETS = UUID("6ef4c1f0-6f52-5b0a-9d5e-0d1f3a3f7c11")
_QUOTAS = UUID("0b7e2c55-3f0c-5a41-8d0e-6a4f1c2d9b73")


def budget_id(namespace: str, budget: str | UUID) -> UUID:
    """The id of a name follows from it: it is the same in every process."""
    return budget if isinstance(budget, UUID) else uuid5(_BUDGETS, f"{namespace}/{budget}")


def quota_id(namespace: str, name: str) -> UUID:
    return uuid5(_QUOTAS, f"{namespace}/{name}")


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

    def creation(self, namespace: str) -> budgets.CreateBudgetArgs:
        dimensions = sorted({*self.hard, *self.soft})
        if not dimensions:
            raise ConfigError(
                f"budget {self.name}: say at least one limit, like hard={{'tokens': 100_000}}"
            )
        return budgets.CreateBudgetArgs(
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
        if isinstance(await engine.create_budget(wanted), budgets.BudgetCreated):
            return

        async def is_same() -> bool:
            return (await engine.read_budget_usage_and_limits(wanted.budget_id)).limits == {
                f"{kind}:{dimension}": str(limit)
                for kind, limits in (("hard", wanted.hard_limits), ("soft", wanted.soft_limits))
                for dimension, limit in zip(wanted.dimensions, limits, strict=True)
            }

        update = engine.update_budget(_update_args(budgets.UpdateBudgetArgs, wanted, by))
        await _update("budget", self.name, update, is_same)


class Quota(Struct, frozen=True):
    """How many runs may start per span of time, and run at once. `App.quota` describes the fields.

    `Quota("openai", requests=60, per="1m", concurrent=4)`
    """

    name: str
    requests: int | None = None
    per: Span | None = None
    concurrent: int | None = None
    lane: str | None = None
    tag: str | None = None

    def creation(self, namespace: str) -> quotas.CreateQuotaPolicyArgs:
        """The arguments of the engine's operation. Raises ConfigError for invalid fields."""
        field = f"quota {checked_name(self.name, 'quota: name')}"
        if self.requests is None and self.concurrent is None:
            raise ConfigError(
                f'{field}: say at least one limit, like requests=60, per="1m" or concurrent=4'
            )
        if self.per is not None and self.requests is None:
            raise ConfigError(
                f"{field}: per: it is the time for so many requests; say requests=... as well"
            )
        if self.lane is not None:
            lane_id(self.lane, f"{field}: lane")
        if self.tag is not None:
            self._check_tag(field)
        return quotas.CreateQuotaPolicyArgs(
            quota_policy_id=quota_id(namespace, self.name),
            window_seconds=self._window_s(field),
            max_requests_per_window=_limit(self.requests, f"{field}: requests"),
            max_concurrent=_limit(self.concurrent, f"{field}: concurrent"),
            namespace=namespace,
        )

    def _window_s(self, field: str) -> int:
        if self.per is None:
            return quotas.DEFAULT_WINDOW_S
        found = millis(self.per, f"{field}: per")
        if found < 1_000 or found % 1_000:
            raise ConfigError(
                f'{field}: per: whole seconds, at least one, like "1s" or "1m"; '
                f"got {self.per!r:.80}"
            )
        return found // 1_000

    def _check_tag(self, field: str) -> None:
        key, equals, _ = self.tag.partition("=") if isinstance(self.tag, str) else ("", "", "")
        if not key or not equals:
            raise ConfigError(
                f'{field}: tag: "key=value", as tasks are tagged, like "app.customer=acme"; '
                f"got {self.tag!r:.80}"
            )

    async def make(self, engine: EngineProtocol, namespace: str, by: str) -> None:
        """Creates the quota, or gives the existing one these limits."""
        wanted = self.creation(namespace)

        async def is_same() -> bool:
            stored = await engine.read_quota_policy_limits(wanted.quota_policy_id)
            return stored == quotas.QuotaLimits(
                wanted.max_requests_per_window,
                wanted.window_seconds,
                wanted.max_concurrent,
                wanted.jitter_ms,
            )

        if not isinstance(await engine.create_quota_policy(wanted), quotas.QuotaPolicyCreated):
            update = engine.update_quota_policy(
                _update_args(quotas.UpdateQuotaPolicyArgs, wanted, by)
            )
            await _update("quota", self.name, update, is_same)
        for scope, found in (("lane", self.lane), ("tag", self.tag)):
            if found is not None:
                await engine.attach_limit("quota", wanted.quota_policy_id, scope, found)


def _limit(value: object, field: str) -> int:
    """To the engine 0 is no limit, but it reads like "none at all", so it is refused."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_LIMIT_VALUE:
        raise ConfigError(
            f"{field}: a whole number from 1; leave it out for no limit, pause the lane for none "
            f"at all; got {value!r:.80}"
        )
    return value


def _update_args(kind: type[T], wanted: Struct, by: str) -> T:
    """The arguments of an update, from those of the creation."""
    names = (name for name in kind.__struct_fields__ if name != "by")
    return kind(**{name: getattr(wanted, name) for name in names}, by=by)


async def _update(
    kind: str,
    name: str,
    update: Awaitable[
        budgets.BudgetUpdated
        | budgets.BudgetUnchanged
        | quotas.QuotaPolicyUpdated
        | quotas.QuotaPolicyUnchanged
    ],
    is_same: Callable[[], Awaitable[bool]],
) -> None:
    """A token may be allowed to declare limits but not to change them; the stored ones stay."""
    fields = {"limit_kind": kind, "limit_name": name}
    try:
        answer = await update
    except ConfigError as error:
        if not await is_same():
            log.warning(
                "the declared limits differ from the stored ones, which stay",
                extra={**fields, "reason": str(error)},
            )
        return
    if isinstance(answer, budgets.BudgetUpdated | quotas.QuotaPolicyUpdated):
        log.warning(
            "the declared limits differ from the stored ones, and replace them",
            extra={**fields, "old_limits": asdict(answer.old), "new_limits": asdict(answer.new)},
        )


def quota_named(
    namespace: str, declared: Mapping[str, Quota], where: str, quota: object
) -> UUID | None:
    """The id of the quota of a task. An unknown one would limit nothing, so it is refused."""
    if quota is None:
        return None
    if not isinstance(quota, str) or quota not in declared:
        known = ", ".join(sorted(declared)) or "none"
        raise ConfigError(
            f"{where}: quota: a name declared before with app.quota(...), "
            f"declared: {known}; got {quota!r:.80}"
        )
    return quota_id(namespace, quota)
