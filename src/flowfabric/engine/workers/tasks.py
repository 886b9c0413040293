"""The registry of declared tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import Struct, structs

from flowfabric.engine import validation
from flowfabric.engine.claims.limit_cache import LimitCache
from flowfabric.engine.claims.routing import Routing
from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import full_page, load_all, load_one, load_rows
from flowfabric.errors import Corruption, ResourceExhausted, bad_input, invalid
from flowfabric.ids import lane_id
from flowfabric.ids import name as checked_name
from flowfabric.model.execution import Page
from flowfabric.model.policy import MAX_COUNT, TASK, ExecutionPolicy, parse_policy
from flowfabric.model.quota import MAX_LIMIT_SCOPES
from flowfabric.model.task import (
    MARK_COLUMNS,
    MAX_DESCRIPTION_BYTES,
    MAX_SIGNATURE_BYTES,
    MAX_TASKS,
    MAX_TASKS_PAGE,
    MAX_TASKS_PER_CALL,
    RegisterTasksArgs,
    TaskDeclaration,
    TaskHead,
    TaskInfo,
    TaskMark,
    TasksRegistered,
    TaskSummary,
)
from flowfabric.rules.limits.limit_scopes import limits_named, unknown
from flowfabric.rules.workers import tasks as rules
from flowfabric.rules.workers.tasks import Declared, Stored
from flowfabric.store.port import Get, GetAll, Scan, Tally

_decode = msgspec.json.Decoder(TaskDeclaration).decode
_decode_head = msgspec.json.Decoder(TaskHead).decode


class _HeadRow(Struct, frozen=True):
    name: str
    namespace: str
    fingerprint: str
    changed_at_ms: int
    last_seen_ms: int
    head: str


class _TaskRow(Struct, frozen=True):
    namespace: str
    fingerprint: str
    registered_at_ms: int
    changed_at_ms: int
    last_seen_ms: int
    declaration: str


class Tasks:
    """Stores what workers declare about their tasks, per namespace and name."""

    def __init__(self, core: Core, limit_cache: LimitCache, routing: Routing) -> None:
        self._core, self._store = core, core.store
        self._limit_cache, self._routing = limit_cache, routing

    async def register_tasks(self, args: RegisterTasksArgs) -> TasksRegistered:
        """Registers declarations; a quota of a policy applies to every execution of the task.

        A declaration replaces an older one of the same or a lower version. Unchanged ones write
        nothing.
        """
        tasks = _checked(args)
        await self._check_quotas(args.namespace, tasks)
        names = [each.task.name for each in tasks]

        async def load() -> tuple[Stored, int]:
            stored = await self._marks(args.namespace, names)
            await self._check_room(args.namespace, stored, tasks)
            return stored, await self._store.now_ms()

        result: TasksRegistered = await self._core.run(
            load, lambda found: rules.register(found[0], tasks, args, found[1])
        )
        if result.written:
            self._limit_cache.forget()
        return result

    async def forget_task(self, namespace: str, name: str) -> bool:
        """Removes a task from the registry, and its declared limit; False if it is unknown.

        A live worker that serves the task registers it again within minutes.
        """
        checked_name(namespace, "namespace")
        checked_name(name, "name")

        async def load() -> TaskMark | None:
            return (await self._marks(namespace, [name])).get(name)

        forgotten: bool = await self._core.run(load, lambda mark: rules.forget(mark, namespace))
        self._limit_cache.forget()
        return forgotten

    async def read_task(self, namespace: str, name: str) -> TaskInfo | None:
        """A registered task with its whole declaration."""
        key = (checked_name(namespace, "namespace"), checked_name(name, "name"))
        columns = _TaskRow.__struct_fields__
        row = await load_one(self._store, Get("ff_task", key, columns), _TaskRow)
        if row is None:
            return None
        try:
            declaration = _decode(row.declaration)
        except msgspec.MsgspecError:
            raise Corruption("declaration cannot be read", f"task {name}") from None
        return TaskInfo(
            row.namespace,
            declaration,
            row.fingerprint,
            row.registered_at_ms,
            row.changed_at_ms,
            row.last_seen_ms,
            (await self._offers(namespace))[f"{TASK}{name}"],
        )

    async def list_tasks(
        self, namespace: str = "default", limit: int = 100, cursor: str | None = None
    ) -> Page[TaskSummary]:
        """The registered tasks of a namespace by name. The cursor is the last name of a page."""
        size = validation.limit(limit, MAX_TASKS_PAGE)
        group = {"namespace": checked_name(namespace, "namespace")}
        after = None if cursor is None else (checked_name(cursor, "cursor"),)
        if not size:
            return Page([])
        columns = _HeadRow.__struct_fields__
        rows = await load_all(
            self._store, Scan("tasks", group, after, limit=size + 1, columns=columns), _HeadRow
        )
        items, last = full_page(rows, size)
        offers = await self._offers(namespace) if items else Counter()
        return Page(
            [_summary(row, offers[f"{TASK}{row.name}"]) for row in items],
            None if last is None else last.name,
        )

    async def _offers(self, namespace: str) -> Counter[str]:
        """How many live workers offer each capability."""
        workers = await self._routing.live_workers(namespace)
        return Counter(capability for each in workers for capability in each.capabilities)

    async def _marks(self, namespace: str, names: Sequence[str]) -> Stored:
        read = GetAll("ff_task", [(namespace, name) for name in names], MARK_COLUMNS)
        return {mark.name: mark for mark in await load_all(self._store, read, TaskMark)}

    async def _check_quotas(self, namespace: str, tasks: Sequence[Declared]) -> None:
        named = [limit for each in tasks for limit in limits_named(each.task.policy)]
        known = await self._limit_cache.namespaces(named) if named else {}
        refused = unknown(named, known, namespace)
        if refused is not None:
            raise refused

    async def _check_room(self, namespace: str, stored: Stored, tasks: Sequence[Declared]) -> None:
        """New names and new limits need room in their tables; known ones cost no read."""
        limits = rules.new_limits(stored, tasks)
        if limits:
            attached = sum(map(len, (await self._limit_cache.scopes()).values()))
            if attached + limits > MAX_LIMIT_SCOPES:
                raise ResourceExhausted("attached limits", MAX_LIMIT_SCOPES)
        new = len(tasks) - len(stored)
        if new:
            read = Tally("tasks", MAX_TASKS, ("namespace",), {"namespace": namespace})
            known = sum(count for _, count in await load_rows(self._store, read))
            if known + new > MAX_TASKS:
                raise ResourceExhausted(f"registered tasks of {namespace}", MAX_TASKS)


def _summary(row: _HeadRow, workers: int) -> TaskSummary:
    try:
        head = _decode_head(row.head)
    except msgspec.MsgspecError:
        raise Corruption("head cannot be read", f"task {row.name}") from None
    return TaskSummary(
        name=row.name,
        namespace=row.namespace,
        fingerprint=row.fingerprint,
        changed_at_ms=row.changed_at_ms,
        last_seen_ms=row.last_seen_ms,
        workers=workers,
        **structs.asdict(head),
    )


def _checked(args: RegisterTasksArgs) -> list[Declared]:
    validation.instance(args, RegisterTasksArgs)
    checked_name(args.namespace, "namespace")
    validation.optional_timestamp(args.declared_at_ms, "declared_at_ms")
    if not isinstance(args.tasks, list | tuple) or len(args.tasks) > MAX_TASKS_PER_CALL:
        raise invalid("tasks", f"a list of at most {MAX_TASKS_PER_CALL} declarations")
    found = [rules.declared(_checked_task(each)) for each in args.tasks]
    repeated = [name for name, n in Counter(each.task.name for each in found).items() if n > 1]
    if repeated:
        raise bad_input(f"tasks: {repeated[0]!r:.80} is declared twice; names are distinct")
    return found


def _checked_task(task: object) -> TaskDeclaration:
    if not isinstance(task, TaskDeclaration):
        raise invalid("tasks", "a list of TaskDeclaration", type(task).__name__)
    where = f"task {checked_name(task.name, 'tasks: name')!r:.80}"
    lane_id(task.lane_id, f"{where}: lane")
    validation.whole(task.version, f"{where}: version", 0, MAX_COUNT)
    validation.text(task.quota, f"{where}: quota", 256)
    validation.text(task.description, f"{where}: description", MAX_DESCRIPTION_BYTES)
    validation.text(task.signature, f"{where}: signature", MAX_SIGNATURE_BYTES)
    validation.payload_schema(task.arguments, f"{where}: arguments")
    validation.payload_schema(task.result, f"{where}: result")
    if not isinstance(task.sealed, bool):
        raise invalid(f"{where}: sealed", "true or false", task.sealed)
    return structs.replace(task, policy=parse_policy(task.policy) or ExecutionPolicy())
