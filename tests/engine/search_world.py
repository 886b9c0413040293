"""Random executions in every state, and a naive search over the rows of a store."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

from hypothesis import strategies as st
from msgspec import Struct

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs, CreateExecutionArgs
from flowfabric.model.flow import GraphEdge, SubmitFlowArgs
from flowfabric.model.flow_links import Parent
from flowfabric.model.lease import ClaimPolicy, Handle
from flowfabric.model.search import ExecutionFilter
from flowfabric.model.state import ExpirePhase, PublicState
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock

from .helpers import TTL_MS
from .suspend_helpers import park_held, seed

LANES, TASKS, NAMESPACES = ("a", "b"), ("send", "fetch"), ("default", "other")
TAG_SETS: tuple[dict[str, str], ...] = (
    {},
    {"app.x": "1"},
    {"app.x": "12", "app.y": 'say "1"'},
    {"app.y": "a=b", 'q"app.x': "1"},
    {"app.x": "1,", "ü": "Ä\\€"},
)
TAGS = ("app.x", "app.x=1", "app.x=12", 'app.y=say "1"', "app.y=a=b", "ü=Ä\\€", "ü", "x", "app.x=")
ERRORS = (
    "ValueError: bad input",
    "ValueError: bad",
    "ValueError",
    "app.Error: it's Ä: 100%",
    "no: such type: ValueError: bad",
    "just text",
)
WANTED_ERRORS = (
    *("ValueError", "Value", "bad", "bad input", "ValueError: b", "app.Error", "it's Ä", "just"),
    *("no", "no: such", "such", "100%", "input"),
)
KEYS = (None, "k-1", "k-2")
WORKERS = (1, 2)
FATES = (
    *("waiting", "delayed", "active", "lost", "suspended", "completed", "failed", "retrying"),
    *("cancelled", "expired", "paused_by_operator", "waiting_for_budget", "waiting_for_capability"),
)
SPACING_MS = (0, 0, 1, 7)


class Made(Struct, frozen=True):
    """What is made of one execution."""

    fate: str
    lane: str
    task: str
    namespace: str
    tags: int
    error: str
    worker: int
    key: str | None
    after_ms: int


class Family(Struct, frozen=True):
    """A flow of so many nodes, a chain or not, perhaps the children of an execution."""

    nodes: int
    chained: bool
    parent: int | None


class World(Struct, frozen=True):
    made: list[Made]
    families: list[Family]


def worlds(most: int) -> st.SearchStrategy[World]:
    made = st.builds(
        Made,
        st.sampled_from(FATES),
        st.sampled_from(LANES),
        st.sampled_from(TASKS),
        st.sampled_from(NAMESPACES),
        st.integers(0, len(TAG_SETS) - 1),
        st.sampled_from(ERRORS),
        st.sampled_from(WORKERS),
        st.sampled_from(KEYS),
        st.sampled_from(SPACING_MS),
    )
    family = st.builds(
        Family, st.integers(1, 3), st.booleans(), st.one_of(st.none(), st.integers(0, 1))
    )
    return st.builds(World, st.lists(made, min_size=1, max_size=most), st.lists(family, max_size=4))


class Built(Struct):
    """The executions that may have children, and the flows of a world."""

    parents: list[ExecutionId] = []
    flows: list[UUID] = []


async def build(engine: Engine, clock: ManualClock, world: World) -> Built:
    await seed(engine)
    built = Built([ExecutionId.solo("parents") for _ in range(2)])
    for ident in built.parents:
        await engine.create_execution(CreateExecutionArgs(execution_id=ident, lane_id="parents"))
    for each in world.made:
        clock.advance(each.after_ms)
        await _make(engine, clock, each)
    for family in world.families:
        clock.advance(1)
        parent = None
        if family.parent is not None:
            known = built.parents[family.parent]
            parent = Parent(execution_id=known, waitpoint_key="children:0")
        flow = uuid4()
        nodes = [ExecutionId.for_flow(flow) for _ in range(family.nodes)]
        edges = [GraphEdge(a, b) for a, b in pairwise(nodes)]
        await engine.submit_flow(
            SubmitFlowArgs(
                flow_id=flow,
                nodes=[
                    CreateExecutionArgs(execution_id=node, lane_id="flows", execution_kind="send")
                    for node in nodes
                ],
                edges=edges if family.chained else (),
                parent=parent,
            )
        )
        built.flows.append(flow)
    return built


async def _make(engine: Engine, clock: ManualClock, made: Made) -> None:
    """Claims find it first, by its priority."""
    ident = ExecutionId.solo(made.lane)
    created = await engine.create_execution(
        CreateExecutionArgs(
            execution_id=ident,
            lane_id=made.lane,
            execution_kind=made.task,
            namespace=made.namespace,
            tags=TAG_SETS[made.tags],
            idempotency_key=made.key,
            priority=0 if made.fate in ("waiting", "delayed") else 9,
            delay_until=clock() + 60_000 if made.fate == "delayed" else None,
        )
    )
    if type(created).__name__ != "Created":
        return  # the key is taken
    if made.fate in ("paused_by_operator", "waiting_for_budget"):
        await engine.block_route(ident, made.fate, "why")
    elif made.fate == "waiting_for_capability":
        await engine.block_route(ident, "waiting_for_capable_worker", "why")
    elif made.fate == "cancelled":
        await engine.cancel_execution(CancelExecutionArgs(execution_id=ident, reason="enough"))
    elif made.fate not in ("waiting", "delayed"):
        by = ClaimPolicy(f"w{made.worker}", f"w{made.worker}-i1", TTL_MS, namespace=made.namespace)
        handle = await engine.claim(made.lane, (), by)
        assert handle is not None
        await _hold(engine, clock, ident, handle, made)


async def _hold(
    engine: Engine, clock: ManualClock, ident: ExecutionId, handle: Handle, made: Made
) -> None:
    match made.fate:
        case "lost":
            clock.advance(TTL_MS)
            await engine.mark_lease_expired_if_due(ident)
        case "suspended":
            await park_held(engine, ident, handle)
        case "completed":
            await engine.complete(handle, b"done")
        case "failed":
            await engine.fail(handle, made.error, FailureClass.PERMANENT)
        case "retrying":
            await engine.fail(handle, made.error)
        case "expired":
            await engine.expire_execution(ident, ExpirePhase.EXECUTION_DEADLINE)


# ---- the naive search

Row = dict[str, Any]


async def rows_of(engine: Engine) -> list[Row]:
    """Every execution, with its parent under `parent`."""
    found = await engine.store.dump(("ff_exec_core", "ff_flow_core"))
    flows = {
        (row["partition_key"], row["flow_id"]): (
            row["parent_partition"],
            row["parent_execution_id"],
        )
        for row in _named("ff_flow_core", found["ff_flow_core"])
    }
    rows = _named("ff_exec_core", found["ff_exec_core"])
    return [{**row, "parent": flows.get((row["partition_key"], row["flow_id"]))} for row in rows]


def _named(table: str, rows: list[Any]) -> list[Row]:
    return [dict(zip(TABLES[table].names, row, strict=True)) for row in rows]


def searched(rows: list[Row], where: ExecutionFilter, *, oldest_first: bool) -> list[UUID]:
    found = [row for row in rows if _matches(row, where)]
    found.sort(
        key=lambda row: (row["created_at_ms"], row["execution_id"]), reverse=not oldest_first
    )
    return [row["execution_id"] for row in found]


def _matches(row: Row, where: ExecutionFilter) -> bool:
    tests: dict[str, Callable[[Any], bool]] = {
        "state": lambda states: not states or row["public_state"] in states,
        "task": lambda task: row["execution_kind"] == task,
        "lane": lambda lane: row["lane_id"] == lane,
        "tag": lambda tag: tag in _tag_texts(row),
        "namespace": lambda namespace: row["namespace"] == namespace,
        "parent": lambda parent: row["parent"] == parent.key,
        "flow": lambda flow: row["flow_id"] == flow,
        "worker": lambda worker: worker in _holders(row),
        "created_from": lambda at: row["created_at_ms"] >= at,
        "created_before": lambda at: row["created_at_ms"] < at,
        "ended_from": lambda at: (row["terminal_at_ms"] or -1) >= at,
        "ended_before": lambda at: row["terminal_at_ms"] is not None and row["terminal_at_ms"] < at,
        "error": lambda error: _failed_with(row, error),
        "key": lambda key: row["idempotency_key"] == key,
    }
    given = {field: getattr(where, field) for field in tests}
    return all(value is None or tests[field](value) for field, value in given.items())


def _tag_texts(row: Row) -> set[str]:
    tags = json.loads(row["tags"])
    return set(tags) | {f"{key}={value}" for key, value in tags.items()}


def _holders(row: Row) -> set[str]:
    return {row["current_worker_id"], row["current_worker_instance_id"]}


def _failed_with(row: Row, error: str) -> bool:
    texts = [row["failure_reason"], row["last_failure_message"]]
    return any(error in _accepted(text) for text in texts if text)


def _accepted(text: str) -> set[str]:
    """Every text that finds this failure: the type, and each beginning of the message."""
    kind, colon, message = text.partition(": ")
    if not colon or not all(part.isidentifier() for part in kind.split(".")):
        return {text[:n] for n in range(1, len(text) + 1)}
    behind_type = {text[:n] for n in range(len(kind) + 1, len(text) + 1)}
    return {kind} | behind_type | {message[:n] for n in range(1, len(message) + 1)}


def filters(built: Built, now: int) -> st.SearchStrategy[ExecutionFilter]:
    """Up to three conditions."""
    times = st.integers(now - 90_000, now + 70_000)
    states = st.lists(st.sampled_from(list(PublicState)), min_size=1, max_size=3, unique=True)
    values: dict[str, st.SearchStrategy[Any]] = {
        "state": states.map(tuple),
        "task": st.sampled_from(TASKS),
        "lane": st.sampled_from((*LANES, "flows")),
        "tag": st.sampled_from(TAGS),
        "namespace": st.sampled_from(NAMESPACES),
        "parent": st.sampled_from(built.parents),
        "flow": st.sampled_from(built.flows or [uuid4()]),
        "worker": st.sampled_from(("w1", "w2-i1", "w9")),
        "created_from": times,
        "created_before": times,
        "ended_from": times,
        "ended_before": times,
        "error": st.sampled_from(WANTED_ERRORS),
        "key": st.sampled_from(("k-1", "k-2", "k")),
    }
    chosen = st.lists(st.sampled_from(sorted(values)), max_size=3, unique=True)
    given = chosen.flatmap(
        lambda fields: st.fixed_dictionaries({field: values[field] for field in fields})
    )
    return given.map(lambda conditions: ExecutionFilter(**conditions))
