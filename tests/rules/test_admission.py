from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from flowfabric.errors import Contention, ContentionKind, StateError, ValidationError
from flowfabric.model.lease import IssueGrantArgs
from flowfabric.model.quota import BudgetState, LimitState, QuotaPolicy
from flowfabric.rules.claims import admission, grants
from flowfabric.rules.claims.admission import (
    ADMITTING,
    Breach,
    Candidate,
    Capacity,
    Request,
    Share,
    breach_of,
    capacity_of,
    distribute,
)
from flowfabric.rules.decision import Commit, Decision, Reject, Return

from .factory import IDENT, NOW, execution, grant, snapshot

Q = UUID(int=99)
OTHERS = frozenset(UUID(int=n) for n in range(1, 4))
W = 60_000


def policy(
    cap: int = 0, rate: int = 0, closed: int | None = None, window_s: int = 60
) -> QuotaPolicy:
    return QuotaPolicy(Q, 0, "default", window_s, rate, cap, 0, 0, closed, None, 0, 0, 5)


# ---- the capacity of a quota


@pytest.mark.parametrize(
    ("quota", "held", "window", "found"),
    [
        (None, 9, (), Capacity()),
        (policy(), 9, (NOW,), Capacity()),
        (policy(cap=3), 0, (), Capacity(3)),
        (policy(cap=3), 2, (), Capacity(1)),
        (policy(cap=3), 3, (), Capacity(0, "concurrency")),
        (policy(cap=3), 4, (), Capacity(0, "concurrency")),
        (policy(rate=2), 9, (), Capacity(2)),
        (policy(rate=2), 9, (NOW - W, NOW - 5), Capacity(1)),
        (policy(rate=2), 9, (NOW - W + 1, NOW - 5), Capacity(0, "rate", NOW + 1)),
        (policy(rate=2), 9, (NOW - 9, NOW - 7, NOW - 5), Capacity(0, "rate", NOW - 7 + W)),
        (policy(rate=1, window_s=0), 9, (NOW - W + 1,), Capacity(0, "rate", NOW + 1)),
        (policy(cap=3, rate=5), 1, (NOW,), Capacity(2)),
        (policy(cap=9, rate=2), 1, (NOW,), Capacity(1)),
        (policy(cap=1, rate=1), 1, (NOW,), Capacity(0, "rate", NOW + W)),
        (policy(closed=NOW + 1), 0, (), Capacity(0, "closed", NOW + 1)),
        (policy(closed=NOW), 0, (), Capacity()),
    ],
)
def test_the_capacity_of_a_quota(
    quota: QuotaPolicy | None, held: int, window: tuple[int, ...], found: Capacity
) -> None:
    assert capacity_of(quota, held, window, NOW) == found


@pytest.mark.parametrize(
    ("quota", "found", "code", "text"),
    [
        (
            policy(cap=3),
            Capacity(0, "concurrency"),
            "concurrency_limit_exceeded",
            f"quota {Q}: concurrency cap 3",
        ),
        (
            policy(rate=2),
            Capacity(0, "rate", NOW + 7),
            "rate_limit_exceeded",
            f"quota {Q}: rate limit 2/2 per 60s window",
        ),
        (
            policy(closed=NOW + 7),
            Capacity(0, "closed", NOW + 7),
            "rate_limit_exceeded",
            f"quota {Q}: closed until {NOW + 7}",
        ),
    ],
)
def test_the_texts_without_a_value(
    quota: QuotaPolicy, found: Capacity, code: str, text: str
) -> None:
    error = admission.limit_error(quota, found, NOW)
    assert (error.code, error.facts["detail"]) == (code, text) and error.retryable
    assert error.facts.get("retry_after_ms") == (None if found.opens_at_ms is None else "7")


# ---- budgets


@pytest.mark.parametrize(
    ("text", "used", "found"),
    [
        ('{"hard_limits":{"b":10,"a":5}}', {"b": 10, "a": 5}, ("a", 5, 5)),
        ('{"hard_limits":{"b":10,"a":5}}', {"b": 10, "a": 4}, ("b", 10, 10)),
        ('{"hard_limits":{"b":10}}', {"b": 9}, None),
        ('{"hard_limits":{"b":0}}', {"b": 9}, None),
        ('{"hard_limits":{"b":1}}', {}, None),
        ("{}", {"b": 9}, None),
    ],
)
def test_a_budget_that_is_spent(
    text: str, used: dict[str, int], found: tuple[str, int, int] | None
) -> None:
    breach = breach_of(BudgetState("x", text, used))
    assert (None if breach is None else (breach.dimension, breach.used, breach.limit)) == found


