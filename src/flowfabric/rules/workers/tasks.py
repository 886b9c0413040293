"""The registry of declared tasks: which declaration of a name is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.model.task import (
    SEEN_EVERY_MS,
    RegisterTasksArgs,
    TaskDeclaration,
    TaskHead,
    TaskMark,
    TasksRegistered,
)
from flowfabric.plan import Add, Arg, Cond, Delete, Form, Insert, Now, Plan, Update, Upsert, Wake
from flowfabric.rules.columns import by_args, from_args
from flowfabric.rules.decision import Commit, Decided, Return
from flowfabric.rules.limits.limit_scopes import LIMITS, SCOPE

TASK = "ff_task"
_KEY = by_args("namespace", "name")
_THIS = (*_KEY, Cond("version", "=", Arg("version")))
_DECLARED = {
    **from_args("fingerprint", "task_version", "quota_policy_id", "head", "declaration"),
    "declared_at_ms": Arg("declared_at_ms"),
    "changed_at_ms": Now(),
    "last_seen_ms": Now(),
}
_NEW = {**from_args("namespace", "name"), **_DECLARED, "registered_at_ms": Now()}
_CHANGED = {**_DECLARED, "version": Add(1)}
_SCOPE_KEY = {"scope_type": "task", "scope_id": Arg("name"), "kind": "quota"}
_ATTACH = Upsert(
    SCOPE,
    {
        **_SCOPE_KEY,
        "limit_id": Arg("quota_policy_id"),
        "namespace": Arg("namespace"),
        "attached_at_ms": Now(),
    },
    {"attached_at_ms": Now()},
)
_DETACH = Delete(
    SCOPE,
    (
        Cond("scope_type", "=", "task"),
        Cond("scope_id", "=", Arg("name")),
        Cond("kind", "=", "quota"),
        Cond("limit_id", "=", Arg("old_quota_policy_id")),
    ),
)
_LIMITS = Wake(LIMITS)
DECLARE = Form("declare_task", Insert(TASK, _NEW))
DECLARE_LIMITED = Form("declare_limited_task", Insert(TASK, _NEW), _ATTACH, _LIMITS)
REDECLARE = Form("redeclare_task", Update(TASK, _THIS, _CHANGED))
LIFT_LIMIT = Form("redeclare_task_unlimited", Update(TASK, _THIS, _CHANGED), _DETACH, _LIMITS)
CHANGE_LIMIT = Form(
    "redeclare_task_limited", Update(TASK, _THIS, _CHANGED), _DETACH, _ATTACH, _LIMITS
)
SEE = Form(
    "see_task",
    Update(
        TASK,
        _THIS,
        {"declared_at_ms": Arg("declared_at_ms"), "last_seen_ms": Now(), "version": Add(1)},
    ),
)
FORGET = Form("forget_task", Delete(TASK, _THIS), _DETACH, _LIMITS)

Stored = Mapping[str, TaskMark]


class Declared(Struct, frozen=True):
    """A checked declaration as it is stored."""

    task: TaskDeclaration
    fingerprint: str
    text: str

    @property
    def quota(self) -> UUID | None:
        stated = self.task.policy.quota_policy_id
        return None if stated is None else UUID(stated)


def declared(task: TaskDeclaration) -> Declared:
    """The fingerprint does not depend on the order of names."""
    sorted_names = msgspec.json.encode(task, order="deterministic")
    fingerprint = hashlib.sha256(sorted_names).hexdigest()[:32]
    return Declared(task, fingerprint, msgspec.json.encode(task).decode())


def register(
    stored: Stored, tasks: Sequence[Declared], args: RegisterTasksArgs, now: int
) -> Decided[TasksRegistered]:
    """One declaration per name is stored: that of the highest version, and among equal versions
    that of the worker which started last. An unchanged one writes nothing but a sign of life.
    """
    at = (
        _start(stored, tasks, now) if args.declared_at_ms is None else min(args.declared_at_ms, now)
    )
    plans: list[Plan] = []
    written, newer = [], []
    for each in sorted(tasks, key=lambda each: each.task.name):
        name, mark = each.task.name, stored.get(each.task.name)
        if mark is not None and mark.fingerprint == each.fingerprint:
            if mark.last_seen_ms + SEEN_EVERY_MS <= now:
                plans.append(_seen(mark, args.namespace, at))
        elif mark is not None and not _replaces(each.task.version, at, mark):
            newer.append(name)
        else:
            plans.append(_stored_as(each, mark, args.namespace, at))
            written.append(name)
    result = TasksRegistered(at, tuple(written), tuple(newer))
    return Commit(plans[-1], result, tuple(plans[:-1])) if plans else Return(result)


def new_limits(stored: Stored, tasks: Sequence[Declared]) -> int:
    """At most how many limits are attached that are not attached now."""
    marks = ((each.quota, stored.get(each.task.name)) for each in tasks)
    return sum(q is not None and (m is None or m.quota_policy_id != q) for q, m in marks)


def forget(mark: TaskMark | None, namespace: str) -> Decided[bool]:
    """Removes a task from the registry. A worker that still serves it registers it again."""
    if mark is None:
        return Return(False)
    plan = FORGET(
        namespace=namespace,
        name=mark.name,
        version=mark.version,
        old_quota_policy_id=mark.quota_policy_id,
    )
    return Commit(plan, True)


def _start(stored: Stored, tasks: Sequence[Declared], now: int) -> int:
    """The time of a first registration: later than those of the declarations it replaces."""
    marks = ((stored.get(each.task.name), each.fingerprint) for each in tasks)
    older = [
        mark.declared_at_ms
        for mark, fingerprint in marks
        if mark and mark.fingerprint != fingerprint
    ]
    return max([now, *(at + 1 for at in older)])


def _replaces(version: int, at: int, mark: TaskMark) -> bool:
    return (version, at) > (mark.task_version, mark.declared_at_ms)


def _seen(mark: TaskMark, namespace: str, at: int) -> Plan:
    declared_at = max(mark.declared_at_ms, at)
    return SEE(
        namespace=namespace, name=mark.name, version=mark.version, declared_at_ms=declared_at
    )


def _stored_as(each: Declared, mark: TaskMark | None, namespace: str, at: int) -> Plan:
    task, quota = each.task, each.quota
    values = {
        "namespace": namespace,
        "name": task.name,
        "fingerprint": each.fingerprint,
        "task_version": task.version,
        "quota_policy_id": quota,
        "head": msgspec.json.encode(_head(task)).decode(),
        "declaration": each.text,
        "declared_at_ms": at,
    }
    if mark is None:
        return (DECLARE if quota is None else DECLARE_LIMITED).given(values)
    values |= {"version": mark.version, "old_quota_policy_id": mark.quota_policy_id}
    if quota == mark.quota_policy_id:
        return REDECLARE.given(values)
    return (LIFT_LIMIT if quota is None else CHANGE_LIMIT).given(values)


def _head(task: TaskDeclaration) -> TaskHead:
    first = task.description.strip().partition("\n")[0]
    return TaskHead(task.lane_id, task.version, task.signature, first, task.quota, task.sealed)
