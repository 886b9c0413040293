"""Lists of open waitpoints and of suspended executions."""

from __future__ import annotations

import json
from itertools import starmap
from uuid import UUID

from msgspec import Struct

from flowfabric.codec import token as tokens
from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import (
    CORE_COLUMNS,
    behind,
    core_of,
    from_core_row,
    full_page,
    load_all,
    load_one,
    pages,
)
from flowfabric.engine.waits.signing_keys import KEYS, token_of
from flowfabric.errors import (
    NotFound,
    StateError,
    StateKind,
    ValidationError,
    ValidationKind,
    bad_input,
    invalid,
)
from flowfabric.ids import ExecutionId, execution_id, partition_key
from flowfabric.model.execution import Page
from flowfabric.model.signing_key import HmacKey
from flowfabric.model.waitpoint import SuspendedListed, Waitpoint, WaitpointListed
from flowfabric.rules.states import is_ended
from flowfabric.store.port import Get, GetAll, Scan

MAX_PAGE = 1_000


class _SuspendedAt(Struct, frozen=True):
    """A suspended execution: columns of `ff_suspension_current`."""

    execution_id: UUID
    suspended_at_ms: int
    reason_code: str


class WaitpointQueries:
    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def look_at_waitpoint(
        self, execution: ExecutionId, waitpoint_id: UUID, token: str
    ) -> WaitpointListed:
        """The waitpoint that a token opens. A wrong token does not reveal whether it exists."""
        ident, wanted = execution_id(execution), validation.flow_id(waitpoint_id, "waitpoint_id")
        at = ident.partition_index
        reads = (
            Get("ff_waitpoint_pending", (at, wanted)),
            KEYS,
            Get("ff_exec_core", (at, ident.uuid), CORE_COLUMNS),
        )
        loaded = await self._store.load(reads)
        waitpoints, key_rows, executions = loaded.rows
        found = next(starmap(Waitpoint, waitpoints), None)
        if found is None or found.execution_id != ident.uuid:
            raise ValidationError(ValidationKind.INVALID_TOKEN, "invalid_token")
        keys = list(starmap(HmacKey, key_rows))
        stored, approvers = token_of(found, keys), json.loads(found.approvers)
        tokens.verify(token, ident, wanted, stored, keys, loaded.now_ms, approvers)
        target = next(map(from_core_row, executions), None)
        if target is None or is_ended(target):
            raise StateError(StateKind.TARGET_NOT_SIGNALABLE)
        if not found.is_open:
            raise StateError(StateKind.WAITPOINT_CLOSED)
        return _listed(found)

    async def list_pending_waitpoints(
        self, execution: ExecutionId, after: UUID | None = None, limit: int = 100
    ) -> Page[WaitpointListed]:
        """Open waitpoints of an execution by id, with a fingerprint in place of the token."""
        ident = execution_id(execution)
        size = min(max(validation.limit(limit, MAX_PAGE), 1), MAX_PAGE)
        position = None if after is None else (validation.flow_id(after, "after"),)
        scan = Scan("waitpoints_of", ident.owner, position, limit=size + 1)
        target = Get("ff_exec_core", ident.key, CORE_COLUMNS)
        rows, executions = (await self._store.load((scan, target))).rows
        if not executions:
            raise NotFound("execution")
        if any(is_ended(execution) for execution in map(from_core_row, executions)):
            return Page([])
        page = list(starmap(Waitpoint, rows))
        found = [waitpoint for waitpoint in page if waitpoint.is_open]
        while len(found) <= size < len(page):
            page = await load_all(self._store, behind(scan, page[-1]), Waitpoint)
            found += [waitpoint for waitpoint in page if waitpoint.is_open]
        items, last = full_page(found, size)
        return Page(list(map(_listed, items)), last and last.waitpoint_id)

    async def list_open_waitpoints(
        self, after: tuple[int, UUID] | None = None, limit: int = 100
    ) -> Page[WaitpointListed]:
        """Open waitpoints of all executions, oldest first."""
        size = validation.limit(limit, MAX_PAGE)
        position = None if after is None else _position(after)
        found: list[Waitpoint] = []
        scan = Scan("open_waitpoints", {}, position, limit=size + 1)
        async for page in pages(self._store, scan, Waitpoint):
            found += await self._of_unfinished(page)
            if len(found) > size:
                break
        items, last = full_page(found, size)
        cursor = None if last is None else (last.created_at_ms, last.waitpoint_id)
        return Page(list(map(_listed, items)), cursor)

    async def _of_unfinished(self, page: list[Waitpoint]) -> list[Waitpoint]:
        """Waitpoints of executions that have not ended: an unused one outlives its execution."""
        if not page:
            return []
        keys = list({(each.partition_key, each.execution_id) for each in page})
        read = GetAll("ff_exec_core", keys, CORE_COLUMNS)
        executions = await load_all(self._store, read, core_of)
        unfinished = {
            (each.partition_key, each.execution_id) for each in executions if not is_ended(each)
        }
        return [each for each in page if (each.partition_key, each.execution_id) in unfinished]

    async def list_suspended(
        self, partition: int | str, cursor: ExecutionId | None = None, limit: int = 100
    ) -> Page[SuspendedListed]:
        """Suspended executions of a partition, in the order of their suspension."""
        try:
            at = partition_key(partition, "partition")
        except ValidationError as error:
            raise bad_input(f"list_suspended: {error.detail}") from None
        size = validation.limit(limit, MAX_PAGE)
        after = None if cursor is None else await self._suspended_at(execution_id(cursor, "cursor"))
        if not size:
            return Page([])
        columns = _SuspendedAt.__struct_fields__
        scan = Scan("suspended", {"partition_key": at}, after, limit=size + 1, columns=columns)
        found = await load_all(self._store, scan, _SuspendedAt)
        listed = [
            SuspendedListed(
                ExecutionId.of(at, each.execution_id), each.suspended_at_ms, each.reason_code
            )
            for each in found
        ]
        items, last = full_page(listed, size)
        return Page(items, last and last.execution_id)

    async def _suspended_at(self, ident: ExecutionId) -> tuple[int, UUID]:
        """The position of a cursor. A resumed execution is placed by its latest suspension."""
        read = Get("ff_suspension_current", ident.key, _SuspendedAt.__struct_fields__)
        found = await load_one(self._store, read, _SuspendedAt)
        return 0 if found is None else found.suspended_at_ms, ident.uuid


def _position(after: object) -> tuple[int, UUID]:
    """The position that a cursor stands for."""
    if not isinstance(after, tuple) or len(after) != 2:
        raise invalid("after", "the next_cursor of a page", after)
    created_at, waitpoint = after
    return validation.timestamp(created_at, "after"), validation.flow_id(waitpoint, "after")


def _listed(waitpoint: Waitpoint) -> WaitpointListed:
    digits = tokens.digits_of(waitpoint.token_digest)
    return WaitpointListed(
        waitpoint.waitpoint_id,
        waitpoint.waitpoint_key,
        waitpoint.state,
        tuple(json.loads(waitpoint.required_signal_names)),
        waitpoint.created_at_ms,
        waitpoint.activated_at_ms,
        waitpoint.expires_at_ms,
        ExecutionId.of(waitpoint.partition_key, waitpoint.execution_id),
        waitpoint.token_kid if digits else "",
        digits,
        None if waitpoint.payload_schema is None else json.loads(waitpoint.payload_schema),
    )
