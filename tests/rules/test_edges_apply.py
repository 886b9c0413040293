"""Applying an edge, releasing a child, and the eligibility of a child."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flowfabric.errors import NotFound, StateError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.model.flow import (
    TERMINAL_FLOW_STATES,
    AlreadyApplied,
    ApplyDependencyArgs,
    DependencyApplied,
    Edge,
    EdgeGroup,
    EdgePolicy,
    stored_edge_policy,
)
from flowfabric.model.flow_links import Upstream
from flowfabric.plan import Refused
from flowfabric.rules.decision import Commit, Decision
from flowfabric.rules.flows import edges
from flowfabric.rules.flows.edges import ApplySnapshot, Child
from flowfabric.rules.states import VECTORS, name_of, vector_of

from .factory import (
    FLOW_ID,
    IDENT,
    NOW,
    answer,
    applied,
    attempt,
    commit,
    refusal,
    seeded,
    stored,
    told,
)
from .flow_factory import (
    ALL_OF,
    ANY_OF,
    OTHER_FLOW,
    P,
    as_member,
    counters,
    edge,
    edge_id,
    error_of,
    flow,
    group,
    ident,
    kept,
    only,
    said,
    waiting,
)

LET_RUN = EdgePolicy.any_of("let_run")
STAGED = edge(applied=False)
RUNNABLE = [name for name, v in VECTORS.items() if v.lifecycle_phase == "runnable"]


def applying(
    up: ExecutionId | None = None, down: ExecutionId = IDENT, now: int | None = None, **around: Any
) -> Decision:
    given = {"flow": flow(), "edge": STAGED, "group": None, "child": waiting("READY"), **around}
    given["child"] = as_member(given["child"])
    args = ApplyDependencyArgs(
        flow_id=FLOW_ID,
        edge_id=edge_id(0),
        upstream_execution_id=up or ident(0),
        downstream_execution_id=down,
        now=now,
    )
    return edges.apply(ApplySnapshot(NOW, P, **given), args)


# ---- the checks


def test_applying_checks_one_thing_after_the_other() -> None:
    nowhere: dict[str, Any] = {"flow": None, "child": None}
    elsewhere = ExecutionId.of(P + 1, IDENT.uuid)
    mismatch = ("invalid_input", f"execution partition mismatch: expected {P}, got {P + 1}")
    assert said(applying(elsewhere, edge=None, **nowhere)) == mismatch
    assert said(applying(down=elsewhere, edge=None, **nowhere)) == mismatch
    assert said(applying(ident(5), edge=None, **nowhere)) == ("invalid_input", "edge_not_found")
    for up, down in ((ident(5), IDENT), (ident(0), ident(5)), (IDENT, ident(0))):
        assert said(applying(up, down, edge=edge(), **nowhere)) == (
            "invalid_input",
            "edge_endpoint_mismatch",
        )
    assert answer(applying(edge=edge(), **nowhere)) == AlreadyApplied()
    missing = error_of(applying(**nowhere))
    assert isinstance(missing, NotFound) and missing.entity == "execution"
    ended = flow(public_flow_state="cancelled")
    other = applying(flow=ended, child=waiting(flow_id=OTHER_FLOW))
    assert said(other) == ("execution_already_in_flow", str(OTHER_FLOW))


@pytest.mark.parametrize("state", TERMINAL_FLOW_STATES)
def test_a_flow_that_is_over_takes_no_edge(state: str) -> None:
    assert said(applying(flow=flow(public_flow_state=state))) == (
        "invalid_input",
        "flow_already_terminal",
    )
    assert said(applying(flow=None)) == ("invalid_input", "flow_already_terminal")


@pytest.mark.parametrize("member_of", [None, FLOW_ID])
def test_a_child_without_a_flow_may_wait(member_of: Any) -> None:
    assert isinstance(applying(child=waiting("READY", flow_id=member_of)), Commit)


# ---- what it does


def test_the_first_edge_makes_a_group_of_all() -> None:
    child = waiting("READY")
    decision = applying(now=NOW - 4)
    assert isinstance(decision, Commit) and decision.result == DependencyApplied(1)
    store = applied(decision, flow(), STAGED, child)
    made, row, after = only(store, EdgeGroup), only(store, Edge), stored(store)
    assert (stored_edge_policy(made.policy), made.k_target, counters(made)) == (
        ALL_OF,
        0,
        (0, 0, 0, 1),
    )
    assert row == replace(
        STAGED, edge_state="applied", applied_at_ms=NOW - 4, dep_state="unsatisfied"
    )
    assert (name_of(vector_of(after)), after.version) == ("DEPS", child.version + 1)
    assert after.blocking_detail == f"1 dep(s) unresolved incl {edge_id(0)}"
    assert (after.last_transition_at, after.last_mutation_at) == (NOW - 4, NOW - 4)
    assert told(store) == ([], [], [])


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("before", [None, group(ALL_OF, 2, fail_count=1)])
def test_only_a_runnable_child_is_made_to_wait(name: str, before: EdgeGroup | None) -> None:
    for state in VECTORS[name].attempt_states:
        child = waiting(name, state)
        decision = applying(group=before, child=child)
        assert isinstance(decision, Commit) and decision.result == DependencyApplied(
            3 if before else 1
        )
        store = applied(decision, flow(), STAGED, before, child)
        assert only(store, EdgeGroup).running_count == (3 if before else 1)
        assert only(store, Edge).dep_state == "unsatisfied"
        after = stored(store)
        if name not in RUNNABLE:
            assert after == child
            continue
        assert (name_of(vector_of(after)), after.attempt_state) == ("DEPS", state)
        assert (after.delay_until_ms, after.interrupt_cause) == (
            child.delay_until_ms,
            child.interrupt_cause,
        )


def test_what_has_only_been_submitted_waits_too() -> None:
    child = waiting("READY", lifecycle_phase="submitted")
    assert (
        name_of(vector_of(stored(applied(applying(child=child), flow(), STAGED, child)))) == "DEPS"
    )
    over = waiting("READY", terminal_outcome="failed")
    assert stored(applied(applying(child=over), flow(), STAGED, over)) == over


ANY_2 = EdgePolicy.quorum(2)


@pytest.mark.parametrize(
    ("policy", "state", "after", "blocks"),
    [
        (ALL_OF, "pending", "pending", True),
        (ALL_OF, "satisfied", "pending", True),
        (ALL_OF, "impossible", "impossible", True),
        (ANY_OF, "pending", "pending", True),
        (ANY_OF, "satisfied", "satisfied", False),
        (LET_RUN, "satisfied", "satisfied", False),
        (ANY_2, "satisfied", "satisfied", False),
        (ANY_2, "impossible", "impossible", True),
        (ANY_2, "pending", "pending", True),
    ],
)
def test_a_group_that_has_fired_counts_a_late_edge_without_blocking_again(
    policy: EdgePolicy, state: str, after: str, blocks: bool
) -> None:
    before, child = group(policy, 1, success_count=2, group_state=state), waiting("READY")
    decision = applying(group=before)
    assert isinstance(decision, Commit) and decision.result == DependencyApplied(2)
    store = applied(decision, flow(), STAGED, before, child)
    row = only(store, EdgeGroup)
    assert (row.group_state, counters(row), row.version) == (
        after,
        (2, 0, 0, 2),
        before.version + 1,
    )
    assert only(store, Edge).is_open
    if blocks:
        assert (name_of(vector_of(stored(store))), stored(store).blocking_detail) == (
            "DEPS",
            f"2 dep(s) unresolved incl {edge_id(0)}",
        )
    else:
        assert stored(store) == child


def test_two_edges_applied_at_once_do_not_lose_one() -> None:
    for seen, there in ((None, group(ALL_OF, 1)), (group(ALL_OF, 1), group(ALL_OF, 2, version=7))):
        decision = applying(group=seen)
        assert isinstance(decision, Commit)
        store = seeded(flow(), STAGED, there, waiting("READY"))
        assert isinstance(commit(store, decision.plan), Refused)
        assert (only(store, EdgeGroup), kept(store, Edge)) == (there, [STAGED])


# ---- letting go


def asked(child: Execution | None, found: EdgeGroup | None = None) -> Child:
    return Child(NOW, as_member(child), found)


@pytest.mark.parametrize("found", [None, group(ALL_OF, 1), group(ALL_OF, 0, fail_count=1)])
def test_promoting_checks_one_thing_after_the_other(found: EdgeGroup | None) -> None:
    assert refusal(edges.promote(asked(None, found))) == "execution_not_found"
    for name, vector in VECTORS.items():
        if vector.lifecycle_phase != "runnable":
            for outcome in vector.outcomes:
                error = error_of(
                    edges.promote(
                        asked(
                            waiting(name, outcome=outcome, eligibility_state="eligible_now"), found
                        )
                    )
                )
                assert isinstance(error, StateError) and error.code == "not_runnable"
    for name in RUNNABLE:
        if name != "DEPS":
            assert (
                refusal(edges.promote(asked(waiting(name, terminal_outcome="failed"), found)))
                == "not_blocked_by_deps"
            )
    assert refusal(edges.promote(asked(waiting(terminal_outcome="failed"), found))) == "terminal"


@pytest.mark.parametrize(
    ("found", "result"),
    [
        (None, "promoted"),
        (group(ALL_OF), "promoted"),
        (group(ALL_OF, success_count=2), "promoted"),
        (group(ALL_OF, 1, success_count=1), "deps_not_satisfied"),
        (group(ALL_OF, 1, group_state="anything"), "deps_not_satisfied"),
        (group(ALL_OF, 1, fail_count=1), "skipped"),
        (group(ALL_OF, 1, group_state="satisfied"), "promoted"),
        (group(ALL_OF, 1, group_state="impossible"), "skipped"),
        (group(ANY_OF, 1, success_count=1), "promoted"),
        (group(ANY_OF, 1, fail_count=1), "deps_not_satisfied"),
        (group(ANY_OF, fail_count=1, skip_count=1), "skipped"),
        (group(ANY_2, 2, success_count=1), "deps_not_satisfied"),
        (group(ANY_2, 1), "deps_not_satisfied"),
        (group(ANY_2, 2, group_state="satisfied"), "promoted"),
        (group(ANY_2, 1, fail_count=2), "skipped"),
    ],
)
@pytest.mark.parametrize("state", VECTORS["DEPS"].attempt_states)
def test_an_execution_is_promoted_when_no_dependency_is_left(
    found: EdgeGroup | None, result: str, state: str
) -> None:
    child = waiting("DEPS", state)
    decision = edges.promote(asked(child, found))
    if result == "deps_not_satisfied":
        assert refusal(decision) == result
        return
    assert isinstance(decision, Commit) and decision.result == result
    store = applied(decision, child, attempt(child))
    after = stored(store)
    if result == "skipped":
        assert (name_of(vector_of(after)), after.public_state) == ("ENDED", "skipped")
        assert told(store)[1] == ["skipped"]
    else:
        assert (name_of(vector_of(after)), after.attempt_state, after.blocking_detail) == (
            "READY",
            state,
            "",
        )
        assert told(store) == ([], [], [])


@pytest.mark.parametrize(
    ("until", "vector"), [(None, "READY"), (NOW - 1, "READY"), (NOW, "READY"), (NOW + 1, "DELAYED")]
)
@pytest.mark.parametrize("payload", [None, b"", b"given"])
def test_a_recorded_delay_outlives_the_dependencies(
    until: int | None, vector: str, payload: bytes | None
) -> None:
    child = waiting(delay_until_ms=until, payload=b"own", blocking_detail="1 dep(s) unresolved")
    member = as_member(child)
    assert member is not None
    after = stored(applied(Commit(edges.release(member, NOW, payload)), child))
    assert (name_of(vector_of(after)), after.delay_until_ms, after.blocking_detail) == (
        vector,
        until,
        "",
    )
    assert (after.payload, after.version) == (
        b"own" if payload is None else payload,
        child.version + 1,
    )


def test_a_released_execution_is_not_released_again() -> None:
    decision = edges.promote(asked(waiting()))
    assert isinstance(decision, Commit)
    moved = waiting("RUNNING", version=9)
    store = seeded(moved)
    assert isinstance(commit(store, decision.plan), Refused)
    assert stored(store) == moved


# ---- the child's question


@pytest.mark.parametrize(
    ("child", "found", "word"),
    [
        (None, group(ALL_OF, 1), "not_found"),
        *[
            (waiting(name), group(ALL_OF, 1), "not_runnable")
            for name in ("RUNNING", "LOST", "SUSPENDED", "ENDED")
        ],
        (waiting(ownership_state="leased", terminal_outcome="failed"), group(ALL_OF, 1), "owned"),
        (waiting(terminal_outcome="failed"), group(ALL_OF, 1), "terminal"),
        (waiting(), None, "eligible"),
        (waiting(), group(ALL_OF, group_state="impossible"), "eligible"),
        (waiting(), group(ALL_OF, 1, group_state="impossible"), "impossible"),
        (waiting(), group(ALL_OF, 1, skip_count=1), "impossible"),
        (waiting(), group(ANY_2, fail_count=2, success_count=1), "impossible"),
        (waiting(), group(ALL_OF, 1), "blocked_by_dependencies"),
        (waiting(), group(ANY_2, 1), "blocked_by_dependencies"),
        (waiting(), group(ANY_2, 1, success_count=1), "blocked_by_dependencies"),
        (waiting(), group(ANY_2, 1, success_count=2), "eligible"),
        (waiting(), group(ANY_2, 3, group_state="satisfied"), "eligible"),
        (waiting(), group(ALL_OF, success_count=2), "eligible"),
        (waiting(), group(ALL_OF, 1, group_state="cancelled"), "eligible"),
        (waiting("READY"), group(ALL_OF, 1), "blocked_by_dependencies"),
    ],
)
def test_whether_it_could_run(child: Execution | None, found: EdgeGroup | None, word: str) -> None:
    assert edges.eligibility(asked(child, found)) == word


# ---- after a replay of the child


@pytest.mark.parametrize("outcome", ["success", "failed", "cancelled", "expired", "skipped"])
@pytest.mark.parametrize(
    ("reset", "ended"), [(None, NOW), (NOW, NOW - 1), (NOW, NOW), (NOW, NOW + 1), (NOW, None)]
)
def test_an_upstream_that_failed_before_a_replay_counts_only_its_next_end(
    outcome: str, reset: int | None, ended: int | None
) -> None:
    found = Upstream(P, ident(0).uuid, FLOW_ID, "terminal", outcome, ended)
    newer = reset is None or (ended is not None and ended > reset)
    for unheard in (False, True):
        same_moment = unheard and reset == found.terminal_at_ms
        counts = edges.counts_after_replay(edge(reset_at_ms=reset), found, unheard=unheard)
        assert counts is (outcome == "success" or newer or same_moment)
