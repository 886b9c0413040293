"""The check of the borders is checked: two namespaces side by side pass, and each way of crossing, planted by hand, is caught."""

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
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import CancelFlowArgs, GraphEdge, SubmitFlowArgs
from flowfabric.model.flow_links import Parent
from flowfabric.model.lease import ClaimPolicy
from flowfabric.model.waitpoint import (
    DeliverSignalArgs,
    FreshWaitpoint,
    Single,
    SuspendArgs,
    Suspended,
)
from flowfabric.store.memory import MemoryStore
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, world_of

LANE = "lane"
SPACES = ("a", "b")
CORE, FLOW, EDGE, KEYS = "ff_exec_core", "ff_flow_core", "ff_edge", "ff_idempotency"
SIGNAL, WAITPOINT = "ff_signal", "ff_waitpoint_pending"
Tables = dict[str, list[Any]]
Plant = Callable[[Tables], None]


def uid(namespace: str, what: int) -> UUID:
    return UUID(int=(SPACES.index(namespace) + 1) * 100 + what)


def solo(namespace: str) -> ExecutionId:
    return ExecutionId.of(1, uid(namespace, 1))


def node(namespace: str, flow: int, number: int) -> ExecutionId:
    return ExecutionId.of(
        partition_of(uid(namespace, flow), FLOW_PARTITIONS), uid(namespace, flow + number)
    )


async def furnish(engine: Engine, namespace: str) -> None:
    """A parent that waits for a signal, its children, and a flow of two that is being cancelled."""
    own: dict[str, Any] = {"lane_id": LANE, "namespace": namespace}
    await engine.create_execution(
        CreateExecutionArgs(execution_id=solo(namespace), idempotency_key="k", **own)
    )
    handle = await engine.claim(LANE, (), ClaimPolicy("w", "w-1", namespace=namespace))
    assert handle is not None
    parent = Parent(execution_id=solo(namespace), waitpoint_key="children")
    for flow, said in ((10, {"parent": parent}), (20, {})):
        nodes = [CreateExecutionArgs(execution_id=node(namespace, flow, n), **own) for n in (1, 2)]
        edge = GraphEdge(*(each.execution_id for each in nodes), edge_id=uid(namespace, flow + 3))
        args: dict[str, Any] = {
            "flow_id": uid(namespace, flow),
            "nodes": nodes,
            "edges": [edge],
            "namespace": namespace,
            **said,
        }
        await engine.submit_flow(SubmitFlowArgs(**args))
    await engine.cancel_flow_header(CancelFlowArgs(flow_id=uid(namespace, 20), reason="r"))
    mailbox = FreshWaitpoint(uid(namespace, 30), "k")
    done = await engine.suspend(
        handle,
        SuspendArgs(
            suspension_id=uid(namespace, 31),
            waitpoints=[mailbox],
            resume_condition=Single("k", "go"),
        ),
    )
    assert isinstance(done, Suspended)
    signal = DeliverSignalArgs(
        execution_id=solo(namespace),
        waitpoint_id=uid(namespace, 30),
        signal_id=uid(namespace, 32),
        waitpoint_token=done.details.waitpoints[0].waitpoint_token,
        signal_name="other",
    )
    await engine.deliver_signal(signal)


async def sound() -> Tables:
    engine = Engine(MemoryStore(ManualClock()), seed=1)
    await engine.seed_waitpoint_hmac_secret("k1", "2a" * 32)
    for namespace in SPACES:
        await furnish(engine, namespace)
    return await engine.store.dump(TABLES_READ)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return asyncio.run(sound())


def alter(table: str, wanted: dict[str, Any], **changes: Any) -> Plant:
    def plant(tables: Tables) -> None:
        names, found = TABLES[table].names, 0
        for at, row in enumerate(tables[table]):
            named = dict(zip(names, row, strict=True))
            if all(named[column] == value for column, value in wanted.items()):
                tables[table][at] = tuple({**named, **changes}.values())
                found += 1
        assert found, (table, wanted)

    return plant


