from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flowfabric import rules
from flowfabric.plan import (
    Absent,
    Add,
    After,
    AnyOf,
    Applied,
    Arg,
    Before,
    Cond,
    Covered,
    Delete,
    Emit,
    Form,
    Fresh,
    Insert,
    Now,
    Once,
    Pick,
    Refused,
    Span,
    Text,
    Until,
    Update,
    UpdateMany,
    Upsert,
    Wake,
    When,
    guard_values,
    walk,
)

ROW = {"a": 1}
BY_VERSION = (Cond("version", "=", Arg("version")),)


@pytest.mark.parametrize(
    ("value", "inside"),
    [
        (5, [5]),
        (Arg("x"), [Arg("x")]),
        (Now(Arg("x")), [Now(Arg("x")), Arg("x")]),
        (Once(Now(Arg("x"))), [Once(Now(Arg("x"))), Now(Arg("x")), Arg("x")]),
        (Text(("a", Arg("x"))), [Text(("a", Arg("x"))), "a", Arg("x")]),
        (Before("c"), [Before("c")]),
        (Add(1), [Add(1), 1]),
        (Add(Arg("x")), [Add(Arg("x")), Arg("x")]),
        (Until("c"), [Until("c")]),
        (Span("b", "c"), [Span("b", "c")]),
        (Fresh(), [Fresh()]),
    ],
)
def test_walking_a_value_meets_everything_inside_it(value: Any, inside: list[Any]) -> None:
    assert list(walk(value)) == inside


def test_walking_a_choice_meets_its_condition_and_both_sides() -> None:
    choice = When(Cond("c", "=", Arg("x")), Arg("y"), When(Cond("d", "is null"), Arg("z"), 0))
    assert [v.name for v in walk(choice) if isinstance(v, Arg)] == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("guard", "names"),
    [
        (Cond("c", "=", Arg("x")), ["x"]),
        (Cond("c", "is null"), []),
        (AnyOf((Cond("c", "=", Arg("x")), Cond("d", "<", Now(Arg("y"))))), ["x", "y"]),
        (Absent("t", (Cond("c", "=", Arg("x")),)), ["x"]),
        (Covered("c", Arg("x")), ["x"]),
    ],
)
def test_a_guard_yields_its_arguments(guard: Any, names: list[str]) -> None:
    assert [v.name for v in guard_values(guard) if isinstance(v, Arg)] == names


@pytest.mark.parametrize(
    ("form", "names"),
    [
        (Form("f", Insert("t", ROW)), ()),
        (Form("f", Insert("t", {"a": Arg("x"), "b": Now(Arg("y")), "c": Arg("x")})), ("x", "y")),
        (
            Form("f", Insert("t", {"a": Arg("x")}, (Absent("u", (Cond("k", "=", Arg("y")),)),))),
            ("y", "x"),
        ),
        (Form("f", Insert("t", ROW), Upsert("t", {"a": Arg("x")}, {"b": Arg("y")})), ("x", "y")),
        (Form("f", Update("t", (Cond("k", "=", Arg("x")),), {"a": Once(Arg("y"))})), ("x", "y")),
        (
            Form(
                "f",
                Update("t", BY_VERSION, ROW),
                UpdateMany("u", (Cond("k", "=", Arg("x")),), {"a": Arg("y")}),
            ),
            ("version", "x", "y"),
        ),
        (
            Form("f", Delete("t", (Cond("k", "=", Arg("x")),)), Insert("u", {"a": Arg("y")})),
            ("x", "y"),
        ),
        (Form("f", Insert("t", ROW), Wake("topic", Arg("x"), Now(Arg("y")))), ("x", "y")),
        (
            Form(
                "f",
                Update("t", (), {"a": Arg("z")}),
                pick=Pick(
                    "i",
                    {"g": Arg("x")},
                    Now(Arg("u")),
                    (Covered("c", Arg("y")), Cond("d", "=", Arg("x"))),
                ),
            ),
            ("x", "u", "y", "z"),
        ),
    ],
)
def test_a_form_collects_its_arguments_once_in_the_order_they_are_met(
    form: Form, names: tuple[str, ...]
) -> None:
    assert form.args == names


def test_a_call_orders_its_values_like_the_arguments() -> None:
    two = Form("two", Insert("t", {"a": Arg("x"), "b": Arg("y")}))
    assert two(y=2, x=1).values == (1, 2)
    assert Form("one", Insert("t", {"a": Arg("x")}))(x=None).values == (None,)
    none = Form("none", Insert("t", ROW))()
    assert (none.values, none.form.name) == ((), "none")


@pytest.mark.parametrize("row", [{"a": Arg("x")}, {"a": Arg("x"), "b": Arg("y")}])
def test_a_call_without_an_argument_it_needs_fails(row: dict[str, Any]) -> None:
    with pytest.raises(KeyError):
        Form("f", Insert("t", row))(y=1)


def test_steps_and_wakes_are_kept_apart() -> None:
    wake = Wake("ready", After("lane_id"))
    form = Form("f", wake, Insert("t", ROW), wake, returning=("a", Before("b")))
    assert (form.steps, form.wakes, form.returning) == (
        (Insert("t", ROW),),
        (wake, wake),
        ("a", Before("b")),
    )
    assert repr(form) == "Form(f)"


@pytest.mark.parametrize(
    ("step", "expected"),
    [(Insert("t", ROW), True), (Update("t", (), ROW), False), (Delete("t", ()), False)],
)
def test_a_form_knows_whether_it_inserts(step: Any, expected: bool) -> None:
    assert Form("f", step).is_insert is expected


