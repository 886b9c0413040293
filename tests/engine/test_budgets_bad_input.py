"""Every field of every call about budgets with values it must refuse, by name; nothing
is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from flowfabric import Engine
from flowfabric.errors import EngineError, ValidationError, ValidationKind
from flowfabric.model.budget import (
    MAX_AMOUNT,
    CreateBudgetArgs,
    RecordSpendArgs,
    ReportUsageAdminArgs,
    UsageDimensions,
)
from flowfabric.model.lease import Handle

from .bad_common import IDS, LONE, short
from .helpers import dump, new_id, running, two_stores

BUDGET = UUID(int=5)
HUGE = 10**5_000
NOT_IDS = ("", "x", "1234", 5, None, b"x" * 16, True, LONE, [], {})
NOT_AMOUNTS = (-1, MAX_AMOUNT + 1, HUGE, -HUGE, True, False, "5", 1.0, 0.0, None, b"1", [1])
NOT_NAMES = ("", "x" * 257, "é" * 129, "a\0", LONE, 5, None, b"a", ("a",))
NOT_LISTS = ("abc", {"a": 1}, {"a"}, 5, None, b"abc", iter(["a"]))
NOT_TEXTS = ("x" * 1_025, "é" * 513, "a\0", LONE, 5, None, b"a", ["a"])
NOT_TIMES = (-1, 2**53, HUGE, True, "5", 1.5)
WIDE = [f"d{n}" for n in range(65)]
Case = tuple[str, Callable[[Engine, Handle], Awaitable[Any]]]


def creating(says: str, **said: Any) -> Case:
    right: dict[str, Any] = {
        "budget_id": BUDGET,
        "dimensions": ["a"],
        "hard_limits": [1],
        "soft_limits": [1],
    }
    return says, lambda engine, _: engine.create_budget(CreateBudgetArgs(**{**right, **said}))


def reporting(says: str, **said: Any) -> Case:
    right: dict[str, Any] = {"dimensions": ["a"], "deltas": [1]}
    return says, lambda engine, _: engine.report_usage_admin(
        BUDGET, ReportUsageAdminArgs(**{**right, **said})
    )


def using(says: str, **said: Any) -> Case:
    return says, lambda engine, handle: engine.report_usage(handle, BUDGET, UsageDimensions(**said))


def spending(says: str, **said: Any) -> Case:
    def call(engine: Engine, _: Handle) -> Awaitable[Any]:
        right: dict[str, Any] = {"budget_id": BUDGET, "execution_id": new_id(), "deltas": {"a": 1}}
        return engine.record_spend(RecordSpendArgs(**{**right, **said}))

    return says, call


def _created() -> list[Case]:
    return [
        *(creating("budget_id: a UUID", budget_id=v) for v in NOT_IDS),
        *(creating("dimensions: a list", dimensions=v) for v in NOT_LISTS),
        *(creating("hard_limits: a list", hard_limits=v) for v in NOT_LISTS),
        *(creating("soft_limits: a list", soft_limits=v) for v in NOT_LISTS),
        *(creating("dimension: ", dimensions=[v]) for v in NOT_NAMES),
        *(
            creating("hard_limits: a whole number from 0 to 9223372036854775807", hard_limits=[v])
            for v in NOT_AMOUNTS
        ),
        *(
            creating("soft_limits: a whole number from 0 to 9223372036854775807", soft_limits=[v])
            for v in NOT_AMOUNTS
        ),
        creating(
            "too_many_dimensions: limit=64, got=65",
            dimensions=WIDE,
            hard_limits=[1] * 65,
            soft_limits=[1] * 65,
        ),
        creating("too_many_dimensions: limit=64, got=65", dimensions=WIDE),
        *(
            creating(
                "create_budget: dimensions / hard_limits / soft_limits length mismatch",
                **{field: value},
            )
            for field in ("dimensions", "hard_limits", "soft_limits")
            for value in ([], [1, 2])
        ),
        *(
            creating(f"{field}: ", **{field: value})
            for field in (
                "scope_type",
                "scope_id",
                "enforcement_mode",
                "on_hard_limit",
                "on_soft_limit",
            )
            for value in NOT_TEXTS
        ),
        creating("on_hard_limit: cancel_execution is reserved", on_hard_limit="cancel_execution"),
        *(creating("reset_interval_ms: ", reset_interval_ms=v) for v in (*NOT_TIMES, None)),
        *(creating("now: ", now=v) for v in NOT_TIMES),
    ]


def _reported() -> list[Case]:
    return [
        *(reporting("dimensions: a list", dimensions=v) for v in NOT_LISTS),
        *(reporting("deltas: a list", deltas=v) for v in NOT_LISTS),
        *(reporting("dimension: ", dimensions=[v]) for v in NOT_NAMES),
        *(reporting("deltas: a: a whole number", deltas=[v]) for v in NOT_AMOUNTS),
        reporting("report_usage_admin: dimensions and deltas length mismatch", deltas=[]),
        reporting("report_usage_admin: dimensions and deltas length mismatch", deltas=[1, 2]),
        reporting("too_many_dimensions: limit=64, got=65", dimensions=WIDE, deltas=[1] * 65),
        reporting("too_many_dimensions: limit=64, got=65", dimensions=["a"] * 65, deltas=[1] * 65),
        reporting("deltas: a: a whole number", dimensions=["a", "a"], deltas=[MAX_AMOUNT, 1]),
        *(reporting("dedup_key: ", dedup_key=v) for v in NOT_TEXTS if v is not None),
        *(reporting("now: ", now=v) for v in NOT_TIMES),
    ]


def _used() -> list[Case]:
    return [
        *(using("custom: a mapping", custom=v) for v in (None, 5, "a", [("a", 1)], {"a"})),
        *(using("dimension: ", custom={v: 1}) for v in NOT_NAMES),
        *(using("custom: a: a whole number", custom={"a": v}) for v in NOT_AMOUNTS),
        *(
            using(f"{field}: a whole number", **{field: value})
            for field in ("input_tokens", "output_tokens", "wall_ms")
            for value in NOT_AMOUNTS
            if value is not None or field != "wall_ms"
        ),
        *(
            using(f"{field}: given as a field and in custom", custom={field: 1}, **{field: value})
            for field, value in (("input_tokens", 1), ("output_tokens", 2), ("wall_ms", 0))
        ),
        using("too_many_dimensions: limit=64, got=65", custom=dict.fromkeys(WIDE, 1)),
        using(
            "too_many_dimensions: limit=64, got=65",
            custom=dict.fromkeys(WIDE[:64], 1),
            input_tokens=1,
        ),
        *(using("dedup_key: ", dedup_key=v) for v in NOT_TEXTS if v is not None),
    ]


def _spent() -> list[Case]:
    too_much = [v for v in NOT_AMOUNTS if type(v) is int and v > MAX_AMOUNT]
    return [
        *(spending("budget_id: a UUID", budget_id=v) for v in NOT_IDS),
        *(spending("execution_id", execution_id=v) for v in IDS),
        *(spending("deltas: a mapping", deltas=v) for v in (None, 5, "a", [("a", 1)])),
        *(spending("dimension: ", deltas={v: 1}) for v in NOT_NAMES),
        *(spending("dimension: ", deltas={v: HUGE}) for v in NOT_NAMES),
        *(
            spending("deltas: a: a whole number", deltas={"a": v})
            for v in NOT_AMOUNTS
            if v not in too_much
        ),
        *(
            spending("record_spend: delta for dim=a exceeds i64::MAX (", deltas={"a": v})
            for v in too_much
        ),
        spending(
            "record_spend: delta for dim=a exceeds i64::MAX (9223372036854775808)",
            deltas={"a": MAX_AMOUNT + 1},
        ),
        spending("too_many_dimensions: limit=64, got=65", deltas=dict.fromkeys(WIDE, 1)),
        *(spending("idempotency_key: ", idempotency_key=v) for v in NOT_TEXTS if v is not None),
    ]


def _others() -> list[Case]:
    admin, used = (
        ReportUsageAdminArgs(dimensions=["a"], deltas=[1]),
        UsageDimensions(custom={"a": 1}),
    )
    found: list[Case] = []
    for bad in NOT_IDS:
        found += [
            ("budget_id: a UUID", lambda e, h, bad=bad: e.report_usage_admin(bad, admin)),
            ("budget_id: a UUID", lambda e, h, bad=bad: e.report_usage(h, bad, used)),
            ("budget_id: a UUID", lambda e, h, bad=bad: e.get_budget_status(bad)),
            ("budget_id: a UUID", lambda e, h, bad=bad: e.read_budget_usage_and_limits(bad)),
            ("budget_id: a UUID", lambda e, h, bad=bad: e.reset_budget(bad)),
            ("budget_id: a UUID", lambda e, h, bad=bad: e.release_budget(bad, new_id())),
            ("budget", lambda e, h, bad=bad: e.release_waiters(bad)),
        ]
    for bad in IDS:
        found += [
            ("execution_id", lambda e, h, bad=bad: e.release_budget(BUDGET, bad)),
            ("execution_id", lambda e, h, bad=bad: e.read_budget_ledger(bad)),
        ]
    for bad in (None, 5, {}, used):
        found += [
            ("args: CreateBudgetArgs", lambda e, h, bad=bad: e.create_budget(bad)),
            ("args: ReportUsageAdminArgs", lambda e, h, bad=bad: e.report_usage_admin(BUDGET, bad)),
            ("args: RecordSpendArgs", lambda e, h, bad=bad: e.record_spend(bad)),
        ]
    found += [
        ("usage: UsageDimensions", lambda e, h, bad=bad: e.report_usage(h, BUDGET, bad))
        for bad in (None, 5, {}, admin)
    ]
    found += [("now: ", lambda e, h, bad=bad: e.reset_budget(BUDGET, bad)) for bad in NOT_TIMES]
    found += [
        ("limit: ", lambda e, h, bad=bad: e.reset_due_budgets(bad))
        for bad in (-1, True, "5", 1.5, None)
    ]
    return found


@two_stores
@pytest.mark.parametrize(
    "cases",
    [_created, _reported, _used, _spent, _others],
    ids=lambda make: make.__name__.strip("_"),
)
async def test_refused_by_name_and_nothing_written(
    engine: Engine, cases: Callable[[], list[Case]]
) -> None:
    _, handle = await running(engine)
    before, wrong = await dump(engine), []
    for says, call in cases():
        try:
            wrong.append(f"{says} -> accepted {short(await call(engine, handle))}")
        except ValidationError as error:
            if error.kind is not ValidationKind.INVALID_INPUT or says not in error.detail:
                wrong.append(f"{says} -> {error}")
        except Exception as error:
            wrong.append(f"{says} -> {type(error).__name__} {short(str(error))}")
    assert wrong == []
    assert await dump(engine) == before


async def test_a_handle_of_another_store_or_none_at_all(engine: Engine) -> None:
    _, handle = await running(engine)
    used = UsageDimensions(custom={"a": 1})
    before = await dump(engine)
    for bad in (
        None,
        "x",
        Handle("elsewhere", handle.kind, handle.opaque),
        Handle(handle.backend, handle.kind, b"nonsense"),
    ):
        with pytest.raises(EngineError) as caught:
            await engine.report_usage(bad, BUDGET, used)  # type: ignore[arg-type]
        assert isinstance(caught.value, ValidationError), bad
    assert await dump(engine) == before


@two_stores
async def test_the_longest_that_is_taken(engine: Engine) -> None:
    name, key, label = "é" * 128, "k" * 1_024, "l" * 1_024
    names = [name, *WIDE[:63]]
    args = CreateBudgetArgs(
        budget_id=BUDGET,
        scope_type=label,
        scope_id=label,
        enforcement_mode=label,
        on_hard_limit=label,
        on_soft_limit=label,
        dimensions=tuple(names),
        hard_limits=[MAX_AMOUNT] * 64,
        soft_limits=[0] * 64,
        reset_interval_ms=2**53 - 1,
        now=2**53 - 1,
    )
    await engine.create_budget(args)
    report = ReportUsageAdminArgs(
        dimensions=names, deltas=[MAX_AMOUNT] * 64, dedup_key=key, now=2**53 - 1
    )
    assert (await engine.report_usage_admin(BUDGET, report)).__class__.__name__ == "UsageOk"
    assert (await engine.get_budget_status(BUDGET)).usage == dict.fromkeys(names, MAX_AMOUNT)
    await engine.reset_budget(BUDGET, 2**53 - 1)
