"""The rows by the specification, and their differences from a dump."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flowfabric.store.port import Row
from flowfabric.store.schema import TABLES
from flowfabric.verify.snapshot import TABLES_READ, Snapshot

from .fleet import Fleet
from .shapes import Exec

DUMPED = (*TABLES_READ, "ff_lane_registry", "ff_worker_registry", "ff_worker_registry_event")

_VECTORS = {
    "READY": ("runnable", "unowned", "eligible_now", "waiting_for_worker", "waiting"),
    "DELAYED": ("runnable", "unowned", "not_eligible_until_time", "", "delayed"),
    "BUDGET": ("runnable", "unowned", "blocked_by_budget", "", "rate_limited"),
    "QUOTA": ("runnable", "unowned", "blocked_by_quota", "", "rate_limited"),
    "ROUTE": ("runnable", "unowned", "blocked_by_route", "", "waiting"),
    "OPBLOCK": ("runnable", "unowned", "blocked_by_operator", "", "waiting"),
    "LANEBLOCK": ("runnable", "unowned", "blocked_by_lane_state", "", "waiting"),
    "DEPS": ("runnable", "unowned", "blocked_by_dependencies", "", "waiting_children"),
    "RUNNING": ("active", "leased", "not_applicable", "none", "active"),
    "LOST": (
        "active",
        "lease_expired_reclaimable",
        "not_applicable",
        "waiting_for_worker",
        "active",
    ),
    "SUSPENDED": ("suspended", "unowned", "not_applicable", "", "suspended"),
    "ENDED": ("terminal", "unowned", "not_applicable", "none", ""),
}
_SHOWN = {"success": "completed"}
_PENDING = {
    "first": "pending_first_attempt",
    "retry": "pending_retry_attempt",
    "replay": "pending_replay_attempt",
    "interrupted": "attempt_interrupted",
}


def expected_row(e: Exec) -> dict[str, Any]:
    """The columns of an execution that the documents specify."""
    phase, owned, eligible, reason, shown = _VECTORS[e.state]
    ended, worker = e.state == "ENDED", e.holder or (None, None)
    doing = "running_attempt" if e.state == "RUNNING" else _PENDING.get(e.pend, "attempt_terminal")
    row = {
        "lane_id": e.lane,
        "namespace": e.namespace,
        "lifecycle_phase": "cancelled" if e.outcome == "cancelled" else phase,
        "ownership_state": owned,
        "eligibility_state": eligible,
        "blocking_reason": e.why or reason,
        "terminal_outcome": e.outcome,
        "attempt_state": "attempt_terminal" if ended and e.attempts else doing,
        "public_state": _SHOWN.get(e.outcome, e.outcome) if ended else shown,
        "priority": e.prio,
        "attempt_index": e.index,
        "total_attempt_count": len(e.attempts),
        "retry_count": e.retries,
        "replay_count": e.replays,
        "lease_reclaim_count": e.losses,
        "lease_epoch": e.epoch,
        "current_lease_id": e.lease,
        "current_worker_id": worker[0],
        "current_worker_instance_id": worker[1],
        "lease_expires_at_ms": e.expiry,
        "lease_expired_at": e.lost_at,
        "created_at_ms": e.created,
        "started_at_ms": e.started,
        "terminal_at_ms": e.ended,
        "delay_until_ms": e.delay,
        "deadline_at_ms": e.deadline,
        "attempt_timeout_at_ms": e.timeout_at,
        "closing_epoch": e.closing[0] if e.closing else None,
        "closing_attempt_index": e.closing[1] if e.closing else None,
        "cancelled_by": e.cancelled_by,
        "progress_pct": e.progress,
        "result": e.result,
    }
    if not ended:
        row["interrupt_cause"] = e.cause
        if e.pend == "interrupted":
            row["attempt_timeout_remaining_ms"] = e.remaining
    if e.outcome in ("failed", "expired"):
        row["failure_reason"] = e.failure
    return row


def _attempts(e: Exec) -> list[tuple[Any, ...]]:
    held = e.state in ("RUNNING", "LOST")
    return [
        (
            at,
            a.kind,
            a.phase,
            a.outcome,
            a.epoch,
            a.lease,
            a.worker,
            a.instance,
            e.expiry if held and at == e.index else None,
        )
        for at, a in enumerate(e.attempts)
    ]


def _about_one(e: Exec, world: Snapshot) -> Iterator[tuple[str, Any, Any]]:
    key = (e.ident.partition_index, e.ident.uuid)
    stored = world.executions[key]
    for column, value in expected_row(e).items():
        yield column, value, getattr(stored, column)
    yield (
        "attempts",
        _attempts(e),
        [
            (
                a.attempt_index,
                a.attempt_type,
                a.attempt_state,
                a.outcome,
                a.lease_epoch,
                a.lease_id,
                a.worker_id,
                a.worker_instance_id,
                a.lease_expires_at_ms,
            )
            for a in world.attempts.get(key, [])
        ],
    )
    told = [
        (x["event_type"], x["occurred_at_ms"], x["lease_epoch"]) for x in world.leases.get(key, [])
    ]
    if len(told) == len(e.leases):
        told = [
            (kind, at, None if said[2] is None else epoch)
            for (kind, at, epoch), said in zip(told, e.leases, strict=True)
        ]
    yield "lease events", e.leases, told
    yield (
        "completion events",
        e.done,
        [(x["outcome"], x["occurred_at_ms"]) for x in world.completions.get(key, [])],
    )
    yield (
        "operator events",
        e.ops,
        [(x["event_type"], x["details"]) for x in world.operations.get(key, [])],
    )


def _around(
    spec: Fleet, world: Snapshot, tables: Mapping[str, list[Row]]
) -> Iterator[tuple[str, Any, Any]]:
    granted = {
        (g.partition_key, g.execution_id): (g.kind, g.worker_id, g.expires_at_ms)
        for g in world.grants
    }
    wanted = {
        (e.ident.partition_index, e.ident.uuid): (e.grant.kind, e.grant.worker, e.grant.until)
        for e in spec.execs.values()
        if e.grant is not None
    }
    yield "grants", wanted, granted
    keys = {(n, k): (i.partition_index, i.uuid, until) for (n, k), (i, until) in spec.keys.items()}
    yield "idempotency keys", keys, {(row[0], row[1]): row[2:5] for row in world.idempotency}
    lanes = [_named("ff_lane_registry", row) for row in tables["ff_lane_registry"]]
    yield "lanes", spec.lanes, {row["lane_id"]: row["state"] for row in lanes}
    workers = [_named("ff_worker_registry", row) for row in tables["ff_worker_registry"]]
    yield (
        "workers",
        {
            key: (w["name"], tuple(sorted(w["caps"])), w["seen"], w["ttl"])
            for key, w in spec.workers.items()
        },
        {
            (w["namespace"], w["worker_instance_id"]): (
                w["worker_id"],
                w["capabilities"],
                w["last_heartbeat_ms"],
                w["liveness_ttl_ms"],
            )
            for w in workers
        },
    )
    told = [row[1:5] for row in sorted(tables["ff_worker_registry_event"])]
    yield "worker events", sorted(spec.worker_events, key=_worker), sorted(told, key=_worker)


def _worker(event: tuple[Any, ...]) -> tuple[Any, ...]:
    """Workers swept in one run have no order."""
    return event[:2]


def _named(table: str, row: Row) -> dict[str, Any]:
    return dict(zip(TABLES[table].names, row, strict=True))


def differences(spec: Fleet, world: Snapshot, tables: Mapping[str, list[Row]]) -> list[str]:
    """Empty when the stored rows are what the specification says."""
    stored = {(k.partition_index, k.uuid) for k in spec.execs}
    if stored != set(world.executions):
        return [
            (
                f"executions: specified {sorted(map(str, stored))}, stored "
                f"{sorted(map(str, world.executions))}"
            )
        ]
    found = [
        f"{e.ident} ({e.state}) {what}: specified {wanted!r}, stored {is_!r}"
        for e in spec.execs.values()
        for what, wanted, is_ in _about_one(e, world)
        if wanted != is_
    ]
    return found + [
        f"{what}: specified {wanted!r}, stored {is_!r}"
        for what, wanted, is_ in _around(spec, world, tables)
        if wanted != is_
    ]
