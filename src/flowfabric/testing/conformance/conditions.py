"""Every condition: when it holds, and that null never matches."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from flowfabric import plan as p
from flowfabric.store.port import Store
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import helpers as h

_COLUMN = "delay_until_ms"


def guarded(name: str, *guards: p.Guard) -> p.Form:
    return p.Form(f"t_if {name}", p.Update(h.EXEC, (*h.KEY, *guards), {"public_state": "done"}))


def swept(name: str, *guards: p.Guard) -> p.Form:
    pick = p.Pick("ready", {"lane_id": "lane", "namespace": "default", "gate": ""}, where=guards)
    return p.Form(
        f"t_sweep_if {name}",
        p.Update(h.EXEC, (), {"public_state": "done"}),
        pick=pick,
        returning=("execution_id",),
    )


async def holds(
    store: Store,
    guards: tuple[p.Guard, ...],
    row: Mapping[str, object],
    *,
    n: int = 1,
    **args: object,
) -> bool:
    """Whether a row under these guards is changed; a plan and a sweep must agree."""
    await h.put(store, h.execution(n, **row))
    before = await h.image(store)
    rows = await store.sweep(swept("x", *guards)(**args), 10)
    assert rows in ([], [(h.uid(n),)])
    assert (await h.get_execution(store, n))["public_state"] == ("done" if rows else "waiting")
    if not rows:
        assert await h.image(store) == before
    answer = await store.commit(
        guarded("x", *guards)(partition_key=0, execution_id=h.uid(n), **args)
    )
    assert isinstance(answer, p.Applied) == bool(rows)
    assert isinstance(answer, p.Applied) or answer == p.Refused()
    return bool(rows)


COMPARED: list[tuple[p.Op, int, int, bool]] = [
    ("=", 5, 5, True),
    ("=", 5, 6, False),
    ("!=", 5, 6, True),
    ("!=", 5, 5, False),
    ("<", 4, 5, True),
    ("<", 5, 5, False),
    ("<=", 5, 5, True),
    ("<=", 6, 5, False),
    (">", 6, 5, True),
    (">", 5, 5, False),
    (">=", 5, 5, True),
    (">=", 4, 5, False),
]


@pytest.mark.parametrize(("op", "stored", "given", "expected"), COMPARED)
async def test_comparisons(store: Store, op: p.Op, stored: int, given: int, expected: bool) -> None:
    assert (
        await holds(store, (p.Cond(_COLUMN, op, p.Arg("given")),), {_COLUMN: stored}, given=given)
        is expected
    )


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
async def test_null_never_matches(store: Store, op: p.Op) -> None:
    for n, (stored, given) in enumerate(((None, 5), (5, None), (None, None)), 1):
        assert not await holds(
            store, (p.Cond(_COLUMN, op, p.Arg("given")),), {_COLUMN: stored}, n=n, given=given
        ), (stored, given)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [("red", True), ("blue", True), ("gre", False), ("", False), (None, False), ("it's", True)],
)
async def test_in_holds_for_one_of_the_constants(
    store: Store, stored: str | None, expected: bool
) -> None:
    assert (
        await holds(
            store,
            (p.Cond("cancelled_by", "in", ("red", "blue", "it's")),),
            {"cancelled_by": stored},
        )
        is expected
    )


@pytest.mark.parametrize(
    ("op", "stored", "expected"),
    [("is null", None, True), ("is null", 0, False), ("not null", 0, True)],
)
async def test_is_null_matches_null(
    store: Store, op: p.Op, stored: int | None, expected: bool
) -> None:
    assert await holds(store, (p.Cond(_COLUMN, op),), {_COLUMN: stored}) is expected


async def test_not_null_does_not_hold_for_null(store: Store) -> None:
    assert not await holds(store, (p.Cond(_COLUMN, "not null"),), {_COLUMN: None})


@pytest.mark.parametrize(
    ("column", "stored"),
    [("flow_id", h.uid(7)), ("execution_kind", "Ünï"), ("payload", b"\0\xff"), ("priority", -1)],
)
@pytest.mark.parametrize("same", [True, False])
async def test_equality_holds_for_every_kind_of_column(
    store: Store, column: str, stored: object, same: bool
) -> None:
    other = {"flow_id": h.uid(8), "execution_kind": "ünï", "payload": b"\0", "priority": 1}[column]
    guard = p.Cond(column, "=", p.Arg("given"))
    assert await holds(store, (guard,), {column: stored}, given=stored if same else other) is same


@pytest.mark.parametrize(("stored", "expected"), [(-1, True), (0, True), (1, False), (None, False)])
async def test_a_time_is_compared_with_the_stores_clock(
    store: Store, clock: ManualClock, stored: int | None, expected: bool
) -> None:
    row = {_COLUMN: None if stored is None else clock.now_ms + stored}
    assert await holds(store, (p.Cond(_COLUMN, "<=", p.Now()),), row) is expected


async def test_all_conditions_must_hold(store: Store) -> None:
    guards = (p.Cond("priority", ">", 1), p.Cond("execution_kind", "=", "a"))
    assert not await holds(store, guards, {"priority": 2, "execution_kind": "b"})


_EITHER = p.AnyOf(
    (
        p.Cond(_COLUMN, "is null"),
        p.Cond(_COLUMN, "<", p.Now()),
        p.Cond("reserved_for", "=", p.Arg("me")),
    )
)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, True),
        ({_COLUMN: 1}, True),
        ({_COLUMN: 10**14}, False),
        ({_COLUMN: 10**14, "reserved_for": "me"}, True),
        ({_COLUMN: 10**14, "reserved_for": "you"}, False),
    ],
)
async def test_any_of_needs_one_condition(
    store: Store, row: Mapping[str, object], expected: bool
) -> None:
    assert await holds(store, (_EITHER,), row, me="me") is expected


async def test_any_of_is_one_condition_among_others(store: Store) -> None:
    assert not await holds(store, (_EITHER, p.Cond("priority", "=", 1)), {"priority": 2}, me="me")


@pytest.mark.parametrize(
    ("needed", "offered", "expected"),
    [
        ((), (), True),
        ((), ("gpu",), True),
        (("gpu",), (), False),
        (("gpu",), ("gpu",), True),
        (("gpu",), ("cpu", "gpu"), True),
        (("cpu", "gpu"), ("gpu",), False),
        (("cpu", "gpu"), ("gpu", "cpu"), True),
        (("gp",), ("gpu",), False),
        (('a"b', "ü\\"), ("ü\\", 'a"b'), True),
        (("a", "c", "e"), tuple("fedcba"), True),
        (("a", "g"), tuple("fedcba"), False),
        (("a", "g"), tuple("gfedcba"), True),
        (("a", "h"), tuple("gfedcba"), False),
        (tuple("abcdefgh"), tuple("ihgfedcba"), True),
        ((), tuple("ihgfedcba"), True),
        (("a",), ("a", "a"), True),
    ],
)
async def test_covered_needs_every_element_of_the_row(
    store: Store, needed: tuple[str, ...], offered: tuple[str, ...], expected: bool
) -> None:
    guard = p.Covered("required_capabilities", p.Arg("offered"))
    assert (
        await holds(store, (guard,), {"required_capabilities": needed}, offered=offered) is expected
    )


_OPEN = p.Absent(
    h.LANE, (p.Cond("lane_id", "=", p.Arg("lane")), p.Cond("state", "in", ("paused", "disabled")))
)


@pytest.mark.parametrize(
    ("state", "expected"), [(None, True), ("active", True), ("paused", False), ("disabled", False)]
)
async def test_absent_holds_without_a_matching_row(
    store: Store, state: str | None, expected: bool
) -> None:
    await h.put(store, h.insert(h.LANE, lane_id="other", state="paused"))
    if state is not None:
        await h.put(store, h.insert(h.LANE, lane_id="l", state=state))
    assert await holds(store, (_OPEN,), {}, lane="l") is expected


@pytest.mark.parametrize(("expires", "expected"), [(-1, True), (0, True), (1, False)])
async def test_absent_compares_with_the_clock_without_naming_a_key(
    store: Store, clock: ManualClock, expires: int, expected: bool
) -> None:
    await h.put(
        store,
        h.insert(h.KEYS, namespace="n", idempotency_key="k", expires_at_ms=clock.now_ms + expires),
    )
    guard = p.Absent(h.KEYS, (p.Cond("namespace", "=", "n"), p.Cond("expires_at_ms", ">", p.Now())))
    assert await holds(store, (guard,), {}) is expected
