"""The machine of budgets: reports of every kind against limits, with keys, accounts, resets and
actions of refusals.
"""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from typing import Any, ClassVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec import structs

from flowfabric.codec.handle import decode_handle, encode_handle
from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId
from flowfabric.model.budget import (
    CreateBudgetArgs,
    RecordSpendArgs,
    ReportUsageAdminArgs,
    UpdateBudgetArgs,
    UsageDimensions,
)
from flowfabric.model.lease import Handle

from . import ops
from .bench import LANES, Bench
from .budget_spec import COMPARED, DAY_MS, Budget, Report, Spending, budget_differences
from .ops import Op
from .shapes import NO_POLICY, Held, no
from .spec import OVERRIDE

LANE = LANES[0]
PLAIN, FAILING, HOLDING, UNMADE = (UUID(int=n) for n in range(1, 5))
RULES = {
    PLAIN: Budget({"a": 10, "b": 6}, {"a": 5, "b": 3}),
    FAILING: Budget({"a": 6}, {"b": 2}, "fail_execution"),
    HOLDING: Budget({"a": 6, "b": 6}, {}, "suspend_execution", interval=1_000),
}
IDENTS = [ExecutionId.of(n, UUID(int=0xE0 + n)) for n in range(3)]


class BudgetBench(Bench):
    spec: Spending

    def compare(self, name: str | None = None, answer: Any = None, tables: Any = None) -> None:
        super().compare(name, answer, tables)
        problems = budget_differences(self.spec, self.run(self.engine.store.dump(COMPARED)))
        if problems:
            self._fail(name or "the stored rows", problems)


def create(ident: UUID, made: Budget) -> Op:
    names = sorted({*made.hard, *made.soft})
    args = CreateBudgetArgs(
        budget_id=ident,
        dimensions=names,
        hard_limits=[made.hard.get(name, 0) for name in names],
        soft_limits=[made.soft.get(name, 0) for name in names],
        on_hard_limit=made.action,
        reset_interval_ms=made.interval,
    )
    return Op(
        "create budget",
        lambda e: e.create_budget(args),
        lambda s: s.new_budget(ident, copy.copy(made)),
    )


async def send(engine: Engine, said: Report, held: Held | None) -> Any:
    deltas = dict(said.deltas)
    if held is not None:
        return await engine.report_usage(
            held.handle, said.budget, UsageDimensions(custom=deltas, dedup_key=said.key)
        )
    if said.by is not None:
        args = RecordSpendArgs(
            budget_id=said.budget, execution_id=said.by, deltas=deltas, idempotency_key=said.key
        )
        return await engine.record_spend(args)
    admin = ReportUsageAdminArgs(
        dimensions=list(deltas), deltas=list(deltas.values()), dedup_key=said.key
    )
    return await engine.report_usage_admin(said.budget, admin)


def reports(several: list[tuple[Report, Held | None]]) -> Op:
    """All at once; they count in the order of the calls. A lease that has to be read first takes
    longer.
    """

    async def sent(engine: Engine, said: Report, held: Held | None) -> Any:
        try:
            return await send(engine, said, held)
        except NotFound as error:
            if error.entity != "budget":
                raise
            return error.code

    async def call(engine: Engine) -> list[Any]:
        if any(
            held is not None and engine.parts.leases.facts(held.handle) is None
            for _, held in several
        ):
            return [await sent(engine, said, held) for said, held in several]
        return list(await asyncio.gather(*(sent(engine, said, held) for said, held in several)))

    return Op(
        f"report {[said for said, _ in several]}",
        call,
        lambda s: [s.usage_report(said) for said, _ in several],
    )


def forge(said: Report, held: Held) -> Op:
    """A handle with another lease id, which is random."""

    async def call(engine: Engine) -> Any:
        made_up = structs.replace(
            decode_handle(held.handle, engine.store.tag), lease_id=UUID(int=0xF0)
        )
        return await send(
            engine,
            said,
            replace(
                held, handle=Handle(held.handle.backend, held.handle.kind, encode_handle(made_up))
            ),
        )

    return Op("forge", call, lambda s: no(True, "lease_conflict"))


