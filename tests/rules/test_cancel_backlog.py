"""The backlog of flow cancels, and the siblings of a group that has fired."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from msgspec.structs import replace

from flowfabric.model.flow import CancelFlowArgs, EdgeGroup, Flow, Reconciled
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit
from flowfabric.rules.executions.operator_actions import cancel_plan
from flowfabric.rules.flows import cancels
from flowfabric.rules.flows.cancels import CancelSnapshot
from flowfabric.store.memory import MemoryStore

from .factory import (
    FLOW_ID,
    IDENT,
    NOW,
    answer,
    applied,
    attempt,
    commit,
    commit_all,
    events,
    seeded,
    told,
)
from .flow_factory import (
    ALL,
    ANY_OF,
    BACKLOG,
    OWED,
    PENDING,
    QUEUE,
    P,
    at,
    flow,
    group,
    ident,
    kept,
    only,
    rows,
    upstream,
)


def owing(*members: int) -> MemoryStore:
    store = seeded(flow())
    args = CancelFlowArgs(flow_id=FLOW_ID, reason="r", cancellation_policy=ALL)
    around = CancelSnapshot(NOW, flow(), [upstream(n) for n in members])
    plan = cancels.cancel_flow_header(around, args)
    assert plan is not None and isinstance(commit_all(store, plan.head), Applied)
    return store


def acked(store: MemoryStore, n: int) -> list[bool]:
    return [isinstance(commit(store, plan), Applied) for plan in cancels.ack(FLOW_ID, ident(n))]


def test_the_last_member_is_removed_with_the_flow() -> None:
    store = owing(0, 1)
    assert acked(store, 0) == [True, False]
    assert (len(rows(store, BACKLOG)), len(rows(store, OWED))) == (1, 1)
    assert acked(store, 7) == [False, False]
    assert acked(store, 1) == [True, True]
    assert (rows(store, BACKLOG), rows(store, OWED)) == ([], [])
    assert acked(store, 1) == [False, False]


def test_an_empty_backlog_is_forgotten() -> None:
    assert acked(owing(), 0) == [False, True]
    assert isinstance(commit(owing(), cancels.forget_backlog(P, FLOW_ID)), Applied)
    assert isinstance(commit(owing(3), cancels.forget_backlog(P, FLOW_ID)), Refused)


def test_a_backlog_is_kept_until_the_last_page() -> None:
    store = seeded(flow())
    plan = cancels.cancel_flow(CancelSnapshot(NOW, flow(), [], {"runnable": 9}), ALL)
    assert isinstance(commit_all(store, plan.owing), Applied)
    assert isinstance(commit(store, cancels.forget_backlog(P, FLOW_ID)), Refused)
    leave, forget = cancels.leave_pages(P, FLOW_ID)
    assert isinstance(commit(store, cancels.add_backlog_members(FLOW_ID, [ident(0)])[0]), Applied)
    assert [isinstance(commit(store, each), Applied) for each in (leave, forget)] == [True, False]
    assert acked(store, 0) == [True, True]
    assert isinstance(commit(store, leave), Refused)


@pytest.mark.parametrize(("policy", "counted"), [(ALL, 12), (PENDING, 9)])
def test_pages_replace_the_policy_of_a_backlog_and_count_members_by_phase(
    policy: str, counted: int
) -> None:
    args = CancelFlowArgs(flow_id=FLOW_ID, reason="r", cancellation_policy=policy)
    around = CancelSnapshot(NOW, flow(), [upstream(0)], {"runnable": 8, "active": 3})
    plan = cancels.cancel_flow_header(around, args)
    assert plan is not None
    store = seeded(flow())
    assert isinstance(commit_all(store, plan.owing), Applied)
    (event,) = events(store, "ff_operator_event")
    assert json.loads(event["details"])["member_count"] == counted
    other = PENDING if policy == ALL else ALL
    again = cancels.cancel_flow(
        CancelSnapshot(NOW + 5, only(store, Flow), [], {"active": 1}), other
    )
    assert isinstance(commit_all(store, again.owing), Applied)
    (row,) = rows(store, BACKLOG)
    assert (row["cancellation_policy"], row["status"], row["reason"]) == (other, "listing", "r")
    assert (row["requested_at_ms"], row["grace_until_ms"]) == (NOW, NOW + 5 + 30_000)


# ---- siblings


FLAGGED = group(
    ANY_OF,
    1,
    success_count=1,
    group_state="satisfied",
    satisfied_at_ms=NOW - 1,
    cancel_siblings_pending_flag=1,
    cancel_siblings_pending_members=json.dumps([str(ident(1).uuid)]),
    cancel_siblings_reason="sibling_quorum_satisfied",
)
KEY = cancels.group_key(P, FLOW_ID, IDENT.uuid)


def queued(*groups: EdgeGroup) -> MemoryStore:
    store = seeded(*groups)
    assert isinstance(commit(store, cancels.enter_queue(FLAGGED, NOW)), Applied)
    return store


def test_a_group_enters_the_queue_once() -> None:
    store = queued()
    assert isinstance(commit(store, cancels.enter_queue(FLAGGED, NOW + 5)), Refused)
    assert rows(store, QUEUE) == [{**KEY, "enqueued_at_ms": NOW}]
    assert isinstance(commit(store, cancels.leave_queue(P, FLOW_ID, IDENT.uuid)), Applied)
    assert isinstance(commit(store, cancels.leave_queue(P, FLOW_ID, IDENT.uuid)), Refused)


def test_draining_keeps_why_and_when() -> None:
    store = queued(FLAGGED)
    decision = cancels.drain_if_read(FLAGGED)
    assert isinstance(decision, Commit)
    assert isinstance(commit(store, decision.plan), Applied)
    cleared = {
        "cancel_siblings_pending_flag": 0,
        "cancel_siblings_pending_members": "[]",
        "version": FLAGGED.version + 1,
    }
    assert only(store, EdgeGroup) == replace(FLAGGED, **cleared)
    assert rows(store, QUEUE) == []
    assert isinstance(commit(store, decision.plan), Refused)
    assert answer(cancels.drain_if_read(None)) is None


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize(
    ("is_queued", "found", "action", "detail"),
    [
        (False, None, "no_op", "not_in_set"),
        (False, FLAGGED, "no_op", "not_in_set"),
        (True, None, "sremmed_stale", "missing_edgegroup"),
        (True, group(ANY_OF, 1), "sremmed_stale", "flag_cleared"),
        (True, FLAGGED, "completed_drain", ""),
    ],
)
def test_reconciling_a_group(
    is_queued: bool, found: EdgeGroup | None, action: str, detail: str, running: bool
) -> None:
    decision = cancels.reconcile(is_queued, found, running, KEY)
    if found is FLAGGED and is_queued and running:
        action, detail = "no_op", "siblings_running"
    assert decision.result == Reconciled(action, detail)
    assert isinstance(decision, Commit) is (action != "no_op")
    if isinstance(decision, Commit):
        store = queued(*([] if found is None else [found]))
        assert isinstance(commit(store, decision.plan), Applied)
        assert rows(store, QUEUE) == []
        assert all(not one.cancel_siblings_pending_flag for one in kept(store, EdgeGroup))


@pytest.mark.parametrize(
    ("text", "owed"),
    [
        ("[]", []),
        (json.dumps([str(ident(0).uuid), str(ident(1).uuid)]), [ident(0).uuid, ident(1).uuid]),
        (json.dumps(["", "nonsense", str(ident(0)), str(ident(2).uuid)]), [ident(2).uuid]),
        (json.dumps([5, None, {}, str(ident(2).uuid)]), [ident(2).uuid]),
    ],
)
def test_a_sibling_id_that_cannot_be_read_is_skipped(text: str, owed: list[UUID]) -> None:
    assert cancels.pending_siblings(group(ANY_OF, cancel_siblings_pending_members=text)) == owed


def test_a_cancelled_sibling_names_the_reason() -> None:
    member = upstream(0, "RUNNING")
    plan = cancel_plan(member, "sibling_quorum_satisfied", "operator_override", NOW)
    store = applied(Commit(plan), member, attempt(member))
    row = at(store, member.id)
    assert (row.cancellation_reason, row.cancelled_by) == (
        "sibling_quorum_satisfied",
        "operator_override",
    )
    assert told(store) == (["revoked"], ["cancelled"], [])


def test_a_plan_beside_a_cancel_goes_with_the_flow_whichever_way_its_members_go() -> None:
    before = flow()
    args = CancelFlowArgs(flow_id=before.flow_id, reason="r", cancellation_policy=PENDING)
    cancel = cancels.cancel_flow_header(CancelSnapshot(NOW, before, []), args)
    assert cancel is not None
    note = cancels.forget_backlog(P, before.flow_id)
    both = cancels.with_plans(cancel, note)
    assert (both.head, both.owing) == ([*cancel.head, note], [*cancel.owing, note])
    assert (both.members, both.reason, both.by) == (cancel.members, cancel.reason, cancel.by)
