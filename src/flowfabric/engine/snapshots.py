"""Typed reads of the rows around an execution."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import starmap
from typing import Any, Protocol, TypeVar
from uuid import UUID

from msgspec import structs

from flowfabric.errors import Corruption
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import Execution, Lane
from flowfabric.model.flow import MAX_GRAPH_EDGES, Edge, EdgeGroup
from flowfabric.model.lease import Grant, HandleFields
from flowfabric.model.quota import LimitState
from flowfabric.rules.decision import Snapshot
from flowfabric.rules.executions.quarantine import damaged_list
from flowfabric.store.port import Get, GetAll, Read, Row, Scan, Store
from flowfabric.store.schema import INDEXES, TABLES

CORE_COLUMNS = TABLES["ff_exec_core"].names[:-2]
"""All columns of an execution except payload and result, which come last and may be large."""
EXECUTION_COLUMNS = Execution.__struct_fields__
T = TypeVar("T")


async def load_rows(store: Store, read: Read) -> list[Row]:
    (rows,) = (await store.load((read,))).rows
    return rows


async def load_one(store: Store, read: Read, kind: Callable[..., T]) -> T | None:
    """The first row of a read as a struct, or None."""
    return next(starmap(kind, await load_rows(store, read)), None)


async def load_all(store: Store, read: Read, kind: Callable[..., T]) -> list[T]:
    """The rows of a read as structs."""
    return list(starmap(kind, await load_rows(store, read)))


async def pages(store: Store, scan: Scan, kind: Callable[..., T]) -> AsyncIterator[list[T]]:
    """The pages of an index, until one is not full. The structs have the columns of its order."""
    while True:
        page = await load_all(store, scan, kind)
        yield page
        if len(page) < scan.limit:
            return
        scan = behind(scan, page[-1])


def behind(scan: Scan, last: object) -> Scan:
    """The scan of the page behind this entry."""
    order = INDEXES[scan.index].order
    return structs.replace(scan, after=tuple(getattr(last, column) for column in order))


async def every(store: Store, scan: Scan, kind: Callable[..., T]) -> list[T]:
    """All entries of a group of an index."""
    return [each async for page in pages(store, scan, kind) for each in page]


def full_page(found: list[T], size: int) -> tuple[list[T], T | None]:
    """A page of at most `size` entries, and its last entry if there are more."""
    page = found[:size]
    return page, page[-1] if page and len(found) > size else None


class Limits(Protocol):
    """The limits of one execution, read beside it."""

    def reads(self, ident: ExecutionId, now_ms: int) -> list[Read]: ...

    def standing(self, rows: Iterator[list[Row]], now_ms: int) -> LimitState: ...


def from_core_row(row: Row) -> Execution:
    """An execution read without its payload and result."""
    return Execution(*(*row, None, None))


def reader_of(columns: Sequence[str]) -> Callable[[Row], Execution]:
    """Reads rows with only these columns; the others are None, and no rule may look at them."""
    at = [EXECUTION_COLUMNS.index(column) for column in columns]

    def read(row: Row) -> Execution:
        values: list[Any] = [None] * len(EXECUTION_COLUMNS)
        for position, value in zip(at, row, strict=True):
            values[position] = value
        return Execution(*values)

    return read


def core_of(*columns: object) -> Execution:
    """As `from_core_row`, for the loaders of structs."""
    return from_core_row(columns)


def check_readable(execution: Execution) -> Execution:
    """Refuses an execution with an unreadable list column: it could run where it must not."""
    column = damaged_list(execution)
    if column:
        raise Corruption(f"{column} cannot be read", execution.id)
    return execution


class Snapshots:
    """Loads the snapshots that rules decide from."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def load(
        self,
        ident: ExecutionId,
        *,
        attempt_index: int | None = None,
        grant: bool = False,
        lane: str | None = None,
        groups: bool = False,
        limits: Limits | None = None,
        with_lists: bool = False,
    ) -> Snapshot:
        """The execution, its last attempt or the attempt `attempt_index`, and what else is asked.

        The inbound group is found by the flow, which never changes once it is set. `with_lists`:
        the rule reads the list columns, so they must be readable.
        """
        key = ident.key
        reads: list[Read] = [Get("ff_exec_core", key, CORE_COLUMNS)]
        if attempt_index is None:
            reads.append(Scan("last_attempt", ident.owner, limit=1))
        else:
            reads.append(Get("ff_attempt", (*key, attempt_index)))
        if grant:
            reads.append(Get("ff_claim_grant", key))
        if lane is not None:
            reads.append(Get("ff_lane_registry", (lane,)))
        if groups:
            flow = await self.flow_of(ident)
            inbound = {"partition_key": ident.partition_index, "downstream_eid": ident.uuid}
            group_keys = [] if flow is None else [(ident.partition_index, flow, ident.uuid)]
            reads.append(GetAll("ff_edge_group", group_keys))
            reads.append(Scan("edges_in", inbound, limit=MAX_GRAPH_EDGES))
        if limits is not None:
            reads += limits.reads(ident, await self._store.now_ms())
        loaded = await self._store.load(reads)
        found = iter(loaded.rows)
        core = next((from_core_row(row) for row in next(found)), None)
        return Snapshot(
            loaded.now_ms,
            check_readable(core) if with_lists and core is not None else core,
            next((Attempt(*row) for row in next(found)), None),
            next((Grant(*row) for row in next(found)), None) if grant else None,
            next((Lane(*row) for row in next(found)), None) if lane is not None else None,
            tuple(EdgeGroup(*row) for row in next(found)) if groups else (),
            tuple(Edge(*row) for row in next(found)) if groups else (),
            None if limits is None else limits.standing(found, loaded.now_ms),
        )

    async def held(self, fields: HandleFields, *more: Read) -> tuple[Snapshot, list[list[Row]]]:
        """The execution and the attempt of a lease, and the rows of the other reads."""
        key = fields.execution_id.key
        attempt = Get("ff_attempt", (*key, fields.attempt_index))
        loaded = await self._store.load((Get("ff_exec_core", key, CORE_COLUMNS), attempt, *more))
        executions, tried, *rows = loaded.rows
        execution = next(map(from_core_row, executions), None)
        return Snapshot(loaded.now_ms, execution, next(starmap(Attempt, tried), None)), rows

    async def execution(self, ident: ExecutionId) -> Execution | None:
        """The whole row, payload and result included."""
        return await load_one(self._store, Get("ff_exec_core", ident.key), Execution)

    async def flow_of(self, ident: ExecutionId) -> UUID | None:
        rows = await load_rows(self._store, Get("ff_exec_core", ident.key, ("flow_id",)))
        return next((flow for (flow,) in rows), None)
