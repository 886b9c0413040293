"""Changing the limits of a budget."""

from __future__ import annotations

import json

import msgspec
from msgspec import Struct

from flowfabric.errors import NotFound
from flowfabric.model import budget as model
from flowfabric.model.event import OPERATOR_EVENTS
from flowfabric.plan import Add, Arg, Emit, Form, Insert, Now, Update, Values, Wake
from flowfabric.rules.columns import by_args, from_args
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.limits.budget_forms import POLICY
from flowfabric.rules.limits.budgets import limits_of_args

UPDATED = "budget_updated"


def limit_event(kind: str, ident: str) -> Insert:
    """An operator's event about a limit: its id is in the place of an execution's."""
    about = {"execution_id": Arg(ident), "partition_key": 0, **from_args("namespace", "details")}
    return Emit(OPERATOR_EVENTS, kind, about)


UPDATE_BUDGET = Form(
    "update_budget",
    Update(
        POLICY,
        by_args("budget_id", "version"),
        {
            "version": Add(1),
            **from_args("policy_json", "next_reset_at_ms"),
            "changed_at_ms": Now(),
            "updated_at_ms": Now(),
        },
    ),
    limit_event(UPDATED, "budget_id"),
    Wake("budget_resets", at=Arg("next_reset_at_ms")),
)


def update_budget(
    policy: model.BudgetPolicy | None, args: model.UpdateBudgetArgs, now_ms: int
) -> Decision:
    """Equal limits write nothing. A changed interval begins now; usage stays."""
    if policy is None:
        return Reject(NotFound("budget", args.budget_id))
    old, new = plain_limits(policy.limits), limits_of_args(args)
    if _counting(old) == _counting(new):
        return Return(model.BudgetUnchanged(args.budget_id))
    due = policy.next_reset_at_ms
    if new.reset_interval_ms != old.reset_interval_ms:
        due = now_ms + new.reset_interval_ms if new.reset_interval_ms else None
    stored = model.StoredLimits(
        **msgspec.structs.asdict(new), formerly=former_limits(policy.limits, new)
    )
    plan = UPDATE_BUDGET.of(
        policy,
        policy_json=msgspec.json.encode(stored if stored.formerly else new).decode(),
        next_reset_at_ms=due,
        details=event_details({"budget_id": str(args.budget_id)}, old, new, args.by),
    )
    return Commit(plan, model.BudgetUpdated(args.budget_id, old, new))


def _counting(limits: model.Limits) -> model.Limits:
    """Without limits of 0, which limit nothing."""
    hard, soft = (
        {name: most for name, most in each.items() if most}
        for each in (limits.hard_limits, limits.soft_limits)
    )
    return msgspec.structs.replace(limits, hard_limits=hard, soft_limits=soft)


def plain_limits(stored: model.StoredLimits) -> model.Limits:
    return model.Limits(*(getattr(stored, field) for field in model.Limits.__struct_fields__))


def former_limits(stored: model.StoredLimits, new: model.Limits) -> dict[str, int]:
    """The highest former hard limit of each dimension whose new one is lower; 0 is no limit."""
    found = {}
    for name, limit in new.hard_limits.items():
        before = stored.hard_limits.get(name, 0)
        once = stored.formerly.get(name, before)
        highest = max(before, once) if before and once else 0
        if limit and (not highest or highest > limit):
            found[name] = highest
    return found


def event_details(about: Values, old: Struct, new: Struct, by: str) -> str:
    """The details of an event about a change; an unknown author is left out."""
    details = {
        **about,
        "old": msgspec.structs.asdict(old),
        "new": msgspec.structs.asdict(new),
        **({"by": by} if by else {}),
    }
    return json.dumps(details, separators=(",", ":"), ensure_ascii=False)
