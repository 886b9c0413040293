from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from flowfabric.errors import ValidationError
from flowfabric.model.quota import (
    Admitted,
    AlreadyAdmitted,
    CheckAdmissionArgs,
    ConcurrencyExceeded,
    CreateQuotaPolicyArgs,
    LimitState,
    QuotaLimits,
    QuotaPolicy,
    QuotaPolicyUnchanged,
    QuotaPolicyUpdated,
    RateExceeded,
    UpdateQuotaPolicyArgs,
)
from flowfabric.rules.claims import admission
from flowfabric.rules.claims.admission import Breach
from flowfabric.rules.decision import Commit, Reject, Return
from flowfabric.rules.limits import quotas
from flowfabric.rules.limits.quotas import Slot, SlotExecution

from .factory import IDENT, NOW, execution

Q, B = UUID(int=99), UUID(int=98)
POLICY = QuotaPolicy(Q, 0, "default", 60, 2, 3, 1, 4, None, None, 0, 0, 5)


def args(**said: Any) -> CheckAdmissionArgs:
    return CheckAdmissionArgs(quota_policy_id=Q, execution_id=IDENT, **said)


@pytest.mark.parametrize(
    ("said", "standing", "result"),
    [
        ({}, LimitState(leased=frozenset([IDENT.uuid])), AlreadyAdmitted()),
        (
            {"concurrency_cap": 1},
            LimitState(leased=frozenset([UUID(int=1)])),
            ConcurrencyExceeded(),
        ),
        ({"rate_limit": 1}, LimitState(window=(NOW - 1_000,)), RateExceeded(59_000 + 7)),
        (
            {"rate_limit": 1, "window_seconds": 1},
            LimitState(window=(NOW - 999,)),
            RateExceeded(1 + 7),
        ),
    ],
)
def test_denied(said: dict[str, Any], standing: LimitState, result: Any) -> None:
    assert quotas.check_admission(args(**said), standing, NOW, "default", 7) == Return(result)


@pytest.mark.parametrize("quota", [None, POLICY])
def test_admitted_under_the_version_of_the_policy_if_there_is_one(
    quota: QuotaPolicy | None,
) -> None:
    act = quotas.check_admission(
        args(rate_limit=1, concurrency_cap=1), LimitState(quota), NOW, "d", 0
    )
    assert isinstance(act, Commit) and act.result == Admitted()
    assert act.first == (() if quota is None else (admission.touch(quota),))
    said = dict(zip(act.plan.form.args, act.plan.values, strict=True))
    assert (said["execution_id"], said["execution_uuid"], said["dimension"]) == (
        str(IDENT),
        IDENT.uuid,
        "d",
    )


def test_the_limits_of_a_policy() -> None:
    assert quotas.limits_of(POLICY) == QuotaLimits(2, 60, 3, 4)
    assert QuotaLimits(0, 60, 0, 0).unlimited and not QuotaLimits(0, 60, 1, 0).unlimited
    with pytest.raises(ValidationError, match="jitter_ms"):
        quotas.limits_of(structs.replace(POLICY, jitter_ms=-4))


def test_the_counter_is_corrected_only_when_it_is_wrong() -> None:
    assert quotas.corrected(POLICY, 1) is None
    plan = quotas.corrected(POLICY, 2)
    assert plan is not None and plan.values == (Q, 1, 2)


OLD = Slot(Q, str(IDENT), NOW - 30_000, None)


@pytest.mark.parametrize(
    ("slot", "phase", "reserved", "gone"),
    [
        (OLD, None, None, False),
        (OLD, "active", None, False),
        (OLD, "runnable", NOW, False),
        (OLD, "runnable", NOW - 1, True),
        (OLD, "terminal", None, True),
        (Slot(Q, str(IDENT), NOW - 29_999, None), "terminal", None, False),
    ],
)
def test_which_slots_are_orphans(
    slot: Slot, phase: str | None, reserved: int | None, gone: bool
) -> None:
    holder = None if phase is None else SlotExecution(0, IDENT.uuid, phase, reserved)
    assert quotas.is_orphan(slot, holder, NOW) is gone


@pytest.mark.parametrize(
    ("blocked_on", "own", "over", "lifted"),
    [
        (None, (), (), True),
        (None, (str(B),), (B,), False),
        (None, (str(B),), (Q,), True),
        (f"budget:{B}", (), (B,), False),
        ("budget:nonsense", (), (B,), True),
        (f"refused:{B}", (), (), False),
        (f"refused:{B}", (), (B,), False),
    ],
)
def test_held_back_for_a_budget(
    blocked_on: str | None, own: tuple[str, ...], over: tuple[UUID, ...], lifted: bool
) -> None:
    held = execution("BUDGET", blocked_on=blocked_on, budget_ids=own)
    spent = {str(b): Breach(str(b), "t", 1, 1) for b in over}
    assert quotas.is_lifted(held, spent, {}) is lifted


def test_held_back_for_a_quota_until_there_is_room_and_no_more_than_that() -> None:
    held, rooms = execution("QUOTA", quota_policy_id=Q), {Q: 1}
    assert [quotas.is_lifted(held, {}, rooms) for _ in range(3)] == [True, False, False]
    assert quotas.is_lifted(held, {}, {Q: None}) and quotas.is_lifted(held, {}, {})
    assert quotas.is_lifted(execution("QUOTA"), {}, {Q: 0})


def test_plans_name_what_they_are_about() -> None:
    made = quotas.create(
        CreateQuotaPolicyArgs(quota_policy_id=Q, window_seconds=5, max_concurrent=2), NOW
    )
    assert made.values == (Q, "default", 5, 0, 2, 0, NOW)
    assert quotas.release(Q, IDENT).values == (Q, str(IDENT))
    assert quotas.set_closed(Q, 9).values == (Q, 9)
    assert quotas.forget(Q, "d", 3, IDENT.uuid).values == (Q, "d", 3, IDENT.uuid)
    assert quotas.note_refund(Q).values == (Q,)
    assert quotas.unknown(Q).code == "quota_policy_not_found"


def test_other_limits() -> None:
    same = UpdateQuotaPolicyArgs(
        quota_policy_id=Q,
        window_seconds=60,
        max_requests_per_window=2,
        max_concurrent=3,
        jitter_ms=4,
    )
    missing = quotas.update(None, same)
    assert isinstance(missing, Reject) and missing.error.code == "quota_policy_not_found"
    assert quotas.update(POLICY, same) == Return(QuotaPolicyUnchanged(Q))
    act = quotas.update(POLICY, structs.replace(same, max_concurrent=9, by="ann"))
    old, new = QuotaLimits(2, 60, 3, 4), QuotaLimits(2, 60, 9, 4)
    assert isinstance(act, Commit) and act.result == QuotaPolicyUpdated(Q, old, new)
    said = dict(zip(act.plan.form.args, act.plan.values, strict=True))
    assert (said["version"], said["namespace"], said["active_concurrency_cap"]) == (5, "default", 9)
    told = json.loads(said["details"])
    assert (
        told["old"]["active_concurrency_cap"],
        told["new"]["active_concurrency_cap"],
        told["by"],
    ) == (3, 9, "ann")


def test_an_id_of_another_namespace_is_not_there() -> None:
    mine, theirs = (
        CreateQuotaPolicyArgs(quota_policy_id=Q, namespace=name) for name in (None, "other")
    )
    assert (
        quotas.owned_elsewhere(None, theirs) is None
        and quotas.owned_elsewhere(POLICY, mine) is None
    )
    refused = quotas.owned_elsewhere(POLICY, theirs)
    assert refused is not None and refused.code == "quota_policy_not_found"
