from __future__ import annotations

import base64
import json

import pytest

from flowfabric.codec.history_cursor import decode_history_cursor, encode_history_cursor
from flowfabric.errors import ValidationError

KEY = (5, 2, "{fp:0}:x", 4, 0)
TOLD = (1, 2, 3, 4)


@pytest.mark.parametrize("attempt", [None, 0, 7])
def test_a_place_is_read_back_by_its_subject(attempt: int | None) -> None:
    text = encode_history_cursor("me", KEY, TOLD, attempt)
    assert decode_history_cursor("me", text) == (KEY, TOLD, attempt)
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def written(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


@pytest.mark.parametrize(
    "bad",
    [
        None,
        5,
        b"x",
        "",
        "x",
        "é",
        encode_history_cursor("you", KEY, TOLD, None),
        encode_history_cursor("me", KEY, TOLD, None)[:-5],
        written("me", KEY, TOLD),
        written("me", KEY[:4], TOLD, None),
        written("me", KEY, TOLD[:3], None),
        written("me", KEY, ["1", 2, 3, 4], None),
        written("me", KEY, TOLD, None, 1),
    ],
)
def test_anything_else_is_refused_by_name(bad: object) -> None:
    with pytest.raises(
        ValidationError, match="after: the next_cursor of an earlier page of this history"
    ):
        decode_history_cursor("me", bad)
