"""The registry of live workers. It never touches a lease: a dead worker's work comes back when its lease runs out."""

from __future__ import annotations

from collections.abc import Iterable

from flowfabric.errors import invalid
from flowfabric.model.worker import (
    Marked,
    NotRegistered,
    Refreshed,
    Registered,
    RegisterWorkerArgs,
    WorkerInfo,
)
from flowfabric.plan import Add, After, Arg, Cond, Delete, Form, Insert, Plan, Update, Wake
from flowfabric.rules.decision import Commit, Decision, Reject, Return

WORKER, WORKER_EVENT = "ff_worker_registry", "ff_worker_registry_event"
_KEY = (
    Cond("namespace", "=", Arg("namespace")),
    Cond("worker_instance_id", "=", Arg("worker_instance_id")),
)


def _noted(kind: str, reason: object = None) -> Insert:
    return Insert(
        WORKER_EVENT,
        {
            "namespace": After("namespace"),
            "worker_instance_id": After("worker_instance_id"),
            "event_kind": kind,
            "event_at_ms": Arg("now"),
            "reason": reason,
        },
    )


_STATED = {
    c: Arg(c) for c in ("worker_id", "lanes", "capabilities", "liveness_ttl_ms", "expires_at_ms")
}
_ROUTES = Wake("worker_registered")
REGISTER = Form(
    "register_worker",
    Insert(
        WORKER,
        {
            "namespace": Arg("namespace"),
            "worker_instance_id": Arg("worker_instance_id"),
            **_STATED,
            "last_heartbeat_ms": Arg("now"),
            "registered_at_ms": Arg("now"),
        },
    ),
    _noted("registered"),
    _ROUTES,
    Wake("worker_expiry", at=Arg("expires_at_ms")),
)
REFRESH = Form(
    "refresh_worker",
    Update(
        WORKER,
        (*_KEY, Cond("version", "=", Arg("version"))),
        {**_STATED, "version": Add(1), "last_heartbeat_ms": Arg("now")},
    ),
    _noted("registered"),
    _ROUTES,
)
HEARTBEAT = Form(
    "heartbeat_worker",
    Update(
        WORKER,
        (*_KEY, Cond("version", "=", Arg("version")), Cond("expires_at_ms", ">", Arg("now"))),
        {"version": Add(1), "last_heartbeat_ms": Arg("now"), "expires_at_ms": Arg("expires_at_ms")},
    ),
    _noted("heartbeat"),
)
FORGET_EVENT = Form(
    "forget_worker_event", Delete(WORKER_EVENT, (Cond("event_id", "=", Arg("event_id")),))
)
MARK_DEAD = Form("mark_worker_dead", Delete(WORKER, _KEY), _noted("marked_dead", Arg("reason")))
SWEEP_DEAD = Form(
    "drop_silent_worker",
    Delete(WORKER, (*_KEY, Cond("version", "=", Arg("version")))),
    _noted("ttl_swept"),
)


def register(stored: WorkerInfo | None, args: RegisterWorkerArgs, now: int) -> Decision:
    if stored is not None and stored.worker_id != args.worker_id:
        return Reject(
            invalid(
                "worker_instance_id",
                "instance_id reassigned: it is registered under another worker_id",
            )
        )
    expires = now + args.liveness_ttl_ms
    values = {
        "namespace": args.namespace,
        "worker_instance_id": args.worker_instance_id,
        "worker_id": args.worker_id,
        "lanes": tuple(sorted(args.lanes)),
        "capabilities": tuple(sorted(args.capabilities)),
        "liveness_ttl_ms": args.liveness_ttl_ms,
        "expires_at_ms": expires,
        "now": now,
    }
    if stored is None:
        return Commit(REGISTER(**values), Registered())
    return Commit(REFRESH(**values, version=stored.version), Refreshed(expires))


def heartbeat(stored: WorkerInfo | None, namespace: str, instance: str, now: int) -> Decision:
    if stored is None or stored.expires_at_ms <= now:
        return Return(NotRegistered())
    expires = now + stored.liveness_ttl_ms
    named = {"namespace": namespace, "worker_instance_id": instance, "version": stored.version}
    plan = HEARTBEAT(**named, now=now, expires_at_ms=expires)
    return Commit(plan, Refreshed(expires))


def mark_dead(stored: WorkerInfo | None, reason: str, now: int) -> Decision:
    if stored is None:
        return Return(NotRegistered())
    plan = MARK_DEAD(
        namespace=stored.namespace,
        worker_instance_id=stored.worker_instance_id,
        reason=reason,
        now=now,
    )
    return Commit(plan, Marked())


def drop_silent(stored: WorkerInfo, now: int) -> Plan:
    return SWEEP_DEAD(
        namespace=stored.namespace,
        worker_instance_id=stored.worker_instance_id,
        version=stored.version,
        now=now,
    )


def covers(workers: Iterable[WorkerInfo], namespace: str, required: tuple[str, ...]) -> bool:
    """One live worker has everything that is needed; the union of several does not count."""
    return any(w.namespace == namespace and set(required) <= set(w.capabilities) for w in workers)
