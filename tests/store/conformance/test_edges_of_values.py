"""Values at their limits come back as they went in, and time is the store's own."""

from __future__ import annotations

import random
from typing import Any

import pytest

from flowfabric.plan import Applied, Arg, Cond, Form, Now, Update
from flowfabric.store.port import Get, Scan, Store
from flowfabric.testing import ManualClock

from .helpers import (
    EXEC,
    KEY,
    LANE,
    LEASES,
    count,
    events,
    execution,
    find,
    get_execution,
    insert,
    put,
    scan,
    uid,
)

SET: dict[str, Form] = {
    column: Form(f"t_set_{column}", Update(EXEC, KEY, {column: Arg("value")}), returning=(column,))
    for column in (
        "payload",
        "execution_kind",
        "cancelled_by",
        "retain_until_ms",
        "tags",
        "budget_ids",
        "flow_id",
    )
}
_BIG = random.Random(1).randbytes(1 << 20)

KEPT: list[tuple[str, Any]] = [
    ("payload", _BIG),
    ("payload", b""),
    ("payload", None),
    ("payload", b"\0"),
    ("payload", bytes(range(256))),
    ("execution_kind", ""),
    ("execution_kind", "a\1b"),
    ("execution_kind", "\x7f"),
    ("execution_kind", "snow ☃ Ω 𝔘 e\u0301 \u200f \ufeff"),
    ("execution_kind", "'; DROP TABLE ff_exec_core; -- \" ? :x $1 %s {0}"),
    ("execution_kind", "1234567890123456789012"),
    ("execution_kind", "0.10"),
    ("execution_kind", "x" * 100_000),
    ("cancelled_by", None),
    ("cancelled_by", ""),
    ("retain_until_ms", 2**53),
    ("retain_until_ms", 2**53 + 1),
    ("retain_until_ms", 2**63 - 1),
    ("retain_until_ms", -(2**63)),
    ("retain_until_ms", 0),
    ("retain_until_ms", None),
    ("tags", '{"a":"\\u0000","b":[1,2.5,null]}'),
    ("budget_ids", ()),
    ("budget_ids", ("", 'q"uote', "ü", "back\\slash", "tab\t")),
    ("flow_id", uid(0)),
    ("flow_id", uid(2**128 - 1)),
]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 30 else f"{text[:20]}..{len(text)}"


@pytest.mark.parametrize(("column", "value"), KEPT, ids=[f"{c}-{_shown(v)}" for c, v in KEPT])
async def test_a_value_comes_back_as_it_went_in(store: Store, column: str, value: Any) -> None:
    await put(store, execution(1, **{column: value}), execution(2))
    answer = await store.commit(SET[column](partition_key=0, execution_id=uid(2), value=value))
    assert isinstance(answer, Applied) and answer.row == (value,)
    for n in (1, 2):
        found = (await get_execution(store, n))[column]
        assert found == value and type(found) is type(value)


@pytest.mark.parametrize("name", ["a\1b", "☃", "", "it's", "a%b_c"])
async def test_a_text_key_names_exactly_one_row(store: Store, name: str) -> None:
    await put(
        store,
        insert(LANE, lane_id=name),
        insert(LANE, lane_id=name + "x"),
        insert(LANE, lane_id="a"),
    )
    assert await find(store, LANE, name) is not None
    assert await find(store, LANE, name + "y") is None
    found = await scan(store, Scan("lanes", after=(name,), limit=1, columns=("lane_id",)))
    assert found == [(min(lane for lane in (name + "x", "a") if lane > name),)]


async def test_texts_are_ordered_by_code_point(store: Store) -> None:
    names = ["", "A", "Z", "a", "a\1", "a b", "ab", "é", "Ω", "\uffff", "𝔘"]
    await put(store, *(insert(LANE, lane_id=name) for name in reversed(names)))
    assert [row[0] for row in await scan(store, Scan("lanes", columns=("lane_id",)))] == sorted(
        names
    )


async def test_a_large_number_is_compared_exactly(store: Store) -> None:
    form = Form(
        "t_exact", Update(EXEC, (*KEY, Cond("retain_until_ms", "=", Arg("given"))), {"priority": 1})
    )
    await put(store, execution(1, retain_until_ms=2**63 - 1))
    near = await store.commit(form(partition_key=0, execution_id=uid(1), given=2**63 - 2))
    exact = await store.commit(form(partition_key=0, execution_id=uid(1), given=2**63 - 1))
    assert (isinstance(near, Applied), isinstance(exact, Applied)) == (False, True)


async def test_events_keep_their_ids_and_nulls(store: Store) -> None:
    await put(store, insert(LEASES, execution_id=uid(3), lease_id=None, reason="r\1☃"))
    event = (await events(store, LEASES))[0]
    assert (event["execution_id"], event["lease_id"], event["reason"]) == (uid(3), None, "r\1☃")


# ---- the clock

STAMP = Form("t_stamp", Update(EXEC, KEY, {"started_at_ms": Now()}), returning=("started_at_ms",))


async def _stamp(store: Store) -> tuple[int, int]:
    answer = await store.commit(STAMP(partition_key=0, execution_id=uid(1)))
    assert isinstance(answer, Applied)
    return answer.now_ms, answer.row[0]


async def test_the_injected_clock_decides(store: Store, clock: ManualClock) -> None:
    await put(store, execution(1))
    for step in (0, 1, 86_400_000):
        now = clock.advance(step)
        assert await store.now_ms() == now
        assert await _stamp(store) == (now, now)
        assert (await store.load((Get(LANE, ("x",)),))).now_ms == now


async def test_time_never_runs_backwards(store: Store, clock: ManualClock) -> None:
    await put(store, execution(1))
    latest = clock.advance(10_000)
    assert await _stamp(store) == (latest, latest)
    clock.advance(-9_000)
    assert await _stamp(store) == (latest, latest)
    assert await store.now_ms() == latest
    assert (await store.load((Get(LANE, ("x",)),))).now_ms == latest
    now = clock.advance(9_001)
    assert await _stamp(store) == (now, now)


async def test_one_commit_has_one_time(store: Store, clock: ManualClock) -> None:
    ticking = iter(range(10_000))
    store.clock._clock = lambda: clock.now_ms + next(ticking)  # type: ignore[attr-defined]
    await put(store, execution(1))
    form = Form(
        "t_many_stamps",
        Update(
            EXEC,
            KEY,
            dict.fromkeys(("started_at_ms", "deadline_at_ms", "lease_acquired_at"), Now()),
        ),
    )
    answer = await store.commit(form(partition_key=0, execution_id=uid(1)))
    row = await get_execution(store, 1)
    assert isinstance(answer, Applied)
    assert {row["started_at_ms"], row["deadline_at_ms"], row["lease_acquired_at"]} == {
        answer.now_ms
    }
    assert await count(store, EXEC) == 1
