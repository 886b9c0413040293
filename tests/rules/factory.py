"""Rows for rule tests: an execution in a vector, rows consistent with it, and their store."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from flowfabric.engine.executions.create import KeyRow
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import Execution, Lane
from flowfabric.model.flow import Edge, EdgeGroup, Flow
from flowfabric.model.lease import BackendTag, Grant, HandleFields, LeaseFence
from flowfabric.model.signing_key import HmacKey
from flowfabric.model.waitpoint import Signal, Suspension, Waitpoint
from flowfabric.plan import Answer, Applied, Arg, Form, Insert, Plan
from flowfabric.rules.decision import Commit, Decision, Reject, Return, Snapshot
from flowfabric.rules.states import VECTORS, entering
from flowfabric.store.memory import MemoryStore
from flowfabric.store.memory.evaluate import default_of
from flowfabric.store.port import Get, Scan
from flowfabric.store.schema import TABLES
from flowfabric.testing.clock import START_MS, ManualClock

NOW = START_MS
TTL = 30_000
IDENT = ExecutionId.of(7, UUID("018f0000-0000-7000-8000-000000000001"))
ATTEMPT_ID, LEASE_ID = UUID(int=0xA), UUID(int=0xB)
NEW_ATTEMPT_ID, NEW_LEASE_ID = UUID(int=0xC), UUID(int=0xD)
FLOW_ID = UUID(int=0xF)
WORKER, INSTANCE = "worker", "worker-1"

T = TypeVar("T")


def defaults(table: str) -> dict[str, Any]:
    return {column.name: default_of(column) for column in TABLES[table].columns}


_EXECUTION, _ATTEMPT, _GRANT = (
    defaults("ff_exec_core"),
    defaults("ff_attempt"),
    defaults("ff_claim_grant"),
)
_LEASE: dict[str, Any] = {
    "current_lease_id": LEASE_ID,
    "current_worker_id": WORKER,
    "current_worker_instance_id": INSTANCE,
    "lease_acquired_at": NOW - 10_000,
    "lease_last_renewed_at": NOW - 10_000,
    "lease_renewal_deadline": NOW + 10_000,
    "lease_expires_at_ms": NOW + 20_000,
}
_ONE_ATTEMPT: dict[str, Any] = {
    "total_attempt_count": 1,
    "lease_epoch": 1,
    "version": 5,
    "started_at_ms": NOW - 10_000,
}
_BY_ATTEMPT: dict[str, dict[str, Any]] = {
    "none": {},
    "pending_first_attempt": {},
    "running_attempt": {**_ONE_ATTEMPT, **_LEASE, "current_attempt_id": ATTEMPT_ID},
    "attempt_interrupted": {
        **_ONE_ATTEMPT,
        "current_attempt_id": ATTEMPT_ID,
        "interrupt_cause": "delayed",
    },
    "pending_retry_attempt": {
        **_ONE_ATTEMPT,
        "retry_count": 1,
        "pending_previous_attempt_index": 0,
    },
    "pending_replay_attempt": {
        **_ONE_ATTEMPT,
        "current_attempt_id": ATTEMPT_ID,
        "replay_count": 1,
        "lease_epoch": 2,
    },
    "attempt_terminal": {
        **_ONE_ATTEMPT,
        "current_attempt_id": ATTEMPT_ID,
        "closing_epoch": 1,
        "closing_attempt_index": 0,
    },
}
_BY_VECTOR: dict[str, dict[str, Any]] = {
    "DELAYED": {"delay_until_ms": NOW},
    "LOST": {
        **_LEASE,
        "lease_expires_at_ms": NOW - 2_000,
        "lease_expired_at": NOW - 1_000,
        "expired_epoch": 1,
        "interrupt_cause": "lease_expired",
    },
    "SUSPENDED": {"interrupt_cause": "suspended", "lease_epoch": 2},
    "ENDED": {"terminal_at_ms": NOW - 1_000},
}


def execution(
    vector: str = "READY",
    attempt_state: str | None = None,
    *,
    reason: str | None = None,
    outcome: str | None = None,
    **columns: Any,
) -> Execution:
    """A legal execution of a vector; given columns override its own."""
    state = attempt_state or VECTORS[vector].attempt_states[0]
    row = {
        **_EXECUTION,
        "partition_key": IDENT.partition_index,
        "execution_id": IDENT.uuid,
        "lane_id": "default",
        "created_at_ms": NOW - 60_000,
        "payload": b"",
        **entering(vector, reason=reason, outcome=outcome),
        **_BY_ATTEMPT[state],
        **_BY_VECTOR.get(vector, {}),
        "attempt_state": state,
        **columns,
    }
    return Execution(**row)


_PHASES = {
    "running_attempt": "started",
    "pending_replay_attempt": "created",
    "pending_retry_attempt": "ended_failure",
}
_ENDS = {
    "success": ("ended_success", "success"),
    "failed": ("ended_failure", "failed"),
    "cancelled": ("ended_cancelled", "cancelled"),
    "expired": ("ended_failure", "expired"),
    "skipped": ("ended_cancelled", "skipped"),
}


def attempt(of: Execution, **columns: Any) -> Attempt | None:
    """The attempt the execution points at, or None when it never had one."""
    if of.total_attempt_count == 0:
        return None
    phase, outcome = _PHASES.get(of.attempt_state, "suspended"), None
    if of.attempt_state == "pending_retry_attempt":
        outcome = "retry"
    if of.attempt_state == "attempt_terminal":
        phase, outcome = _ENDS[of.terminal_outcome]
    if of.ownership_state == "lease_expired_reclaimable":
        phase = "started"
    row = {
        **_ATTEMPT,
        "partition_key": of.partition_key,
        "execution_id": of.execution_id,
        "attempt_index": of.attempt_index,
        "attempt_id": of.current_attempt_id or ATTEMPT_ID,
        "attempt_state": phase,
        "outcome": outcome,
        "worker_id": WORKER,
        "worker_instance_id": INSTANCE,
        "lease_id": LEASE_ID,
        "lease_epoch": of.lease_epoch,
        "lease_expires_at_ms": of.lease_expires_at_ms,
        **columns,
    }
    return Attempt(**row)


def grant(kind: str = "claim", *, worker_id: str = WORKER, expires_in: int = 1_000) -> Grant:
    row = {
        **_GRANT,
        "partition_key": IDENT.partition_index,
        "execution_id": IDENT.uuid,
        "grant_id": "g-1",
        "kind": kind,
        "worker_id": worker_id,
        "worker_instance_id": INSTANCE,
        "lane_id": "default",
        "grant_ttl_ms": 5_000,
        "issued_at_ms": NOW - 4_000,
        "expires_at_ms": NOW + expires_in,
    }
    return Grant(**row)


def lane(state: str) -> Lane:
    return Lane("default", NOW, "test", state, NOW)


def snapshot(of: Execution | None, *, now_ms: int = NOW, **around: Any) -> Snapshot:
    """The snapshot of an execution, with its own attempt unless another is given."""
    if "attempt" not in around:
        around["attempt"] = None if of is None else attempt(of)
    return Snapshot(now_ms, of, **around)


def handle(of: Execution, **fields: Any) -> HandleFields:
    """The handle of the stored lease; given fields override its own."""
    held = HandleFields(
        BackendTag.SQLITE,
        of.id,
        of.attempt_index,
        ATTEMPT_ID,
        LEASE_ID,
        of.lease_epoch,
        TTL,
        of.lane_id,
        INSTANCE,
    )
    return msgspec.structs.replace(held, **fields)


def fence(of: Execution, **fields: Any) -> LeaseFence:
    return msgspec.structs.replace(LeaseFence(LEASE_ID, of.lease_epoch, ATTEMPT_ID), **fields)


# ---- a store that holds the rows

Row = (
    Execution
    | Attempt
    | Grant
    | Flow
    | Edge
    | EdgeGroup
    | Suspension
    | Waitpoint
    | Signal
    | HmacKey
)
TABLE_OF: dict[type[Any], str] = {
    Execution: "ff_exec_core",
    Attempt: "ff_attempt",
    Grant: "ff_claim_grant",
    Flow: "ff_flow_core",
    Edge: "ff_edge",
    EdgeGroup: "ff_edge_group",
    Suspension: "ff_suspension_current",
    Waitpoint: "ff_waitpoint_pending",
    Signal: "ff_signal",
    HmacKey: "ff_waitpoint_hmac",
    KeyRow: "ff_idempotency",
}
_SEEDS = {
    t: Form(f"seed_{t}", Insert(t, {c: Arg(c) for c in TABLES[t].names})) for t in TABLE_OF.values()
}


def run(call: Coroutine[Any, Any, T]) -> T:
    """Calls of the memory store never wait, so they finish at the first step."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("a call on the memory store waited")


