"""Checks of flows: a valid snapshot passes, planted violations are caught."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, partition_of
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CreateExecutionArgs, ReplayExecutionArgs
from flowfabric.model.flow import EdgePolicy, GraphEdge, SubmitFlowArgs
from flowfabric.model.flow_links import Parent
from flowfabric.model.lease import ClaimPolicy
from flowfabric.store.memory import MemoryStore
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock
from flowfabric.verify.flows import drained
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

FLOW = UUID(int=77)
NAMES = ("a", "b", "c", "quorum", "bad", "skipped", "skipped too", "open", "waits", "good", "after")
NODES = {
    name: ExecutionId.of(partition_of(FLOW, FLOW_PARTITIONS), UUID(int=at + 1))
    for at, name in enumerate(NAMES)
}
EDGES = (
    ("a", "quorum"),
    ("b", "quorum"),
    ("c", "quorum"),
    ("bad", "skipped"),
    ("skipped", "skipped too"),
    ("open", "waits"),
    ("good", "after"),
)
PARENT = ExecutionId.of(3, UUID(int=99))
Tables = dict[str, list[Any]]


def edge_id(up: str, down: str) -> UUID:
    return UUID(int=100 + EDGES.index((up, down)))


async def sound() -> Tables:
    """A quorum that has fired, a failure that has spread, and some that wait. Each step has its own
    millisecond.
    """
    clock = ManualClock()
    engine = Engine(MemoryStore(clock), seed=1)
    nodes = [CreateExecutionArgs(execution_id=ident, lane_id=name) for name, ident in NODES.items()]
    edges = [GraphEdge(NODES[up], NODES[down], edge_id=edge_id(up, down)) for up, down in EDGES]
    await engine.submit_flow(
        SubmitFlowArgs(
            flow_id=FLOW, nodes=nodes, edges=edges, policies={NODES["quorum"]: EdgePolicy.quorum(2)}
        )
    )
    for name in ("a", "b", "bad", "good", "after"):
        clock.advance(10)
        handle = await engine.claim(name, (), ClaimPolicy("w", "w-1"))
        assert handle is not None
        clock.advance(10)
        await (
            engine.fail(handle, "no", FailureClass.PERMANENT)
            if name == "bad"
            else engine.complete(handle)
        )
    clock.advance(10)
    await engine.replay_execution(ReplayExecutionArgs(execution_id=NODES["skipped too"]))
    clock.advance(5_000)
    await Supervisor(engine).run_once()
    return await engine.store.dump(TABLES_READ)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return asyncio.run(sound())


def alter(tables: Tables, table: str, wanted: dict[str, Any], **changes: Any) -> None:
    names, found = TABLES[table].names, 0
    for at, row in enumerate(tables[table]):
        named = dict(zip(names, row, strict=True))
        if all(named[column] == value for column, value in wanted.items()):
            tables[table][at] = tuple({**named, **changes}.values())
            found += 1
    assert found, (table, wanted)


def member(tables: Tables, name: str, **changes: Any) -> None:
    alter(tables, "ff_exec_core", {"execution_id": NODES[name].uuid}, **changes)


def group(tables: Tables, name: str, **changes: Any) -> None:
    alter(tables, "ff_edge_group", {"downstream_eid": NODES[name].uuid}, **changes)


def edge(tables: Tables, up: str, down: str, **changes: Any) -> None:
    alter(tables, "ff_edge", {"edge_id": edge_id(up, down)}, **changes)


def problems(tables: Tables) -> tuple[str, str]:
    """What holds always, and what holds when nothing is under way."""
    world = snapshot_of(tables)
    return "\n".join(map(str, check(world))), "\n".join(map(str, drained(world)))


def test_a_valid_snapshot_passes(tables: Tables) -> None:
    assert problems(tables) == ("", "")
    states = {
        execution.id: execution.public_state
        for execution in snapshot_of(tables).executions.values()
    }
    wanted = {
        "quorum": "waiting",
        "c": "cancelled",
        "skipped": "skipped",
        "skipped too": "waiting_children",
    }
    assert wanted.items() <= {name: states[ident] for name, ident in NODES.items()}.items()


# ---- what holds always


def an_edge_was_counted_twice(tables: Tables) -> None:
    group(tables, "quorum", success_count=3)


def an_edge_was_not_counted(tables: Tables) -> None:
    edge(tables, "open", "waits", dep_state="satisfied")


def a_lost_edge_is_in_no_bucket(tables: Tables) -> None:
    group(tables, "skipped", fail_count=0)


def an_applied_edge_has_no_state(tables: Tables) -> None:
    edge(tables, "open", "waits", dep_state=None)
    group(tables, "waits", running_count=0)


def a_group_is_gone(tables: Tables) -> None:
    tables["ff_edge_group"] = [
        row for row in tables["ff_edge_group"] if row[2] != NODES["waits"].uuid
    ]


def a_group_fired_too_early(tables: Tables) -> None:
    group(tables, "waits", group_state="satisfied")


def a_group_gave_up_too_early(tables: Tables) -> None:
    group(tables, "waits", group_state="impossible")


def a_group_did_not_fire(tables: Tables) -> None:
    group(tables, "after", group_state="pending")


def a_quorum_gave_up_too_early(tables: Tables) -> None:
    """Two of three were good, so there is nothing that made it impossible."""
    group(tables, "quorum", group_state="impossible")


def a_group_has_an_unknown_state(tables: Tables) -> None:
    group(tables, "waits", group_state="maybe")


def a_member_is_claimable_too_early(tables: Tables) -> None:
    ready = {
        "eligibility_state": "eligible_now",
        "blocking_reason": "waiting_for_worker",
        "public_state": "waiting",
    }
    member(tables, "waits", **ready)


def siblings_are_not_on_the_queue(tables: Tables) -> None:
    group(tables, "quorum", cancel_siblings_pending_flag=1)


def siblings_of_a_group_that_lets_them_run(tables: Tables) -> None:
    queued(tables, "after")
    group(tables, "after", cancel_siblings_pending_flag=1)


def siblings_of_a_group_that_has_not_fired(tables: Tables) -> None:
    queued(tables, "waits")
    group(tables, "waits", cancel_siblings_pending_flag=1)


def siblings_that_are_none(tables: Tables) -> None:
    queued(tables, "quorum")
    group(
        tables,
        "quorum",
        cancel_siblings_pending_flag=1,
        cancel_siblings_pending_members=json.dumps([str(UUID(int=5))]),
    )


def an_edge_of_another_flow(tables: Tables) -> None:
    member(tables, "waits", flow_id=UUID(int=78))


def an_edge_is_gone(tables: Tables) -> None:
    tables["ff_edge"] = [row for row in tables["ff_edge"] if row[2] != edge_id("good", "after")]


def an_end_was_told_to_another_flow(tables: Tables) -> None:
    alter(tables, "ff_completion_event", {"execution_id": NODES["a"].uuid}, flow_id=UUID(int=78))


def queued(tables: Tables, name: str) -> None:
    tables["ff_pending_cancel_groups"].append(
        (NODES[name].partition_index, FLOW, NODES[name].uuid, 1)
    )


Damage = Callable[[Tables], None]
ALWAYS: dict[Damage, str] = {
    an_edge_was_counted_twice: "counts (3, 1, 0) satisfied, impossible and open edges, found (2, "
    "1, 0)",
    an_edge_was_not_counted: "counts (0, 0, 1) satisfied, impossible and open edges, found (1, "
    "0, 0)",
    a_lost_edge_is_in_no_bucket: "counts (0, 0, 0) satisfied, impossible and open edges, found "
    "(0, 1, 0)",
    an_applied_edge_has_no_state: "counts (0, 0, 0) satisfied, impossible and open edges, found "
    "(0, 0, 0)",
    a_group_is_gone: "1 applied edges without a group",
    a_group_fired_too_early: "satisfied with 0 satisfied, 0 impossible, 1 open",
    a_group_gave_up_too_early: "impossible with 0 satisfied, 0 impossible, 1 open",
    a_group_did_not_fire: "pending with 1 satisfied, 0 impossible, 0 open",
    a_quorum_gave_up_too_early: "impossible with 2 satisfied, 1 impossible, 0 open",
    a_group_has_an_unknown_state: "unknown state: 'maybe'",
    a_member_is_claimable_too_early: "waiting, though 1 of its edges are open",
    siblings_are_not_on_the_queue: "has siblings to cancel, but is not on the queue",
    siblings_of_a_group_that_lets_them_run: "has siblings to cancel, but its policy lets them run",
    siblings_of_a_group_that_has_not_fired: "has siblings to cancel, but is pending",
    siblings_that_are_none: "has siblings to cancel, but lists executions that are no upstreams",
    an_edge_of_another_flow: "it is not a member",
    an_edge_is_gone: "stores 7 edges, found 6",
    an_end_was_told_to_another_flow: "names another flow",
}


@pytest.mark.parametrize("damage", ALWAYS, ids=lambda damage: damage.__name__)
def test_planted_violation_is_caught(damage: Damage, tables: Tables) -> None:
    damaged = deepcopy(tables)
    damage(damaged)
    assert ALWAYS[damage] in problems(damaged)[0]


# ---- what holds when nothing is under way


def an_end_was_not_dispatched(tables: Tables) -> None:
    alter(tables, "ff_completion_event", {"execution_id": NODES["a"].uuid}, dispatched_at_ms=None)


def an_edge_waits_for_what_is_over(tables: Tables) -> None:
    edge(tables, "good", "after", dep_state="unsatisfied")
    group(tables, "after", success_count=0, running_count=1, group_state="pending")


def an_edge_waits_for_what_is_gone(tables: Tables) -> None:
    for table in ("ff_exec_core", "ff_attempt", "ff_lease_event", "ff_completion_event"):
        at = TABLES[table].names.index("execution_id")
        tables[table] = [row for row in tables[table] if row[at] != NODES["open"].uuid]


def an_edge_counts_a_success_that_was_none(tables: Tables) -> None:
    alter(tables, "ff_completion_event", {"execution_id": NODES["a"].uuid}, outcome="failed")


def an_edge_counts_a_failure_that_was_none(tables: Tables) -> None:
    alter(tables, "ff_completion_event", {"execution_id": NODES["bad"].uuid}, outcome="success")


def a_failure_after_the_replay_was_not_counted(tables: Tables) -> None:
    """The one before it is not counted again, which is sound."""
    edge(tables, "skipped", "skipped too", reset_at_ms=1)


def a_released_member_is_still_blocked(tables: Tables) -> None:
    blocked = {
        "eligibility_state": "blocked_by_dependencies",
        "blocking_reason": "waiting_for_children",
        "public_state": "waiting_children",
    }
    member(tables, "quorum", **blocked)


def a_member_waits_for_nobody(tables: Tables) -> None:
    a_group_is_gone(tables)
    tables["ff_edge"] = [row for row in tables["ff_edge"] if row[2] != edge_id("open", "waits")]


def a_loser_runs_on(tables: Tables) -> None:
    waiting = {
        "eligibility_state": "eligible_now",
        "blocking_reason": "waiting_for_worker",
        "public_state": "waiting",
    }
    member(
        tables,
        "c",
        lifecycle_phase="runnable",
        terminal_outcome="none",
        terminal_at_ms=None,
        **waiting,
    )


def a_group_stays_on_the_queue(tables: Tables) -> None:
    queued(tables, "quorum")


def a_flow_owes_cancels(tables: Tables) -> None:
    tables["ff_cancel_backlog"].append(
        (NODES["a"].partition_index, FLOW, 1, "", "", None, "cancel_all", "pending")
    )


def a_member_was_claimed_too_early(tables: Tables) -> None:
    group(tables, "after", satisfied_at_ms=1_900_000_000_000)


DRAINED: dict[Damage, str] = {
    an_end_was_not_dispatched: "its end is not dispatched",
    an_edge_waits_for_what_is_over: "which has ended",
    an_edge_waits_for_what_is_gone: "which has ended",
    an_edge_counts_a_success_that_was_none: "as a success without one",
    an_edge_counts_a_failure_that_was_none: "as impossible without a failure",
    a_failure_after_the_replay_was_not_counted: "which has ended",
    a_released_member_is_still_blocked: "blocked, its group is satisfied, 0 open",
    a_member_waits_for_nobody: "blocked without an edge group",
    a_loser_runs_on: "runs, although the group of",
    a_group_stays_on_the_queue: "its group has siblings to cancel",
    a_flow_owes_cancels: "has members to cancel",
    a_member_was_claimed_too_early: "its group was satisfied at 1900000000000",
}


@pytest.mark.parametrize("damage", DRAINED, ids=lambda damage: damage.__name__)
def test_planted_leftover_is_caught(damage: Damage, tables: Tables) -> None:
    damaged = deepcopy(tables)
    damage(damaged)
    assert DRAINED[damage] in problems(damaged)[1]


def test_a_settled_flow_with_a_member_that_has_not_ended_is_found() -> None:
    tables = asyncio.run(sound())
    at = TABLES["ff_flow_core"].names.index("settled_at_ms")
    tables["ff_flow_core"] = [(*row[:at], 1, *row[at + 1 :]) for row in tables["ff_flow_core"]]
    assert {found.invariant for found in check(snapshot_of(tables))} == {"I26"}


def test_a_removed_upstream_is_a_violation() -> None:
    tables = asyncio.run(sound())
    gone = NODES["open"].uuid
    tables["ff_exec_core"] = [row for row in tables["ff_exec_core"] if row[1] != gone]
    assert "I23" in {found.invariant for found in check(snapshot_of(tables))}


def test_a_member_whose_flow_was_removed_is_found() -> None:
    tables = asyncio.run(sound())
    tables["ff_flow_core"] = []
    found = [
        violation.says for violation in check(snapshot_of(tables)) if violation.invariant == "I23"
    ]
    assert len(found) == 4 and set(found) == {f"is of flow {FLOW}, which was removed"}


async def with_children() -> Tables:
    """A parent that runs, and two children that have ended."""
    clock = ManualClock()
    engine = Engine(MemoryStore(clock), seed=1)
    await engine.create_execution(CreateExecutionArgs(execution_id=PARENT, lane_id="parent"))
    assert await engine.claim("parent", (), ClaimPolicy("w", "w-1")) is not None
    nodes = [CreateExecutionArgs(execution_id=NODES[name], lane_id="child") for name in ("a", "b")]
    parent = Parent(execution_id=PARENT, waitpoint_key="children:0")
    await engine.submit_flow(SubmitFlowArgs(flow_id=FLOW, nodes=nodes, parent=parent))
    for _ in nodes:
        handle = await engine.claim("child", (), ClaimPolicy("w", "w-1"))
        assert handle is not None
        await engine.complete(handle)
    return await engine.store.dump(TABLES_READ)


@pytest.mark.parametrize(
    ("changes", "is_found"),
    [({}, True), ({"replay_count": 1}, False), ({"lifecycle_phase": "terminal"}, False)],
    ids=["it runs", "it was replayed", "it has ended"],
)
def test_a_parent_whose_child_was_removed_is_found(changes: dict[str, Any], is_found: bool) -> None:
    tables = asyncio.run(with_children())
    assert check(snapshot_of(tables)) == []
    tables["ff_exec_core"] = [row for row in tables["ff_exec_core"] if row[1] != NODES["a"].uuid]
    alter(tables, "ff_exec_core", {"execution_id": PARENT.uuid}, **changes)
    found = [(v.subject, v.says) for v in check(snapshot_of(tables)) if v.invariant == "I23"]
    assert found == (
        [(str(PARENT), f"has a flow of children, {FLOW}: 1 were removed")] if is_found else []
    )
