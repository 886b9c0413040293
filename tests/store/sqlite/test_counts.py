"""A count of a table is made part by part."""

from __future__ import annotations

from collections import Counter

import pytest

from flowfabric.plan import Delete, Form
from flowfabric.store.port import Count, Store
from flowfabric.store.sqlite import reader
from flowfabric.testing.conformance.helpers import EXEC, KEY, execution, on, put, uid

_REMOVE = Form("t_counts_remove", Delete(EXEC, KEY))
ROWS = 20


@pytest.mark.parametrize("store", ["sqlite-file"], indirect=True)
@pytest.mark.parametrize(("rows", "parts"), [(1, 1_000), (3, 1_000), (100, 1_000), (1, 2)])
async def test_the_parts_of_a_count_join_to_the_whole_table(
    store: Store, monkeypatch: pytest.MonkeyPatch, rows: int, parts: int
) -> None:
    monkeypatch.setattr(reader, "COUNTED_AT_ONCE", rows)
    monkeypatch.setattr(reader, "MAX_PARTS", parts)
    read = Count(EXEC, ("priority", "flow_id"))
    assert (await store.load((read,))).rows == [[]]
    values = {n: (n % 3, uid(7) if n % 2 else None) for n in range(1, ROWS + 1)}
    await put(store, *(execution(n, priority=p, flow_id=flow) for n, (p, flow) in values.items()))
    for gone in (1, 2, 9, 10, 11, ROWS):
        await put(store, on(_REMOVE, gone))
        del values[gone]
    (counted,) = (await store.load((read,))).rows
    assert {row[:-1]: row[-1] for row in counted} == Counter(values.values())
