from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from flowfabric.engine.executions.create import KeyRow
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Created, CreateExecutionArgs, Execution
from flowfabric.model.policy import (
    ExecutionPolicy,
    RetentionPolicy,
    RoutingRequirements,
    StreamPolicy,
    TimeoutPolicy,
    parse_policy,
)
from flowfabric.plan import Applied, Plan, Refused
from flowfabric.rules.executions import create as creating
from flowfabric.rules.executions.create import (
    CREATE_DELAYED_WITH_KEY,
    CREATE_READY,
    CREATE_READY_WITH_KEY,
    REGISTER_LANE,
    SET_LANE_STATE,
    Creation,
    clamp_priority,
    create,
    repeated,
)
from flowfabric.rules.states import name_of, vector_of
from flowfabric.store.memory import MemoryStore
from flowfabric.testing import ManualClock

from .factory import IDENT, NOW, commit, execution, run, seeded, stored, told
from .flow_factory import ident


def creation(policy: ExecutionPolicy | None = None, **args: Any) -> Creation:
    return create(CreateExecutionArgs(execution_id=IDENT, **args), policy, NOW)


def created(policy: ExecutionPolicy | None = None, **args: Any) -> Execution:
    store = MemoryStore(ManualClock(NOW))
    assert isinstance(commit(store, creation(policy, **args).plan), Applied)
    assert told(store) == ([], [], [])
    return stored(store)


@pytest.mark.parametrize(
    ("given", "kept"),
    [(-5, 0), (-1, 0), (0, 0), (42, 42), (9_000, 9_000), (9_001, 9_000), (10_000, 9_000)],
)
def test_priority_is_clamped(given: int, kept: int) -> None:
    assert clamp_priority(given) == kept
    assert created(priority=given).priority == kept


@pytest.mark.parametrize(
    ("argument", "in_policy", "state", "until"),
    [
        (None, None, "waiting", None),
        (NOW - 1, None, "waiting", None),
        (NOW, None, "waiting", None),
        (NOW + 1, None, "delayed", NOW + 1),
        (None, NOW + 5, "delayed", NOW + 5),
        (None, NOW, "waiting", None),
        (NOW + 9, NOW + 5, "delayed", NOW + 9),
        (0, NOW + 5, "waiting", None),
    ],
)
def test_only_a_time_ahead_delays(
    argument: int | None, in_policy: int | None, state: str, until: int | None
) -> None:
    policy = ExecutionPolicy(delay_until=in_policy)
    assert creation(policy, delay_until=argument).result == Created(IDENT, state)  # type: ignore[arg-type]
    row = created(policy, delay_until=argument)
    assert (row.public_state, row.delay_until_ms) == (state, until)
    assert row.blocking_detail == (f"delayed until {until}" if until else "")
    assert name_of(vector_of(row)) == ("DELAYED" if until else "READY")
    assert row.attempt_state == "pending_first_attempt"


@pytest.mark.parametrize("policy", [None, ExecutionPolicy(priority=3, delay_until=NOW + 5)])
@pytest.mark.parametrize("delay", [None, NOW + 9])
def test_identical_creates_equal_single_creates(
    policy: ExecutionPolicy | None, delay: int | None
) -> None:
    idents = [ExecutionId.of(n, UUID(int=n)) for n in (7, 3, 7)]
    many = [
        CreateExecutionArgs(
            execution_id=ident, input_payload=b"%d" % at, tags={"app.a": "b"}, delay_until=delay
        )
        for at, ident in enumerate(idents)
    ]
    first, *others = [create(args, policy, NOW) for args in many]
    assert list(repeated(first, many[1:])) == others
    assert first.plan.values != others[0].plan.values
    assert list(repeated(first, [])) == []


def test_the_engines_clock_decides_and_the_given_time_is_recorded() -> None:
    early = created(now=NOW - 500, delay_until=NOW - 100)
    assert (
        early.public_state,
        early.created_at_ms,
        early.last_transition_at,
        early.last_mutation_at,
    ) == (
        "waiting",
        *[NOW - 500] * 3,
    )
    late = created(now=NOW + 500, delay_until=NOW + 100)
    assert (late.public_state, late.created_at_ms) == ("delayed", NOW + 500)
    assert created(now=0).created_at_ms == 0
    assert created().created_at_ms == NOW


