"""Which waitpoints are open, of one execution and of all, and who is suspended."""

from __future__ import annotations

import json
from uuid import UUID

from flowfabric.codec import token as tokens
from flowfabric.engine import validation
from flowfabric.engine.core import CORE_COLUMNS, from_core_row
from flowfabric.engine.waits.signing_keys import KEYS
from flowfabric.engine.waits.suspend import Suspend, token_of
from flowfabric.errors import (
    NotFound,
    StateError,
    StateKind,
    ValidationError,
    ValidationKind,
    invalid,
)
from flowfabric.ids import ExecutionId, execution_id, partition_key
from flowfabric.model.execution import Page
from flowfabric.model.signing_key import HmacKey
from flowfabric.model.waitpoint import SuspendedListed, Waitpoint, WaitpointListed
from flowfabric.rules.states import is_ended
from flowfabric.store.port import Get, GetAll, Read, Scan

MAX_PAGE = 1_000


class WaitpointQueries(Suspend):
    async def look_at_waitpoint(
        self, execution: ExecutionId, waitpoint_id: UUID, token: str
    ) -> WaitpointListed:
        """What its token asks for. A token that does not fit tells nothing of what is there."""
        ident, wanted = execution_id(execution), validation.flow_id(waitpoint_id, "waitpoint_id")
        key = (ident.partition_index, ident.uuid)
        reads = (
            Get("ff_waitpoint_pending", (key[0], wanted)),
            KEYS,
            Get("ff_exec_core", key, CORE_COLUMNS),
        )
        loaded = await self.store.load(reads)
        found = Waitpoint(*loaded.rows[0][0]) if loaded.rows[0] else None
        if found is None or found.execution_id != ident.uuid:
            raise ValidationError(ValidationKind.INVALID_TOKEN, "invalid_token")
        keys = [HmacKey(*row) for row in loaded.rows[1]]
        tokens.verify(
            token,
            ident,
            wanted,
            token_of(found, keys),
            keys,
            loaded.now_ms,
            json.loads(found.approvers),
        )
        if not loaded.rows[2] or is_ended(from_core_row(loaded.rows[2][0])):
            raise StateError(StateKind.TARGET_NOT_SIGNALABLE)
        if not found.is_open:
            raise StateError(StateKind.WAITPOINT_CLOSED)
        return _listed(found)

    async def list_pending_waitpoints(
        self, execution: ExecutionId, after: UUID | None = None, limit: int = 100
    ) -> Page[WaitpointListed]:
        """Open waitpoints of an execution by id; a fingerprint stands for the token."""
        ident = execution_id(execution)
        size = min(max(validation.limit(limit, MAX_PAGE), 1), MAX_PAGE)
        position = None if after is None else (validation.flow_id(after, "after"),)
        owner = {"partition_key": ident.partition_index, "execution_id": ident.uuid}
        found: list[Waitpoint] = []
        first = True
        while len(found) <= size:
            reads: list[Read] = [Scan("waitpoints_of", owner, position, limit=size + 1)]
            if first:
                reads.append(Get("ff_exec_core", (ident.partition_index, ident.uuid), CORE_COLUMNS))
            rows = (await self.store.load(reads)).rows
            if first and not rows[1]:
                raise NotFound("execution")
            if first and is_ended(from_core_row(rows[1][0])):
                return Page([])
            first = False
            page = [Waitpoint(*row) for row in rows[0]]
            found += [waitpoint for waitpoint in page if waitpoint.is_open]
            if len(page) <= size:
                break
            position = (page[-1].waitpoint_id,)
        items = [_listed(waitpoint) for waitpoint in found[:size]]
        return Page(items, items[-1].waitpoint_id if len(found) > size else None)

    async def list_open_waitpoints(
        self,
        after: tuple[int, UUID] | None = None,
        limit: int = 100,
    ) -> Page[WaitpointListed]:
        """Open waitpoints of all executions, oldest first: what people are being asked."""
        size = validation.limit(limit, MAX_PAGE)
        position = None if after is None else _position(after)
        found: list[Waitpoint] = []
        while size and len(found) <= size:
            rows = (
                await self.store.load((Scan("open_waitpoints", {}, position, limit=size + 1),))
            ).rows[0]
            page = [Waitpoint(*row) for row in rows]
            found += await self._of_unfinished(page)
            if len(page) <= size:
                break
            position = (page[-1].created_at_ms, page[-1].waitpoint_id)
        cursor = (
            (found[size - 1].created_at_ms, found[size - 1].waitpoint_id)
            if size and len(found) > size
            else None
        )
        return Page([_listed(waitpoint) for waitpoint in found[:size]], cursor)

    async def _of_unfinished(self, page: list[Waitpoint]) -> list[Waitpoint]:
        """An execution may end with a waitpoint that no suspension has used; its row stays until it expires."""
        keys = list({(each.partition_key, each.execution_id) for each in page})
        loaded = (
            await self.store.load((GetAll("ff_exec_core", keys, CORE_COLUMNS),)) if keys else None
        )
        executions = [] if loaded is None else [from_core_row(row) for row in loaded.rows[0]]
        going = {
            (each.partition_key, each.execution_id) for each in executions if not is_ended(each)
        }
        return [each for each in page if (each.partition_key, each.execution_id) in going]

    async def list_suspended(
        self, partition: int | str, cursor: ExecutionId | None = None, limit: int = 100
    ) -> Page[SuspendedListed]:
        """Suspended executions of a partition, by when that was."""
        try:
            at = partition_key(partition, "partition")
        except ValidationError as error:
            raise ValidationError(
                ValidationKind.INVALID_INPUT, f"list_suspended: {error.detail}"
            ) from None
        size = validation.limit(limit, MAX_PAGE)
        after = None if cursor is None else await self._suspended_at(execution_id(cursor, "cursor"))
        if not size:
            return Page([])
        columns = ("execution_id", "suspended_at_ms", "reason_code")
        read = Scan("suspended", {"partition_key": at}, after, limit=size + 1, columns=columns)
        rows = (await self.store.load((read,))).rows[0]
        items = [SuspendedListed(ExecutionId.of(at, row[0]), row[1], row[2]) for row in rows[:size]]
        return Page(items, items[-1].execution_id if len(rows) > size else None)

    async def _suspended_at(self, ident: ExecutionId) -> tuple[int, UUID]:
        """Where a page ended; one that has gone on since is found by when it was suspended last."""
        read = Get(
            "ff_suspension_current", (ident.partition_index, ident.uuid), ("suspended_at_ms",)
        )
        rows = (await self.store.load((read,))).rows[0]
        return (rows[0][0] if rows else 0, ident.uuid)


def _position(after: object) -> tuple[int, UUID]:
    """Where a page ended, as its cursor says it."""
    if not isinstance(after, tuple) or len(after) != 2:
        raise invalid("after", "the next_cursor of a page", after)
    return validation.timestamp(after[0], "after"), validation.flow_id(after[1], "after")


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