GONE = Absent("u", (Cond("k", "=", 1),))


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (Form("f", Insert("t", ROW)), False),
        (Form("f", Insert("t", ROW, (GONE,))), False),
        (Form("f", Insert("t", ROW, (GONE,)), Insert("u", ROW)), True),
        (Form("f", Insert("u", ROW, (GONE,))), True),
        (Form("f", Update("t", (*BY_VERSION, GONE), ROW), Insert("u", ROW)), True),
        (Form("f", Update("t", (), ROW), pick=Pick("i", where=(GONE,))), False),
        (Form("f", Update("t", (), ROW), Insert("u", ROW), pick=Pick("i", where=(GONE,))), True),
    ],
)
def test_a_form_knows_whether_it_writes_what_decides_it(form: Form, expected: bool) -> None:
    assert form.reads_itself is expected


def test_what_a_sweep_chooses_by_is_kept_apart_from_what_it_writes() -> None:
    pick = Pick(
        "i",
        {"g": Arg("lane")},
        Arg("bound"),
        (Covered("c", Arg("offered")), AnyOf((Cond("d", "=", Arg("worker")),))),
    )
    sweep = Form("f", Update("t", (), {"a": Arg("written")}), pick=pick)
    assert set(sweep.pick_args) == {"lane", "bound", "offered", "worker"}
    assert not Form("f", Insert("t", {"a": Arg("written")})).pick_args


def test_two_calls_of_a_sweep_choose_alike_when_only_what_they_write_differs() -> None:
    sweep = Form(
        "f",
        Update("t", (), {"a": Arg("written")}),
        pick=Pick("i", {"g": Arg("lane")}, where=(Covered("c", Arg("offered")),)),
    )
    one, same, other = (
        sweep(lane=lane, offered=(), written=n).values for n, lane in enumerate(("x", "x", "y"))
    )
    assert one != same
    assert sweep.pick_key(one) == sweep.pick_key(same) != sweep.pick_key(other)
    insert = Form("f", Insert("t", {"a": Arg("x")}))
    assert insert.pick_key((1,)) == insert.pick_key((2,))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Form("f", UpdateMany("t", (), ROW)), "the first step can be refused"),
        (lambda: Form("f", Upsert("t", ROW, ROW)), "the first step can be refused"),
        (lambda: Form("f", Insert("t", ROW), pick=Pick("i")), "a sweep updates what it picks"),
        (lambda: Form("f", Delete("t", ()), pick=Pick("i")), "a sweep updates what it picks"),
        (lambda: Form("f", Update("t", (), ROW), Insert("u", ROW)), "guarded by epoch or version"),
        (
            lambda: Form("f", Update("t", (Cond("state", "=", "x"),), ROW), Insert("u", ROW)),
            "guarded by epoch or version",
        ),
        (
            lambda: Form(
                "f", Update("t", (Cond("version", ">", Arg("v")),), ROW), Insert("u", ROW)
            ),
            "guarded by epoch or version",
        ),
        (
            lambda: Form("f", Update("t", (AnyOf(BY_VERSION),), ROW), Insert("u", ROW)),
            "guarded by epoch or version",
        ),
    ],
)
def test_an_unsafe_form_cannot_be_declared(make: Callable[[], Form], says: str) -> None:
    with pytest.raises(AssertionError, match=f"f: .*{says}"):
        make()


@pytest.mark.parametrize("steps", [(), (Wake("ready"),)])
def test_a_form_that_changes_nothing_cannot_be_declared(steps: tuple[Any, ...]) -> None:
    with pytest.raises(AssertionError, match="f: a form changes something"):
        Form("f", *steps)


@pytest.mark.parametrize(
    "steps",
    [
        (Update("t", (Cond("state", "=", "x"),), ROW),),
        (Update("t", (Cond("version", "=", Arg("v")),), ROW), Insert("u", ROW)),
        (Update("t", (Cond("lease_epoch", "=", Arg("e")),), ROW), Insert("u", ROW)),
        (Insert("t", ROW), Insert("u", ROW)),
        (Insert("t", ROW), Upsert("u", ROW, ROW)),
        (Delete("t", ()), Insert("u", ROW)),
    ],
)
def test_a_safe_form_can_be_declared(steps: tuple[Any, ...]) -> None:
    assert Form("f", *steps).steps == steps


@pytest.mark.parametrize(
    ("channel", "word"),
    [
        ("ff_completion_event", "outcome"),
        ("ff_lease_event", "event_type"),
        ("ff_operator_event", "event_type"),
    ],
)
def test_an_event_is_an_insert_with_its_kind_and_time(channel: str, word: str) -> None:
    assert Emit(channel, "k", {"a": 1}) == Insert(
        channel, {word: "k", "occurred_at_ms": Now(), "a": 1}
    )
    assert Emit(channel, "k", {}, Arg("now")).row["occurred_at_ms"] == Arg("now")


def test_answers_compare_by_what_they_say() -> None:
    assert Applied(5, ("a",)) == Applied(5, ("a",)) != Applied(6, ("a",))
    assert Refused() == Refused(0, 0) != Refused(0, 1)


def declared() -> Iterator[Form]:
    for found in pkgutil.walk_packages(rules.__path__, f"{rules.__name__}."):
        for value in vars(importlib.import_module(found.name)).values():
            yield from [value] if isinstance(value, Form) else []
            yield from (
                (f for f in value.values() if isinstance(f, Form))
                if isinstance(value, dict)
                else ()
            )


def test_every_declared_form_has_a_name_of_its_own() -> None:
    forms = {id(form): form for form in declared()}
    names = [form.name for form in forms.values()]
    assert len(names) > 40
    assert len(set(names)) == len(names)
