"""The founding operator tests, restated: by the public API and by the same SQL."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, StateKind, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import (
    CancelExecutionArgs,
    Cancelled,
    Changed,
    ChangePriorityArgs,
    Created,
    CreateExecutionArgs,
    Replayed,
    ReplayExecutionArgs,
)
from flowfabric.model.lease import AlreadySatisfied, ClaimPolicy, Handle, Revoked, RevokeLeaseArgs
from flowfabric.model.state import PublicState
from flowfabric.testing import ManualClock

from .helpers import attempt, fields, invalid, lease_label, refused, row, told


def create_args(
    ident: ExecutionId, lane: str, clock: ManualClock, **more: Any
) -> CreateExecutionArgs:
    return CreateExecutionArgs(
        execution_id=ident,
        namespace="default",
        lane_id=lane,
        execution_kind="op",
        input_payload=b"hello",
        priority=0,
        creator_identity="test",
        partition_id=0,
        now=clock(),
        **more,
    )


async def create_runnable(b: Engine, clock: ManualClock, **more: Any) -> tuple[ExecutionId, str]:
    lane, ident = f"lane-{uuid4()}", ExecutionId(f"{{fp:0}}:{uuid4()}")
    made = await b.create_execution(create_args(ident, lane, clock, **more))
    assert isinstance(made, Created)
    return ident, lane


async def create_and_claim(b: Engine, clock: ManualClock) -> tuple[ExecutionId, Handle]:
    ident, lane = await create_runnable(b, clock)
    handle = await b.claim(lane, (), ClaimPolicy("w1", "w1-i1", 30_000, None))
    assert handle is not None
    return ident, handle


async def create_complete_terminal(b: Engine, clock: ManualClock) -> ExecutionId:
    ident, handle = await create_and_claim(b, clock)
    await b.complete(handle, None)
    return ident


def cancel_args(ident: ExecutionId, clock: ManualClock, **more: Any) -> CancelExecutionArgs:
    return CancelExecutionArgs(execution_id=ident, now=clock(), **more)


async def sql(b: Engine, text: str, *params: Any) -> list[tuple[Any, ...]]:
    """The same text on every SQL store; only how a parameter is written and a uuid is passed
    differs.
    """
    store: Any = b.store
    if b.backend_label == "postgres":
        return await store.execute_for_test(re.sub(r"\?(\d)", r"$\1", text), params)
    return await store.execute_for_test(
        text, [p.bytes if isinstance(p, UUID) else p for p in params]
    )


async def count_outbox(b: Engine, table: str, ident: UUID) -> int:
    text = f"SELECT COUNT(*) FROM {table} WHERE execution_id = ?1 AND partition_key = 0"
    return int((await sql(b, text, str(ident)))[0][0])


async def read_lifecycle_phase(b: Engine, ident: UUID) -> str:
    text = "SELECT lifecycle_phase FROM ff_exec_core WHERE partition_key=0 AND execution_id=?1"
    return str((await sql(b, text, ident))[0][0])


# ---- cancel_execution


async def test_cancel_execution_happy_path_in_sql(in_sql: Engine, clock: ManualClock) -> None:
    ident, _ = await create_and_claim(in_sql, clock)
    result = await in_sql.cancel_execution(cancel_args(ident, clock, reason="operator test"))
    assert result == Cancelled(ident, PublicState.CANCELLED)
    assert await read_lifecycle_phase(in_sql, ident.uuid) == "cancelled"
    assert await count_outbox(in_sql, "ff_operator_event", ident.uuid) == 0
    assert await count_outbox(in_sql, "ff_lease_event", ident.uuid) == 2


async def test_cancel_execution_happy_path(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await create_and_claim(engine, clock)
    assert (
        await engine.cancel_execution(cancel_args(ident, clock))
    ).public_state is PublicState.CANCELLED
    info = await engine.read_execution_info(ident)
    assert info is not None and info.state_vector.lifecycle_phase == "terminal"
    assert (await row(engine, ident)).lifecycle_phase == "cancelled"
    assert await told(engine, ident) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": ["cancelled"],
        "OPER": [],
    }


async def test_cancel_execution_is_idempotent_when_already_cancelled(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await create_and_claim(engine, clock)
    args = cancel_args(ident, clock, reason="first")
    await engine.cancel_execution(args)
    before = await row(engine, ident)
    assert await engine.cancel_execution(args) == Cancelled(ident)
    assert await row(engine, ident) == before
    assert (await told(engine, ident))["LEASE"] == ["acquired", "revoked"]


async def test_cancel_execution_needs_a_fence_when_not_an_operator_override(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await create_and_claim(engine, clock)
    error = await invalid(
        engine.cancel_execution(cancel_args(ident, clock, source="lease_holder")), "lease_epoch"
    )
    assert error.kind is ValidationKind.INVALID_INPUT


async def test_cancel_execution_with_a_stale_epoch_is_rejected(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await create_and_claim(engine, clock)
    args = cancel_args(ident, clock, source="lease_holder", lease_epoch=999_999)
    await refused(engine.cancel_execution(args), StateKind.STALE_LEASE)


async def test_cancel_execution_with_the_true_epoch_is_accepted(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await create_and_claim(engine, clock)
    held = fields(handle)
    args = cancel_args(
        ident, clock, source="lease_holder", lease_epoch=held.lease_epoch, lease_id=held.lease_id
    )
    assert await engine.cancel_execution(args) == Cancelled(ident)


# ---- revoke_lease


async def test_revoke_lease_happy_path_in_sql(in_sql: Engine, clock: ManualClock) -> None:
    ident, _ = await create_and_claim(in_sql, clock)
    args = RevokeLeaseArgs(execution_id=ident, worker_instance_id="w1-i1", reason="operator revoke")
    assert isinstance(await in_sql.revoke_lease(args), Revoked)
    assert await count_outbox(in_sql, "ff_lease_event", ident.uuid) == 2
    assert await read_lifecycle_phase(in_sql, ident.uuid) == "runnable"
    text = (
        "SELECT worker_instance_id, lease_epoch FROM ff_attempt "
        "WHERE partition_key=0 AND execution_id=?1"
    )
    assert await sql(in_sql, text, ident.uuid) == [(None, 2)]


async def test_revoke_lease_happy_path(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await create_and_claim(engine, clock)
    args = RevokeLeaseArgs(execution_id=ident, worker_instance_id="w1-i1", reason="operator revoke")
    revoked = await engine.revoke_lease(args)
    assert revoked == Revoked(f"{lease_label(engine)}:{ident.uuid}:0:1", "2")
    assert (await row(engine, ident)).lifecycle_phase == "runnable"
    assert (await attempt(engine, ident)).worker_instance_id is None
    assert await engine.revoke_lease(args) == AlreadySatisfied("no_active_lease")
    assert await told(engine, ident) == {"LEASE": ["acquired", "revoked"], "DONE": [], "OPER": []}


async def test_revoke_lease_without_an_active_lease_is_already_satisfied(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await create_runnable(engine, clock)
    args = RevokeLeaseArgs(execution_id=ident, worker_instance_id="w1-i1", reason="no lease")
    assert await engine.revoke_lease(args) == AlreadySatisfied("no_active_lease")


async def test_revoke_lease_of_a_different_worker_is_already_satisfied(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await create_and_claim(engine, clock)
    args = RevokeLeaseArgs(execution_id=ident, worker_instance_id="w2-i1", reason="wrong worker")
    assert await engine.revoke_lease(args) == AlreadySatisfied("different_worker_instance_id")
    await engine.renew(handle)


# ---- change_priority


async def test_change_priority_happy_path_in_sql(in_sql: Engine, clock: ManualClock) -> None:
    ident, _ = await create_runnable(in_sql, clock)
    args = ChangePriorityArgs(
        execution_id=ident, new_priority=42, lane_id="lane-ignored-on-sqlite", now=clock()
    )
    assert await in_sql.change_priority(args) == Changed(ident)
    text = "SELECT priority FROM ff_exec_core WHERE partition_key=0 AND execution_id=?1"
    assert await sql(in_sql, text, ident.uuid) == [(42,)]
    assert await count_outbox(in_sql, "ff_operator_event", ident.uuid) == 1


async def test_change_priority_happy_path(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await create_runnable(engine, clock)
    await engine.change_priority(
        ChangePriorityArgs(execution_id=ident, new_priority=42, lane_id="ignored", now=clock())
    )
    assert (await row(engine, ident)).priority == 42
    assert (await told(engine, ident))["OPER"] == ["priority_changed"]


async def test_change_priority_of_an_ineligible_execution_is_not_eligible(
    engine: Engine, clock: ManualClock
) -> None:
    """The original's default was not claimable; here it is claimable at once, so the test uses a
    delayed execution.
    """
    ident, lane = await create_runnable(engine, clock, delay_until=clock() + 60_000)
    args = ChangePriorityArgs(execution_id=ident, new_priority=10, lane_id=lane, now=clock())
    await refused(engine.change_priority(args), ContentionKind.EXECUTION_NOT_ELIGIBLE)
    assert (await row(engine, ident)).priority == 0


async def test_change_priority_of_a_claimed_execution_is_not_eligible(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await create_and_claim(engine, clock)
    args = ChangePriorityArgs(execution_id=ident, new_priority=10)
    await refused(engine.change_priority(args), ContentionKind.EXECUTION_NOT_ELIGIBLE)


# ---- replay_execution


async def test_replay_execution_normal_branch_in_sql(in_sql: Engine, clock: ManualClock) -> None:
    ident = await create_complete_terminal(in_sql, clock)
    assert await read_lifecycle_phase(in_sql, ident.uuid) == "terminal"
    assert await in_sql.replay_execution(
        ReplayExecutionArgs(execution_id=ident, now=clock())
    ) == Replayed(PublicState.WAITING)
    assert await read_lifecycle_phase(in_sql, ident.uuid) == "runnable"
    text = "SELECT raw_fields FROM ff_exec_core WHERE partition_key=0 AND execution_id=?1"
    assert json.loads((await sql(in_sql, text, ident.uuid))[0][0])["replay_count"] == 1
    assert await count_outbox(in_sql, "ff_operator_event", ident.uuid) == 1


async def test_replay_execution_normal_branch(engine: Engine, clock: ManualClock) -> None:
    ident = await create_complete_terminal(engine, clock)
    assert await engine.replay_execution(ReplayExecutionArgs(execution_id=ident)) == Replayed(
        PublicState.WAITING
    )
    after = await row(engine, ident)
    assert (after.replay_count, json.loads(after.raw_fields)["replay_count"]) == (1, 1)
    assert (await told(engine, ident))["OPER"] == ["replayed"]


async def test_replay_of_a_skipped_flow_member_resets_its_edge_group_counters(
    in_sql: Engine, clock: ManualClock
) -> None:
    ident = await create_complete_terminal(in_sql, clock)
    flow, edge, upstream, neighbour = uuid4(), uuid4(), uuid4(), uuid4()
    me = ident.uuid
    await sql(
        in_sql,
        "UPDATE ff_exec_core SET flow_id=?1 WHERE partition_key=0 AND execution_id=?2",
        flow,
        me,
    )
    await sql(
        in_sql,
        "UPDATE ff_attempt SET outcome='skipped' WHERE partition_key=0 AND execution_id=?1",
        me,
    )
    await sql(
        in_sql,
        "INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, "
        "policy, policy_version) VALUES (0, ?1, ?2, ?3, ?4, '{}', 0)",
        flow,
        edge,
        upstream,
        me,
    )
    for downstream in (me, neighbour):
        await sql(
            in_sql,
            "INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, k_target, "
            "success_count, fail_count, skip_count, running_count) "
            "VALUES (0, ?1, ?2, '{}', 1, 3, 5, 7, 2)",
            flow,
            downstream,
        )
    result = await in_sql.replay_execution(ReplayExecutionArgs(execution_id=ident, now=clock()))
    assert result == Replayed(PublicState.WAITING_CHILDREN)
    counters = (
        "SELECT success_count, fail_count, skip_count, running_count FROM ff_edge_group "
        "WHERE partition_key=0 AND flow_id=?1 AND downstream_eid=?2"
    )
    assert await sql(in_sql, counters, flow, me) == [(3, 0, 0, 0)]
    assert await sql(in_sql, counters, flow, neighbour) == [(3, 5, 7, 2)]
    details = (
        "SELECT details FROM ff_operator_event WHERE execution_id=?1 AND event_type='replayed'"
    )
    found = await sql(in_sql, details, str(ident.uuid))
    assert json.loads(found[0][0]) == {"branch": "skipped_flow_member", "groups_reset": 1}
    after = await row(in_sql, ident)
    assert (after.eligibility_state, after.attempt_state) == (
        "eligible_now",
        "pending_replay_attempt",
    ), "nothing is waited for"


async def test_replay_of_a_skipped_execution_outside_a_flow_is_a_normal_one(
    in_sql: Engine, clock: ManualClock
) -> None:
    ident = await create_complete_terminal(in_sql, clock)
    await sql(in_sql, "UPDATE ff_attempt SET outcome='skipped' WHERE execution_id=?1", ident.uuid)
    assert await in_sql.replay_execution(ReplayExecutionArgs(execution_id=ident)) == Replayed(
        PublicState.WAITING
    )


async def test_replay_of_a_live_execution_is_not_terminal(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await create_runnable(engine, clock)
    await refused(
        engine.replay_execution(ReplayExecutionArgs(execution_id=ident)),
        StateKind.EXECUTION_NOT_TERMINAL,
    )


# ---- concurrency


@pytest.mark.parametrize("callers", [2, 8])
async def test_concurrent_cancels_all_succeed_and_one_writes(
    engine: Engine, clock: ManualClock, callers: int
) -> None:
    ident, _ = await create_and_claim(engine, clock)
    args = cancel_args(ident, clock, reason="concurrent")
    results = await asyncio.gather(*(engine.cancel_execution(args) for _ in range(callers)))
    assert results == [Cancelled(ident)] * callers
    assert await told(engine, ident) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": ["cancelled"],
        "OPER": [],
    }
    assert (await row(engine, ident)).lease_epoch == 2