def release(budget: UUID, who: ExecutionId) -> Op:
    return Op(
        "release", lambda e: e.release_budget(budget, who), lambda s: s.give_back(budget, who)
    )


def reset(budget: UUID) -> Op:
    return Op("reset", lambda e: e.reset_budget(budget), lambda s: s.start_anew(budget))


def change(ident: UUID, hard: dict[str, int], interval: int) -> Op:
    action = RULES[ident].action if ident in RULES else "reject"
    args = UpdateBudgetArgs(
        budget_id=ident,
        dimensions=sorted(hard),
        hard_limits=[hard[name] for name in sorted(hard)],
        soft_limits=[0] * len(hard),
        on_hard_limit=action,
        reset_interval_ms=interval,
    )
    return Op(
        f"change {hard}",
        lambda e: e.update_budget(args),
        lambda s: s.change_budget(ident, hard, interval),
    )


def reset_due() -> Op:
    return Op("reset those due", lambda e: e.reset_due_budgets(), lambda s: s.start_those_due())


def forget() -> Op:
    return Op("forget keys", lambda e: e.forget_usage_keys(), lambda s: s.forget())


which = st.sampled_from((PLAIN, PLAIN, FAILING, HOLDING, HOLDING, UNMADE))
idents = st.sampled_from(IDENTS)
amounts = st.dictionaries(st.sampled_from(("a", "b", "c")), st.integers(0, 4), max_size=3).map(
    lambda d: tuple(sorted(d.items()))
)
keys = st.sampled_from(("", "", "k", "l"))
forms = st.sampled_from(("admin", "spend", "spend", "worker", "zombie"))
said = st.tuples(which, amounts, keys, forms, idents)
Said = tuple[UUID, tuple[tuple[str, int], ...], str, str, ExecutionId]


