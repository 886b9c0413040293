"""Searches against a naive one over all rows. FF_FIND_EXAMPLES raises the counts."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from flowfabric.engine.engine import Engine
from flowfabric.engine.executions.search import DEFAULT_REACH, Reach, Search
from flowfabric.model.search import ExecutionFilter
from flowfabric.store.valkey import search as valkey_search
from flowfabric.testing import ManualClock
from tests.conftest import make_store, on_one_loop

from .search_world import World, build, filters, rows_of, searched, worlds

EXAMPLES = {"memory": 150, "sqlite-memory": 60, "postgres": 15, "valkey": 30}
FILTERS = 8
MAX_PAGES = 400
REACHES = (
    DEFAULT_REACH,
    Reach(few=4, members=3, flows=1, steps=(1, 2, 5)),
    Reach(few=1, members=1, flows=0, steps=(3,)),
    Reach(few=2, members=50, flows=50, steps=(1,)),
)
"""With few rows to examine, selective searches turn into walks, and pages end before they are full.
"""


def budget(store: str) -> settings:
    return settings(
        max_examples=int(os.environ.get("FF_FIND_EXAMPLES", EXAMPLES[store])),
        derandomize=not os.environ.get("FF_MODEL_RANDOM"),
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", sorted(EXAMPLES))
def test_a_walk_through_the_pages_finds_every_match_once_and_in_order(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Valkey, most searches take several calls."""
    monkeypatch.setattr(valkey_search, "ENTRIES", 6)

    @budget(store)
    @given(worlds(25), st.data())
    def search(world: World, data: st.DataObject) -> None:
        with TemporaryDirectory() as folder:
            clock = ManualClock()
            engine = Engine(make_store(store, clock, Path(folder)), seed=1)
            asyncio.run(on_one_loop(compare(engine, clock, world, data), (engine,)))
            if store != "postgres":
                asyncio.run(engine.close())

    search()


async def compare(engine: Engine, clock: ManualClock, world: World, data: st.DataObject) -> None:
    built = await build(engine, clock, world)
    rows = await rows_of(engine)
    for _ in range(FILTERS):
        where = data.draw(filters(built, clock()))
        oldest_first, limit = data.draw(st.booleans()), data.draw(st.integers(1, 7))
        reach = data.draw(st.sampled_from(REACHES))
        found = await walked(Search(engine.parts.core, reach), where, limit, oldest_first)
        expected = searched(rows, where, oldest_first=oldest_first)
        note(f"{len(expected)} of {len(rows)}")
        assert found == expected, where


async def walked(
    search: Search, where: ExecutionFilter, limit: int, oldest_first: bool
) -> list[UUID]:
    found: list[UUID] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await search.find_executions(where, limit, cursor, oldest_first=oldest_first)
        assert len(page.items) <= limit
        found += [each.execution_uuid for each in page.items]
        if page.next_cursor is None:
            return found
        assert page.next_cursor != cursor
        cursor = page.next_cursor
    raise AssertionError(f"more than {MAX_PAGES} pages")
