"""Budgets and quotas."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.validation import MAX_TIMESTAMP_MS
from flowfabric.ids import time_ordered_uuid
from flowfabric.model.budget import (
    BudgetCreated,
    BudgetStatus,
    CreateBudgetArgs,
    HardBreach,
    ReportUsageAdminArgs,
)
from flowfabric.model.quota import CreateQuotaPolicyArgs, QuotaPolicyCreated
from flowfabric.server.numbers import U64, Time, at_most
from flowfabric.server.route import Ask, Reply, Route, variant
from flowfabric.wire.operations import Bound, Role

_WORDS = {"UsageOk": "Ok", "UsageAlreadyApplied": "AlreadyApplied"}


class NewBudget(Struct, frozen=True, kw_only=True):
    """Limits stand in the order of the dimensions; 0 is none."""

    budget_id: UUID | None = None
    scope_type: str = ""
    scope_id: str = ""
    enforcement_mode: str = "strict"
    on_hard_limit: str = "reject"
    on_soft_limit: str = "warn"
    reset_interval_ms: U64 = 0
    dimensions: list[str]
    hard_limits: list[U64]
    soft_limits: list[U64] = []
    now: Time | None = None
    namespace: str | None = None


async def create_budget(ask: Ask) -> Reply:
    """Makes a budget, or finds the one of the same id."""
    body: NewBudget = ask.body
    args = CreateBudgetArgs(
        budget_id=body.budget_id or time_ordered_uuid(),
        scope_type=body.scope_type,
        scope_id=body.scope_id,
        enforcement_mode=body.enforcement_mode,
        on_hard_limit=body.on_hard_limit,
        on_soft_limit=body.on_soft_limit,
        reset_interval_ms=at_most(body.reset_interval_ms, MAX_TIMESTAMP_MS),
        dimensions=body.dimensions,
        hard_limits=[*map(at_most, body.hard_limits)],
        soft_limits=[*map(at_most, body.soft_limits or [0] * len(body.dimensions))],
        namespace=ask.caller.namespace or body.namespace,
    )
    made = await ask.engine.create_budget(args)
    is_new = isinstance(made, BudgetCreated)
    return Reply(201 if is_new else 200, variant(made, "Created" if is_new else "AlreadySatisfied"))


async def status(ask: Ask) -> Reply:
    """What a budget allows, and what of it is used."""
    return Reply(200, await ask.engine.get_budget_status(ask.uuid(shown="budget_id")))


class NewUsage(Struct, frozen=True, kw_only=True):
    dimensions: dict[str, U64]
    dedup_key: str | None = None
    now: Time | None = None


async def usage(ask: Ask) -> Reply:
    """Counts usage; above a hard limit nothing is counted."""
    body: NewUsage = ask.body
    args = ReportUsageAdminArgs(
        dimensions=list(body.dimensions),
        deltas=[*map(at_most, body.dimensions.values())],
        dedup_key=body.dedup_key,
    )
    told = await ask.engine.report_usage_admin(ask.uuid(shown="budget_id"), args)
    name = type(told).__name__
    if isinstance(told, HardBreach):  # nobody's execution reported it, so no action was taken
        breach = {
            "dimension": told.dimension,
            "current_usage": told.current_usage,
            "hard_limit": told.hard_limit,
        }
        return Reply(200, {name: breach})
    return Reply(200, variant(told, _WORDS.get(name, name)))


async def reset(ask: Ask) -> Reply:
    """Sets the counters of a budget to zero."""
    return Reply(200, variant(await ask.engine.reset_budget(ask.uuid(shown="budget_id")), "Reset"))


class NewQuota(Struct, frozen=True, kw_only=True):
    """Zero is no such limit."""

    quota_policy_id: UUID | None = None
    window_seconds: U64
    max_requests_per_window: U64
    max_concurrent: U64
    now: Time | None = None
    namespace: str | None = None


async def create_quota(ask: Ask) -> Reply:
    """Makes a quota policy, or finds the one of the same id."""
    body: NewQuota = ask.body
    args = CreateQuotaPolicyArgs(
        quota_policy_id=body.quota_policy_id or time_ordered_uuid(),
        window_seconds=at_most(body.window_seconds, MAX_TIMESTAMP_MS // 1_000),
        max_requests_per_window=at_most(body.max_requests_per_window),
        max_concurrent=at_most(body.max_concurrent),
        namespace=ask.caller.namespace or body.namespace,
    )
    made = await ask.engine.create_quota_policy(args)
    is_new = isinstance(made, QuotaPolicyCreated)
    return Reply(201 if is_new else 200, variant(made, "Created" if is_new else "AlreadySatisfied"))


_MADE = {200: dict[str, Any], 201: dict[str, Any]}
_NEW: dict[str, Any] = {"role": Role.SUBMIT, "bound": Bound.OWN, "tag": "limits"}
_SPENT: dict[str, Any] = {"role": Role.SUBMIT, "bound": Bound.BUDGET, "tag": "limits"}
_OPERATE: dict[str, Any] = {"role": Role.OPERATE, "bound": Bound.BUDGET, "tag": "limits"}

ROUTES = (
    Route("POST", "/v1/budgets", create_budget, body=NewBudget, answers=_MADE, **_NEW),
    Route(
        "GET",
        "/v1/budgets/{id}",
        status,
        answers={200: BudgetStatus},
        bound=Bound.BUDGET,
        tag="limits",
    ),
    Route("POST", "/v1/budgets/{id}/usage", usage, body=NewUsage, answers={200: Any}, **_SPENT),
    Route("POST", "/v1/budgets/{id}/reset", reset, answers={200: dict[str, Any]}, **_OPERATE),
    Route("POST", "/v1/quotas", create_quota, body=NewQuota, answers=_MADE, **_NEW),
)
