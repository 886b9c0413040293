"""One writer: calls made at once are carried out in the order they were made."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flowfabric.store.sqlite.registry import open_store
from flowfabric.testing.conformance.helpers import execution, take, uid


async def test_a_sweep_sees_what_was_committed_before_it_in_the_same_batch(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "ff.db"))
    answers = await asyncio.gather(
        store.commit(execution(1)), store.sweep(take(), 5), store.commit(execution(2))
    )
    assert answers[1] == [(uid(1),)]
    assert await store.sweep(take(), 5) == [(uid(2),)]
    await store.close()
