from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from flowfabric.errors import ValidationError
from flowfabric.model.execution import Execution
from flowfabric.model.flow import CancelFlowArgs, Flow, FlowAlreadyTerminal
from flowfabric.plan import Applied, Arg, Form, Insert, Refused
from flowfabric.rules.decision import Reject
from flowfabric.rules.flows import cancels
from flowfabric.rules.flows.cancels import CancelSnapshot, FlowCancel
from flowfabric.rules.flows.flow_fields import fields_of
from flowfabric.rules.leases.attempts import explain_refusal
from flowfabric.rules.states import VECTORS, name_of, vector_of
from flowfabric.store.memory import MemoryStore

from .factory import (
    FLOW_ID,
    IDENT,
    NOW,
    attempt,
    commit,
    commit_all,
    events,
    handle,
    load,
    seeded,
    told,
)
from .flow_factory import (
    ALL,
    BACKLOG,
    ONLY,
    OWED,
    PENDING,
    P,
    at,
    fields,
    flow,
    kept,
    only,
    rows,
    upstream,
    waiting,
)

LEGACY = ("submitted", "pending", "blocked", "eligible")
MEMBERS = [
    *(upstream(n, name) for n, name in enumerate(VECTORS)),
    *(upstream(100 + n, "READY", lifecycle_phase=phase) for n, phase in enumerate(LEGACY)),
    upstream(200, "ENDED", outcome="cancelled"),
]
PENDING_NAMES = {name for name, v in VECTORS.items() if v.lifecycle_phase == "runnable"}


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        (ALL, ALL),
        (PENDING, PENDING),
        (ONLY, ONLY),
        ("flow_only", ONLY),
        ("", ONLY),
        ("CANCEL_ALL", ONLY),
        ("nonsense", ONLY),
    ],
)
def test_a_policy_that_is_not_known_does_the_least(text: str, policy: str) -> None:
    assert cancels.wanted_policy(text) == policy


@pytest.mark.parametrize("policy", [ALL, PENDING, ONLY, "nonsense"])
def test_each_policy_selects_its_members(policy: str) -> None:
    chosen = {member.execution_id for member in cancels.members_to_cancel(MEMBERS, policy)}
    alive = {m.execution_id for m in MEMBERS if m.lifecycle_phase not in ("terminal", "cancelled")}
    waiting_ones = {m.execution_id for m in MEMBERS if m.lifecycle_phase in ("runnable", *LEGACY)}
    assert chosen == {ALL: alive, PENDING: waiting_ones}.get(policy, set())
    assert len(waiting_ones) == len(PENDING_NAMES) + len(LEGACY)


def done(plan: FlowCancel, before: Flow, members: Sequence[Execution]) -> MemoryStore:
    store = seeded(before, *members, *map(attempt, members))
    assert isinstance(
        commit_all(store, [*plan.head, *(cancel for _, cancel in plan.members)]), Applied
    )
    return store


def test_the_first_reason_of_a_cancel_is_kept() -> None:
    plan = cancels.cancel_flow(CancelSnapshot(NOW, flow(), ()), ALL, reason="too late")
    assert plan.reason == "too late"
    after = only(done(plan, flow(), ()), Flow)
    again = cancels.cancel_flow(CancelSnapshot(NOW, after, ()), ALL, reason="later still")
    assert fields_of(only(done(again, after, ()), Flow))["cancel_reason"] == "too late"


