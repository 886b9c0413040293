"""The reasons of executions that wait for a time, parents, signals or operators."""

from __future__ import annotations

import pytest

from flowfabric.model.explanation import (
    MAX_LISTED,
    Awaited,
    Failure,
    Parent,
    Parents,
    Wait,
)
from flowfabric.model.flow import EdgePolicy
from flowfabric.model.waitpoint import (
    AllOf,
    Condition,
    Count,
    CountKind,
    OperatorOnly,
    Single,
    TimeoutOnly,
)
from flowfabric.rules.executions.explain_waits import still_needed

from .explain_factory import (
    MIN,
    codes,
    explained,
    lane,
)
from .factory import IDENT, NOW, attempt, execution
from .flow_factory import group, ident
from .wait_factory import WAITPOINT_ID, suspended, suspension

# ---- a time


def test_a_delay_has_its_end_and_the_last_failure() -> None:
    (later,) = explained("DELAYED", delay_until_ms=NOW + MIN).reasons
    assert later.says == "it is delayed; its delay ends in 1 min" and later.until_ms == NOW + MIN
    assert "its delay is over" in explained("DELAYED", delay_until_ms=NOW).reasons[0].says
    assert "its delay is over" in explained("DELAYED", delay_until_ms=None).reasons[0].says
    after = {
        "reason": "waiting_for_retry_backoff",
        "delay_until_ms": NOW + 9_000,
        "last_failure_message": "boom",
    }
    failed = execution("DELAYED", "pending_retry_attempt", **after)  # type: ignore[arg-type]
    (again,) = explained(execution=failed, attempt=attempt(failed, failure_category="io")).reasons
    assert (
        again.says
        == "its last attempt failed, and the next one is delayed; its delay ends in 9 s. "
        "The last failure: boom"
    )
    assert again.facts == Failure("boom", "io", 0, 1)
    (unknown,) = explained(execution=failed).reasons
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
def test_unfinished_parents_and_the_number_needed(
    policy: EdgePolicy, says: str, needed: int
) -> None:
    waits = group(policy, 2, success_count=1, fail_count=1)
    (reason,) = explained("DEPS", group=waits, parents=parents(2)).reasons
    listed_ = f"{ident(0)} (fetch, active), {ident(1)} (fetch, active)"
    assert reason.says == f"it waits for {says}; unfinished: {listed_}"
    assert reason.facts == Parents(policy.kind, needed, 4, 1, 1, parents(2), 0)
    assert reason.hint == f"flowfabric why {ident(0).uuid}"


def test_many_parents_are_counted_not_listed() -> None:
    (reason,) = explained("DEPS", group=group(running=50), parents=parents(30)).reasons
    assert isinstance(reason.facts, Parents)
    assert (len(reason.facts.unfinished), reason.facts.more) == (MAX_LISTED, 30)
    assert reason.says.endswith("and 47 more")
    (unread,) = explained("DEPS", group=group(running=1)).reasons
    assert unread.says.endswith("unfinished: 1 parent") and "(0 succeeded so far)" in unread.says


def test_no_parent_is_left() -> None:
    assert (
        "all its parents have ended"
        in explained("DEPS", group=group(success_count=2)).reasons[0].says
    )
    assert "none is recorded" in explained("DEPS").reasons[0].says


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


def test_a_suspension_has_its_needs_times_and_hint() -> None:
    asked = (Awaited(WAITPOINT_ID, "a", ("approved",)),)
    wait = suspension(
        TWO, timeout_at_ms=NOW + MIN, timeout_behavior="cancel", satisfied_set='["#src:user:ann"]'
    )
    of = suspended(reason="waiting_for_approval")
    (reason,) = explained(execution=of, suspension=wait, waitpoints=asked).reasons
    need = "a signal `approved` from 1 more source (of 2) on `a`"
    assert reason.says == (
        f"it waits for an approval, requested less than a second ago; "
        f"still needed: {need}; it is cancelled in 1 min"
    )
    assert reason.facts == Wait("waiting_for_signal", (need,), asked, NOW + MIN, "is cancelled")
    assert reason.hint == f"flowfabric signal {IDENT.uuid} {WAITPOINT_ID} --name approved"
    assert (reason.since_ms, reason.until_ms) == (NOW - 500, NOW + MIN)


def test_other_ways_to_be_suspended() -> None:
    over = explained(
        execution=suspended(),
        suspension=suspension(timeout_at_ms=NOW),
        waitpoints=(Awaited(WAITPOINT_ID, "a", ()),),
    )
    assert over.reasons[0].says.endswith("it fails now: its timeout is over")
    assert over.reasons[0].hint == f"flowfabric signal {IDENT.uuid} {WAITPOINT_ID}"
    nobody = explained(execution=suspended(), suspension=suspension(OperatorOnly()))
    assert nobody.reasons[0].hint == f"flowfabric cancel {IDENT.uuid}"
    assert nobody.reasons[0].until_ms is None
    met = explained(execution=suspended(), suspension=suspension(satisfied_set='["leaf:"]'))
    assert "still needed: nothing" in met.reasons[0].says
    special = explained(
        execution=suspended(),
        suspension=suspension(),
        waitpoints=(Awaited(WAITPOINT_ID, "a", ("__operator_only__",)),),
    )
    assert "--name" not in special.reasons[0].hint


# ---- an operator


def test_an_operator_or_policy_that_blocks_it() -> None:
    (held,) = explained("OPBLOCK", blocking_detail="audit", last_transition_at=NOW - MIN).reasons
    assert (
        held.says == "an operator blocks it, since 1 min ago: audit"
        and held.hint == f"flowfabric release {IDENT.uuid}"
    )
    assert (
        explained("LANEBLOCK", last_transition_at=NOW - MIN).reasons[0].says
        == "a policy of its lane blocks it, since 1 min ago"
    )
    gone = explained("OPBLOCK", reason="paused_by_flow_cancel", lane=lane("paused"))
    assert codes(gone) == ["paused_by_flow_cancel"] and "will not run" in gone.reasons[0].says
