"""Bulk jobs over cells: one over all namespaces is a job of the same id in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from msgspec import structs

from flowfabric.engine import validation
from flowfabric.engine.bulk.bulk_actions import MAX_LISTED
from flowfabric.engine.cells.merge import merged
from flowfabric.engine.cells.pool import BASE, Cells
from flowfabric.engine.engine import Engine
from flowfabric.engine.executions import search_filter
from flowfabric.engine.parts import BulkActions
from flowfabric.errors import NotFound
from flowfabric.ids import time_ordered_uuid
from flowfabric.model.bulk import MAX_ERRORS, BulkArgs, BulkJob, BulkState
from flowfabric.model.execution import Page


class Jobs:
    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    async def start_bulk(self, args: BulkArgs) -> BulkJob:
        """The base cell gets its job first: what a crash leaves in some cells is listed."""
        validation.instance(args, BulkArgs)
        namespace = args.where.namespace
        if namespace is not None:
            return await self._cells.cell(namespace).start_bulk(args)
        job_id = time_ordered_uuid()

        first = await self._cells.base.parts.part(BulkActions).store_job(job_id, args)
        others = [each for each in await self._cells.names() if each != BASE]
        await self._cells.among(
            others, lambda cell: cell.parts.part(BulkActions).store_job(job_id, args)
        )
        return first

    async def read_bulk(self, job_id: UUID) -> BulkJob | None:
        found = await self._parts(job_id)
        return _sum([each for _, each in found]) if found else None

    async def stop_bulk(self, job_id: UUID) -> BulkJob:
        return _sum([await cell.stop_bulk(job_id) for cell in await self._holders(job_id)])

    async def run_bulk(self, job_id: UUID, pages: int = 1) -> BulkJob:
        return _sum([await cell.run_bulk(job_id, pages) for cell in await self._holders(job_id)])

    async def list_bulk(
        self, namespace: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[BulkJob]:
        if namespace is not None:
            return await self._cells.cell(namespace).list_bulk(namespace, limit, cursor)
        pages = [
            Page([each for each in page.items if _is_listed(each, name)], page.next_cursor)
            for name, page in await self._cells.all(
                lambda cell: cell.list_bulk(None, limit, cursor)
            )
        ]
        page = merged(
            pages,
            validation.limit(limit, MAX_LISTED),
            lambda each: (each.created_at, each.job_id),
            search_filter.parse_cursor,
            search_filter.cursor_text,
            descending=True,
        )
        whole = [
            each if each.args.where.namespace is not None else await self.read_bulk(each.job_id)
            for each in page.items
        ]
        return Page([each for each in whole if each is not None], page.next_cursor)

    async def _parts(self, job_id: UUID) -> list[tuple[str, BulkJob]]:
        found = await self._cells.all(lambda cell: cell.read_bulk(job_id))
        return [(name, job) for name, job in found if job is not None]

    async def _holders(self, job_id: UUID) -> list[Engine]:
        found = [self._cells.cell(name) for name, _ in await self._parts(job_id)]
        if not found:
            raise NotFound("bulk_job", job_id)
        return found


def _is_listed(job: BulkJob, name: str) -> bool:
    """A job of all namespaces is listed once, by its part in the base cell."""
    return name == BASE or job.args.where.namespace is not None


def _sum(parts: Sequence[BulkJob]) -> BulkJob:
    """One job over the parts. It runs while one of them runs."""
    states = {each.state for each in parts}
    state = next(
        each
        for each in (BulkState.RUNNING, BulkState.STOPPED, BulkState.COMPLETED)
        if each in states
    )
    ends = [each.ended_at for each in parts if each.ended_at is not None]
    return structs.replace(
        parts[0],
        state=state,
        matched=sum(each.matched for each in parts),
        changed=sum(each.changed for each in parts),
        skipped=sum(each.skipped for each in parts),
        refused=sum(each.refused for each in parts),
        errors=tuple(text for each in parts for text in each.errors)[:MAX_ERRORS],
        created_at=min(each.created_at for each in parts),
        updated_at=max(each.updated_at for each in parts),
        ended_at=max(ends) if ends and state is not BulkState.RUNNING else None,
    )