@pytest.mark.parametrize(
    ("argument", "duration", "now", "deadline", "origin"),
    [
        (None, None, None, None, None),
        (0, None, None, None, None),
        (NOW + 7, None, None, NOW + 7, "argument"),
        (NOW - 7, None, None, NOW - 7, "argument"),
        (None, 1_000, None, NOW + 1_000, "policy"),
        (None, 1_000, NOW - 400, NOW + 600, "policy"),
        (NOW + 7, 1_000, None, NOW + 7, "argument"),
        (None, 0, None, None, None),
    ],
)
def test_a_deadline_is_a_time_given_or_a_duration_from_creation(
    argument: int | None,
    duration: int | None,
    now: int | None,
    deadline: int | None,
    origin: str | None,
) -> None:
    policy = ExecutionPolicy(timeout_policy=TimeoutPolicy(execution_deadline_ms=duration))
    row = created(policy, execution_deadline_at=argument, now=now)
    assert (row.deadline_at_ms, row.deadline_origin) == (deadline, origin)


def test_every_argument_is_stored() -> None:
    row = created(
        lane_id="gpu",
        namespace="tenant",
        execution_kind="train",
        input_payload=b"\x00x",
        payload_encoding="raw",
        creator_identity="me",
        idempotency_key="key",
        tags={"b.b": "2", "cairn.instance_id": "i-1", "a.a": "é"},
    )
    assert (row.lane_id, row.namespace, row.execution_kind, row.payload) == (
        "gpu",
        "tenant",
        "train",
        b"\x00x",
    )
    assert (row.payload_encoding, row.creator_identity, row.idempotency_key) == ("raw", "me", "key")
    assert (row.tags, row.instance_tag) == (
        '{"a.a":"é","b.b":"2","cairn.instance_id":"i-1"}',
        "i-1",
    )
    assert (row.partition_key, row.id, row.lease_epoch, row.total_attempt_count) == (
        IDENT.partition_index,
        IDENT,
        0,
        0,
    )


def test_no_columns_come_from_a_missing_policy() -> None:
    row = created()
    assert (row.policy, row.max_reclaim_count, row.attempt_timeout_ms) == (None, None, None)
    assert (row.retention_ttl_ms, row.failed_retention_ttl_ms) == (None, None)
    assert (row.required_capabilities, row.budget_ids, row.tags, row.instance_tag) == (
        (),
        (),
        "{}",
        None,
    )
    assert (row.idempotency_key, row.payload, row.deadline_origin) == (None, b"", None)


def test_the_columns_from_the_policy() -> None:
    policy = ExecutionPolicy(
        timeout_policy=TimeoutPolicy(attempt_timeout_ms=250),
        routing_requirements=RoutingRequirements(required_capabilities=("gpu",)),
        stream_policy=StreamPolicy(retention_ttl_ms=77),
        retention_policy=RetentionPolicy(failed_ms=99),
    )
    row = created(policy)
    assert (row.attempt_timeout_ms, row.required_capabilities) == (250, ("gpu",))
    assert (row.retention_ttl_ms, row.failed_retention_ttl_ms) == (77, 99)
    assert (row.max_reclaim_count, row.budget_ids) == (100, ())
    assert row.policy is not None and json.loads(row.policy)["timeout_policy"] == {
        "attempt_timeout_ms": 250
    }


@pytest.mark.parametrize("key", [None, ""])
def test_an_empty_key_is_no_key(key: str | None) -> None:
    assert creation(idempotency_key=key).plan.form is CREATE_READY
    assert created(idempotency_key=key).idempotency_key is None


def expiry(plan: Plan) -> int:
    at: int = dict(zip(plan.form.args, plan.values, strict=True))["expires_at_ms"]
    return at


