"""The JSON form of conditions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.model.waitpoint import (
    AllOf,
    Condition,
    Count,
    OperatorOnly,
    Single,
    TimeoutOnly,
)
from flowfabric.rules.waits.conditions import (
    decode,
    encode,
)

from .wait_factory import SIGNALS, SOURCES, WAITPOINTS, nested

# ---- JSON


WIRE: list[tuple[Condition, Any]] = [
    (Single("a"), {"Single": {"waitpoint_key": "a", "matcher": "Wildcard"}}),
    (Single("ä", "go"), {"Single": {"waitpoint_key": "ä", "matcher": {"ByName": "go"}}}),
    (
        Single("a", "Wildcard"),
        {"Single": {"waitpoint_key": "a", "matcher": {"ByName": "Wildcard"}}},
    ),
    (OperatorOnly(), "OperatorOnly"),
    (TimeoutOnly(), "TimeoutOnly"),
    (AllOf((OperatorOnly(),)), {"Composite": {"kind": "AllOf", "members": ["OperatorOnly"]}}),
    (
        Count(2, WAITPOINTS, ("a", "b")),
        {
            "Composite": {
                "kind": "Count",
                "n": 2,
                "count_kind": "DistinctWaitpoints",
                "waitpoints": ["a", "b"],
            }
        },
    ),
    (
        Count(1, SIGNALS, ("a",), "go"),
        {
            "Composite": {
                "kind": "Count",
                "n": 1,
                "count_kind": "DistinctSignals",
                "waitpoints": ["a"],
                "matcher": {"ByName": "go"},
            }
        },
    ),
    (
        Count(1, SOURCES, ("a",)),
        {
            "Composite": {
                "kind": "Count",
                "n": 1,
                "count_kind": "DistinctSources",
                "waitpoints": ["a"],
            }
        },
    ),
]


@pytest.mark.parametrize(("condition", "wire"), WIRE)
def test_the_json_of_every_shape(condition: Condition, wire: Any) -> None:
    assert json.loads(encode(condition)) == wire
    assert decode(encode(condition)) == condition
    assert decode(json.dumps(wire)) == condition


def test_a_nested_condition_survives_its_json() -> None:
    everything = AllOf(
        (AllOf(tuple(condition for condition, _ in WIRE)), nested(2, Count(1, SIGNALS, ("x",))))
    )
    assert decode(encode(everything)) == everything


def test_a_count_may_spell_out_that_it_takes_any_name() -> None:
    said = {
        "Composite": {
            "kind": "Count",
            "n": 1,
            "count_kind": "DistinctSignals",
            "matcher": "Wildcard",
            "waitpoints": ["a"],
        }
    }
    assert decode(json.dumps(said)) == Count(1, SIGNALS, ("a",))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "7",
        "[]",
        "{}",
        '"Single"',
        '{"Single":{}}',
        '{"Single":{"waitpoint_key":"a","matcher":{}}}',
        '{"Single":{"waitpoint_key":"a","matcher":7}}',
        '{"Composite":{}}',
        '{"Composite":{"kind":"AllOf"}}',
        '{"Composite":{"kind":"AllOf","members":[7]}}',
        '{"Composite":{"kind":"Count","n":1,"count_kind":"DistinctDays","waitpoints":["a"]}}',
        '{"Composite":{"kind":"Count","n":1,"count_kind":"DistinctSignals"}}',
    ],
)
def test_a_stored_condition_that_cannot_be_read_is_corruption(text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        decode(text)
    assert caught.value.kind is ValidationKind.CORRUPTION
