"""Routes of budgets and quotas."""

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
from flowfabric.server import route
from flowfabric.server.policies import U64, Time, clamp
from flowfabric.server.route import ApiRequest, Reply, RouteGroup
from flowfabric.wire.operations import Bound, Role

_WORDS = {"UsageOk": "Ok", "UsageAlreadyApplied": "AlreadyApplied"}

routes = RouteGroup(tag="limits", role=Role.SUBMIT, bound=Bound.BUDGET)


class NewBudget(Struct, frozen=True, kw_only=True):
    """`hard_limits` and `soft_limits` follow the order of `dimensions`; 0 means no limit."""

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


@routes("POST", "/v1/budgets", bound=Bound.OWN, answers=route.CREATED)
async def create_budget(request: ApiRequest, body: NewBudget) -> Reply:
    """Creates a budget, or returns the one with the same id."""
    args = route.args_from(
        CreateBudgetArgs,
        body,
        budget_id=body.budget_id or time_ordered_uuid(),
        reset_interval_ms=clamp(body.reset_interval_ms, MAX_TIMESTAMP_MS),
        hard_limits=[*map(clamp, body.hard_limits)],
        soft_limits=[*map(clamp, body.soft_limits or [0] * len(body.dimensions))],
        namespace=request.caller.namespace or body.namespace,
    )
    made = await request.engine.create_budget(args)
    return route.created(made, BudgetCreated, "Created", "AlreadySatisfied")


@routes("GET", "/v1/budgets/{id}", role=Role.READ, answers={200: BudgetStatus})
async def status(request: ApiRequest) -> BudgetStatus:
    """The limits and the usage of a budget."""
    return await request.engine.get_budget_status(request.uuid(shown="budget_id"))


class NewUsage(Struct, frozen=True, kw_only=True):
    dimensions: dict[str, U64]
    dedup_key: str | None = None
    now: Time | None = None


@routes("POST", "/v1/budgets/{id}/usage", answers={200: Any})
async def usage(request: ApiRequest, body: NewUsage) -> object:
    """Adds usage to a budget; a report above a hard limit is refused as a whole."""
    args = ReportUsageAdminArgs(
        dimensions=list(body.dimensions),
        deltas=[*map(clamp, body.dimensions.values())],
        dedup_key=body.dedup_key,
    )
    result = await request.engine.report_usage_admin(request.uuid(shown="budget_id"), args)
    name = type(result).__name__
    if isinstance(result, HardBreach):  # without an execution, no breach action applies
        facts = ("dimension", "current_usage", "hard_limit")
        return {name: {fact: getattr(result, fact) for fact in facts}}
    return route.tagged(result, _WORDS.get(name, name))


@routes("POST", "/v1/budgets/{id}/reset", role=Role.OPERATE)
async def reset(request: ApiRequest) -> object:
    """Sets the counters of a budget to zero."""
    return route.tagged(await request.engine.reset_budget(request.uuid(shown="budget_id")), "Reset")


class NewQuota(Struct, frozen=True, kw_only=True):
    """A limit of 0 means no limit."""

    quota_policy_id: UUID | None = None
    window_seconds: U64
    max_requests_per_window: U64
    max_concurrent: U64
    now: Time | None = None
    namespace: str | None = None


@routes("POST", "/v1/quotas", bound=Bound.OWN, answers=route.CREATED)
async def create_quota(request: ApiRequest, body: NewQuota) -> Reply:
    """Creates a quota policy, or returns the one with the same id."""
    args = CreateQuotaPolicyArgs(
        quota_policy_id=body.quota_policy_id or time_ordered_uuid(),
        window_seconds=clamp(body.window_seconds, MAX_TIMESTAMP_MS // 1_000),
        max_requests_per_window=clamp(body.max_requests_per_window),
        max_concurrent=clamp(body.max_concurrent),
        namespace=request.caller.namespace or body.namespace,
    )
    made = await request.engine.create_quota_policy(args)
    return route.created(made, QuotaPolicyCreated, "Created", "AlreadySatisfied")
