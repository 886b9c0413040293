"""The tags of a flow, and what its members add up to."""

from __future__ import annotations

from itertools import combinations_with_replacement
from uuid import uuid4

import pytest
from msgspec.structs import replace

from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId
from flowfabric.model.flow import (
    LOST_JOIN,
    CreateFlowArgs,
    Flow,
)
from flowfabric.model.flow_links import Parent
from flowfabric.plan import Applied, Refused
from flowfabric.rules.flows import flow_fields, flow_forms, flows
from flowfabric.store.memory import MemoryStore
from flowfabric.testing.clock import ManualClock

from .factory import FLOW_ID, NOW, applied, commit, refusal, seeded
from .flow_factory import (
    P,
    error_of,
    fields,
    flow,
    only,
    rows,
)


def test_a_tag_is_one_more_field() -> None:
    assert isinstance(error_of(flows.set_flow_tag(None, "a.b", "c", NOW)), NotFound)
    assert refusal(flows.set_flow_tag(None, "a.b", "c", NOW)) == "flow_not_found"
    before = flow(public_flow_state="cancelled", settled_at_ms=5)
    store = applied(flows.set_flow_tag(before, "a.b.c", "é", NOW), before)
    after = only(store, Flow)
    assert fields(after) == {**fields(before), "a.b.c": "é", "last_mutation_at_ms": NOW}
    assert (after.graph_revision, after.version, after.settled_at_ms) == (
        before.graph_revision,
        before.version + 1,
        5,
    )


# ---- what the members add up to


def members(*states: str) -> list[flows.MemberState]:
    """One member per state; `lost` is one that a satisfied join did not need."""
    return [
        flows.MemberState(uuid4(), "cancelled", LOST_JOIN)
        if state == "lost"
        else flows.MemberState(uuid4(), state, None)
        for state in states
    ]


ENDED = {"completed", "failed", "cancelled", "expired", "skipped"}
BLOCKED = {"suspended", "delayed", "rate_limited", "waiting_children"}
STATES = (*sorted(ENDED), *sorted(BLOCKED), "active", "waiting")


def expected(states: set[str]) -> str:
    if states <= ENDED:
        return "failed" if states & {"failed", "cancelled", "expired"} else "completed"
    if "active" in states:
        return "running"
    return "blocked" if states & BLOCKED else "open"


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_state_of_a_flow_follows_from_its_members(size: int) -> None:
    for some in combinations_with_replacement(STATES, size):
        assert flows.derived_state(flows.count_members(some)) == expected(set(some)), some


def test_private_spellings_are_counted_under_the_common_ones() -> None:
    counted = flows.count_members(["resumable", "running", "claimed", "pending", "waiting"])
    assert counted == {"waiting": 3, "active": 2}


@pytest.mark.parametrize(
    ("states", "word", "settled"),
    [
        (["completed", "lost"], "completed", True),
        (["lost", "skipped"], "completed", True),
        (["lost", "cancelled"], "failed", True),
        (["lost", "failed"], "failed", True),
        (["lost", "active"], "running", False),
        (["completed", "skipped"], "completed", True),
        (["completed", "expired"], "failed", True),
        (["completed", "active"], "running", False),
        (["completed", "delayed"], "blocked", False),
        (["waiting", "resumable"], "open", False),
    ],
)
def test_a_summary_counts_every_member(states: list[str], word: str, settled: bool) -> None:
    before = flow(settled_at_ms=1)
    store = seeded(before)
    assert isinstance(commit(store, flows.project(before, members(*states), NOW - 1)), Applied)
    (row,) = rows(store, "ff_flow_summary")
    assert (row["total_members"], row["sampled_members"], row["last_summary_update_at"]) == (
        2,
        2,
        NOW - 1,
    )
    counted = {
        name.removeprefix("members_"): n
        for name, n in row.items()
        if name.startswith("members_") and n
    }
    assert counted == flows.count_members(member.public_state for member in members(*states))
    assert row["public_flow_state"] == word
    after = only(store, Flow)
    assert after == replace(before, settled_at_ms=NOW - 1 if settled else None)


def test_a_summary_is_replaced() -> None:
    before = flow()
    store = seeded(before)
    commit(store, flows.project(before, members("completed"), NOW - 1))
    assert only(store, Flow).settled_at_ms == NOW - 1
    commit(store, flows.project(before, members("active", "active"), NOW))
    (row,) = rows(store, "ff_flow_summary")
    assert (row["members_completed"], row["members_active"], row["public_flow_state"]) == (
        0,
        2,
        "running",
    )


def test_a_summary_of_a_flow_that_moved_is_not_written() -> None:
    store = seeded(flow(version=9))
    assert isinstance(commit(store, flows.project(flow(), members("active"), NOW)), Refused)
    assert rows(store, "ff_flow_summary") == []


def test_a_flow_of_children_needs_a_parent_that_has_not_ended() -> None:
    store = MemoryStore(ManualClock(NOW))
    parent = ExecutionId.solo("lane")
    detached = ExecutionId.for_flow(FLOW_ID)
    args = CreateFlowArgs(flow_id=FLOW_ID)
    family = Parent(execution_id=parent, waitpoint_key="children:0", detached=(detached,))
    plan = flows.create_flow(args, P, NOW, parent=family)
    assert plan.form is flow_forms.CREATE_CHILDREN
    assert commit(store, plan) == Refused()
    values = dict(zip(plan.form.args, plan.values, strict=True))
    row = Flow(
        P,
        FLOW_ID,
        0,
        "open",
        NOW,
        None,
        0,
        None,
        parent.partition_index,
        parent.uuid,
        values["raw_fields"],
    )
    assert (row.parent, flow_fields.detached_of(row)) == (parent, {detached.uuid})
    alone = flows.create_flow(args, P, NOW, parent=Parent(execution_id=parent, waitpoint_key=""))
    assert '"detached"' not in dict(zip(alone.form.args, alone.values, strict=True))["raw_fields"]
