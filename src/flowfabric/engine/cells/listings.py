"""Lists over cells. One that names a namespace is that of its cell."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from flowfabric.engine import validation
from flowfabric.engine.cells import locate
from flowfabric.engine.cells.locate import Locator
from flowfabric.engine.cells.merge import cell_by_cell, merged
from flowfabric.engine.cells.pool import Cells
from flowfabric.engine.executions import search_filter
from flowfabric.engine.parts import Approvals
from flowfabric.errors import NotFound, ValidationError, ValidationKind, invalid
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model.approval import ApprovalListed
from flowfabric.model.execution import Lane, Page
from flowfabric.model.flow_views import FlowListed
from flowfabric.model.history import HistoryEntry
from flowfabric.model.lease import ExpiredLeaseInfo
from flowfabric.model.quota import LimitScope
from flowfabric.model.search import MAX_PAGE, ExecutionFilter, ExecutionSummary
from flowfabric.model.waitpoint import SuspendedListed, WaitpointListed
from flowfabric.model.worker import WorkerInfo

MAX_LISTED = 1_000
MAX_LANES = 10_000


def _same(value: Any) -> Any:
    return value


class Listings:
    def __init__(self, cells: Cells, locator: Locator) -> None:
        self._cells, self._locator = cells, locator

    # ---- executions

    async def find_executions(
        self,
        where: ExecutionFilter,
        limit: int = 50,
        cursor: str | None = None,
        *,
        oldest_first: bool = False,
    ) -> Page[ExecutionSummary]:
        where = search_filter.checked(where)
        if where.namespace is not None:
            cell = self._cells.cell(where.namespace)
            return await cell.find_executions(where, limit, cursor, oldest_first=oldest_first)
        pages = await self._cells.answers(
            lambda cell: cell.find_executions(where, limit, cursor, oldest_first=oldest_first)
        )
        return merged(
            pages,
            validation.limit(limit, MAX_PAGE),
            lambda each: (each.created_at, each.execution_uuid),
            search_filter.parse_cursor,
            search_filter.cursor_text,
            descending=not oldest_first,
        )

    async def list_executions(
        self, partition: int | str, cursor: str | None = None, limit: int = MAX_LISTED
    ) -> Page[ExecutionId]:
        pages = await self._cells.answers(
            lambda cell: cell.list_executions(partition, cursor, limit)
        )
        size = validation.limit(limit, MAX_LISTED)
        return merged(pages, size, lambda each: (each.uuid, each), _by_uuid, _second)

    async def resolve_execution(self, text: str, namespace: str | None = None) -> ExecutionId:
        if namespace is not None:
            return await self._cells.cell(namespace).resolve_execution(text, namespace)

        async def resolved(cell: Any) -> ExecutionId | None:
            try:
                found: ExecutionId = await cell.resolve_execution(text)
            except NotFound:
                return None
            return found

        found = {name: each for name, each in await self._cells.all(resolved) if each is not None}
        if not found:
            raise NotFound("execution", text)
        if len(found) > 1:
            shown = ", ".join(f"{each.uuid} ({name})" for name, each in list(found.items())[:5])
            raise ValidationError(
                ValidationKind.AMBIGUOUS_ID,
                f"{text} names executions of several namespaces: {shown}; give more digits",
            )
        ((name, ident),) = found.items()
        self._locator.note((locate.EXECUTION, ident), name)
        return ident

    async def get_execution_namespaces(
        self, executions: list[ExecutionId]
    ) -> dict[ExecutionId, str]:
        groups: dict[str, list[ExecutionId]] = {}
        for each in executions:
            subject = (locate.EXECUTION, execution_id(each))
            groups.setdefault(await self._locator.namespace_of(subject), []).append(each)
        found: dict[ExecutionId, str] = {}
        for name, several in groups.items():
            part = dict(await self._cells.cell(name).get_execution_namespaces(several))
            for gone in set(several) - set(part):
                subject = (locate.EXECUTION, gone)
                if self._locator.forget(subject):
                    again = await self._locator.cell_of(subject)
                    part |= await again.get_execution_namespaces([gone])
            found |= part
        return found

    async def history(
        self, subject: ExecutionId | UUID | str, limit: int = 100, after: str | None = None
    ) -> Page[HistoryEntry]:
        if isinstance(subject, str) and subject.startswith("{"):
            cell = await self._locator.cell_of((locate.EXECUTION, execution_id(subject)))
        else:
            ident = validation.flow_id(subject, "subject")
            cell = await self._locator.cell_of((locate.FLOW, ident))
        return await cell.history(subject, limit, after)

    async def list_expired_leases(
        self,
        as_of: int | None = None,
        after: tuple[int, ExecutionId] | None = None,
        limit: int = MAX_LISTED,
        *,
        max_partitions_per_call: int = 32,
        namespace: str | None = None,
    ) -> Page[ExpiredLeaseInfo]:
        if namespace is not None:
            return await self._cells.cell(namespace).list_expired_leases(
                as_of,
                after,
                limit,
                max_partitions_per_call=max_partitions_per_call,
                namespace=namespace,
            )
        pages = await self._cells.answers(
            lambda cell: cell.list_expired_leases(
                as_of, after, limit, max_partitions_per_call=max_partitions_per_call
            )
        )
        return merged(
            pages,
            validation.limit(limit, MAX_LISTED),
            lambda each: (each.expires_at_ms, each.execution_id.uuid, each.execution_id),
            lambda cursor: (cursor[0], cursor[1].uuid, cursor[1]),
            lambda at: (at[0], at[2]),
        )

    # ---- flows, waits, limits, lanes and workers

    async def list_flows(
        self, partition: int | str, cursor: UUID | None = None, limit: int = 100
    ) -> Page[FlowListed]:
        pages = await self._cells.answers(lambda cell: cell.list_flows(partition, cursor, limit))
        size = validation.limit(limit, MAX_LISTED)
        return merged(pages, size, lambda each: each.flow_id, _same, _same)

    async def list_open_waitpoints(
        self, after: tuple[int, UUID] | None = None, limit: int = 100
    ) -> Page[WaitpointListed]:
        pages = await self._cells.answers(lambda cell: cell.list_open_waitpoints(after, limit))
        size = validation.limit(limit, MAX_LISTED)
        return merged(pages, size, lambda each: (each.created_at, each.waitpoint_id), _same, _same)

    async def list_approvals(
        self, after: tuple[int, UUID] | None = None, limit: int = 50
    ) -> Page[ApprovalListed]:
        page = await self.list_open_waitpoints(after, limit)
        groups: dict[str, list[WaitpointListed]] = {}
        for each in page.items:
            name = await self._locator.namespace_of((locate.EXECUTION, each.execution_id))
            groups.setdefault(name, []).append(each)
        shown: dict[str, ApprovalListed] = {}
        for name, several in groups.items():
            part = self._cells.cell(name).parts.part(Approvals)
            shown |= {each.waitpoint_id: each for each in await part.listed(several)}
        return Page([shown[str(each.waitpoint_id)] for each in page.items], page.next_cursor)

    async def list_suspended(
        self, partition: int | str, cursor: ExecutionId | None = None, limit: int = 100
    ) -> Page[SuspendedListed]:
        start = None
        if cursor is not None:
            subject = (locate.EXECUTION, execution_id(cursor, "cursor"))
            start = await self._locator.namespace_of(subject)
        return await cell_by_cell(
            await self._cells.names(),
            start,
            cursor,
            validation.limit(limit, MAX_LISTED),
            lambda name, after, size: self._cells.cell(name).list_suspended(partition, after, size),
            lambda each: each.execution_id,
        )

    async def read_waitpoint_token(self, partition: int | str, waitpoint_id: UUID) -> str | None:
        found = await self._cells.answers(
            lambda cell: cell.read_waitpoint_token(partition, waitpoint_id)
        )
        return next((each for each in found if each is not None), None)

    async def list_budgets(
        self, namespace: str | None = None, cursor: UUID | None = None, limit: int = 100
    ) -> Page[UUID]:
        if namespace is not None:
            return await self._cells.cell(namespace).list_budgets(namespace, cursor, limit)
        pages = await self._cells.answers(lambda cell: cell.list_budgets(None, cursor, limit))
        return merged(pages, validation.limit(limit, MAX_LISTED), _same, _same, _same)

    async def list_quotas(
        self, namespace: str | None = None, cursor: UUID | None = None, limit: int = 100
    ) -> Page[UUID]:
        if namespace is not None:
            return await self._cells.cell(namespace).list_quotas(namespace, cursor, limit)
        pages = await self._cells.answers(lambda cell: cell.list_quotas(None, cursor, limit))
        return merged(pages, validation.limit(limit, MAX_LISTED), _same, _same, _same)

    async def list_limit_scopes(
        self,
        after: LimitScope | None = None,
        limit: int = MAX_LISTED,
        namespace: str | None = None,
    ) -> Page[LimitScope]:
        if namespace is not None:
            return await self._cells.cell(namespace).list_limit_scopes(after, limit, namespace)
        if after is not None and not isinstance(after, LimitScope):
            raise invalid("after", "the last LimitScope of the page before", after)
        return await cell_by_cell(
            await self._cells.names(),
            None if after is None else after.namespace,
            after,
            validation.limit(limit, MAX_LISTED),
            lambda name, behind, size: self._cells.cell(name).list_limit_scopes(behind, size),
            _same,
        )

    async def list_lanes(self, cursor: str | None = None, limit: int = MAX_LISTED) -> Page[str]:
        pages = await self._cells.answers(lambda cell: cell.list_lanes(cursor, limit))
        once = _once(pages)
        return merged(once, validation.limit(limit, MAX_LANES), _same, _same, _same)

    async def read_lane(self, lane: str) -> Lane | None:
        """The lane as the first cell knows it; an operator changes its state in all of them."""
        found = await self._cells.answers(lambda cell: cell.read_lane(lane))
        return next((each for each in found if each is not None), None)

    async def list_workers(
        self,
        namespace: str | None = None,
        after: str | tuple[str, str] | None = None,
        limit: int = MAX_LISTED,
    ) -> Page[WorkerInfo]:
        if namespace is not None:
            return await self._cells.cell(namespace).list_workers(namespace, after, limit)
        if after is not None and not isinstance(after, tuple):
            raise invalid("after", "the cursor of the page before: (namespace, instance id)", after)
        return await cell_by_cell(
            await self._cells.names(),
            None if after is None else after[0],
            after,
            validation.limit(limit, MAX_LISTED),
            lambda name, behind, size: self._cells.cell(name).list_workers(None, behind, size),
            lambda each: (each.namespace, each.worker_instance_id),
        )

    async def live_workers(self, namespace: str | None = None) -> list[WorkerInfo]:
        if namespace is not None:
            return await self._cells.cell(namespace).live_workers(namespace)
        found = await self._cells.answers(lambda cell: cell.live_workers(None))
        return [each for workers in found for each in workers]


def _by_uuid(cursor: Any) -> tuple[UUID, Any]:
    ident = execution_id(cursor, "cursor")
    return ident.uuid, ident


def _second(at: tuple[Any, ExecutionId]) -> ExecutionId:
    return at[1]


def _once(pages: list[Page[str]]) -> list[Page[str]]:
    """Each text is in the first page that has it."""
    seen: set[str] = set()
    found = []
    for page in pages:
        found.append(Page([each for each in page.items if each not in seen], page.next_cursor))
        seen |= set(page.items)
    return found