def flow_of(namespace: str, flow: int, of: str) -> Plant:
    """As if the flow were another namespace's, with all that is told of it."""
    raw = {"flow_kind": "dag", "namespace": of, "node_count": 2, "edge_count": 1}
    return alter(FLOW, {"flow_id": uid(namespace, flow)}, raw_fields=json.dumps(raw))


def waiting_for(namespace: str) -> Plant:
    """Its child has an upstream of the other namespace, in the same partition."""
    foreign = CreateExecutionArgs(
        execution_id=ExecutionId.of(node(namespace, 10, 1).partition_index, UUID(int=999))
    )

    def plant(tables: Tables) -> None:
        names = TABLES[CORE].names
        row = next(r for r in tables[CORE] if r[1] == solo("b").uuid)
        named = dict(zip(names, row, strict=True))
        partition, ident = foreign.execution_id.partition_index, foreign.execution_id.uuid
        tables[CORE].append(
            tuple({**named, "partition_key": partition, "execution_id": ident}.values())
        )
        alter(EDGE, {"edge_id": uid(namespace, 13)}, upstream_eid=ident)(tables)

    return plant


PLANTED: dict[str, tuple[Plant, str]] = {
    "a member of another's flow": (flow_of("a", 20, "b"), "is of namespace 'a', its flow of 'b'"),
    "children of another": (
        flow_of("a", 10, "b"),
        "is of namespace 'a', its flow of children of 'b'",
    ),
    "an upstream of another": (waiting_for("a"), "is of namespace 'a', its upstream of 'b'"),
    "a key of another": (
        alter(KEYS, {"namespace": "a"}, namespace="c"),
        "is of namespace 'a', its idempotency key of 'c'",
    ),
    "an event of a flow": (
        alter(
            "ff_operator_event",
            {"event_type": "flow_cancel_requested", "namespace": "a"},
            namespace="b",
        ),
        "has namespace 'b'",
    ),
    "an event without one": (
        alter(
            "ff_operator_event",
            {"event_type": "flow_cancel_requested", "namespace": "a"},
            namespace=None,
        ),
        "has namespace None",
    ),
    "an end told to another's flow": (
        alter("ff_completion_event", {"flow_id": uid("a", 20)}, namespace="b"),
        "is of namespace 'b', its event's flow of 'a'",
    ),
    "a signal on another's waitpoint": (
        alter(SIGNAL, {"signal_id": uid("a", 32)}, waitpoint_id=uid("b", 30)),
        "is of namespace 'a', its signal's waitpoint of 'b'",
    ),
    "a waitpoint of another's suspension": (
        alter(WAITPOINT, {"waitpoint_id": uid("a", 30)}, suspension_id=uid("b", 31)),
        "is of namespace 'a', its waitpoint's suspension of 'b'",
    ),
}


def test_two_namespaces_side_by_side_pass(tables: Tables) -> None:
    assert [str(violation) for violation in check(world_of(tables))] == []
    assert {row[4] for row in tables[CORE]} == set(SPACES)
    told = {
        (row[0], row[2]) for row in tables["ff_operator_event"] if row[2] == "flow_cancel_requested"
    }
    assert len(told) == 2


@pytest.mark.parametrize(("plant", "says"), PLANTED.values(), ids=PLANTED.keys())
def test_what_crosses_is_caught(tables: Tables, plant: Plant, says: str) -> None:
    altered = deepcopy(tables)
    plant(altered)
    found = [
        violation.says for violation in check(world_of(altered)) if violation.invariant == "I24"
    ]
    assert any(says in each for each in found), found


@pytest.mark.parametrize("channel", ["ff_lease_event", "ff_completion_event", "ff_signal_event"])
def test_an_event_of_an_execution_in_another_namespace_is_caught(
    tables: Tables, channel: str
) -> None:
    altered = deepcopy(tables)
    alter(channel, {"namespace": "a"}, namespace="b")(altered)
    assert any("has namespace 'b'" in violation.says for violation in check(world_of(altered)))
