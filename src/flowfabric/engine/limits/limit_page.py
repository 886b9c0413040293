"""Pages of the budgets and the quotas of a namespace."""

from __future__ import annotations

from uuid import UUID

from flowfabric.engine import validation
from flowfabric.engine.snapshots import load_rows
from flowfabric.ids import name
from flowfabric.model.execution import Page
from flowfabric.store.port import Scan, Store
from flowfabric.store.schema import INDEXES

MAX_PAGE = 1_000


async def limit_page(
    store: Store, index: str, namespace: str | None, cursor: UUID | None, limit: int
) -> Page[UUID]:
    """Ids behind the cursor. A page examines `limit` rows, so that it may hold fewer of a namespace
    and a cursor.
    """
    if namespace is not None:
        name(namespace, "namespace")
    size = validation.limit(limit, MAX_PAGE)
    after = None if cursor is None else (validation.limit_id(cursor, "cursor"),)
    columns = (*INDEXES[index].order, "namespace")
    rows = await load_rows(store, Scan(index, after=after, limit=size + 1, columns=columns))
    page = rows[:size]
    more = page[-1][0] if page and len(rows) > size else None
    return Page([ident for ident, owner in page if namespace in (None, owner)], more)