@pytest.mark.parametrize("policy", [ALL, PENDING, ONLY, "nonsense"])
@pytest.mark.parametrize("state", ["open", "cancelled"])
def test_cancelling_a_flow(policy: str, state: str) -> None:
    members = [upstream(n, name) for n, name in enumerate(VECTORS)]
    before = flow(
        public_flow_state=state, terminal_at_ms=None if state == "open" else 5, settled_at_ms=1
    )
    plan = cancels.cancel_flow(CancelSnapshot(NOW, before, members), policy)
    chosen = cancels.members_to_cancel(members, policy)
    assert ([member for member, _ in plan.members], plan.told) == (chosen, True)
    assert (plan.reason, plan.by) == ("flow_cancelled", "cancel_flow")
    store = done(plan, before, members)
    after = only(store, Flow)
    assert (after.public_flow_state, after.terminal_at_ms) == (
        "cancelled",
        NOW if state == "open" else 5,
    )
    assert (after.settled_at_ms, after.version, after.graph_revision) == (
        None,
        before.version + 1,
        before.graph_revision,
    )
    assert fields(after) == {
        **fields(before),
        "cancellation_policy": policy,
        "last_mutation_at_ms": NOW,
    }
    for member in members:
        row = at(store, member.id)
        if member not in chosen:
            assert row == member
            continue
        assert (name_of(vector_of(row)), row.public_state) == ("ENDED", "cancelled")
        assert (row.cancellation_reason, row.cancelled_by, row.terminal_at_ms) == (
            "flow_cancelled",
            "cancel_flow",
            NOW,
        )
        assert row.lease_epoch == member.lease_epoch + (member.current_attempt_id is not None)
    assert told(store) == (["revoked"] * len(chosen), ["cancelled"] * len(chosen), [])
    assert {event["flow_id"] for event in events(store, "ff_completion_event")} <= {FLOW_ID}
    assert rows(store, BACKLOG) == rows(store, OWED) == []


def test_a_second_sweep_overwrites_the_policy_and_keeps_the_time() -> None:
    before = flow(
        public_flow_state="cancelled",
        terminal_at_ms=9,
        fields={"cancellation_policy": ONLY, "a.b": "c"},
    )
    store = done(cancels.cancel_flow(CancelSnapshot(NOW, before, ()), ALL, NOW - 2), before, ())
    after = only(store, Flow)
    assert fields(after) == {"cancellation_policy": ALL, "a.b": "c", "last_mutation_at_ms": NOW - 2}
    assert after.terminal_at_ms == 9


def test_a_time_given_with_the_cancel_is_the_one_recorded() -> None:
    member = upstream(0)
    store = done(
        cancels.cancel_flow(CancelSnapshot(NOW, flow(), [member]), ALL, NOW - 8), flow(), [member]
    )
    assert (only(store, Flow).terminal_at_ms, at(store, member.id).terminal_at_ms) == (
        NOW - 8,
        NOW - 8,
    )


def test_three_fresh_members() -> None:
    members = [upstream(n) for n in range(3)]
    store = done(cancels.cancel_flow(CancelSnapshot(NOW, flow(), members), ALL), flow(), members)
    assert told(store) == (["revoked"] * 3, ["cancelled"] * 3, [])
    assert {one.public_state for one in kept(store, Execution)} == {"cancelled"}
    assert {event["lease_id"] for event in events(store, "ff_lease_event")} == {None}


def test_a_changed_member_refuses_the_whole_plan() -> None:
    plan = cancels.cancel_flow(CancelSnapshot(NOW, flow(), [upstream(0)]), ALL)
    store = seeded(flow(), upstream(0, "RUNNING"))
    assert isinstance(
        commit_all(store, [*plan.head, *(cancel for _, cancel in plan.members)]), Refused
    )
    assert only(store, Flow) == flow()


@pytest.mark.parametrize("header", [True, False])
def test_the_worker_of_a_cancelled_member_is_fenced(header: bool) -> None:
    before = waiting("RUNNING")
    around = CancelSnapshot(NOW, flow(), [before])
    plan = (
        cancels.cancel_flow_header(around, asking(ALL))
        if header
        else cancels.cancel_flow(around, ALL)
    )
    store = done(plan, flow(), [before])
    for outcome in (None, "success", "failed"):
        reason = explain_refusal(load(store, 0), handle(before), outcome)
        assert isinstance(reason, Reject)
        assert reason.error.code == "lease_conflict"


def asking(policy: str, now: int | None = None) -> CancelFlowArgs:
    return CancelFlowArgs(flow_id=FLOW_ID, reason="no more", cancellation_policy=policy, now=now)