@pytest.mark.parametrize(("window", "kept_for"), [(None, 86_400_000), (5_000, 5_000)])
def test_a_key_is_taken_for_its_window(window: int | None, kept_for: int) -> None:
    made = creation(
        parse_policy({} if window is None else {"dedup_window_ms": window}),
        idempotency_key="k",
        now=NOW - 100,
    )
    assert expiry(made.plan) == NOW - 100 + kept_for


@pytest.mark.parametrize(("holder", "kept", "after", "taken"), [
    (IDENT, False, 1_000, True),
    (IDENT, False, 999, False),
    (IDENT, True, 1_000, False),
    (ident(9), False, 1_000, False),
])  # fmt: skip
def test_an_expired_key_of_a_removed_execution_is_taken_over(
    holder: ExecutionId, kept: bool, after: int, taken: bool
) -> None:
    made = creation(parse_policy({"dedup_window_ms": 1_000}), idempotency_key="k", key_digest="d")
    key = KeyRow("default", "k", IDENT.partition_index, IDENT.uuid, NOW + 1_000, "d")
    clock = ManualClock(NOW)
    store = seeded(key, execution("READY", idempotency_key="k") if kept else None, clock=clock)
    assert commit(store, made.plan) == Refused()
    clock.advance(after)
    take, create_again = creating.retake(made.plan, holder)
    assert isinstance(commit(store, take), Applied) is taken
    assert create_again.form is CREATE_READY


@pytest.mark.parametrize("delay", [None, 50])
def test_the_row_and_its_key_are_created_together_or_not_at_all(delay: int | None) -> None:
    store = MemoryStore(ManualClock(NOW))
    later = None if delay is None else NOW + delay
    keyed = creation(idempotency_key="k", delay_until=later)
    with_key = CREATE_READY_WITH_KEY if delay is None else CREATE_DELAYED_WITH_KEY
    assert keyed.plan.form is with_key
    assert isinstance(commit(store, creation().plan), Applied)
    assert commit(store, keyed.plan) == Refused(0, 1)
    assert run(store.dump(("ff_idempotency",))) == {"ff_idempotency": []}
    other = create(
        CreateExecutionArgs(execution_id=ident(9), idempotency_key="k", delay_until=later),
        None,
        NOW,
    )
    assert isinstance(commit(store, other.plan), Applied)
    again = create(CreateExecutionArgs(execution_id=ident(10), idempotency_key="k"), None, NOW)
    assert commit(store, again.plan) == Refused()


@pytest.mark.parametrize(("expires", "holds"), [(None, False), (NOW, False), (NOW + 1, True)])
def test_a_key_holds_until_it_expires(expires: int | None, holds: bool) -> None:
    assert creating.is_in_time(expires, NOW) is holds


def test_a_second_create_of_the_same_id_is_refused() -> None:
    store = MemoryStore(ManualClock(NOW))
    assert isinstance(commit(store, creation(priority=1).plan), Applied)
    assert commit(store, creation(priority=2).plan) == Refused()
    assert stored(store).priority == 1


@pytest.mark.parametrize(
    ("state", "accepted"),
    [("active", True), ("paused", True), ("draining", False), ("disabled", False)],
)
@pytest.mark.parametrize("delay_until", [None, NOW + 1])
def test_a_closed_lane_takes_no_new_work(
    state: str, accepted: bool, delay_until: int | None
) -> None:
    store = MemoryStore(ManualClock(NOW))
    commit(store, REGISTER_LANE(lane_id="default", registered_by="test"))
    commit(store, SET_LANE_STATE(lane_id="default", state=state))
    assert isinstance(commit(store, creation(delay_until=delay_until).plan), Applied) is accepted


def test_a_lane_is_registered_once() -> None:
    store = MemoryStore(ManualClock(NOW))
    plan = REGISTER_LANE(lane_id="x", registered_by="create_execution")
    assert isinstance(commit(store, plan), Applied)
    assert commit(store, plan) == Refused()
    rows = run(store.dump(("ff_lane_registry",)))["ff_lane_registry"]
    assert rows == [("x", NOW, "create_execution", "active", NOW)]
