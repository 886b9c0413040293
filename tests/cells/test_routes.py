"""Each operation knows its cell, and pages of cells are one page."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.engine.cells.events import decode_positions, encode_positions
from flowfabric.engine.cells.merge import cell_by_cell, merged
from flowfabric.engine.cells.routes import ROUTES
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.operation import operation
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError, ValidationError
from flowfabric.model.execution import Page
from flowfabric.store.valkey.cells import cell_of
from flowfabric.store.valkey.options import Options, options_of
from tests.cells.helpers import opened

OPERATIONS = sorted(
    name
    for declared in (EngineProtocol, LocalEngineProtocol)
    for name, value in vars(declared).items()
    if isinstance(value, operation)
)


async def test_every_operation_is_bound_to_cells() -> None:
    async with opened() as engine:
        for name in OPERATIONS:
            assert callable(getattr(engine, name)), name
        assert ROUTES.keys() <= set(OPERATIONS)


def test_namespaces_have_cells_of_different_names() -> None:
    base = Options("h", 1, "jobs")
    names = ["a", "A", "a/b", "a%2Fb", "ä", "{a}", "}", " ", "~", "a.b", "..", "x" * 256, "ä" * 128]
    cells = [cell_of(base, name).cell for name in names]
    assert len(set(cells)) == len(names)
    for cell in cells:
        assert cell.startswith("jobs/") and not set("{} ") & set(cell)
        with pytest.raises(ConfigError, match=r"^url: the cell"):
            options_of(f"valkey://h/{cell}")
    assert cell_of(base, "a").prefix == "{jobs/a}"


def _page(*items: int, more: int | None = None) -> Page[int]:
    return Page(list(items), more)


def _same(value: Any) -> Any:
    return value


def test_merged_pages_end_where_the_first_of_them_ends() -> None:
    def page(limit: int, *pages: Page[int], **how: bool) -> tuple[list[int], int | None]:
        found = merged(pages, limit, _same, _same, _same, **how)
        return found.items, found.next_cursor

    assert page(9, _page(1, 4), _page(2)) == ([1, 2, 4], None)
    assert page(2, _page(1, 4), _page(2)) == ([1, 2], 2)
    assert page(9, _page(1, 4, more=4), _page(2, 7)) == ([1, 2, 4], 4)
    assert page(9, _page(more=3), _page(2, 7)) == ([2], 3)
    assert page(9, _page(7, 4, more=4), _page(9, 2), descending=True) == ([9, 7, 4], 4)
    assert page(1, _page(7, 4, more=4), _page(9, 2), descending=True) == ([9], 9)
    assert page(5) == ([], None)


async def test_cells_are_listed_one_behind_the_other() -> None:
    held = {"a": ["a1", "a2"], "b": [], "c": ["c1", "c2", "c3"]}

    async def read(name: str, after: str | None, limit: int) -> Page[str]:
        left = [each for each in held[name] if after is None or each > after]
        return Page(left[:limit], left[limit - 1] if len(left) > limit else None)

    for limit in range(1, 7):
        found, cursor, start = [], None, None
        for _ in range(9):
            page = await cell_by_cell(list(held), start, cursor, limit, read, _same)
            found += page.items
            assert len(page.items) <= limit
            cursor = page.next_cursor
            if cursor is None:
                break
            start = cursor[0]
        assert found == ["a1", "a2", "c1", "c2", "c3"], limit


def test_a_cursor_has_a_number_for_each_cell() -> None:
    positions = {"default": 4, "ä": 2**40}
    assert decode_positions(encode_positions(positions), "op") == positions
    assert decode_positions(BEGINNING, "op") == {"default": 0}
    assert encode_positions({"default": 0}) == BEGINNING
    for damaged in (b"\x03", b"\x03\x81\xa1a\xff", b"\x03\x81\xa1a\xa1b", b"\x04"):
        with pytest.raises(ValidationError, match="cursor"):
            decode_positions(damaged, "op")
