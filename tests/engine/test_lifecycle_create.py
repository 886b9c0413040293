"""Creates: what is stored, what is a duplicate, and bulk creates."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ValidationKind
from flowfabric.model.execution import Created, CreateExecutionArgs, Duplicate
from flowfabric.model.policy import (
    ExecutionPolicy,
    RetryPolicy,
    RoutingRequirements,
    StreamPolicy,
    TimeoutPolicy,
)
from flowfabric.model.state import PublicState
from flowfabric.testing import ManualClock

from .helpers import (
    claim,
    create,
    dump,
    fields,
    invalid,
    new_id,
    row,
    state,
    told,
    two_stores,
)


def args(**said: Any) -> CreateExecutionArgs:
    return CreateExecutionArgs(**{"execution_id": new_id(), **said})


async def test_a_plain_create_is_ready_and_silent(engine: Engine, clock: ManualClock) -> None:
    said = args(
        namespace="ns",
        lane_id="fast",
        execution_kind="mail",
        input_payload=b"\x00\xff",
        payload_encoding="raw",
        creator_identity="me",
        tags={"Free.Form": "x", "cairn.instance_id": "blue"},
        priority=7,
    )
    assert await engine.create_execution(said) == Created(said.execution_id, PublicState.WAITING)
    found = await row(engine, said.execution_id)
    assert await state(engine, said.execution_id) == "READY"
    assert (found.namespace, found.lane_id, found.execution_kind, found.payload) == (
        "ns",
        "fast",
        "mail",
        b"\x00\xff",
    )
    assert (found.payload_encoding, found.creator_identity, found.instance_tag) == (
        "raw",
        "me",
        "blue",
    )
    assert (found.attempt_state, found.attempt_index, found.total_attempt_count) == (
        "pending_first_attempt",
        0,
        0,
    )
    assert (found.lease_epoch, found.priority, found.blocking_detail) == (0, 7, "")
    assert found.created_at_ms == found.last_transition_at == found.last_mutation_at == clock()
    assert (found.started_at_ms, found.deadline_at_ms, found.delay_until_ms) == (None, None, None)
    assert await told(engine, said.execution_id) == {"LEASE": [], "DONE": [], "OPER": []}


@pytest.mark.parametrize(
    ("asked", "kept"), [(-5, 0), (0, 0), (9_000, 9_000), (10_000, 9_000), (-(2**31), 0)]
)
async def test_priority_is_clamped(engine: Engine, asked: int, kept: int) -> None:
    assert (await row(engine, await create(engine, priority=asked))).priority == kept


@pytest.mark.parametrize(("ahead_ms", "shown"), [(-1, "READY"), (0, "READY"), (1, "DELAYED")])
async def test_a_create_is_delayed_only_when_its_time_lies_ahead(
    engine: Engine, clock: ManualClock, ahead_ms: int, shown: str
) -> None:
    at = clock() + ahead_ms
    ident = await create(engine, delay_until=at)
    assert await state(engine, ident) == shown
    found = await row(engine, ident)
    if shown == "DELAYED":
        assert (found.blocking_reason, found.blocking_detail) == (
            "waiting_for_delay",
            f"delayed until {at}",
        )
        assert found.delay_until_ms == at
    else:
        assert found.delay_until_ms is None


async def test_delay_is_decided_on_the_engines_clock_and_recorded_at_the_callers(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine, delay_until=clock() + 10, now=clock() + 1_000)
    found = await row(engine, ident)
    assert await state(engine, ident) == "DELAYED"
    assert found.created_at_ms == clock() + 1_000


async def test_the_policys_delay_counts_when_none_is_given(
    engine: Engine, clock: ManualClock
) -> None:
    policy = ExecutionPolicy(delay_until=clock() + 50)
    assert (await row(engine, await create(engine, policy=policy))).delay_until_ms == clock() + 50
    assert (
        await row(engine, await create(engine, policy=policy, delay_until=clock() + 9))
    ).delay_until_ms == clock() + 9


async def test_the_deadline_comes_from_the_argument_else_from_the_policy(
    engine: Engine, clock: ManualClock
) -> None:
    policy = ExecutionPolicy(timeout_policy=TimeoutPolicy(execution_deadline_ms=1_000))
    by_policy = await row(engine, await create(engine, policy=policy))
    assert (by_policy.deadline_at_ms, by_policy.deadline_origin) == (clock() + 1_000, "policy")
    by_argument = await row(engine, await create(engine, policy=policy, execution_deadline_at=5))
    assert (by_argument.deadline_at_ms, by_argument.deadline_origin) == (5, "argument")
    none = await row(engine, await create(engine, execution_deadline_at=0))
    assert (none.deadline_at_ms, none.deadline_origin) == (None, None)


async def test_the_policy_is_frozen_into_the_row(engine: Engine) -> None:
    policy = ExecutionPolicy(
        retry_policy=RetryPolicy(max_retries=1),
        timeout_policy=TimeoutPolicy(attempt_timeout_ms=70),
        stream_policy=StreamPolicy(retention_ttl_ms=5),
        max_reclaim_count=2,
    )
    found = await row(engine, await create(engine, policy=policy))
    assert found.policy is not None and "null" not in found.policy
    assert (found.attempt_timeout_ms, found.retention_ttl_ms, found.max_reclaim_count) == (70, 5, 2)


@pytest.mark.parametrize(
    "policy",
    [
        {"routing_requirements": {"required_capabilities": ["b", "a", "b"]}},
        '{"routing_requirements": {"required_capabilities": ["b", "a"]}}',
        ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("b", "a"))),
    ],
    ids=["mapping", "text", "typed"],
)
async def test_required_capabilities_are_stored_sorted_and_once(
    engine: Engine, policy: Any
) -> None:
    assert (await row(engine, await create(engine, policy=policy))).required_capabilities == (
        "a",
        "b",
    )


@two_stores
@pytest.mark.parametrize(
    ("policy", "kind", "detail"),
    [
        ("{", ValidationKind.INVALID_POLICY_JSON, "malformed"),
        ("[]", ValidationKind.INVALID_POLICY_JSON, "malformed"),
        (
            {"routing_requirements": 5},
            ValidationKind.INVALID_POLICY_JSON,
            "routing_requirements:not_object",
        ),
        (
            {"retry_policy": {"max_retries": -1}},
            ValidationKind.INVALID_POLICY_JSON,
            "retry_policy.max_retries:invalid",
        ),
        (
            {"retry_policy": {"backoff": {"type": "exponential", "multiplier": 0.5}}},
            ValidationKind.INVALID_POLICY_JSON,
            "retry_policy.backoff.multiplier:invalid",
        ),
        (
            {"routing_requirements": {"required_capabilities": "gpu"}},
            ValidationKind.INVALID_CAPABILITIES,
            "required:not_array",
        ),
        (
            {"routing_requirements": {"required_capabilities": [1]}},
            ValidationKind.INVALID_CAPABILITIES,
            "required:non_string_token",
        ),
        (
            {"routing_requirements": {"required_capabilities": [""]}},
            ValidationKind.INVALID_CAPABILITIES,
            "required:empty_token",
        ),
        (
            {"routing_requirements": {"required_capabilities": ["a,b"]}},
            ValidationKind.INVALID_CAPABILITIES,
            "required:comma_in_token",
        ),
        (
            {"routing_requirements": {"required_capabilities": ["a b"]}},
            ValidationKind.INVALID_CAPABILITIES,
            "required:control_or_whitespace",
        ),
        (
            {"routing_requirements": {"required_capabilities": [f"t{n}" for n in range(257)]}},
            ValidationKind.INVALID_CAPABILITIES,
            "required:too_many_tokens",
        ),
        (
            {"routing_requirements": {"required_capabilities": ["x" * 4_097]}},
            ValidationKind.INVALID_CAPABILITIES,
            "required:too_many_bytes",
        ),
    ],
)
async def test_a_bad_policy_is_named_and_nothing_is_written(
    engine: Engine, policy: Any, kind: ValidationKind, detail: str
) -> None:
    before = await dump(engine)
    error = await invalid(engine.create_execution(args(policy=policy)), detail)
    assert (error.kind, error.detail) == (kind, detail)
    assert await dump(engine) == before


async def test_the_same_id_again_is_a_duplicate_and_nothing_is_compared(engine: Engine) -> None:
    ident = await create(engine, lane_id="one")
    again = await engine.create_execution(
        args(execution_id=ident, lane_id="two", input_payload=b"other")
    )
    assert again == Duplicate(ident)
    assert (await row(engine, ident)).lane_id == "one"


async def test_the_lane_of_a_duplicate_is_registered_all_the_same(engine: Engine) -> None:
    ident = await create(engine)
    await engine.create_execution(args(execution_id=ident, lane_id="elsewhere"))
    found = await engine.read_lane("elsewhere")
    assert found is not None and found.registered_by == "create_execution"


async def test_one_uuid_in_two_partitions_is_two_executions(engine: Engine) -> None:
    ident = await create(engine)
    other = type(ident).of(9, ident.uuid)
    await create(engine, execution_id=other)
    assert await engine.read_execution_state(other) is PublicState.WAITING


# ---- many at once


async def test_a_bulk_create_answers_each_in_the_order_given(engine: Engine) -> None:
    known = await create(engine)
    keyed = await create(engine, idempotency_key="taken")
    twice, fresh = args(), args(idempotency_key="new")
    many = [
        args(priority=1),
        args(execution_id=known),
        fresh,
        args(idempotency_key="taken"),
        twice,
        twice,
        args(idempotency_key="new"),
        args(delay_until=1_900_000_000_000),
    ]
    answers = await engine.create_executions(many)
    assert answers == [
        Created(many[0].execution_id, PublicState.WAITING),
        Duplicate(known),
        Created(fresh.execution_id, PublicState.WAITING),
        Duplicate(keyed),
        Created(twice.execution_id, PublicState.WAITING),
        Duplicate(twice.execution_id),
        Duplicate(fresh.execution_id),
        Created(many[7].execution_id, PublicState.DELAYED),
    ]


@pytest.mark.parametrize("what", ["key", "id"])
async def test_of_two_with_one_name_in_a_bulk_the_first_gets_it_however_slow(
    engine: Engine, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = args(idempotency_key="k")
    same_id = args(execution_id=first.execution_id, idempotency_key="other")
    second = args(idempotency_key="k") if what == "key" else same_id
    create_one = engine.create_execution

    async def slowest_first(given: CreateExecutionArgs) -> Any:
        for _ in range(50 if given is first else 0):
            await asyncio.sleep(0)
        return await create_one(given)

    monkeypatch.setattr(engine, "create_execution", slowest_first)
    answers = await engine.create_executions([first, second])
    assert answers == [
        Created(first.execution_id, PublicState.WAITING),
        Duplicate(first.execution_id),
    ]


async def test_an_empty_bulk_create_does_nothing(engine: Engine) -> None:
    before = await dump(engine)
    assert await engine.create_executions([]) == []
    assert await dump(engine) == before


async def test_one_invalid_create_spoils_the_bulk_before_anything_is_written(
    engine: Engine,
) -> None:
    before = await dump(engine)
    await invalid(
        engine.create_executions([args(), args(idempotency_key="k"), args(lane_id="")]), "lane_id"
    )
    assert await dump(engine) == before


async def test_a_large_bulk_is_claimable_in_full(engine: Engine) -> None:
    many = [args(priority=n % 3) for n in range(1_200)]
    assert all(isinstance(a, Created) for a in await engine.create_executions(many))
    first = await claim(engine)
    assert (await row(engine, fields(first).execution_id)).priority == 2
