"""Identical creates of a bulk share a check and a plan; creates that differ, even in
type, do not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from flowfabric.engine.engine import Engine
from flowfabric.engine.executions.bulk_create import checked_runs, is_like
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import MAX_PAYLOAD_BYTES, Created, CreateExecutionArgs, Execution
from flowfabric.model.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.model.state import PublicState

from .helpers import dump, invalid, new_id, row

POLICY = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
OWN = ("execution_id", "input_payload")
FIRST = CreateExecutionArgs(
    execution_id=new_id(),
    lane_id="lane",
    execution_kind="kind",
    input_payload=b"1",
    tags={"app.a": "b"},
    policy=POLICY,
)
OTHERWISE: dict[str, Any] = {
    "lane_id": "other",
    "namespace": "other",
    "execution_kind": "other",
    "payload_encoding": "other",
    "priority": 1,
    "creator_identity": "other",
    "idempotency_key": "key",
    "key_digest": "digest",
    "tags": {"app.a": "c"},
    "policy": ExecutionPolicy(priority=3),
    "delay_until": 1,
    "execution_deadline_at": 1,
    "partition_id": 3,
    "now": 1,
}


def test_every_shared_field_makes_a_difference() -> None:
    assert {*OTHERWISE, *OWN} == set(CreateExecutionArgs.__struct_fields__)
    another = replace(FIRST, execution_id=new_id(), input_payload=b"2")
    assert is_like(another, FIRST)
    for field, value in OTHERWISE.items():
        assert not is_like(replace(another, **{field: value}), FIRST), field


@pytest.mark.parametrize("field", ["idempotency_key", "partition_id"])
def test_fields_of_one_execution_are_never_shared(field: str) -> None:
    value = OTHERWISE[field]
    assert not is_like(replace(FIRST, **{field: value}), replace(FIRST, **{field: value}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("execution_id", "{fp:3}:00000000-0000-0000-0000-000000000001"),
        ("input_payload", bytearray(b"x")),
        ("input_payload", b"x" * (MAX_PAYLOAD_BYTES + 1)),
        ("input_payload", None),
    ],
    ids=["text for an id", "bytes that change", "too long", "nothing"],
)
def test_an_id_or_payload_that_needs_a_check_is_not_shared(field: str, value: Any) -> None:
    assert not is_like(replace(FIRST, **{field: value}), FIRST)


def test_empty_tags_are_alike() -> None:
    bare = replace(FIRST, tags={})
    assert is_like(replace(bare, tags={}), bare)
    assert not is_like(FIRST, bare) and not is_like(bare, FIRST)
    assert not is_like(replace(bare, tags=None), bare), "which is not a mapping"


def test_runs_end_where_a_field_changes() -> None:
    wanted = [
        FIRST,
        replace(FIRST, execution_id=new_id()),
        replace(FIRST, priority=2),
        replace(FIRST, priority=2),
        FIRST,
    ]
    runs = checked_runs(wanted)
    assert [(run.first.priority, len(run.others), run.policy) for run in runs] == [
        (0, 1, POLICY),
        (2, 1, POLICY),
        (0, 0, POLICY),
    ]
    assert checked_runs([]) == []


@pytest.mark.parametrize("at", [0, 1, 2], ids=["first", "second", "last"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", True),
        ("priority", 0.0),
        ("lane_id", ""),
        ("input_payload", "text"),
        ("tags", None),
        ("execution_id", "x"),
    ],
)
async def test_an_invalid_create_is_found_at_any_position(
    engine: Engine, at: int, field: str, value: Any
) -> None:
    """True is 1 and 0.0 is 0, but not as a priority."""
    before = await dump(engine)
    many = [
        CreateExecutionArgs(execution_id=new_id(), priority=int(field == "priority" and value))
        for _ in range(3)
    ]
    many[at] = replace(many[at], **{field: value})
    await invalid(engine.create_executions(many), field)
    assert await dump(engine) == before


async def test_bulk_and_single_creates_store_the_same(engine: Engine) -> None:
    """Also those that start later, and in whatever partition they are."""
    for later in (None, 1_900_000_000_000):
        common = replace(FIRST, delay_until=later, execution_deadline_at=1_900_000_000_000)
        many = [_numbered(common, n) for n in range(3)]
        shown = PublicState.WAITING if later is None else PublicState.DELAYED
        assert await engine.create_executions(many) == [
            Created(each.execution_id, shown) for each in many
        ]
        alone = _numbered(common, 9)
        await engine.create_execution(alone)
        wanted = _told(await row(engine, alone.execution_id))
        for n, each in enumerate(many):
            found = await row(engine, each.execution_id)
            assert _told(found) == wanted
            assert (found.partition_key, found.execution_id, found.payload) == (
                n,
                each.execution_id.uuid,
                b"%d" % n,
            )


async def test_any_sequence_type_is_accepted(engine: Engine) -> None:
    many = [replace(FIRST, execution_id=new_id()) for _ in range(3)]
    for given in (deque(many), tuple(many), dict(enumerate(many)).values()):
        answers = await engine.create_executions(given)  # type: ignore[arg-type]
        assert [answer.execution_id for answer in answers] == [each.execution_id for each in many]


async def test_changes_by_the_caller_during_the_call_have_no_effect(engine: Engine) -> None:
    """The list and the tags are read at the call."""
    many = [CreateExecutionArgs(execution_id=new_id()) for _ in range(2)]
    kept = list(many)
    creating = asyncio.ensure_future(engine.create_executions(many))
    await asyncio.sleep(0)
    many[0].tags["not checked"] = "x"  # type: ignore[index]
    many.clear()
    assert [type(made) for made in await creating] == [Created] * 2
    assert [(await row(engine, each.execution_id)).tags for each in kept] == ["{}"] * 2


def _numbered(args: CreateExecutionArgs, n: int) -> CreateExecutionArgs:
    ident = ExecutionId.of(n, UUID(int=new_id().uuid.int))
    return replace(args, execution_id=ident, input_payload=b"%d" % n)


def _told(found: Execution) -> Execution:
    return replace(found, partition_key=0, execution_id=UUID(int=0), payload=None)