class BudgetMachine(RuleBasedStateMachine):
    kind: ClassVar[str] = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.bench = BudgetBench(self.kind, Spending)
        self.bench.kept = 40

    def teardown(self) -> None:
        self.bench.close()

    def do(self, op: Op) -> Any:
        """Each call has its own millisecond."""
        self.bench.to(self.bench.clock() + 1)
        return self.bench.do(op)

    def told(self, one: Said) -> tuple[Report, Held | None]:
        budget, deltas, key, form, who = one
        held = self.held(who, first=form == "zombie") if form in ("worker", "zombie") else None
        if form == "spend" or held is not None:
            return Report(
                budget, deltas, key, who, charged=held is None, lease=held and held.lease
            ), held
        return Report(budget, deltas, key), None

    def held(self, who: ExecutionId, *, first: bool = False) -> Held | None:
        """The newest handle of an execution, or the oldest, whose lease is probably over."""
        kept = [h for h in self.bench.handles if h.ident == who]
        return kept[0 if first else -1] if kept else None

    @initialize()
    def start(self) -> None:
        for ident, made in RULES.items():
            self.do(create(ident, made))
        for who in IDENTS:
            self.do(ops.create(who, LANE, "default", 0, "", NO_POLICY, None))
        self.do(ops.claim(LANE, frozenset(), "ann", 10_000_000, 2))

    @rule(several=st.lists(said, min_size=1, max_size=5))
    def report(self, several: list[Said]) -> None:
        self.do(reports([self.told(one) for one in several]))

    @rule(one=said)
    def report_again(self, one: Said) -> None:
        """The repetition after a lost answer."""
        self.do(reports([self.told(one)]))
        self.do(reports([self.told(one), self.told(one)]))

    @rule(budget=which, who=idents)
    def overspend_and_start_anew(self, budget: UUID, who: ExecutionId) -> None:
        """A report above the limit, then a reset; the held executions continue."""
        self.do(reports([(Report(budget, (("a", 4), ("b", 1)), "", who, charged=True), None)] * 3))
        self.do(reset(budget) if budget != UNMADE else reset_due())
        self.do(ops.claim(LANE, frozenset(), "bob", 10_000_000, 3))

    @rule(budget=which, who=idents)
    def late_report(self, budget: UUID, who: ExecutionId) -> None:
        """A held execution runs again, and its first worker reports above the limit."""
        held = self.held(who, first=True)
        self.do(reports([(Report(HOLDING, (("a", 7),), "", who, charged=True), None)]))
        self.do(ops.unblock(who, ""))
        self.do(ops.claim(LANE, frozenset(), "dan", 10_000_000, 3))
        if held is not None:
            self.do(reports([(Report(budget, (("a", 7),), "", who, lease=held.lease), held)]))
            self.do(forge(Report(budget, (("a", 1),), "", who), held))

    @rule(budget=which, who=idents, key=keys)
    def spend_and_give_back(self, budget: UUID, who: ExecutionId, key: str) -> None:
        """Then again, with nothing on the account or with later usage."""
        self.do(reports([(Report(budget, (("a", 2), ("b", 1)), key, who, charged=True), None)]))
        self.do(release(budget, who))
        self.do(reports([(Report(budget, (("a", 1),), key, who, charged=True), None)]))
        self.do(release(budget, who))

    @rule(who=idents, reason=st.sampled_from(("waiting_for_quota", "waiting_for_budget")))
    def blocked_after_a_wait(self, who: ExecutionId, reason: str) -> None:
        """An execution that waited for a budget and is blocked by an operator does not wait for a
        reset any more.
        """
        self.do(reports([(Report(HOLDING, (("a", 7),), "", who, charged=True), None)]))
        self.do(ops.unblock(who, ""))
        self.do(ops.block(who, reason))
        self.do(reset(HOLDING))

    @rule(budget=which, who=idents)
    def release(self, budget: UUID, who: ExecutionId) -> None:
        self.do(release(budget, who))

    @rule(budget=which)
    def reset(self, budget: UUID) -> None:
        self.do(reset(budget))

    @rule(late=st.sampled_from((0, 700, 1_000, 3_400)))
    def reset_due(self, late: int) -> None:
        self.bench.to(self.bench.clock() + late)
        self.do(reset_due())

    @rule(ms=st.sampled_from((1, 500, DAY_MS - 1, DAY_MS)))
    def time_passes(self, ms: int) -> None:
        self.bench.to(self.bench.clock() + ms)

    @rule()
    def forget(self) -> None:
        self.do(forget())

    @rule(made=st.sampled_from(sorted(RULES)))
    def create_again(self, made: UUID) -> None:
        self.do(create(made, Budget({"a": 1})))

    @rule(budget=which, who=idents, most=st.integers(1, 9), interval=st.sampled_from((0, 1_000)))
    def other_limits(self, budget: UUID, who: ExecutionId, most: int, interval: int) -> None:
        """Lower limits that hold an execution; then higher ones, and it continues."""
        self.do(change(budget, {"a": most, "b": 4}, interval))
        self.do(reports([(Report(budget, (("a", most),), "", who, charged=True), None)] * 2))
        for _ in range(2):
            self.do(change(budget, {"a": 40, "b": 40}, interval))

    # ---- what goes on around them

    @rule(n=st.integers(1, 3))
    def claim(self, n: int) -> None:
        self.do(ops.claim(LANE, frozenset(), "cid", 10_000_000, n))

    @rule(who=idents, how=st.sampled_from(("complete", "cancel", "replay", "unblock", "block")))
    def change(self, who: ExecutionId, how: str) -> None:
        held = self.held(who)
        if how == "complete" and held is not None:
            self.do(ops.complete(held))
        elif how == "cancel":
            self.do(ops.cancel(who, OVERRIDE))
        elif how == "replay":
            self.do(ops.replay(who))
        elif how == "unblock":
            self.do(ops.unblock(who, ""))
        elif how == "block":
            self.do(ops.block(who, "waiting_for_quota"))

    @rule(who=idents)
    def trim(self, who: ExecutionId) -> None:
        """Its account is removed too, and another execution of the same id starts."""
        self.do(ops.trim(LANE, 0))
        for ident in IDENTS:
            if ident not in self.bench.spec.execs:
                self.bench.handles = [h for h in self.bench.handles if h.ident != ident]
                self.do(ops.create(ident, LANE, "default", 0, "", NO_POLICY, None))

    @rule()
    def crash(self) -> None:
        self.bench.reopen()


def budget_machine_on(store: str) -> type[BudgetMachine]:
    return type(f"{store.title().replace('-', '')}BudgetMachine", (BudgetMachine,), {"kind": store})
