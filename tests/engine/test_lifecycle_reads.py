"""Reads, lists and tags."""

from __future__ import annotations

import pytest

from flowfabric.connect import SqliteBackend
from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, TransportError, ValidationError, ValidationKind
from flowfabric.ids import lease_mark
from flowfabric.model.execution import AttemptRef, CancelExecutionArgs, ExecutionContext, LeaseView
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy
from flowfabric.model.state import PublicState
from flowfabric.testing import ManualClock

from .helpers import (
    LANE,
    claim,
    completed,
    create,
    fields,
    invalid,
    lost,
    new_id,
    row,
    running,
    worker,
)


async def test_a_missing_execution_reads_as_none(engine: Engine) -> None:
    ident = new_id()
    assert await engine.describe_execution(ident) is None
    assert await engine.read_execution_info(ident) is None
    assert await engine.read_execution_state(ident) is None
    assert await engine.get_execution_result(ident) is None
    assert await engine.get_execution_tag(ident, "a.b") is None
    assert await engine.get_execution_namespace(ident) is None
    assert await engine.get_execution_namespaces([ident]) == {}
    assert await engine.resolve_execution_flow_id(ident) is None
    assert (await engine.list_attempts(ident)).items == []
    assert await engine.read_exec_core_fields(0, ident, ["priority", "nope"]) == {
        "priority": None,
        "nope": None,
    }


@pytest.mark.parametrize(
    "op", ["read_execution_context", "read_current_attempt_index", "read_total_attempt_count"]
)
async def test_reads_that_must_find_something_say_so(engine: Engine, op: str) -> None:
    ident = new_id()
    error = await invalid(getattr(engine, op)(ident))
    assert (error.kind, error.detail) == (
        ValidationKind.INVALID_INPUT,
        f"{op}: execution not found: {ident}",
    )


async def test_describe_before_during_and_after_a_lease(engine: Engine, clock: ManualClock) -> None:
    ident = await create(engine, namespace="ns", tags={"b.b": "2", "a.a": "1"})
    found = await engine.describe_execution(ident)
    assert found is not None
    assert (found.execution_id, found.lane_id, found.namespace, found.flow_id) == (
        ident,
        LANE,
        "ns",
        None,
    )
    assert (found.public_state, found.blocking_reason, found.blocking_detail) == (
        PublicState.WAITING,
        "waiting_for_worker",
        None,
    )
    assert (found.current_attempt, found.current_lease, found.total_attempt_count) == (
        None,
        None,
        0,
    )
    assert list(found.tags) == ["a.a", "b.b"] and found.created_at == clock()
    handle = await claim(engine, worker(namespace="ns"))
    held = fields(handle)
    clock.advance(5)
    await engine.renew(handle)
    found = await engine.describe_execution(ident)
    assert found is not None and found.blocking_reason is None
    assert found.current_attempt == AttemptRef(held.attempt_id, 0)
    assert found.current_lease == LeaseView(
        1, "w1-i1", clock() + 30_000, lease_mark(held.lease_id), 0, clock()
    )
    await engine.complete(handle)
    found = await engine.describe_execution(ident)
    assert found is not None and (found.current_lease, found.total_attempt_count) == (None, 1)


