"""Rows of a flow for rule tests: a waiting execution, its upstreams, their edges and the group."""

from __future__ import annotations

import json
from typing import Any, TypeVar
from uuid import UUID

from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.model.flow import Edge, EdgeGroup, EdgePolicy, Flow
from flowfabric.model.flow_links import Member
from flowfabric.rules.decision import Decision, Reject
from flowfabric.rules.flows.flows import edge_text, member_of
from flowfabric.store.memory import MemoryStore
from flowfabric.store.schema import TABLES

from .factory import FLOW_ID, IDENT, NOW, TABLE_OF, defaults, execution, run

P = IDENT.partition_index
OTHER_FLOW = UUID(int=0xFF)
OUTCOMES = ("success", "failed", "cancelled", "expired", "skipped")
ALL_OF, ANY_OF = EdgePolicy.all_of(), EdgePolicy.any_of()

ALL, PENDING, ONLY = "cancel_all", "cancel_pending", "cancel_flow_only"
BACKLOG, OWED, QUEUE = "ff_cancel_backlog", "ff_cancel_backlog_member", "ff_pending_cancel_groups"

R = TypeVar("R")


def fields(of: Flow) -> dict[str, Any]:
    found = json.loads(of.raw_fields)
    assert isinstance(found, dict)
    return found


def ident(n: int) -> ExecutionId:
    """The n-th upstream; `IDENT` waits for them."""
    return ExecutionId.of(P, UUID(int=0x1_000 + n))


def edge_id(n: int) -> UUID:
    return UUID(int=0xE_000 + n)


def flow(*, fields: dict[str, Any] | str | None = None, **columns: Any) -> Flow:
    said = (
        {"flow_kind": "dag", "namespace": "ns", "node_count": 2, "edge_count": 1}
        if fields is None
        else fields
    )
    row = {
        **defaults("ff_flow_core"),
        "partition_key": P,
        "flow_id": FLOW_ID,
        "graph_revision": 3,
        "created_at_ms": NOW - 60_000,
        "version": 4,
        "raw_fields": said if isinstance(said, str) else json.dumps(said),
        **columns,
    }
    return Flow(**row)


def edge(n: int = 0, *, passes: str | None = None, applied: bool = True, **columns: Any) -> Edge:
    """The n-th upstream's edge to `IDENT`."""
    state = (
        {"edge_state": "applied", "dep_state": "unsatisfied", "applied_at_ms": NOW - 9_000}
        if applied
        else {}
    )
    row = {
        **defaults("ff_edge"),
        "partition_key": P,
        "flow_id": FLOW_ID,
        "edge_id": edge_id(n),
        "upstream_eid": ident(n).uuid,
        "downstream_eid": IDENT.uuid,
        "policy": edge_text("success_only", passes, NOW - 10_000),
        **state,
        **columns,
    }
    return Edge(**row)


def group(policy: EdgePolicy | str = ALL_OF, running: int = 0, **columns: Any) -> EdgeGroup:
    text = policy if isinstance(policy, str) else policy.encoded()
    row = {
        **defaults("ff_edge_group"),
        "partition_key": P,
        "flow_id": FLOW_ID,
        "downstream_eid": IDENT.uuid,
        "policy": text,
        "k_target": 0 if isinstance(policy, str) else policy.k,
        "running_count": running,
        "version": 6,
        **columns,
    }
    return EdgeGroup(**row)


def counters(of: EdgeGroup) -> tuple[int, int, int, int]:
    """Successes, failures, skips, and those still open."""
    return of.success_count, of.fail_count, of.skip_count, of.running_count


def upstream(
    n: int, vector: str = "READY", attempt_state: str | None = None, **columns: Any
) -> Execution:
    return execution(
        vector, attempt_state, **{"execution_id": ident(n).uuid, "flow_id": FLOW_ID, **columns}
    )


def waiting(vector: str = "DEPS", attempt_state: str | None = None, **columns: Any) -> Execution:
    """The waiting member, under the id that every rule test uses."""
    return execution(vector, attempt_state, **{"flow_id": FLOW_ID, **columns})


def as_member(of: Execution | None) -> Member | None:
    return None if of is None else member_of(of)


# ---- what is stored


def rows(store: MemoryStore, table: str) -> list[dict[str, Any]]:
    return [
        dict(zip(TABLES[table].names, row, strict=True)) for row in run(store.dump((table,)))[table]
    ]


def kept(store: MemoryStore, kind: type[R]) -> list[R]:
    return [kind(**row) for row in rows(store, TABLE_OF[kind])]


def only(store: MemoryStore, kind: type[R]) -> R:
    (row,) = kept(store, kind)
    return row


def at(store: MemoryStore, who: ExecutionId) -> Execution:
    (row,) = [row for row in kept(store, Execution) if row.execution_id == who.uuid]
    return row


# ---- what is refused


def error_of(decision: Decision) -> EngineError:
    assert isinstance(decision, Reject), decision
    return decision.error


def said(decision: Decision) -> tuple[str, str]:
    """The code of a refusal and its detail."""
    error = error_of(decision)
    return error.code, getattr(error, "detail", "")
