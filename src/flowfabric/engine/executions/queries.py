"""Reading one execution, in every documented shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import full_page, load_all
from flowfabric.errors import Corruption, bad_input, invalid
from flowfabric.ids import ExecutionId, execution_id, lease_mark, partition_key, tag_key
from flowfabric.model import execution as model
from flowfabric.model.attempt import Attempt
from flowfabric.model.state import PublicState
from flowfabric.rules.states import STATE_VALUES, is_ended, vector_of
from flowfabric.store.port import GetAll, Scan

MAX_FIELD_NAMES = 128
READ_PAGE = 1_000
_ALIASES = {
    "current_attempt_index": "attempt_index",
    "current_lease_epoch": "lease_epoch",
    "completed_at": "terminal_at_ms",
    "cancel_reason": "cancellation_reason",
    "created_at": "created_at_ms",
    "started_at": "started_at_ms",
    "delay_until": "delay_until_ms",
    "execution_deadline_at": "deadline_at_ms",
    "last_mutation_at_ms": "last_mutation_at",
}
_SECRET = frozenset({"current_lease_id"})


class _NamespaceColumns(Struct, frozen=True):
    partition_key: int
    execution_id: UUID
    namespace: str


class Queries:
    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def describe_execution(self, execution: ExecutionId) -> model.ExecutionSnapshot | None:
        found = await self._core.snapshots.execution(execution_id(execution))
        if found is None:
            return None
        vector = _decoded(found)
        attempt = None
        if found.current_attempt_id is not None:
            attempt = model.AttemptRef(found.current_attempt_id, found.attempt_index)
        return model.ExecutionSnapshot(
            found.id,
            found.flow_id,
            found.lane_id,
            found.namespace,
            PublicState(vector.public_state),
            None if found.blocking_reason == "none" else found.blocking_reason,
            found.blocking_detail or None,
            attempt,
            _lease(found),
            found.current_waitpoint_id,
            found.created_at_ms,
            found.last_mutation_at,
            found.total_attempt_count,
            dict(sorted(model.stored_tags(found.tags, found.id).items())),
        )

    async def read_execution_info(self, execution: ExecutionId) -> model.ExecutionInfo | None:
        found = await self._core.snapshots.execution(execution_id(execution))
        if found is None:
            return None
        vector = _decoded(found)
        return model.ExecutionInfo(
            found.id,
            found.namespace,
            found.lane_id,
            found.priority,
            found.execution_kind,
            vector,
            PublicState(vector.public_state),
            found.created_at_ms,
            found.started_at_ms,
            found.terminal_at_ms,
            found.attempt_index,
            found.flow_id,
            found.blocking_detail,
        )

    async def read_execution_state(self, execution: ExecutionId) -> PublicState | None:
        found = await self._core.snapshots.execution(execution_id(execution))
        return None if found is None else PublicState(_decoded(found).public_state)

    async def read_execution_context(self, execution: ExecutionId) -> model.ExecutionContext:
        found = await self._must_read(execution, "read_execution_context")
        return model.ExecutionContext(
            found.payload or b"", found.execution_kind, model.stored_tags(found.tags, found.id)
        )

    async def read_current_attempt_index(self, execution: ExecutionId) -> int:
        return (await self._must_read(execution, "read_current_attempt_index")).attempt_index

    async def read_total_attempt_count(self, execution: ExecutionId) -> int:
        return (await self._must_read(execution, "read_total_attempt_count")).total_attempt_count

    async def get_execution_result(self, execution: ExecutionId) -> bytes | None:
        """The result payload; None unless the execution succeeded with one."""
        found = await self._core.snapshots.execution(execution_id(execution))
        ended = found is not None and is_ended(found) and found.terminal_outcome == "success"
        return found.result if ended and found is not None else None

    async def get_execution_tag(self, execution: ExecutionId, key: str) -> str | None:
        wanted = tag_key(key)
        found = await self._core.snapshots.execution(execution_id(execution))
        return None if found is None else model.stored_tags(found.tags, found.id).get(wanted)

    async def get_execution_namespace(self, execution: ExecutionId) -> str | None:
        found = await self._core.snapshots.execution(execution_id(execution))
        return None if found is None else found.namespace

    async def get_execution_namespaces(
        self, executions: Sequence[ExecutionId]
    ) -> dict[ExecutionId, str]:
        """The namespaces of the executions that exist."""
        if len(executions) > model.MAX_BULK_CREATE:
            raise invalid(
                "executions", f"at most {model.MAX_BULK_CREATE} in one call", len(executions)
            )
        keys = [ident.key for ident in map(execution_id, executions)]
        columns = _NamespaceColumns.__struct_fields__
        found: list[_NamespaceColumns] = []
        for at in range(0, len(keys), READ_PAGE):
            read = GetAll("ff_exec_core", keys[at : at + READ_PAGE], columns)
            found += await load_all(self._store, read, _NamespaceColumns)
        return {ExecutionId.of(row.partition_key, row.execution_id): row.namespace for row in found}

    async def resolve_execution_flow_id(self, execution: ExecutionId) -> UUID | None:
        return await self._core.snapshots.flow_of(execution_id(execution))

    async def list_attempts(
        self, execution: ExecutionId, after: int | None = None, limit: int = 100
    ) -> model.Page[Attempt]:
        """The attempts of an execution in order, without lease ids, which are credentials."""
        ident = execution_id(execution)
        size = validation.limit(limit, 1_000)
        position = None if after is None else (validation.whole(after, "after", 0, 2**31),)
        read = Scan("attempts", ident.owner, position, limit=size + 1)
        items, last = full_page(await load_all(self._store, read, Attempt), size)
        page = [structs.replace(attempt, lease_id=None) for attempt in items]
        return model.Page(page, None if last is None else last.attempt_index)

    async def read_exec_core_fields(
        self, partition: int | str, execution: ExecutionId, names: Sequence[str]
    ) -> dict[str, str | None]:
        """Stored columns as text. An unknown name or execution reads as None."""
        ident = execution_id(execution)
        if partition_key(partition, "partition") != ident.partition_index:
            accepted = f"the partition inside the execution id ({ident.partition_index})"
            raise invalid("partition", accepted, partition)
        if not isinstance(names, list | tuple):
            raise invalid("names", "a list of column names", names)
        if len(names) > MAX_FIELD_NAMES:
            raise invalid("names", f"at most {MAX_FIELD_NAMES} names", len(names))
        found = await self._core.snapshots.execution(ident) if names else None
        return {name: None if found is None else _as_text(found, str(name)) for name in names}

    async def _must_read(self, execution: ExecutionId, op: str) -> model.Execution:
        ident = execution_id(execution)
        found = await self._core.snapshots.execution(ident)
        if found is None:
            raise bad_input(f"{op}: execution not found: {ident}")
        return found

    async def list_executions(
        self, partition: int | str, cursor: str | None = None, limit: int = 1_000
    ) -> model.Page[ExecutionId]:
        """Ids of one partition in ascending order, strictly after the cursor."""
        index = partition_key(partition)
        size = validation.limit(limit, 1_000)
        after = None
        if cursor is not None:
            mark = execution_id(cursor, "cursor")
            if mark.partition_index != index:
                raise invalid("cursor", f"an id of partition {index}", cursor)
            after = (mark.uuid,)
        group, columns = {"partition_key": index}, ("execution_id",)
        scan = Scan("executions", group, after, limit=size + 1, columns=columns)
        found = await load_all(self._store, scan, partial(ExecutionId.of, index))
        return model.Page(*full_page(found, size))


def _decoded(execution: model.Execution) -> model.StateVector:
    """The state vector; an unknown value raises corruption that names the field."""
    vector = vector_of(execution)
    for field, words in STATE_VALUES.items():
        value = getattr(vector, field)
        if value not in words:
            detail = f"exec_core: {field}: {value!r:.60} is not a known value"
            raise Corruption(detail, execution.id)
    return vector


def _lease(execution: model.Execution) -> model.LeaseView | None:
    expires = execution.lease_expires_at_ms
    is_active = execution.lifecycle_phase == "active"
    if not is_active or execution.current_lease_id is None or expires is None:
        return None
    return model.LeaseView(
        execution.lease_epoch,
        execution.current_worker_instance_id or "",
        expires,
        lease_mark(execution.current_lease_id),
        execution.attempt_index,
        execution.lease_last_renewed_at,
    )


def _as_text(execution: model.Execution, field: str) -> str | None:
    column = _ALIASES.get(field, field)
    if column not in execution.__struct_fields__ or column in _SECRET:
        return None
    value = getattr(execution, column)
    if value is None:
        return None
    if value == model.UNREADABLE:
        raise Corruption(f"{column} cannot be read", execution.id)
    if isinstance(value, tuple):
        return ",".join(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
