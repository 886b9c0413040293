"""Creating budgets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.model.budget import (
    BudgetAlreadySatisfied,
    BudgetCreated,
    BudgetPolicy,
    CreateBudgetArgs,
    HardLimitAction,
)
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit
from flowfabric.rules.limits.budgets import (
    create_budget,
)
from flowfabric.store.memory import MemoryStore

from . import budget_factory as made
from .budget_factory import BUDGET, policy
from .factory import NOW, answer, refusal, run


def creation(**said: Any) -> CreateBudgetArgs:
    right: dict[str, Any] = {
        "budget_id": BUDGET,
        "scope_type": "tenant",
        "scope_id": "acme",
        "dimensions": ["tokens", "cents"],
        "hard_limits": [100, 0],
        "soft_limits": [0, 7],
    }
    return CreateBudgetArgs(**{**right, **said})


def created(args: CreateBudgetArgs) -> BudgetPolicy:
    decision = create_budget(None, args, NOW)
    assert isinstance(decision, Commit) and decision.result == BudgetCreated(BUDGET)
    store = MemoryStore(lambda: NOW + 999)
    assert isinstance(run(store.commit(decision.plan)), Applied)
    assert isinstance(run(store.commit(decision.plan)), Refused)
    return made.stored_policy(store)


def test_a_new_budget_has_the_given_limits_and_no_usage() -> None:
    row = created(
        creation(
            on_hard_limit=HardLimitAction.FAIL_EXECUTION,
            on_soft_limit="tell",
            enforcement_mode="warn",
        )
    )
    assert json.loads(row.policy_json) == {
        "hard_limits": {"tokens": 100, "cents": 0},
        "soft_limits": {"tokens": 0, "cents": 7},
        "reset_interval_ms": 0,
        "on_hard_limit": "fail_execution",
        "on_soft_limit": "tell",
    }
    assert (row.scope_type, row.scope_id, row.enforcement_mode) == ("tenant", "acme", "warn")
    assert (
        row.breach_count,
        row.soft_breach_count,
        row.last_breach_at_ms,
        row.last_breach_dim,
    ) == (0, 0, None, None)
    assert (row.created_at_ms, row.updated_at_ms, row.next_reset_at_ms, row.version) == (
        NOW,
        NOW,
        None,
        0,
    )


@pytest.mark.parametrize(
    ("interval", "now", "due"), [(0, None, None), (0, 5, None), (10, None, NOW + 10), (10, 5, 15)]
)
def test_when_it_first_resets(interval: int, now: int | None, due: int | None) -> None:
    row = created(creation(reset_interval_ms=interval, now=now))
    assert (row.next_reset_at_ms, row.created_at_ms) == (due, NOW if now is None else now)


def test_the_first_definition_of_a_budget_stands() -> None:
    assert answer(create_budget(policy({"tokens": 1}), creation(), NOW)) == BudgetAlreadySatisfied(
        BUDGET
    )


def test_an_id_of_another_namespace_is_not_there() -> None:
    theirs = policy({"tokens": 1}, columns={"namespace": "theirs"})
    for namespace in (None, "mine"):
        assert (
            refusal(create_budget(theirs, creation(namespace=namespace), NOW)) == "budget_not_found"
        )
    assert answer(
        create_budget(theirs, creation(namespace="theirs"), NOW)
    ) == BudgetAlreadySatisfied(BUDGET)
    assert (created(creation()).namespace, created(creation(namespace="mine")).namespace) == (
        "default",
        "mine",
    )


def test_of_a_name_given_twice_the_last_limit_counts() -> None:
    row = created(creation(dimensions=["a", "a"], hard_limits=[1, 2], soft_limits=[3, 4]))
    assert (row.limits.hard_limits, row.limits.soft_limits) == ({"a": 2}, {"a": 4})


def test_a_budget_without_dimensions() -> None:
    row = created(creation(dimensions=(), hard_limits=(), soft_limits=()))
    assert (row.limits.hard_limits, row.limits.soft_limits) == ({}, {})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"hard_limits":{"a":"x"}}', '{"reset_interval_ms":"1"}']
)
def test_a_policy_that_cannot_be_read_is_corruption(text: str) -> None:
    with pytest.raises(ValidationError, match="policy_json") as caught:
        _ = policy(columns={"policy_json": text}).limits
    assert caught.value.kind is ValidationKind.CORRUPTION