async def test_describe_still_shows_the_lease_of_a_lost_one(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await lost(engine, clock)
    found = await engine.describe_execution(ident)
    assert found is not None and found.current_lease is not None
    assert (found.public_state, found.blocking_detail) == (
        PublicState.ACTIVE,
        "lease expired, awaiting reclaim",
    )


async def test_info_shows_the_vector_and_the_times(engine: Engine, clock: ManualClock) -> None:
    ident = await create(engine, priority=4, execution_kind="mail")
    created = clock()
    clock.advance(10)
    handle = await claim(engine)
    clock.advance(10)
    await engine.cancel(handle)
    info = await engine.read_execution_info(ident)
    assert info is not None
    assert (info.created_at, info.started_at, info.completed_at) == (
        created,
        created + 10,
        created + 20,
    )
    assert (info.priority, info.execution_kind, info.current_attempt_index) == (4, "mail", 0)
    vector = info.state_vector
    assert (vector.lifecycle_phase, vector.ownership_state, vector.eligibility_state) == (
        "terminal",
        "unowned",
        "not_applicable",
    )
    assert (vector.blocking_reason, vector.terminal_outcome, vector.attempt_state) == (
        "none",
        "cancelled",
        "attempt_terminal",
    )
    assert (
        vector.public_state
        == info.public_state
        == await engine.read_execution_state(ident)
        == "cancelled"
    )


async def test_the_context_is_what_the_worker_runs_on(engine: Engine) -> None:
    ident = await create(
        engine, input_payload=b"\x00\x01", execution_kind="mail", tags={"a.b": "ü"}
    )
    assert await engine.read_execution_context(ident) == ExecutionContext(
        b"\x00\x01", "mail", {"a.b": "ü"}
    )


async def test_attempt_numbers_follow_the_claims(engine: Engine) -> None:
    policy = ExecutionPolicy(retry_policy=RetryPolicy(backoff={"type": "fixed", "delay_ms": 0}))
    ident, handle = await running(engine, policy=policy)
    assert (
        await engine.read_current_attempt_index(ident),
        await engine.read_total_attempt_count(ident),
    ) == (0, 1)
    await engine.fail(handle, "boom")
    assert (
        await engine.read_current_attempt_index(ident),
        await engine.read_total_attempt_count(ident),
    ) == (0, 1)
    await claim(engine)
    assert (
        await engine.read_current_attempt_index(ident),
        await engine.read_total_attempt_count(ident),
    ) == (1, 2)


async def test_attempts_are_listed_first_to_last_without_their_lease_ids(engine: Engine) -> None:
    policy = ExecutionPolicy(retry_policy=RetryPolicy(backoff={"type": "fixed", "delay_ms": 0}))
    ident, handle = await running(engine, policy=policy)
    for _ in range(2):
        await engine.fail(handle, "boom")
        handle = await claim(engine)
    page = await engine.list_attempts(ident, limit=2)
    assert ([a.attempt_index for a in page.items], page.next_cursor) == ([0, 1], 1)
    rest = await engine.list_attempts(ident, page.next_cursor, 2)
    assert ([a.attempt_index for a in rest.items], rest.next_cursor) == ([2], None)
    assert [a.lease_id for a in page.items + rest.items] == [None] * 3
    assert (await engine.list_attempts(ident, limit=0)).items == []


async def test_core_fields_are_read_as_text_by_name_or_alias(
    engine: Engine, clock: ManualClock
) -> None:
    policy = {"routing_requirements": {"required_capabilities": ["b", "a"]}}
    ident = await create(
        engine,
        priority=3,
        policy=policy,
        execution_deadline_at=clock() + 9,
        delay_until=clock() + 5,
    )
    names = [
        "priority",
        "required_capabilities",
        "created_at",
        "delay_until",
        "execution_deadline_at",
        "current_attempt_index",
        "current_lease_epoch",
        "completed_at",
        "lifecycle_phase",
        "no_such_thing",
    ]
    assert await engine.read_exec_core_fields("{fp:0}", ident, names) == {
        "priority": "3",
        "required_capabilities": "a,b",
        "created_at": str(clock()),
        "delay_until": str(clock() + 5),
        "execution_deadline_at": str(clock() + 9),
        "current_attempt_index": "0",
        "current_lease_epoch": "0",
        "completed_at": None,
        "lifecycle_phase": "runnable",
        "no_such_thing": None,
    }
    await engine.cancel_execution(CancelExecutionArgs(execution_id=ident, reason="why"))
    found = await engine.read_exec_core_fields(
        0, ident, ["completed_at", "cancel_reason", "cancellation_reason"]
    )
    assert found == {
        "completed_at": str(clock()),
        "cancel_reason": "why",
        "cancellation_reason": "why",
    }
    assert await engine.read_exec_core_fields(0, ident, []) == {}
    await invalid(engine.read_exec_core_fields(1, ident, ["priority"]), "partition")


async def test_executions_of_a_partition_are_listed_in_order_and_paged(engine: Engine) -> None:
    made = sorted([await create(engine) for _ in range(5)])
    await create(engine, execution_id=new_id(7))
    await completed(engine, lane_id="b")
    everything = (await engine.list_executions(0)).items
    assert everything == sorted(everything) and set(made) < set(everything) and len(everything) == 6
    page = await engine.list_executions("{fp:0}", limit=4)
    assert (page.items, page.next_cursor) == (everything[:4], everything[3])
    rest = await engine.list_executions(0, page.next_cursor, 4)
    assert (rest.items, rest.next_cursor) == (everything[4:], None)
    assert (await engine.list_executions(0, limit=6)).next_cursor is None
    assert (await engine.list_executions(0, limit=0)) == type(page)([], None)
    assert (await engine.list_executions(9)).items == []


@pytest.mark.parametrize(
    "meddle",
    [
        ("blocking_reason", "x"),
        ("terminal_outcome", "y"),
        ("attempt_state", "z"),
        ("ownership_state", "?"),
        ("eligibility_state", "!"),
        ("lifecycle_phase", "gone"),
    ],
    ids=lambda m: m[0],
)
async def test_an_undecodable_value_is_corruption_and_never_a_default(
    sqlite: SqliteBackend, meddle: tuple[str, str]
) -> None:
    ident = await create(sqlite)
    column, value = meddle
    sql = f"UPDATE ff_exec_core SET {column}=? WHERE execution_id=?"
    await sqlite.store.execute_for_test(sql, (value, ident.uuid.bytes))
    for read in (
        sqlite.read_execution_info,
        sqlite.describe_execution,
        sqlite.read_execution_state,
    ):
        error = await invalid(read(ident), column)
        assert error.kind is ValidationKind.CORRUPTION


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("lifecycle_phase", "pending", "submitted"),
        ("ownership_state", "released", "unowned"),
        ("eligibility_state", "pending_claim", "eligible_now"),
        ("attempt_state", "initial", "pending_first_attempt"),
    ],
)
async def test_older_private_spellings_are_understood(
    sqlite: SqliteBackend, column: str, value: str, shown: str
) -> None:
    ident = await create(sqlite)
    sql = f"UPDATE ff_exec_core SET {column}=? WHERE execution_id=?"
    await sqlite.store.execute_for_test(sql, (value, ident.uuid.bytes))
    info = await sqlite.read_execution_info(ident)
    assert info is not None and getattr(info.state_vector, column) == shown


