"""Arguments and results survive the round trip, for every supported type."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowfabric import App, Context, PayloadError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: int
    y: float = 0.0
    tags: list[str] = field(default_factory=list)


class Person(TypedDict):
    name: str
    age: NotRequired[int]


class Square(msgspec.Struct, tag=True):
    side: int


class Circle(msgspec.Struct, tag=True):
    radius: int


class Tree(msgspec.Struct):
    value: int
    children: list[Tree] = []


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
whole = st.integers(-(2**63), 2**64 - 1)
numbers = st.floats(allow_nan=False, allow_infinity=False)
points = st.builds(Point, st.integers(-(10**9), 10**9), numbers, st.lists(texts, max_size=3))
people: Any = st.one_of(
    st.fixed_dictionaries({"name": texts}),
    st.fixed_dictionaries({"name": texts, "age": st.integers(0, 150)}),
)
trees = st.recursive(
    st.builds(Tree, st.integers(0, 9)),
    lambda inner: st.builds(Tree, st.integers(0, 9), st.lists(inner, max_size=3)),
    max_leaves=8,
)
KINDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (bool, st.booleans()),
    (int, whole),
    (float, numbers),
    (str, texts),
    (bytes, st.binary(max_size=50)),
    (dt.datetime, st.datetimes(timezones=st.just(dt.UTC))),
    (dt.date, st.dates()),
    (dt.timedelta, st.timedeltas(dt.timedelta(-1000), dt.timedelta(1000))),
    (UUID, st.uuids()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Literal["a", 1], st.sampled_from(["a", 1])),
    (int | None, st.none() | whole),
    (int | str | None, st.none() | whole | texts),
    (list[int], st.lists(whole, max_size=5)),
    (tuple[int, str], st.tuples(whole, texts)),
    (set[int], st.sets(whole, max_size=5)),
    (frozenset[str], st.frozensets(texts, max_size=5)),
    (dict[str, list[int]], st.dictionaries(texts, st.lists(whole, max_size=2), max_size=3)),
    (dict[int, Point], st.dictionaries(st.integers(0, 99), points, max_size=3)),
    (Point, points),
    (Person, people),
    (Square | Circle, st.builds(Square, st.integers(0, 9)) | st.builds(Circle, st.integers(0, 9))),
    (Tree, trees),
    (list[Point | None], st.lists(st.none() | points, max_size=3)),
]


def task_of(kind: Any) -> Any:
    async def echo(ctx: Context, value: Any, again: Any = None) -> Any: ...

    echo.__annotations__ = {"ctx": Context, "value": kind, "again": kind | None, "return": kind}
    return App("memory://").task(echo)


def came_back(task: Any, value: Any) -> list[Any]:
    """As an argument by position and by name, and as a result."""
    found = []
    for args, kwargs in (((value,), {}), ((), {"value": value, "again": value})):
        raw, later = task.signature.decode(task.payload(args, kwargs))
        assert later == {}
        found.append(task.signature.arguments(raw)["value"])
    return [*found, task.signature.decode_result(task.signature.encode_result(value))]


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[str(kind) for kind, _ in KINDS])
def test_values_survive_the_round_trip(kind: Any, values: st.SearchStrategy[Any]) -> None:
    task = task_of(kind)

    @settings(max_examples=40, deadline=None, database=None)
    @given(values)
    def same(value: Any) -> None:
        for found in came_back(task, value):
            assert found == value and type(found) is type(value)

    same()


def test_a_pydantic_model_comes_back() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Order(pydantic.BaseModel):  # type: ignore[misc, name-defined, unused-ignore]
        item: str
        count: int = pydantic.Field(gt=0)
        at: dt.datetime | None = None

    task = task_of(Order)
    order = Order(item="bolt", count=3, at=dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
    assert came_back(task, order) == [order] * 3
    assert came_back(task_of(list[Order]), [order]) == [[order]] * 3
    with pytest.raises(PayloadError, match="greater than 0"):
        task.payload(({"item": "bolt", "count": 0},), {})


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (int, "1", "Expected `int`, got `str` - at `$.value`"),
        (Point, Point("x"), "Expected `int`, got `str` - at `$.value.x`"),  # type: ignore[arg-type]
        (Colour, "green", "Invalid enum value 'green' - at `$.value`"),
        (Person, {"age": 3}, "missing required field `name`"),
        (float, float("nan"), "Expected `float`, got `null` - at `$.value`"),
        (str, "\ud800", "argument 'value'"),
    ],
)
def test_value_that_does_not_fit_is_named(kind: Any, value: Any, said: str) -> None:
    with pytest.raises(PayloadError) as caught:
        task_of(kind).payload((value,), {})
    assert "task echo: " in str(caught.value) and said in str(caught.value)
