"""Every state has its reasons: the codes in the order in which they have to go away, the words, and the facts."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from flowfabric.model.execution import Lane
from flowfabric.model.explanation import (
    MAX_LISTED,
    Awaited,
    Budget,
    Explanation,
    Failure,
    Holder,
    Looked,
    Outcome,
    Parent,
    Parents,
    Queue,
    Quota,
    Reservation,
    Routing,
    SpentBudget,
    UsedQuota,
    Wait,
    Why,
)
from flowfabric.model.flow import EdgePolicy
from flowfabric.model.state import BlockingReason
from flowfabric.model.waitpoint import (
    AllOf,
    Condition,
    Count,
    CountKind,
    OperatorOnly,
    Single,
    TimeoutOnly,
)
from flowfabric.model.worker import WorkerInfo
from flowfabric.rules.executions.explain import EXPLAINED, explain, is_ready, looks_ahead
from flowfabric.rules.executions.explain_waits import still_needed
from flowfabric.rules.executions.phrasing import ago, clipped, coming, counted, listed, span
from flowfabric.rules.states import VECTORS

from .factory import IDENT, NOW, attempt, execution
from .flow_factory import group, ident
from .wait_factory import WAITPOINT_ID, suspended, suspension

QUOTA_ID = UUID(int=0x90)
MIN = 60_000
FREE = Quota(QUOTA_ID, 10, 2, 2, None, (), 0)


def worker(
    instance: str = "w-1", *offered: str, lanes: tuple[str, ...] = ("default",)
) -> WorkerInfo:
    return WorkerInfo("default", instance, "w", lanes, offered, NOW, 1_000, NOW + 1_000, NOW)


def lane(state: str) -> Lane:
    return Lane("default", NOW - MIN, "test", state, NOW - 3 * MIN)


def told(
    vector: str = "READY", *, reason: str | None = None, outcome: str | None = None, **said: Any
) -> Explanation:
    around = {name: said.pop(name) for name in tuple(said) if name in Looked.__struct_fields__}
    of = around.pop("execution", None) or execution(vector, reason=reason, outcome=outcome, **said)
    found = explain(Looked(NOW, of, **around))
    assert found.execution_id == IDENT and found.as_of_ms == NOW and found.reasons
    return found


def codes(found: Explanation) -> list[str]:
    return [reason.code.value for reason in found.reasons]


# ---- every state


def test_every_state_has_a_row() -> None:
    assert set(EXPLAINED) == set(VECTORS)


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (name, reason)
        for name, v in VECTORS.items()
        for reason in v.blocking_reasons
        if reason != "none"
    ],
)
def test_the_code_of_a_waiting_state_is_its_blocking_reason(vector: str, reason: str) -> None:
    found = told(vector, reason=reason, last_transition_at=NOW - 5, workers=(worker(),))
    expected = {"READY": "waiting_for_worker", "LOST": "lease_expired"}.get(vector, reason)
    assert (found.state, codes(found)) == (vector, [expected])
    assert found.code == expected
    assert found.reasons[0].says and found.reasons[0].hint


def test_every_blocking_reason_is_a_code() -> None:
    assert {reason.value for reason in BlockingReason} - {"none"} <= {why.value for why in Why}


def test_columns_that_contradict_each_other_are_said_to() -> None:
    found = told(ownership_state="leased")
    assert (found.state, codes(found)) == ("UNKNOWN", ["unknown"])
    assert "flowfabric verify" in found.reasons[0].hint
    assert not looks_ahead(execution(ownership_state="leased"))


@pytest.mark.parametrize(
    ("vector", "ahead"),
    [("READY", True), ("SUSPENDED", True), ("RUNNING", False), ("ENDED", False)],
)
def test_only_what_waits_is_looked_into(vector: str, ahead: bool) -> None:
    assert looks_ahead(execution(vector)) is ahead
    assert is_ready(execution(vector)) is (vector == "READY")


# ---- ended and running


@pytest.mark.parametrize(
    ("outcome", "columns", "says", "facts"),
    [
        ("success", {}, "it completed 1 s ago", Outcome("success", "", NOW - 1_000)),
        (
            "success",
            {"failure_reason": "an earlier try"},
            "it completed 1 s ago",
            Outcome("success", "", NOW - 1_000),
        ),
        (
            "failed",
            {"failure_reason": "no disk"},
            "it failed 1 s ago: no disk",
            Outcome("failed", "no disk", NOW - 1_000),
        ),
        (
            "cancelled",
            {"cancellation_reason": "enough", "cancelled_by": "ann"},
            "it was cancelled 1 s ago by ann: enough",
            Outcome("cancelled", "enough", NOW - 1_000, "ann"),
        ),
        ("cancelled", {}, "it was cancelled 1 s ago", Outcome("cancelled", "", NOW - 1_000)),
        (
            "expired",
            {"failure_reason": "execution_deadline"},
            "it expired 1 s ago: execution_deadline",
            Outcome("expired", "execution_deadline", NOW - 1_000),
        ),
        (
            "skipped",
            {},
            "it was skipped, because its dependencies cannot be met, 1 s ago",
            Outcome("skipped", "", NOW - 1_000),
        ),
    ],
)
def test_how_it_ended(outcome: str, columns: dict[str, Any], says: str, facts: Outcome) -> None:
    (reason,) = told("ENDED", outcome=outcome, **columns).reasons
    assert (reason.code, reason.says, reason.facts, reason.since_ms) == (
        Why.ENDED,
        says,
        facts,
        NOW - 1_000,
    )


def test_who_runs_it_and_how_far_it_is() -> None:
    (reason,) = told("RUNNING").reasons
    assert (
        reason.says == "worker `worker` (`worker-1`) runs attempt 1, started 10 s ago; "
        "its lease expires in 20 s unless renewed"
    )
    assert reason.facts == Holder("worker", "worker-1", NOW - 10_000, NOW + 20_000, 0)
    said = (
        told("RUNNING", progress_pct=40, progress_message="half of it", progress_updated_at=NOW)
        .reasons[0]
        .says
    )
    assert "; progress: 40 %, half of it; " in said
    assert "; progress: resting; " in told("RUNNING", progress_message="resting").reasons[0].says


def test_a_lease_that_ran_out_noticed_or_not() -> None:
    (unnoticed,) = told("RUNNING", lease_expires_at_ms=NOW).reasons
    assert (
        unnoticed.code is Why.LEASE_EXPIRED
        and "expired less than a second ago and is about to be marked" in unnoticed.says
    )
    lost = told("LOST", lane=lane("paused"))
    assert codes(lost) == ["lease_expired", "lane_paused"]
    assert lost.reasons[0].says.startswith(
        "its lease expired 2 s ago, worker `worker` did not renew it"
    )


# ---- waiting for somebody to take it


def test_next_in_line_and_somebody_can() -> None:
    (reason,) = told(workers=(worker(), worker("w-2", lanes=("other",))), ahead=0).reasons
    assert (
        reason.says
        == "it can be claimed, and 1 live worker can run it; it is the first of lane `default`"
    )
    assert reason.facts == Queue(0, 1, 1)
    assert reason.since_ms == NOW - 60_000


@pytest.mark.parametrize(
    ("ahead", "says"),
    [
        (1, "1 execution of lane `default` is ahead"),
        (12, "12 executions"),
        (None, "more than 1,000 executions"),
    ],
)
def test_how_many_come_first(ahead: int | None, says: str) -> None:
    assert says in told(ahead=ahead, workers=(worker(), worker("w-2"))).reasons[0].says


def test_nobody_is_there() -> None:
    (reason,) = told(ahead=3, required_capabilities=("gpu",)).reasons
    assert reason.code is Why.NO_LIVE_WORKER and reason.facts == Queue(3, 0, 0)
    assert "no live worker is registered for lane `default` in namespace `default`" in reason.says
    elsewhere = told(ahead=3, workers=(worker(lanes=("other",)),))
    assert codes(elsewhere) == ["no_live_worker"]


def test_it_is_reserved_for_somebody() -> None:
    found = told(
        reserved_for="bob",
        reserved_until_ms=NOW,
        workers=(worker(),),
        lane=lane("paused"),
        budgets=(SPENT,),
    )
    assert codes(found) == ["lane_paused", "reserved"]
    assert found.reasons[1].facts == Reservation("bob", NOW)
    assert codes(told(reserved_for="bob", reserved_until_ms=NOW - 1, workers=(worker(),))) == [
        "waiting_for_worker"
    ]


# ---- lanes


@pytest.mark.parametrize(
    ("state", "code"), [("paused", "lane_paused"), ("disabled", "lane_disabled")]
)
def test_a_lane_that_runs_nothing(state: str, code: str) -> None:
    found = told(lane=lane(state), workers=(worker(),))
    assert codes(found) == [code]
    assert "since 3 min ago" in found.reasons[0].says and found.reasons[0].since_ms == NOW - 3 * MIN
    assert 'resume_lane("default")' in found.reasons[0].hint


def test_a_lane_that_drains_is_told_last_for_it_stops_nothing() -> None:
    assert codes(told(lane=lane("draining"), workers=(worker(),))) == [
        "waiting_for_worker",
        "lane_draining",
    ]
    assert codes(told(lane=lane("active"), workers=(worker(),))) == ["waiting_for_worker"]


# ---- workers that cannot


@pytest.mark.parametrize("vector", ["READY", "ROUTE"])
def test_what_nobody_offers_and_who_comes_nearest(vector: str) -> None:
    there = (worker("far"), worker("near", "eu"), worker("off", "eu", lanes=("other",)))
    (reason,) = told(vector, required_capabilities=("eu", "gpu"), workers=there).reasons
    assert reason.code is Why.WAITING_FOR_CAPABLE_WORKER
    assert reason.says == (
        "no live worker of namespace `default` on lane `default` offers `gpu`; the nearest, `near`, lacks `gpu`"
    )
    assert isinstance(reason.facts, Routing) and reason.facts.nearest is not None
    assert (reason.facts.required, reason.facts.missing_everywhere, reason.facts.live_workers) == (
        ("eu", "gpu"),
        ("gpu",),
        2,
    )
    assert (reason.facts.nearest.worker_instance_id, reason.facts.nearest.serves_lane) == (
        "near",
        True,
    )


def test_all_is_offered_but_by_nobody_alone() -> None:
    (reason,) = told(
        required_capabilities=("eu", "gpu"), workers=(worker("a", "eu"), worker("b", "gpu"))
    ).reasons
    assert "no single live worker" in reason.says and "offers all of `eu`, `gpu`" in reason.says


def test_the_only_capable_worker_serves_another_lane() -> None:
    (reason,) = told(
        required_capabilities=("gpu",), workers=(worker("a", "gpu", lanes=("other",)), worker("b"))
    ).reasons
    assert reason.says.endswith("offers `gpu`; the nearest, `a`, serves other lanes")


def test_parked_with_nobody_there_or_with_somebody_at_last() -> None:
    (alone,) = told("ROUTE", required_capabilities=("gpu",)).reasons
    assert alone.says == "no live worker of namespace `default` on lane `default` offers `gpu`"
    found = told(
        "ROUTE", required_capabilities=("gpu",), workers=(worker("a", "gpu"),), lane=lane("paused")
    )
    assert codes(found) == ["waiting_for_capable_worker", "lane_paused"]
    assert "a capable worker is registered now" in found.reasons[0].says


@pytest.mark.parametrize("vector", ["READY", "DELAYED"])
def test_a_task_that_no_worker_of_the_lane_has(vector: str) -> None:
    there = (
        worker("a", "task:greet", "gpu"),
        worker("b", "task:send"),
        worker("off", "task:gret", lanes=("other",)),
    )
    found = told(vector, execution_kind="gret", workers=there)
    assert codes(found) == [
        "waiting_for_capable_worker",
        *(["waiting_for_delay"] if vector == "DELAYED" else []),
    ]
    reason = found.reasons[0]
    assert (
        reason.says
        == "no live worker on lane `default` has a task `gret`; they have `greet`, `send`"
    )
    assert "if the name is mistyped, cancel it and submit it under the right one" in reason.hint
    assert isinstance(reason.facts, Routing) and reason.facts.missing_everywhere == ("task:gret",)


@pytest.mark.parametrize(
    ("there", "needs"),
    [
        ((), ()),
        ((worker("a", "task:gret"), worker("b", "task:send")), ()),
        ((worker("a", "task:send"), worker("of the engine", "gpu")), ()),
        ((worker("a", "task:send"),), ("task:send",)),
    ],
)
def test_nothing_is_said_of_a_task_that_somebody_may_have(
    there: tuple[WorkerInfo, ...], needs: tuple[str, ...]
) -> None:
    found = told(execution_kind="gret", workers=there, required_capabilities=needs)
    assert "waiting_for_capable_worker" not in codes(found)


# ---- budgets and quotas

SPENT = Budget(
    "b-1",
    {"usd": 5, "tokens": 100, "calls": 0},
    {"usd": 5, "tokens": 99, "calls": 7},
    NOW + 2 * MIN,
)


def test_which_budget_is_at_its_limit_and_when_it_starts_anew() -> None:
    (reason,) = told("BUDGET", budgets=(SPENT,)).reasons
    assert reason.says == "budget b-1 has no usd left (5 of 5 used); it resets in 2 min"
    assert (
        reason.facts == SpentBudget("b-1", "usd", 5, 5, NOW + 2 * MIN)
        and reason.until_ms == NOW + 2 * MIN
    )
    forever = Budget("b-2", {"usd": 5}, {"usd": 9}, None)
    assert "has no reset interval" in told("BUDGET", budgets=(forever,)).reasons[0].says


def test_several_limits_are_listed_and_an_unused_dimension_is_none() -> None:
    other = Budget("b-2", {"usd": 1, "calls": 1}, {"usd": 1}, None)
    assert codes(told("BUDGET", budgets=(SPENT, other))) == ["waiting_for_budget"] * 2
    many = Budget("b-3", {f"d{n}": 1 for n in range(50)}, {f"d{n}": 1 for n in range(50)}, None)
    assert len(told("BUDGET", budgets=(many,)).reasons) == MAX_LISTED


NAMED = Budget("b-1", {"usd": 5, "tokens": 100}, {"tokens": 90}, None, "acme/day")


def test_which_report_found_no_room() -> None:
    """There is room, and yet it is not about to be let go."""
    held = {"blocked_on": "refused:b-1", "blocking_detail": "budget b-1: tokens 90/100"}
    (reason,) = told("BUDGET", budgets=(NAMED,), **held).reasons
    assert reason.says == (
        "budget `acme/day` (b-1) refused its usage report: 90 of 100 tokens are used, and the report "
        "exceeds the rest; it is blocked until the budget is reset, has usage released, or gets "
        "other limits"
    )
    assert reason.facts == SpentBudget("b-1", "tokens", 90, 100, None)
    assert reason.hint == "reset_budget, or update_budget with a higher limit"
    timed = Budget("b-1", {"tokens": 100}, {"tokens": 100}, NOW + 2 * MIN)
    both = told(
        "BUDGET", budgets=(timed, Budget("b-2", {"usd": 5}, {"usd": 5}, None)), **held
    ).reasons
    assert [reason.facts.budget_id for reason in both] == ["b-1", "b-2"]  # type: ignore[union-attr]
    assert (
        "it is blocked until the budget resets in 2 min, is reset," in both[0].says
        and both[0].until_ms == NOW + 2 * MIN
    )


def test_a_report_refused_by_what_is_not_there_any_more() -> None:
    assert (
        "has capacity again"
        in told("BUDGET", blocked_on="refused:b-9", budgets=(NAMED,)).reasons[0].says
    )


@pytest.mark.parametrize(("vector", "what"), [("BUDGET", "its budget"), ("QUOTA", "its quota")])
def test_a_limit_that_has_room_again(vector: str, what: str) -> None:
    (reason,) = told(vector, blocking_detail="usd 5/5", quota=FREE).reasons
    assert (
        reason.says
        == f"{what} has capacity again (blocked by: usd 5/5); it is about to be unblocked"
    )
    assert told(vector).reasons[0].says == f"{what} has capacity again; it is about to be unblocked"


@pytest.mark.parametrize(
    ("quota", "facts", "says"),
    [
        (
            Quota(QUOTA_ID, 10, 2, 0, None, (NOW - 10_000, NOW - 9_000, NOW - 4_000), 9),
            UsedQuota(QUOTA_ID, "rate", 2, 2, 10, NOW + 1_000),
            "has admitted its 2 in 10 s; its window opens in 1 s",
        ),
        (
            Quota(QUOTA_ID, 0, 1, 0, None, (NOW - 59_000, NOW - 58_000), 0),
            UsedQuota(QUOTA_ID, "rate", 2, 1, 60, NOW + 2_000),
            "has admitted its 1 in 60 s",
        ),
        (
            Quota(QUOTA_ID, 10, 9, 2, None, (), 2),
            UsedQuota(QUOTA_ID, "concurrency", 2, 2, 10, None),
            "allows 2 executions at once, and 2 hold a slot",
        ),
        (
            Quota(QUOTA_ID, 10, 9, 2, NOW + MIN, (NOW,), 2),
            UsedQuota(QUOTA_ID, "closed", 1, 9, 10, NOW + MIN),
            "is closed for another 1 min",
        ),
        (
            Quota(QUOTA_ID, 10, 9, 1, NOW, (NOW,), 1),
            UsedQuota(QUOTA_ID, "concurrency", 1, 1, 10, None),
            "allows 1 execution at once",
        ),
    ],
)
def test_which_quota_why_and_when_it_opens(quota: Quota, facts: UsedQuota, says: str) -> None:
    for vector in ("QUOTA", "READY"):
        (reason,) = told(vector, quota=quota).reasons
        assert (reason.code, reason.facts, reason.until_ms) == (
            Why.WAITING_FOR_QUOTA,
            facts,
            facts.opens_at_ms,
        )
        assert says in reason.says


def test_no_limit_is_no_reason() -> None:
    assert codes(told(quota=Quota(QUOTA_ID, 10, 0, 0, None, (NOW,), 9), workers=(worker(),))) == [
        "waiting_for_worker"
    ]


# ---- several at once


def test_reasons_come_in_the_order_in_which_they_have_to_go_away() -> None:
    around: dict[str, Any] = {
        "lane": lane("paused"),
        "workers": (worker(),),
        "required_capabilities": ("gpu",),
        "budgets": (SPENT,),
        "quota": Quota(QUOTA_ID, 10, 0, 1, None, (), 1),
    }
    capable, budget, quota = "waiting_for_capable_worker", "waiting_for_budget", "waiting_for_quota"
    assert codes(told(**around)) == ["lane_paused", capable, budget, quota]
    assert codes(told("DELAYED", **around)) == [
        "waiting_for_delay",
        "lane_paused",
        capable,
        budget,
        quota,
    ]
    assert codes(told("BUDGET", **around)) == [budget, "lane_paused", capable, quota]
    assert codes(told("QUOTA", **around)) == [quota, "lane_paused", capable, budget]
    assert codes(told("ROUTE", **around)) == [capable, "lane_paused", budget, quota]
    assert codes(told("OPBLOCK", **around)) == [
        "paused_by_operator",
        "lane_paused",
        capable,
        budget,
        quota,
    ]
    assert codes(told("SUSPENDED", **around)) == [
        "waiting_for_signal",
        "lane_paused",
        capable,
        budget,
        quota,
    ]
    assert codes(told("DEPS", **around)) == [
        "waiting_for_children",
        "lane_paused",
        capable,
        budget,
        quota,
    ]


# ---- a time


def test_until_when_and_after_which_failure() -> None:
    (later,) = told("DELAYED", delay_until_ms=NOW + MIN).reasons
    assert later.says == "it is delayed; its delay ends in 1 min" and later.until_ms == NOW + MIN
    assert "its delay is over" in told("DELAYED", delay_until_ms=NOW).reasons[0].says
    assert "its delay is over" in told("DELAYED", delay_until_ms=None).reasons[0].says
    after = {
        "reason": "waiting_for_retry_backoff",
        "delay_until_ms": NOW + 9_000,
        "last_failure_message": "boom",
    }
    failed = execution("DELAYED", "pending_retry_attempt", **after)  # type: ignore[arg-type]
    (again,) = told(execution=failed, attempt=attempt(failed, failure_category="io")).reasons
    assert (
        again.says
        == "its last attempt failed, and the next one is delayed; its delay ends in 9 s. "
        "The last failure: boom"
    )
    assert again.facts == Failure("boom", "io", 0, 1)
    (unknown,) = told(execution=failed).reasons
    assert unknown.facts == Failure("boom", "", 0, 1)


# ---- parents


def parents(n: int, state: str = "active") -> tuple[Parent, ...]:
    return tuple(Parent(ident(k), "fetch", state) for k in range(n))


@pytest.mark.parametrize(
    ("policy", "says", "needed"),
    [
        (EdgePolicy.all_of(), "all 4 parents to succeed (1 succeeded so far, 1 did not)", 4),
        (EdgePolicy.any_of(), "any one of 4 parents to succeed (1 succeeded so far, 1 did not)", 1),
        (EdgePolicy.quorum(2), "2 of 4 parents to succeed (1 succeeded so far, 1 did not)", 2),
    ],
)
def test_which_parents_are_unfinished_and_how_many_are_needed(
    policy: EdgePolicy, says: str, needed: int
) -> None:
    waits = group(policy, 2, success_count=1, fail_count=1)
    (reason,) = told("DEPS", group=waits, parents=parents(2)).reasons
    listed_ = f"{ident(0)} (fetch, active), {ident(1)} (fetch, active)"
    assert reason.says == f"it waits for {says}; unfinished: {listed_}"
    assert reason.facts == Parents(policy.kind, needed, 4, 1, 1, parents(2), 0)
    assert reason.hint == f"flowfabric why '{ident(0)}'"


def test_many_parents_are_counted_not_listed() -> None:
    (reason,) = told("DEPS", group=group(running=50), parents=parents(30)).reasons
    assert isinstance(reason.facts, Parents)
    assert (len(reason.facts.unfinished), reason.facts.more) == (MAX_LISTED, 30)
    assert reason.says.endswith("and 47 more")
    (unread,) = told("DEPS", group=group(running=1)).reasons
    assert unread.says.endswith("unfinished: 1 parent") and "(0 succeeded so far)" in unread.says


def test_no_parent_is_left() -> None:
    assert (
        "all its parents have ended" in told("DEPS", group=group(success_count=2)).reasons[0].says
    )
    assert "none is recorded" in told("DEPS").reasons[0].says


# ---- signals

TWO = Count(2, CountKind.DISTINCT_SOURCES, ("a",), "approved")


@pytest.mark.parametrize(
    ("condition", "satisfied", "needs"),
    [
        (Single("a"), (), ["any signal on `a`"]),
        (Single("a", "ok"), (), ["a signal `ok` on `a`"]),
        (Single("a"), ("leaf:",), []),
        (TWO, ("#src:user:ann",), ["a signal `approved` from 1 more source (of 2) on `a`"]),
        (
            Count(3, CountKind.DISTINCT_SIGNALS, ("a", "b")),
            (),
            ["any signal from 3 more signals (of 3) on `a`, `b`"],
        ),
        (AllOf((Single("a"), Single("b", "x"))), ("leaf:members[0]",), ["a signal `x` on `b`"]),
        (
            AllOf((AllOf((Single("a"),)), OperatorOnly())),
            ("leaf:members[0].members[0]",),
            ["an operator's decision"],
        ),
        (TimeoutOnly(), (), ["its timeout"]),
    ],
)
def test_what_a_condition_still_needs(
    condition: Condition, satisfied: tuple[str, ...], needs: list[str]
) -> None:
    assert still_needed(condition, satisfied) == needs


def test_what_is_awaited_since_when_until_when_and_how_to_answer() -> None:
    asked = (Awaited(WAITPOINT_ID, "a", ("approved",)),)
    wait = suspension(
        TWO, timeout_at_ms=NOW + MIN, timeout_behavior="cancel", satisfied_set='["#src:user:ann"]'
    )
    of = suspended(reason="waiting_for_approval")
    (reason,) = told(execution=of, suspension=wait, waitpoints=asked).reasons
    need = "a signal `approved` from 1 more source (of 2) on `a`"
    assert reason.says == (
        f"it waits for an approval, requested less than a second ago; still needed: {need}; it is cancelled in 1 min"
    )
    assert reason.facts == Wait("waiting_for_signal", (need,), asked, NOW + MIN, "is cancelled")
    assert reason.hint == f"flowfabric signal '{IDENT}' {WAITPOINT_ID} URL --name 'approved'"
    assert (reason.since_ms, reason.until_ms) == (NOW - 500, NOW + MIN)


def test_other_ways_to_be_suspended() -> None:
    over = told(
        execution=suspended(),
        suspension=suspension(timeout_at_ms=NOW),
        waitpoints=(Awaited(WAITPOINT_ID, "a", ()),),
    )
    assert over.reasons[0].says.endswith("it fails now: its timeout is over")
    assert over.reasons[0].hint.endswith("URL")
    nobody = told(execution=suspended(), suspension=suspension(OperatorOnly()))
    assert "resume_execution" in nobody.reasons[0].hint and nobody.reasons[0].until_ms is None
    met = told(execution=suspended(), suspension=suspension(satisfied_set='["leaf:"]'))
    assert "still needed: nothing" in met.reasons[0].says
    special = told(
        execution=suspended(),
        suspension=suspension(),
        waitpoints=(Awaited(WAITPOINT_ID, "a", ("__operator_only__",)),),
    )
    assert "--name" not in special.reasons[0].hint


# ---- an operator


def test_who_holds_it_back() -> None:
    (held,) = told("OPBLOCK", blocking_detail="audit", last_transition_at=NOW - MIN).reasons
    assert (
        held.says == "an operator blocks it, since 1 min ago: audit"
        and "unblock_execution" in held.hint
    )
    assert (
        told("LANEBLOCK", last_transition_at=NOW - MIN).reasons[0].says
        == "a policy of its lane blocks it, since 1 min ago"
    )
    gone = told("OPBLOCK", reason="paused_by_flow_cancel", lane=lane("paused"))
    assert codes(gone) == ["paused_by_flow_cancel"] and "will not run" in gone.reasons[0].says


# ---- words


@pytest.mark.parametrize(
    ("ms", "says"),
    [
        (0, "less than a second"),
        (999, "less than a second"),
        (1_000, "1 s"),
        (59_999, "59 s"),
        (7_200_000, "2 h"),
        (90_000_000, "1 d"),
    ],
)
def test_spans(ms: int, says: str) -> None:
    assert span(ms) == says


def test_lists_and_long_texts_are_cut() -> None:
    assert listed(["a", "b", "c", "d"], 2) == "a, b, c and 3 more" and listed(["a"]) == "a"
    assert clipped("x" * 500) == "x" * 199 + "…" and clipped(None) == ""
    assert (ago(5, None), coming(5, None)) == ("", "")
    assert (counted(1, "reply", "replies"), counted(2_000, "reply", "replies")) == (
        "1 reply",
        "2,000 replies",
    )


def test_a_long_text_of_somebody_else_does_not_fill_the_page() -> None:
    found = told("ENDED", outcome="failed", failure_reason="x" * 10_000)
    assert len(found.reasons[0].says) < 300