def seeded(*rows: Row | None, clock: ManualClock | None = None) -> MemoryStore:
    store = MemoryStore(clock or ManualClock(NOW))
    for row in rows:
        if row is not None:
            plan = _SEEDS[TABLE_OF[type(row)]](**msgspec.structs.asdict(row))
            assert isinstance(run(store.commit(plan)), Applied)
    return store


def load(store: MemoryStore, attempt_index: int | None = None) -> Snapshot:
    """What the engine reads before it decides."""
    key = (IDENT.partition_index, IDENT.uuid)
    owner = {"partition_key": IDENT.partition_index, "execution_id": IDENT.uuid}
    last = (
        Scan("last_attempt", owner, limit=1)
        if attempt_index is None
        else Get("ff_attempt", (*key, attempt_index))
    )
    loaded = run(store.load((Get("ff_exec_core", key), last, Get("ff_claim_grant", key))))
    core, tries, grants = loaded.rows
    return Snapshot(
        loaded.now_ms,
        Execution(*core[0]) if core else None,
        Attempt(*tries[0]) if tries else None,
        Grant(*grants[0]) if grants else None,
    )


def found(store: MemoryStore) -> Execution | None:
    (rows,) = run(store.load((Get("ff_exec_core", (IDENT.partition_index, IDENT.uuid)),))).rows
    return Execution(*rows[0]) if rows else None


