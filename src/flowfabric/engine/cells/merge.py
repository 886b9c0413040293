"""Pages of several cells as one page in the same order.

A cursor is a position in the order of the list, so the same position continues every cell.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from flowfabric.model.execution import Page

T = TypeVar("T")
Position = Any
"""A value that is compared: that of an item, or of a cursor."""


def merged(
    pages: Sequence[Page[T]],
    limit: int,
    at: Callable[[T], Position],
    position: Callable[[Any], Position],
    cursor: Callable[[Position], Any],
    *,
    descending: bool = False,
) -> Page[T]:
    """The first items of all pages, up to the first end of a page that has a next one."""
    ends = [position(page.next_cursor) for page in pages if page.next_cursor is not None]
    items = sorted((each for page in pages for each in page.items), key=at, reverse=descending)
    end = None if not ends else (max(ends) if descending else min(ends))
    if end is not None:
        items = [each for each in items if (at(each) >= end if descending else at(each) <= end)]
    if len(items) > limit:
        items, end = items[:limit], at(items[limit - 1]) if limit else end
    return Page(items, None if end is None else cursor(end))


async def cell_by_cell(
    names: Sequence[str],
    start: str | None,
    after: Any,
    limit: int,
    read: Callable[[str, Any, int], Awaitable[Page[T]]],
    cursor: Callable[[T], Any],
) -> Page[T]:
    """The pages of one cell after the other. `start` is the cell of the cursor `after`."""
    items: list[T] = []
    left = [each for each in names if start is None or each >= start]
    for at, name in enumerate(left):
        page = await read(name, after if name == start else None, limit - len(items))
        items += page.items
        has_more = page.next_cursor is not None or at < len(left) - 1
        if items and has_more and (len(items) >= limit or page.next_cursor is not None):
            return Page(items, cursor(items[-1]))
    return Page(items)
