"""Stored values: of an insert, at the limits of each column type, and the store's clock."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from flowfabric import plan as p
from flowfabric.store.port import Get, Scan, Store
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import helpers as h

_ROW: dict[str, Any] = {
    "partition_key": 0,
    "execution_id": p.Arg("id"),
    "lane_id": p.Arg("lane"),
    **h.WAITING,
    "attempt_state": p.Text(("in ", p.Arg("lane"))),
    "created_at_ms": p.Now(),
    "deadline_at_ms": p.Now(p.Arg("within")),
}
MADE = p.Form("t_made", p.Insert(h.EXEC, {**_ROW, "current_lease_id": p.Fresh()}))
MADE_TOLD = p.Form(
    "t_made_told",
    p.Insert(h.EXEC, _ROW),
    p.Emit(
        h.LEASES,
        "x",
        {
            "execution_id": p.After("execution_id"),
            "reason": p.After("lane_id"),
            "lease_epoch": p.After("deadline_at_ms"),
        },
    ),
    returning=("execution_id", "created_at_ms", "deadline_at_ms"),
)
MADE_FRESH = p.Form(
    "t_made_fresh",
    p.Insert(h.EXEC, {**_ROW, "current_lease_id": p.Fresh()}),
    returning=("current_lease_id",),
)
MADE_TEXT = p.Form("t_made_text", p.Insert(h.EXEC, _ROW), returning=("attempt_state",))
MADE_DEFAULT = p.Form(
    "t_made_default",
    p.Insert(h.EXEC, _ROW),
    p.Emit(
        h.LEASES,
        "x",
        {
            "execution_id": p.After("execution_id"),
            "namespace": p.After("namespace"),
            "lease_epoch": p.After("version"),
        },
    ),
    returning=("namespace", "priority", "budget_ids", "flow_id"),
)


def made(form: p.Form, n: int = 1, within: int | None = 5) -> p.Plan:
    return form(id=h.uid(n), lane="a", within=within)


@pytest.mark.parametrize("within", [5, None])
async def test_an_insert_takes_arguments_the_time_texts_and_fresh_uuids(
    store: Store, clock: ManualClock, within: int | None
) -> None:
    await h.put(store, made(MADE, 1, within), made(MADE, 2, within))
    first, second = await h.get_execution(store, 1), await h.get_execution(store, 2)
    assert first["created_at_ms"] == clock.now_ms
    assert first["deadline_at_ms"] == (None if within is None else clock.now_ms + within)
    assert first["attempt_state"] == "in a"
    assert isinstance(first["current_lease_id"], UUID)
    assert first["current_lease_id"] != second["current_lease_id"]


async def test_an_insert_returns_and_is_referred_to_as_stored(
    store: Store, clock: ManualClock
) -> None:
    now = clock.now_ms
    assert await store.commit(made(MADE_TOLD)) == p.Applied(now, (h.uid(1), now, now + 5))
    event = (await h.events(store, h.LEASES))[0]
    assert (event["execution_id"], event["reason"], event["lease_epoch"]) == (
        h.uid(1),
        "a",
        now + 5,
    )


async def test_an_insert_returns_the_fresh_uuid_it_stored(store: Store) -> None:
    answer = await h.commit(store, made(MADE_FRESH))
    assert answer.row == ((await h.get_execution(store, 1))["current_lease_id"],)


async def test_an_insert_returns_the_text_it_stored(store: Store) -> None:
    answer = await h.commit(store, made(MADE_TEXT))
    assert answer.row == ("in a",)


async def test_an_insert_returns_and_is_referred_to_by_columns_left_at_their_default(
    store: Store,
) -> None:
    answer = await h.commit(store, made(MADE_DEFAULT))
    assert answer.row == ("default", 0, (), None)
    event = (await h.events(store, h.LEASES))[0]
    assert (event["namespace"], event["lease_epoch"]) == ("default", 0)


async def test_a_later_row_uses_the_row_before_and_after(store: Store) -> None:
    form = p.Form(
        "t_before_and_after",
        p.Update(h.EXEC, h.VERSIONED, {**h.BUMP, "lane_id": p.Arg("lane")}),
        p.Insert(
            h.LANE,
            {
                "lane_id": p.Text((p.Before("lane_id"), "->", p.After("lane_id"))),
                "registered_at_ms": p.Now(p.After("version")),
                "registered_by": p.When(p.Cond("version", "=", 0), "first", "later"),
                "updated_at_ms": p.Before("version"),
            },
        ),
    )
    await h.put(
        store, h.execution(1), form(partition_key=0, execution_id=h.uid(1), version=0, lane="new")
    )
    found = await h.get(store, h.LANE, "lane->new")
    assert (found["registered_at_ms"], found["registered_by"], found["updated_at_ms"]) == (
        await store.now_ms() + 1,
        "first",
        0,
    )


async def test_add_takes_a_value_of_the_call(store: Store) -> None:
    by = p.Form(
        "t_grow", p.Update(h.EXEC, h.KEY, {"version": p.Add(p.Arg("by"))}), returning=("version",)
    )
    await h.put(store, h.execution(1), h.execution(2, version=5))
    answers = await store.commit_many(
        [by(partition_key=0, execution_id=h.uid(n), by=b) for n, b in ((1, 3), (2, -7), (1, 4))]
    )
    assert [answer.row for answer in answers if isinstance(answer, p.Applied)] == [
        (3,),
        (-2,),
        (7,),
    ]


SET: dict[str, p.Form] = {
    column: p.Form(
        f"t_set_{column}", p.Update(h.EXEC, h.KEY, {column: p.Arg("value")}), returning=(column,)
    )
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
_BIG = random.Random(1).randbytes(1 << 20)  # noqa: S311 - the same values in every run

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
    ("flow_id", h.uid(0)),
    ("flow_id", h.uid(2**128 - 1)),
]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 30 else f"{text[:20]}..{len(text)}"


@pytest.mark.parametrize(("column", "value"), KEPT, ids=[f"{c}-{_shown(v)}" for c, v in KEPT])
async def test_a_value_comes_back_as_it_went_in(store: Store, column: str, value: object) -> None:
    await h.put(store, h.execution(1, **{column: value}), h.execution(2))
    answer = await h.commit(store, SET[column](partition_key=0, execution_id=h.uid(2), value=value))
    assert answer.row == (value,)
    for n in (1, 2):
        found = (await h.get_execution(store, n))[column]
        assert found == value and type(found) is type(value)


@pytest.mark.parametrize("name", ["a\1b", "☃", "", "it's", "a%b_c"])
async def test_a_text_key_names_exactly_one_row(store: Store, name: str) -> None:
    await h.put(
        store,
        h.insert(h.LANE, lane_id=name),
        h.insert(h.LANE, lane_id=name + "x"),
        h.insert(h.LANE, lane_id="a"),
    )
    assert await h.find(store, h.LANE, name) is not None
    assert await h.find(store, h.LANE, name + "y") is None
    found = await h.scan(store, Scan("lanes", after=(name,), limit=1, columns=("lane_id",)))
    assert found == [(min(lane for lane in (name + "x", "a") if lane > name),)]


async def test_texts_are_ordered_by_code_point(store: Store) -> None:
    names = ["", "A", "Z", "a", "a\1", "a b", "ab", "é", "Ω", "\uffff", "𝔘"]
    await h.put(store, *(h.insert(h.LANE, lane_id=name) for name in reversed(names)))
    assert [row[0] for row in await h.scan(store, Scan("lanes", columns=("lane_id",)))] == sorted(
        names
    )


async def test_a_large_number_is_compared_exactly(store: Store) -> None:
    form = p.Form(
        "t_exact",
        p.Update(h.EXEC, (*h.KEY, p.Cond("retain_until_ms", "=", p.Arg("given"))), {"priority": 1}),
    )
    await h.put(store, h.execution(1, retain_until_ms=2**63 - 1))
    near = await store.commit(form(partition_key=0, execution_id=h.uid(1), given=2**63 - 2))
    exact = await store.commit(form(partition_key=0, execution_id=h.uid(1), given=2**63 - 1))
    assert (isinstance(near, p.Applied), isinstance(exact, p.Applied)) == (False, True)


async def test_events_keep_their_ids_and_nulls(store: Store) -> None:
    await h.put(store, h.insert(h.LEASES, execution_id=h.uid(3), lease_id=None, reason="r\1☃"))
    event = (await h.events(store, h.LEASES))[0]
    assert (event["execution_id"], event["lease_id"], event["reason"]) == (h.uid(3), None, "r\1☃")


# ---- the clock

STAMP = p.Form(
    "t_stamp", p.Update(h.EXEC, h.KEY, {"started_at_ms": p.Now()}), returning=("started_at_ms",)
)


async def _stamp(store: Store) -> tuple[int, int]:
    answer = await h.commit(store, STAMP(partition_key=0, execution_id=h.uid(1)))
    return answer.now_ms, answer.row[0]


async def test_the_injected_clock_decides(store: Store, clock: ManualClock) -> None:
    await h.put(store, h.execution(1))
    for step in (0, 1, 86_400_000):
        now = clock.advance(step)
        assert await store.now_ms() == now
        assert await _stamp(store) == (now, now)
        assert (await store.load((Get(h.LANE, ("x",)),))).now_ms == now


async def test_time_never_runs_back(store: Store, clock: ManualClock) -> None:
    await h.put(store, h.execution(1))
    latest = clock.advance(10_000)
    assert await _stamp(store) == (latest, latest)
    clock.advance(-9_000)
    assert await _stamp(store) == (latest, latest)
    assert await store.now_ms() == latest
    assert (await store.load((Get(h.LANE, ("x",)),))).now_ms == latest
    now = clock.advance(9_001)
    assert await _stamp(store) == (now, now)


async def test_one_commit_has_one_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ticking = iter(range(10_000))
    monkeypatch.setattr(ManualClock, "__call__", lambda self: self.now_ms + next(ticking))
    await h.put(store, h.execution(1))
    form = p.Form(
        "t_many_stamps",
        p.Update(
            h.EXEC,
            h.KEY,
            dict.fromkeys(("started_at_ms", "deadline_at_ms", "lease_acquired_at"), p.Now()),
        ),
    )
    answer = await h.commit(store, form(partition_key=0, execution_id=h.uid(1)))
    row = await h.get_execution(store, 1)
    assert {row["started_at_ms"], row["deadline_at_ms"], row["lease_acquired_at"]} == {
        answer.now_ms
    }
    assert await h.count(store, h.EXEC) == 1
