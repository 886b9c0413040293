"""Other limits for a budget that exists."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from flowfabric.errors import NotFound
from flowfabric.model.budget import (
    BudgetPolicy,
    BudgetUnchanged,
    BudgetUpdated,
    Limits,
    StoredLimits,
    UpdateBudgetArgs,
)
from flowfabric.model.event import OPERATOR_EVENTS
from flowfabric.plan import Add, Arg, Cond, Emit, Form, Insert, Now, Update, Wake
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.limits.budgets import POLICY, THIS_BUDGET, said_limits

UPDATED = "budget_updated"


def limit_event(kind: str, ident: str) -> Insert:
    """An operator's event about a limit: its id stands where an execution's would."""
    about = {
        "execution_id": Arg(ident),
        "partition_key": 0,
        "namespace": Arg("namespace"),
        "details": Arg("details"),
    }
    return Emit(OPERATOR_EVENTS, kind, about)


UPDATE_BUDGET = Form(
    "update_budget",
    Update(
        POLICY,
        (*THIS_BUDGET, Cond("version", "=", Arg("version"))),
        {
            "version": Add(1),
            "policy_json": Arg("policy_json"),
            "next_reset_at_ms": Arg("next_reset_at_ms"),
            "changed_at_ms": Now(),
            "updated_at_ms": Now(),
        },
    ),
    limit_event(UPDATED, "budget_id"),
    Wake("budget_resets", at=Arg("next_reset_at_ms")),
)


def update_budget(policy: BudgetPolicy | None, args: UpdateBudgetArgs, now_ms: int) -> Decision:
    """Equal limits write nothing. Another interval begins now; what is used stays."""
    if policy is None:
        return Reject(NotFound("budget", args.budget_id))
    old, new = declared(policy.limits), said_limits(args)
    if _counting(old) == _counting(new):
        return Return(BudgetUnchanged(args.budget_id))
    due = policy.next_reset_at_ms
    if new.reset_interval_ms != old.reset_interval_ms:
        due = now_ms + new.reset_interval_ms if new.reset_interval_ms else None
    stored = StoredLimits(**msgspec.structs.asdict(new), formerly=formerly(policy.limits, new))
    plan = UPDATE_BUDGET(
        budget_id=args.budget_id,
        namespace=policy.namespace,
        version=policy.version,
        policy_json=msgspec.json.encode(stored if stored.formerly else new).decode(),
        next_reset_at_ms=due,
        details=told({"budget_id": str(args.budget_id)}, old, new, args.by),
    )
    return Commit(plan, BudgetUpdated(args.budget_id, old, new))


def _counting(limits: Limits) -> Limits:
    """Without those that are none."""
    hard, soft = (
        {name: most for name, most in each.items() if most}
        for each in (limits.hard_limits, limits.soft_limits)
    )
    return msgspec.structs.replace(limits, hard_limits=hard, soft_limits=soft)


def declared(stored: StoredLimits) -> Limits:
    return Limits(*(getattr(stored, field) for field in Limits.__struct_fields__))


def formerly(stored: StoredLimits, new: Limits) -> dict[str, int]:
    """The highest hard limit that a dimension had, where the new one is lower. 0 is none."""
    found = {}
    for name, limit in new.hard_limits.items():
        before = stored.hard_limits.get(name, 0)
        once = stored.formerly.get(name, before)
        highest = max(before, once) if before and once else 0
        if limit and (not highest or highest > limit):
            found[name] = highest
    return found


def told(about: dict[str, Any], old: Any, new: Any, by: str) -> str:
    """The details of the event. Who did it is left out where that is not known."""
    said = {
        **about,
        "old": msgspec.structs.asdict(old),
        "new": msgspec.structs.asdict(new),
        **({"by": by} if by else {}),
    }
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False)
