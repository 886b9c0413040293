"""The specification of budgets: each report is decided on the values themselves, one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model import budget as told
from flowfabric.store.port import Row
from flowfabric.store.schema import TABLES

from .fleet import Fleet
from .shapes import Err, Exec

DAY_MS = 86_400_000
COMPARED = (
    "ff_budget_policy",
    "ff_budget_usage",
    "ff_budget_usage_dedup",
    "ff_budget_usage_by_exec",
)


@dataclass
class Budget:
    """`0` is no limit. The two counts are totals; `breached` is the time and dimension of the last
    refusal.
    """

    hard: Mapping[str, int] = field(default_factory=dict)
    soft: Mapping[str, int] = field(default_factory=dict)
    action: str = "reject"
    interval: int = 0
    due: int | None = None
    refusals: int = 0
    warnings: int = 0
    breached: tuple[int | None, str | None] = (None, None)


@dataclass(frozen=True)
class Report:
    budget: UUID
    deltas: tuple[tuple[str, int], ...]
    key: str = ""
    by: ExecutionId | None = None
    charged: bool = False
    lease: UUID | None = None


class Spending(Fleet):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.budgets: dict[UUID, Budget] = {}
        self.used: dict[tuple[UUID, str], int] = {}
        self.spent_keys: dict[tuple[UUID, str], int] = {}
        self.accounts: dict[tuple[UUID, ExecutionId, str], int] = {}
        self.waits: dict[ExecutionId, UUID] = {}

    def new_budget(self, ident: UUID, made: Budget) -> Any:
        if ident in self.budgets:
            return told.BudgetAlreadySatisfied(ident)
        self.budgets[ident] = made
        made.due = self.now + made.interval if made.interval else None
        return told.BudgetCreated(ident)

    def change_budget(self, ident: UUID, hard: Mapping[str, int], interval: int) -> Any:
        """Usage stays, and equal limits emit no event."""
        rule = self.budgets.get(ident)
        if rule is None:
            raise Err("budget_not_found")
        if (dict(rule.hard), dict(rule.soft), rule.interval) == (dict(hard), {}, interval):
            return told.BudgetUnchanged(ident)
        old, rule.hard, rule.soft = (rule.hard, rule.soft, rule.interval), hard, {}
        if rule.interval != interval:
            rule.interval, rule.due = interval, self.now + interval if interval else None
        self._let_go(ident)
        limits = [_said(*old, rule.action), _said(rule.hard, rule.soft, rule.interval, rule.action)]
        return told.BudgetUpdated(ident, *limits)

    # ---- reports

    def usage_report(self, said: Report) -> Any:
        if said.budget not in self.budgets:
            return "budget_not_found"
        if said.key and self.spent_keys.get((said.budget, said.key), 0) > self.now:
            return told.UsageAlreadyApplied()
        rule = self.budgets[said.budget]
        for name, delta in said.deltas:
            used, hard = self.used.get((said.budget, name), 0), rule.hard.get(name, 0)
            if hard and used + delta > hard:
                return self._refused(said, rule, told.HardBreach(name, used, hard))
        answer: Any = told.UsageOk()
        for name, delta in said.deltas:
            used = self.used[said.budget, name] = self.used.get((said.budget, name), 0) + delta
            if rule.soft.get(name, 0) and used > rule.soft[name] and answer == told.UsageOk():
                answer = told.SoftBreach(name, used, rule.soft[name])
            if said.charged:
                account = (said.budget, said.by, name)
                self.accounts[account] = self.accounts.get(account, 0) + delta
        rule.warnings += answer != told.UsageOk()
        if said.key:
            self.spent_keys[said.budget, said.key] = self.now + DAY_MS
        return answer

    def _refused(self, said: Report, rule: Budget, breach: told.HardBreach) -> told.HardBreach:
        rule.refusals += 1
        rule.breached = (self.now, breach.dimension)
        e = None if said.by is None else self.execs.get(said.by)
        late = (
            said.lease is not None
            and e is not None
            and (e.lease != said.lease or e.state != "RUNNING" or self.has_expired(e))
        )
        if e is None or late or not self._acted(e, said.budget, rule.action, breach):
            return breach
        known = {
            "dimension": breach.dimension,
            "current_usage": breach.current_usage,
            "hard_limit": breach.hard_limit,
        }
        details = {"budget_id": str(said.budget), **known, "action": rule.action}
        e.ops.append(("budget_breached", json.dumps(details, separators=(",", ":"))))
        return told.HardBreach(
            breach.dimension, breach.current_usage, breach.hard_limit, rule.action
        )

    def _acted(self, e: Exec, budget: UUID, action: str, breach: told.HardBreach) -> bool:
        leased = e.state == "RUNNING"
        if action == "fail_execution" and e.state != "ENDED":
            self.end(e, "failed", "ended_failure", "failed")
            e.failure = f"budget_exceeded:{budget}:{breach.dimension}"
        elif action == "suspend_execution" and leased:
            e.epoch += 1
            self.wait(e, "BUDGET", "waiting_for_budget")
            e.cause, e.attempt.epoch = "budget", e.epoch
        elif action == "suspend_execution" and e.state == "READY":
            e.state, e.why, e.grant = "BUDGET", "waiting_for_budget", None
        else:
            return False
        if leased:
            self.told(e, "revoked")
        if e.state == "BUDGET":
            self.waits[e.ident] = budget
        return True

    # ---- giving back and starting anew

    def give_back(self, budget: UUID, who: ExecutionId) -> None:
        held = [key for key in self.accounts if key[:2] == (budget, who)]
        for _, _, name in held:
            self.used[budget, name] = max(
                self.used[budget, name] - self.accounts.pop((budget, who, name)), 0
            )
        if held:
            self._let_go(budget)

    def start_anew(self, budget: UUID, due: int | None = None) -> Any:
        rule = self.budgets.get(budget)
        if rule is None:
            raise Err("budget_not_found")
        rule.due = due or (self.now + rule.interval if rule.interval else None)
        rule.breached = (None, None)
        self.used = {key: 0 if key[0] == budget else used for key, used in self.used.items()}
        self.accounts = {key: total for key, total in self.accounts.items() if key[0] != budget}
        self._let_go(budget)
        return told.BudgetReset(rule.due or 0)

    def start_those_due(self) -> int:
        late = [
            (ident, rule)
            for ident, rule in self.budgets.items()
            if rule.due is not None and rule.due <= self.now
        ]
        for ident, rule in late:
            due = rule.due
            assert due is not None
            while due <= self.now:
                due += rule.interval
            self.start_anew(ident, due)
        return len(late)

    def _let_go(self, budget: UUID) -> None:
        rule = self.budgets.get(budget, Budget())
        if any(
            limit and self.used.get((budget, name), 0) >= limit for name, limit in rule.hard.items()
        ):
            return
        for e in self.execs.values():
            if (e.state, e.why) == ("BUDGET", "waiting_for_budget") and self.waits.get(
                e.ident
            ) == budget:
                self.unblock(e.ident, "")

    def unblock(self, ident: ExecutionId, expected: str) -> None:
        super().unblock(ident, expected)
        self.waits.pop(ident, None)

    def replay(self, ident: ExecutionId) -> Any:
        answer = super().replay(ident)
        self.waits.pop(ident, None)
        return answer

    def trim(self, lane: str, kept: int | None) -> int:
        gone = super().trim(lane, kept)
        if gone:
            self.accounts = {
                key: total for key, total in self.accounts.items() if key[1] in self.execs
            }
        return gone

    def forget(self) -> int:
        late = [key for key, until in self.spent_keys.items() if until <= self.now]
        for key in late:
            del self.spent_keys[key]
        return len(late)


def _said(
    hard: Mapping[str, int], soft: Mapping[str, int], interval: int, action: str
) -> told.Limits:
    names = sorted({*hard, *soft})
    each = ({name: limits.get(name, 0) for name in names} for limits in (hard, soft))
    return told.Limits(*each, interval, action)


def budget_differences(spec: Spending, tables: Mapping[str, list[Row]]) -> list[str]:
    return [
        f"{what}: specified {wanted!r}, stored {is_!r}"
        for what, wanted, is_ in _compared(spec, tables)
        if wanted != is_
    ]


def _compared(spec: Spending, tables: Mapping[str, list[Row]]) -> Iterator[tuple[str, Any, Any]]:
    policies, usage, keys, ledger = (
        [dict(zip(TABLES[t].names, row, strict=True)) for row in tables[t]] for t in COMPARED
    )
    columns = (
        "breach_count",
        "soft_breach_count",
        "last_breach_at_ms",
        "last_breach_dim",
        "next_reset_at_ms",
    )
    wanted = {
        ident: (b.refusals, b.warnings, *b.breached, b.due) for ident, b in spec.budgets.items()
    }
    yield "budgets", wanted, {row["budget_id"]: tuple(row[c] for c in columns) for row in policies}
    hard = {
        ident: {name: most for name, most in b.hard.items() if most}
        for ident, b in spec.budgets.items()
    }
    stored = {row["budget_id"]: json.loads(row["policy_json"])["hard_limits"] for row in policies}
    yield (
        "limits",
        hard,
        {
            ident: {name: most for name, most in each.items() if most}
            for ident, each in stored.items()
        },
    )
    yield (
        "usage",
        spec.used,
        {(row["budget_id"], row["dimensions_key"]): row["current_value"] for row in usage},
    )
    yield (
        "keys",
        spec.spent_keys,
        {(row["budget_id"], row["dedup_key"]): row["expires_at_ms"] for row in keys},
    )
    who = [ExecutionId.of(row["partition_key"], row["execution_id"]) for row in ledger]
    names = [
        (row["budget_id"], ident, row["dimensions_key"])
        for row, ident in zip(ledger, who, strict=True)
    ]
    yield (
        "accounts",
        spec.accounts,
        {name: row["delta_total"] for name, row in zip(names, ledger, strict=True)},
    )