@pytest.mark.parametrize("text", ["", "[]", '{"hard_limits":{"a":"5"}}'])
def test_an_unreadable_stored_budget_is_an_error(text: str) -> None:
    with pytest.raises(ValidationError, match="corruption"):
        breach_of(BudgetState("x", text, {}))


# ---- one execution


def decided(standing: LimitState | None, **around: Any) -> Decision:
    own = execution(quota_policy_id=Q, gate=str(Q), **around)
    args = IssueGrantArgs(execution_id=IDENT, worker_id="w", worker_instance_id="i", grant_ttl_ms=5)
    found = structs.replace(snapshot(own), standing=standing)
    return admission.admitted(found, grants.issue_claim_grant(found, args, grant_id="g"))


def test_nothing_is_checked_without_limits() -> None:
    plain = decided(None)
    assert isinstance(plain, Commit) and plain.first == () and plain.plan.form is grants.ISSUE_GRANT


@pytest.mark.parametrize("decision", [Return(5), Reject(Contention(ContentionKind.LEASE_CONFLICT))])
def test_decisions_that_start_nothing_are_unchanged(decision: Decision) -> None:
    found = structs.replace(snapshot(execution()), standing=LimitState(policy(cap=1), OTHERS))
    assert admission.admitted(found, decision) is decision
    other = Commit(grants.mismatch_plan(execution()))
    assert admission.admitted(found, other) is other


@pytest.mark.parametrize(
    ("quota", "counted"), [(policy(cap=4), False), (policy(cap=4, rate=1), True)]
)
def test_an_admission_is_counted_under_the_version_it_was_decided_at(
    quota: QuotaPolicy, counted: bool
) -> None:
    act = decided(LimitState(quota, OTHERS))
    assert isinstance(act, Commit) and act.first == (admission.touch(quota),)
    assert act.plan.form is (ADMITTING[grants.ISSUE_GRANT] if counted else grants.ISSUE_GRANT)
    assert act.plan.form.args == grants.ISSUE_GRANT.args


def test_an_undefined_quota_is_unlimited() -> None:
    act = decided(LimitState(None))
    assert isinstance(act, Commit) and act.first == ()


@pytest.mark.parametrize(
    "standing",
    [
        LimitState(policy(cap=3), OTHERS),
        LimitState(policy(cap=3), frozenset(), OTHERS),
        LimitState(
            policy(cap=3),
            frozenset([UUID(int=1)]),
            frozenset([UUID(int=2)]),
            frozenset([UUID(int=3)]),
        ),
    ],
)
def test_a_full_quota_refuses(standing: LimitState) -> None:
    refused = decided(standing)
    assert isinstance(refused, Reject) and refused.error.code == "concurrency_limit_exceeded"


def test_each_holder_counts_once_and_the_claimer_does_not() -> None:
    own = frozenset([IDENT.uuid])
    same = frozenset([UUID(int=1)])
    assert isinstance(decided(LimitState(policy(cap=2), same, same, same)), Commit)
    assert isinstance(decided(LimitState(policy(cap=2), same | own)), Commit)


def test_a_holder_of_a_slot_is_admitted_again() -> None:
    by_hand = decided(LimitState(policy(cap=3), OTHERS, admitted=frozenset([IDENT.uuid])))
    assert isinstance(by_hand, Commit) and by_hand.first == ()
    granted = decided(LimitState(policy(cap=3), OTHERS), reserved_for="w", reserved_until_ms=NOW)
    assert isinstance(granted, Commit) and granted.first == ()
    lapsed = decided(LimitState(policy(cap=3), OTHERS), reserved_for="w", reserved_until_ms=NOW - 1)
    assert isinstance(lapsed, Reject)


def test_budgets_are_checked_before_the_quota() -> None:
    budgets = (
        BudgetState("a", '{"hard_limits":{"t":2}}', {"t": 1}),
        BudgetState("b", '{"hard_limits":{"t":2}}', {"t": 2}),
    )
    refused = decided(LimitState(policy(cap=3), OTHERS, budgets=budgets))
    assert isinstance(refused, Reject) and isinstance(refused.error, StateError)
    assert refused.error.code == "budget_exceeded" and "budget b: t 2/2" in str(refused.error)


def test_a_refusal_by_another_rule_comes_first() -> None:
    found = structs.replace(
        snapshot(execution(), grant=grant(execution())), standing=LimitState(policy(cap=3), OTHERS)
    )
    args = IssueGrantArgs(execution_id=IDENT, worker_id="w", worker_instance_id="i", grant_ttl_ms=5)
    refused = admission.admitted(found, grants.issue_claim_grant(found, args, grant_id="g"))
    assert isinstance(refused, Reject) and refused.error.code == "grant_already_exists"


# ---- many requests