# ---- tags


async def test_a_tag_is_set_read_and_changed(engine: Engine, clock: ManualClock) -> None:
    ident = await create(engine, tags={"Odd Key": "kept", "a.b": "1"})
    clock.advance(3)
    await engine.set_execution_tag(ident, "a.b", "2")
    await engine.set_execution_tag(ident, "x.y_z", "ß")
    assert await engine.get_execution_tag(ident, "a.b") == "2"
    assert await engine.get_execution_tag(ident, "x.y_z") == "ß"
    assert await engine.get_execution_tag(ident, "no.tag") is None
    found = await engine.describe_execution(ident)
    assert found is not None and found.tags == {"Odd Key": "kept", "a.b": "2", "x.y_z": "ß"}
    assert (await row(engine, ident)).last_mutation_at == clock()


async def test_many_tags_are_set_at_once_or_not_at_all(engine: Engine) -> None:
    ident = await create(engine)
    assert await engine.set_execution_tags(ident, {"a.b": "1", "c.d": "2"}) == 2
    error = await invalid(engine.set_execution_tags(ident, {"e.f": "3", "Bad": "4"}), "'Bad'")
    assert error.kind is ValidationKind.INVALID_TAG_KEY
    assert await engine.get_execution_tag(ident, "e.f") is None


async def test_a_bad_key_is_refused_before_the_execution_is_read(engine: Engine) -> None:
    with pytest.raises(NotFound):
        await engine.set_execution_tag(new_id(), "a.b", "1")
    with pytest.raises(NotFound):
        await engine.set_execution_tags(new_id(), {"a.b": "1"})
    await invalid(engine.set_execution_tag(new_id(), "Bad", "1"))


@pytest.mark.parametrize(
    "key", ["cairn.session_id", "a.b", "a1_2.x", "app.sub.field", "x.y_z", "a._"]
)
async def test_valid_tag_keys(engine: Engine, key: str) -> None:
    ident = await create(engine)
    await engine.set_execution_tag(ident, key, "v")
    assert await engine.get_execution_tag(ident, key) == "v"


# ---- the backend itself


async def test_the_backend_tells_about_itself(engine: Engine, clock: ManualClock) -> None:
    await engine.ping()
    assert await engine.server_time_ms() == clock()
    assert engine.backend_label in ("memory", "sqlite", "postgres", "valkey")
    assert engine.durability
    await engine.prepare()
    assert await engine.prepare() is None


async def test_a_closed_store_cannot_be_reached(sqlite: SqliteBackend) -> None:
    ident = await create(sqlite)
    await sqlite.close()
    for call in (sqlite.ping(), sqlite.describe_execution(ident), create(sqlite)):
        with pytest.raises(TransportError):
            await call


async def test_the_namespaces_of_many(engine: Engine) -> None:
    spaces = {await create(engine, namespace=name): name for name in ("ann", "bob", "ann")}
    assert await engine.get_execution_namespaces([*spaces, new_id()]) == spaces
    assert await engine.get_execution_namespaces([]) == {}
    with pytest.raises(ValidationError, match="at most 10000"):
        await engine.get_execution_namespaces([new_id()] * 10_001)
    with pytest.raises(ValidationError):
        await engine.get_execution_namespaces(["nonsense"])  # type: ignore[list-item]