def stored(store: MemoryStore) -> Execution:
    row = found(store)
    assert row is not None
    return row


def stored_attempt(store: MemoryStore, index: int = 0) -> Attempt:
    row = load(store, index).attempt
    assert row is not None
    return row


def commit(store: MemoryStore, plan: Plan) -> Answer:
    return run(store.commit(plan))


def events(store: MemoryStore, channel: str) -> list[dict[str, Any]]:
    rows = run(store.read_events(channel, 0, 1_000))
    return [dict(zip(TABLES[channel].names, row, strict=True)) for row in rows]


def told(store: MemoryStore) -> tuple[list[str], list[str], list[str]]:
    """The kinds of lease, completion and operator events so far."""
    return (
        [e["event_type"] for e in events(store, "ff_lease_event")],
        [e["outcome"] for e in events(store, "ff_completion_event")],
        [e["event_type"] for e in events(store, "ff_operator_event")],
    )


def commit_all(store: MemoryStore, plans: Iterable[Plan]) -> Answer:
    """Commits all plans or none."""
    return run(store.commit_together(tuple(plans)))


def applied(decision: Decision, *rows: Row | None, clock: ManualClock | None = None) -> MemoryStore:
    """The store that holds these rows, after the plans of the decision were committed."""
    assert isinstance(decision, Commit), decision
    store = seeded(*rows, clock=clock)
    assert isinstance(commit_all(store, (*decision.first, decision.plan)), Applied)
    return store


def refusal(decision: Decision | None) -> str:
    """The code of a refusal."""
    assert isinstance(decision, Reject), decision
    return decision.error.code


def answer(decision: Decision) -> Any:
    """The answer of a decision that changes nothing."""
    assert isinstance(decision, Return), decision
    return decision.result
