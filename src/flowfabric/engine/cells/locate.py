"""Which cell has an entity that is named by its id alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from flowfabric.engine.cells.pool import BASE, Cells
from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId

MAX_KNOWN = 50_000
Subject = tuple[str, ExecutionId | UUID]
"""The kind of an entity, and its id."""


async def _has_execution(cell: Engine, ident: Any) -> bool:
    return bool(await cell.get_execution_namespaces([ident]))


async def _has_flow(cell: Engine, ident: Any) -> bool:
    return await cell.get_flow_namespace(ident) is not None


async def _has_budget(cell: Engine, ident: Any) -> bool:
    return await cell.read_limit_namespace("budget", ident) is not None


async def _has_quota(cell: Engine, ident: Any) -> bool:
    return await cell.read_limit_namespace("quota", ident) is not None


async def _has_bulk_job(cell: Engine, ident: Any) -> bool:
    return await cell.read_bulk(ident) is not None


EXECUTION, FLOW, BUDGET, QUOTA, BULK_JOB = "execution", "flow", "budget", "quota", "bulk_job"
_HAS: dict[str, Callable[[Engine, Any], Awaitable[bool]]] = {
    EXECUTION: _has_execution,
    FLOW: _has_flow,
    BUDGET: _has_budget,
    QUOTA: _has_quota,
    BULK_JOB: _has_bulk_job,
}


class Locator:
    """Asks the cells that this process uses, then the others, and keeps what it found."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._known: OrderedDict[Subject, str] = OrderedDict()

    def note(self, subject: Subject, namespace: str) -> None:
        """The entity was created in, or claimed from, this namespace."""
        self._known[subject] = namespace
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    def forget(self, subject: Subject) -> bool:
        """False when its cell was not known."""
        return self._known.pop(subject, None) is not None

    async def namespace_of(self, subject: Subject) -> str:
        """That of the base cell where no cell has it, which then answers that it is not found."""
        if self._cells.only is not None:
            return self._cells.only
        known = self._known.get(subject)
        if known is not None:
            return known
        opened = self._cells.opened()
        found = await self._first(opened, subject)
        if found is None:
            used = set(opened)
            others = [each for each in await self._cells.names() if each not in used]
            found = await self._first(others, subject)
        if found is None:
            return BASE
        self.note(subject, found)
        return found

    async def cell_of(self, subject: Subject) -> Engine:
        return self._cells.cell(await self.namespace_of(subject))

    async def _first(self, names: Sequence[str], subject: Subject) -> str | None:
        kind, ident = subject
        has = await self._cells.among(names, lambda cell: _HAS[kind](cell, ident))
        return next((each for each, holds in zip(names, has, strict=True) if holds), None)
