from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from flowfabric.errors import ValidationError
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.policy import MAX_BUDGETS, ExecutionPolicy
from flowfabric.model.quota import Attached, LimitScope
from flowfabric.rules.limits.limit_scopes import (
    NOTHING,
    attached,
    limits_named,
    open_gate,
    scopes_of,
    unknown,
)

from .factory import IDENT

FLOW = UUID(int=77)
A, B, C, D, E = (UUID(int=n) for n in range(1, 6))


def scope(
    kind: str, limit: UUID, where: str, ident: str, at: int = 0, namespace: str = "default"
) -> LimitScope:
    return LimitScope(where, ident, kind, limit, at, namespace)


SCOPES = scopes_of(
    [
        scope("quota", E, "task", "mail", namespace="ns"),
        scope("quota", A, "flow", str(FLOW), namespace="ns"),
        scope("quota", B, "tag", "a.b=c", namespace="ns"),
        scope("quota", C, "lane", "jobs", namespace="ns"),
        scope("quota", D, "namespace", "ns", namespace="ns"),
        scope("budget", D, "namespace", "ns", namespace="ns"),
        scope("budget", A, "flow", str(FLOW), namespace="ns"),
        scope("quota", D, "lane", "jobs", 9, namespace="other"),
        scope("budget", C, "tag", "a.b=c", namespace="other"),
    ]
)


def limits(
    policy: ExecutionPolicy | None = None, flow: UUID | None = None, **said: Any
) -> Attached:
    return attached(CreateExecutionArgs(execution_id=IDENT, **said), policy, SCOPES, flow)


def test_the_nearest_quota() -> None:
    everywhere: dict[str, Any] = {"tags": {"a.b": "c"}, "lane_id": "jobs"}
    own = ExecutionPolicy(quota_policy_id=str(D))
    assert limits(own, FLOW, namespace="ns", **everywhere).quota_policy_id == D
    mail = {"namespace": "ns", "execution_kind": "mail"}
    assert limits(own, FLOW, **mail, **everywhere).quota_policy_id == D
    assert limits(None, FLOW, **mail, **everywhere).quota_policy_id == E
    found = [limits(None, FLOW, namespace="ns", **everywhere)]
    for name in ("flow", "tags", "lane_id"):
        everywhere.pop(name, None)
        found.append(limits(None, None, namespace="ns", **everywhere))
    found.append(limits())
    assert [each.quota_policy_id for each in found] == [A, B, C, D, None]


def test_what_is_attached_to_a_lane_or_a_tag_reaches_its_own_namespace() -> None:
    other = limits(None, FLOW, tags={"a.b": "c"}, lane_id="jobs", namespace="other")
    assert other == Attached((str(C),), D)


def test_limits_that_are_named_are_there_and_of_ones_own() -> None:
    policy = ExecutionPolicy(budget_ids=(str(A), str(B)), quota_policy_id=str(A))
    named = limits_named(policy)
    assert named == [("budget", A), ("budget", B), ("quota", A)] and limits_named(None) == []
    assert limits_named(ExecutionPolicy()) == []
    known = dict.fromkeys(named, "ns")
    assert unknown(named, known, "ns") is None and unknown([], {}, "ns") is None
    for foreign, told in (
        (named[1], f"budget {B} not found"),
        (named[2], f"quota_policy {A} not found"),
    ):
        assert str(unknown(named, {**known, foreign: "other"}, "ns")) == told
        assert (
            str(unknown(named, {limit: "ns" for limit in named if limit != foreign}, "ns")) == told
        )


def test_all_budgets() -> None:
    policy = ExecutionPolicy(budget_ids=(str(B), str(D)))
    assert limits(policy, FLOW, namespace="ns").budget_ids == (str(A), str(B), str(D))


def test_without_scopes_only_the_limits_of_the_policy() -> None:
    args = CreateExecutionArgs(execution_id=IDENT)
    assert attached(args, None, {}) is NOTHING
    assert attached(args, ExecutionPolicy(), {}) is NOTHING
    assert attached(args, ExecutionPolicy(budget_ids=(str(A),)), {}) == Attached((str(A),))


def test_of_several_in_one_place_the_last_attached() -> None:
    several = scopes_of(
        [scope("quota", A, "lane", "default", 5), scope("quota", C, "lane", "default", 7)]
    )
    assert attached(CreateExecutionArgs(execution_id=IDENT), None, several).quota_policy_id == C


def test_too_many_budgets() -> None:
    many = scopes_of(
        scope("budget", UUID(int=n), "lane", "default") for n in range(MAX_BUDGETS + 1)
    )
    with pytest.raises(ValidationError, match="budget_ids"):
        attached(CreateExecutionArgs(execution_id=IDENT), None, many)


@pytest.mark.parametrize(
    ("found", "gate"),
    [
        (NOTHING, ""),
        (Attached((str(A),)), "budget"),
        (Attached((), A), str(A)),
        (Attached((str(B),), A), str(A)),
    ],
)
def test_the_gate_of_each(found: Attached, gate: str) -> None:
    assert found.gate == gate
    assert open_gate("lane", "ns", found).values == ("lane", "ns", gate, found.quota_policy_id)
