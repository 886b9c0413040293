from __future__ import annotations

import pytest

from flowfabric.codec.event_cursor import BEGINNING, decode_cursor, encode_cursor
from flowfabric.errors import ValidationError, ValidationKind


@pytest.mark.parametrize(
    ("event_id", "cursor"),
    [
        (0, b"\x02" + bytes(8)),
        (1, b"\x02" + bytes(7) + b"\x01"),
        (258, b"\x02" + bytes(6) + b"\x01\x02"),
        (2**63 - 1, b"\x02\x7f" + b"\xff" * 7),
    ],
)
def test_a_cursor_is_a_family_byte_and_a_big_endian_number(event_id: int, cursor: bytes) -> None:
    assert encode_cursor(event_id) == cursor
    assert decode_cursor(cursor, "op") == event_id


def test_the_empty_cursor_means_from_now_on() -> None:
    assert decode_cursor(b"", "op") is None


def test_the_beginning_resumes_after_event_zero() -> None:
    assert decode_cursor(BEGINNING, "op") == 0


def test_cursors_sort_like_the_events_they_name() -> None:
    numbers = [0, 1, 255, 256, 65_536, 2**40]
    assert sorted(map(encode_cursor, numbers)) == [encode_cursor(n) for n in numbers]


@pytest.mark.parametrize(
    "cursor",
    [
        b"\x02",
        b"\x02" + bytes(7),
        b"\x02" + bytes(9),
        b"\x01" + bytes(8),
        b"\x01" + bytes(16),
        b"\x03" + bytes(8),
        b"\x00" * 9,
        b"\x02\x80" + bytes(7),
        "text",
        None,
        17,
        bytearray(9),
    ],
)
def test_anything_else_is_invalid_input_that_names_the_operation(cursor: object) -> None:
    with pytest.raises(ValidationError) as raised:
        decode_cursor(cursor, "subscribe_completion")  # type: ignore[arg-type]
    assert raised.value.kind is ValidationKind.INVALID_INPUT
    assert raised.value.detail.startswith("cursor: ")
    assert raised.value.detail.endswith("for subscribe_completion")
