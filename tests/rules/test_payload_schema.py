"""The part of JSON Schema that describes Python types: what it accepts, msgspec can decode."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest
from msgspec import Meta, Struct

from flowfabric.rules.waits import payload_schema
from flowfabric.rules.waits.payload_schema import MAX_DEPTH, mismatch


class Point(Struct, forbid_unknown_fields=True):
    x: int
    y: int = 0


class Cat(Struct, tag=True):
    lives: int


class Dog(Struct, tag=True):
    name: str


class Tree(Struct):
    children: list[Tree] = []


ROWS: list[tuple[Any, list[str], list[str]]] = [
    (bool, ["true"], ["1", '"true"', "null", "{", ""]),
    (int, ["1"], ["1.5", "true", '"1"']),
    (float, ["1", "1.5"], ["true", "null"]),
    (str | None, ['"a"', "null"], ["1"]),
    (None, ["null"], ["0"]),
    (Literal["a", 1], ['"a"', "1"], ['"b"', "true", "2"]),
    (Point, ['{"x":1}', '{"x":1,"y":2}'], ["{}", '{"x":"1"}', '{"x":1,"z":1}', "[]"]),
    (Cat | Dog, ['{"type":"Cat","lives":9}'], ['{"type":"Cat","name":"a"}', '{"type":"Cow"}']),
    (list[int], ["[]", "[1]"], ['["a"]', "{}"]),
    (tuple[int, str], ['[1,"a"]'], ["[1]", '[1,"a",2]', '["a",1]']),
    (dict[str, int], ["{}", '{"a":1}'], ['{"a":"b"}']),
    (dict[Annotated[str, Meta(min_length=2)], int], ['{"ab":1}'], ['{"a":1}']),
    (Annotated[int, Meta(ge=1, le=9, multiple_of=3)], ["3"], ["0", "12", "4"]),
    (Annotated[float, Meta(gt=1, lt=2)], ["1.5"], ["1", "2"]),
    (Annotated[str, Meta(pattern="^a", max_length=2)], ['"ab"'], ['"b"', '"abc"']),
    (Annotated[list[int], Meta(min_length=1)], ["[1]"], ["[]"]),
    (UUID, ['"11111111-1111-4111-8111-111111111111"'], ['"x"']),
    (Annotated[datetime, Meta(tz=True)], ['"2026-01-02T03:04:05Z"'], ['"then"']),
    (date, ['"2026-01-02"'], ['"then"']),
    (Decimal, ['"1.5"'], ['"x"']),
    (bytes, ['"YQ=="'], ['"%"']),
    (Tree, ['{"children":[{"children":[]}]}'], ['{"children":[{"children":1}]}']),
]


@pytest.mark.parametrize(("kind", "good", "bad"), ROWS)
def test_what_is_accepted_can_be_decoded(kind: Any, good: list[str], bad: list[str]) -> None:
    schema = json.dumps(msgspec.json.schema(kind))
    for text in good:
        assert mismatch(schema, text.encode()) is None
        msgspec.json.decode(text, type=kind)
    for text in bad:
        said = mismatch(schema, text.encode())
        assert said is not None and said.startswith("payload")


def test_no_payload_is_null_and_what_is_unknown_is_ignored() -> None:
    assert mismatch('{"type":"null"}', None) is None
    assert mismatch('{"type":"integer"}', None) == "payload: integer is expected, got nothing"
    assert mismatch('{"format":"email","x":1}', b'"a"') is None
    assert mismatch('{"allOf":[{"type":"integer"}]}', b'"a"') is not None
    assert mismatch('{"$ref":"#/$defs/gone"}', b"1") == "payload: nothing is accepted here"


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = json.dumps(msgspec.json.schema(Tree))
    deep = '{"children":[' * MAX_DEPTH + "]}" * MAX_DEPTH
    assert "too deeply" in str(mismatch(tree, deep.encode()))
    assert mismatch('{"type":"array"}', b"[" * 60_000) == "payload: JSON is expected"
    monkeypatch.setattr(payload_schema, "MAX_STEPS", 3)
    assert "too deeply" in str(mismatch('{"type":"array"}', b"[1,2,3]"))