def waiting(n: int, gate: str = "", **said: Any) -> Candidate:
    plain = {"priority": 0, "created_at_ms": n, "required_capabilities": (), "budget_ids": ()}
    values = {**plain, "reserved_for": None, "reserved_until_ms": None, "partition_key": 1, **said}
    return Candidate(execution_id=UUID(int=n), version=0, gate=gate, **values)


def asks(wanted: int, *capabilities: str, worker: str = "w") -> Request:
    return Request(wanted, frozenset(capabilities), worker)


def ids(*numbers: int) -> tuple[UUID, ...]:
    return tuple(UUID(int=n) for n in numbers)


def test_the_ready_order() -> None:
    found = [
        waiting(3),
        waiting(1, priority=1),
        waiting(2, created_at_ms=3),
        waiting(9, created_at_ms=0),
    ]
    assert [c.execution_id.int for c in admission.queue_order(found)] == [1, 9, 2, 3]


def test_executions_go_to_requests_in_queue_order_up_to_the_capacity() -> None:
    found = [waiting(n, "q") for n in range(1, 6)] + [waiting(6), waiting(7)]
    shared = distribute([asks(2), asks(2), asks(3)], found, {"q": 3}, {}, NOW)
    assert shared.shares == [
        Share(0, "q", 2, 1, ids(1, 2, 3)),
        Share(1, "q", 1, 1, ids(1, 2, 3)),
        Share(1, "", 1),
        Share(2, "", 1),
    ]
    assert (shared.unmet, shared.full, shared.denied) == ([0, 0, 2], {"q"}, [])


def test_a_gate_without_a_limit_admits_everything() -> None:
    found = [waiting(n, "q", partition_key=n) for n in (1, 2)]
    for rooms in ({}, {"q": None}):
        shared = distribute([asks(5)], found, rooms, {}, NOW)
        assert shared.shares == [Share(0, "q", 1, 1, ids(1)), Share(0, "q", 1, 2, ids(2))]
        assert (shared.unmet, shared.full) == ([3], set())


def test_requests_get_only_executions_they_can_run() -> None:
    gpu, eu = {"required_capabilities": ("gpu",)}, {"required_capabilities": ("eu",)}
    found = [waiting(1, "q", **gpu), waiting(2, "q", **eu), waiting(3, "q"), waiting(4, "q", **gpu)]
    shared = distribute([asks(1), asks(5, "gpu")], found, {}, {}, NOW)
    assert shared.shares == [Share(1, "q", 2, 1, ids(1, 4)), Share(0, "q", 1, 1, ids(3))]
    assert shared.unmet == [0, 3]


def test_no_candidate_is_read_once_all_requests_are_met() -> None:
    shared = distribute([asks(1)], [waiting(1), waiting(2)], {}, {"b": Breach("b", "t", 1, 1)}, NOW)
    assert shared.shares == [Share(0, "", 1)] and shared.denied == []


def test_a_reserved_execution_goes_to_its_worker_until_the_reservation_ends() -> None:
    held = {"reserved_for": "me", "reserved_until_ms": NOW}
    found = [
        waiting(1, "q", **held),
        waiting(2, "q", **{**held, "reserved_until_ms": NOW - 1}),
        waiting(3, "q", **held),
    ]
    found.append(waiting(4, "q", reserved_until_ms=NOW))
    shared = distribute([asks(5, worker="you"), asks(1, worker="me")], found, {}, {}, NOW)
    assert shared.shares == [Share(1, "q", 1, 1, ids(1), "me"), Share(0, "q", 2, 1, ids(2, 4))]
    over = {"b": Breach("b", "t", 1, 1)}
    full = distribute(
        [asks(5, worker="me")], [waiting(1, "q", budget_ids=("b",), **held)], {"q": 0}, over, NOW
    )
    assert full.shares == [Share(0, "q", 1, 1, ids(1), "me")] and not full.denied and not full.full


def test_a_spent_budget_blocks_its_executions_before_the_quota_is_checked() -> None:
    breach = Breach("b", "t", 5, 5)
    found = [
        waiting(1, "q", budget_ids=("a", "b")),
        waiting(2, "q", budget_ids=("a",)),
        waiting(3, "q", budget_ids=("b",)),
    ]
    shared = distribute([asks(9)], found, {"q": 0}, {"b": breach}, NOW)
    assert [(c.execution_id.int, b) for c, b in shared.denied] == [(1, breach), (3, breach)]
    assert shared.shares == [] and shared.full == {"q"}
    plan = admission.block_for_budget(found[0], breach, NOW)
    said = dict(zip(plan.form.args, plan.values, strict=True))
    assert (said["blocked_on"], said["detail"], said["version"]) == (
        "budget:b",
        "budget b: t 5/5",
        0,
    )