@pytest.mark.parametrize("policy", [ALL, PENDING, ONLY, "flow_only", "nonsense"])
def test_the_header_lists_the_members_to_cancel(policy: str) -> None:
    members = [upstream(n, name) for n, name in enumerate(VECTORS)]
    before = flow(settled_at_ms=1)
    plan = cancels.cancel_flow_header(CancelSnapshot(NOW, before, members), asking(policy, NOW - 6))
    chosen = cancels.members_to_cancel(members, policy)
    owes = policy in (ALL, PENDING)
    assert (plan.told, plan.reason, plan.by, len(plan.members)) == (
        False,
        "no more",
        "cancel_flow_header",
        len(chosen),
    )
    assert (plan.owing == plan.head) is not owes
    store = done(plan, before, members)
    after = only(store, Flow)
    assert (after.public_flow_state, after.terminal_at_ms, after.settled_at_ms) == (
        "cancelled",
        NOW - 6,
        None,
    )
    said = {
        "cancellation_policy": policy,
        "cancel_reason": "no more",
        "last_mutation_at_ms": NOW - 6,
    }
    assert fields(after) == {**fields(before), **said}
    assert [row["execution_id"] for row in rows(store, OWED)] == sorted(
        str(member.id) for member in chosen
    )
    header = {
        "partition_key": P,
        "flow_id": FLOW_ID,
        "requested_at_ms": NOW - 6,
        "requester": "",
        "reason": "no more",
        "grace_until_ms": NOW - 6 + 30_000,
        "cancellation_policy": policy,
        "status": "pending",
    }
    assert rows(store, BACKLOG) == ([header] if owes else [])
    revoked = [member for member in chosen if member.ownership_state == "leased"]
    assert told(store) == (
        ["revoked"] * len(revoked),
        ["cancelled"] * len(chosen),
        ["flow_cancel_requested"],
    )
    for member in chosen:
        row = at(store, member.id)
        assert (row.public_state, row.cancellation_reason, row.cancelled_by) == (
            "cancelled",
            "no more",
            "cancel_flow_header",
        )
    (event,) = events(store, "ff_operator_event")
    assert (event["execution_id"], event["namespace"], event["instance_tag"]) == (
        FLOW_ID,
        "ns",
        None,
    )
    details = {
        "flow_id": str(FLOW_ID),
        "cancellation_policy": policy,
        "reason": "no more",
        "member_count": len(chosen),
    }
    assert json.loads(event["details"]) == details


def test_a_header_without_a_time_or_a_namespace() -> None:
    before = flow(fields={})
    store = done(
        cancels.cancel_flow_header(CancelSnapshot(NOW, before, ()), asking(ALL)), before, ()
    )
    (event,), (owed,) = events(store, "ff_operator_event"), rows(store, BACKLOG)
    assert (event["namespace"], owed["requested_at_ms"], owed["grace_until_ms"]) == (
        "default",
        NOW,
        NOW + 30_000,
    )


def test_a_header_there_already_stays() -> None:
    store = seeded(flow())
    row = {
        "partition_key": P,
        "flow_id": FLOW_ID,
        "requested_at_ms": NOW - 99,
        "reason": "first",
        "cancellation_policy": PENDING,
    }
    commit(
        store,
        Form("noted_before", Insert(BACKLOG, {column: Arg(column) for column in row}))(**row),
    )
    plan = cancels.cancel_flow_header(CancelSnapshot(NOW, flow(), ()), asking(ALL))
    assert plan is not None and isinstance(commit_all(store, plan.head), Applied)
    (owed,) = rows(store, BACKLOG)
    assert (owed["requested_at_ms"], owed["reason"], owed["cancellation_policy"]) == (
        NOW - 99,
        "first",
        PENDING,
    )


def test_a_header_on_a_flow_that_is_over_changes_nothing() -> None:
    over = flow(public_flow_state="cancelled", terminal_at_ms=5)
    assert cancels.cancel_flow_header(CancelSnapshot(NOW, over, ()), asking(ALL)) is None


@pytest.mark.parametrize(
    ("stored", "policy", "reason"),
    [
        ({}, None, None),
        ({"cancellation_policy": "flow_only", "cancel_reason": "prior"}, "flow_only", "prior"),
    ],
)
def test_an_ended_flow_returns_its_cancel_policy_and_reason(
    stored: dict[str, Any], policy: str | None, reason: str | None
) -> None:
    told_of = cancels.already_terminal(flow(fields=stored), (IDENT,))
    assert told_of == FlowAlreadyTerminal(policy, reason, [IDENT])


def test_a_flow_that_cannot_be_read_does_not_tell() -> None:
    with pytest.raises(ValidationError, match="corruption: flow_core: raw_fields not valid JSON: "):
        cancels.already_terminal(flow(fields="{"), ())
