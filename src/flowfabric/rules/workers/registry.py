"""The worker registry. It never changes a lease; the lease of a dead worker expires."""

from __future__ import annotations

from collections.abc import Iterable

from flowfabric.errors import invalid
from flowfabric.model import worker as model
from flowfabric.plan import Add, Arg, Cond, Delete, Form, Insert, Plan, Update, Wake
from flowfabric.rules.columns import by_args, from_args, from_row
from flowfabric.rules.decision import Commit, Decision, Reject, Return

WORKER, WORKER_EVENT = "ff_worker_registry", "ff_worker_registry_event"
_KEY = by_args("namespace", "worker_instance_id")


def _event(kind: str, reason: object = None) -> Insert:
    return Insert(
        WORKER_EVENT,
        {
            **from_row("namespace", "worker_instance_id"),
            "event_kind": kind,
            "event_at_ms": Arg("now"),
            "reason": reason,
        },
    )


_DECLARED = {
    c: Arg(c) for c in ("worker_id", "lanes", "capabilities", "liveness_ttl_ms", "expires_at_ms")
}
_WAKE_ROUTING = Wake("worker_registered")
REGISTER = Form(
    "register_worker",
    Insert(
        WORKER,
        {
            **from_args("namespace", "worker_instance_id"),
            **_DECLARED,
            "last_heartbeat_ms": Arg("now"),
            "registered_at_ms": Arg("now"),
        },
    ),
    _event("registered"),
    _WAKE_ROUTING,
    Wake("worker_expiry", at=Arg("expires_at_ms")),
)
REFRESH = Form(
    "refresh_worker",
    Update(
        WORKER,
        (*_KEY, Cond("version", "=", Arg("version"))),
        {**_DECLARED, "version": Add(1), "last_heartbeat_ms": Arg("now")},
    ),
    _event("registered"),
    _WAKE_ROUTING,
)
HEARTBEAT = Form(
    "heartbeat_worker",
    Update(
        WORKER,
        (*_KEY, Cond("version", "=", Arg("version")), Cond("expires_at_ms", ">", Arg("now"))),
        {"version": Add(1), "last_heartbeat_ms": Arg("now"), "expires_at_ms": Arg("expires_at_ms")},
    ),
    _event("heartbeat"),
)
FORGET_EVENT = Form("forget_worker_event", Delete(WORKER_EVENT, by_args("event_id")))
MARK_DEAD = Form("mark_worker_dead", Delete(WORKER, _KEY), _event("marked_dead", Arg("reason")))
SWEEP_DEAD = Form(
    "drop_silent_worker",
    Delete(WORKER, (*_KEY, Cond("version", "=", Arg("version")))),
    _event("ttl_swept"),
)


def register(stored: model.WorkerInfo | None, args: model.RegisterWorkerArgs, now: int) -> Decision:
    if stored is not None and stored.worker_id != args.worker_id:
        return Reject(
            invalid(
                "worker_instance_id",
                "instance_id reassigned: it is registered under another worker_id",
            )
        )
    expires = now + args.liveness_ttl_ms
    values = {
        "lanes": tuple(sorted(args.lanes)),
        "capabilities": tuple(sorted(args.capabilities)),
        "expires_at_ms": expires,
        "now": now,
    }
    if stored is None:
        return Commit(REGISTER.of(args, **values), model.Registered())
    return Commit(REFRESH.of(args, stored, **values), model.Refreshed(expires))


def heartbeat(stored: model.WorkerInfo | None, now: int) -> Decision:
    if stored is None or stored.expires_at_ms <= now:
        return Return(model.NotRegistered())
    expires = now + stored.liveness_ttl_ms
    return Commit(HEARTBEAT.of(stored, now=now, expires_at_ms=expires), model.Refreshed(expires))


def mark_dead(stored: model.WorkerInfo | None, reason: str, now: int) -> Decision:
    if stored is None:
        return Return(model.NotRegistered())
    return Commit(MARK_DEAD.of(stored, reason=reason, now=now), model.Marked())


def drop_silent(stored: model.WorkerInfo, now: int) -> Plan:
    return SWEEP_DEAD.of(stored, now=now)


def covers(workers: Iterable[model.WorkerInfo], namespace: str, required: tuple[str, ...]) -> bool:
    """Whether a single live worker has every required capability."""
    return any(w.namespace == namespace and set(required) <= set(w.capabilities) for w in workers)
