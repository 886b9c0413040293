from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.codec.frame_id import (
    MAX_CURSOR_CHARS,
    MAX_NUMBER,
    MAX_SENT,
    after,
    check_range,
    frame_id,
    lower_bound,
    upper_bound,
)
from flowfabric.errors import ValidationError, ValidationKind

NUMBERS = st.integers(0, MAX_NUMBER)
BOUNDS = [lower_bound, upper_bound, after]
FIELDS = {lower_bound: "from", upper_bound: "to", after: "after"}
NOT_CONCRETE = "tail_stream requires concrete after cursor"


def refusal(call: Any, *given: Any) -> str:
    with pytest.raises(ValidationError) as raised:
        call(*given)
    assert raised.value.kind is ValidationKind.INVALID_INPUT
    return raised.value.detail


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        ("start", None, (0, 0)),
        ("end", (MAX_NUMBER, MAX_NUMBER), None),
        ("0", (0, 0), (0, None)),
        ("0-0", (0, 0), (0, 0)),
        ("1700000000000", (1_700_000_000_000, 0), (1_700_000_000_000, None)),
        ("1700000000000-7", (1_700_000_000_000, 7), (1_700_000_000_000, 7)),
        ("007-08", (7, 8), (7, 8)),
        (f"{MAX_NUMBER}-{MAX_NUMBER}", (MAX_NUMBER, MAX_NUMBER), (MAX_NUMBER, MAX_NUMBER)),
        (f"{MAX_SENT}-{MAX_NUMBER + 1}", (MAX_NUMBER, MAX_NUMBER), (MAX_NUMBER, MAX_NUMBER)),
        (f"5-{MAX_SENT}", (5, MAX_NUMBER), (5, MAX_NUMBER)),
    ],
)
def test_a_cursor_as_either_end(text: str, lower: Any, upper: Any) -> None:
    assert lower_bound(text) == lower
    assert upper_bound(text) == upper


@pytest.mark.parametrize(("text", "found"), [("0-0", (0, 0)), ("5", (5, 0)), ("5-3", (5, 3))])
def test_a_tail_begins_behind_a_concrete_id(text: str, found: tuple[int, int]) -> None:
    assert after(text) == found


@pytest.mark.parametrize("text", ["start", "end"])
def test_a_tail_has_no_open_end(text: str) -> None:
    assert refusal(after, text) == NOT_CONCRETE


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must not be empty"),
        ("-", "internal marker, use start/end"),
        ("+", "internal marker, use start/end"),
        (None, "invalid stream cursor: text expected, got NoneType"),
        (b"5-0", "invalid stream cursor: text expected, got bytes"),
        (5, "invalid stream cursor: text expected, got int"),
        ("5-", "invalid stream cursor '5-'"),
        ("-5", "invalid stream cursor '-5'"),
        ("5-3-1", "invalid stream cursor '5-3-1'"),
        ("5--3", "invalid stream cursor '5--3'"),
        ("(5-3", "invalid stream cursor '(5-3'"),
        (" 5", "invalid stream cursor ' 5'"),
        ("5-3\n", "invalid stream cursor '5-3\\n'"),
        ("+5", "invalid stream cursor '+5'"),
        ("5_0", "invalid stream cursor '5_0'"),
        ("1e3", "invalid stream cursor '1e3'"),
        ("Start", "invalid stream cursor 'Start'"),
        ("\u0663-0", "invalid stream cursor '\\u0663-0'"),
        ("\ud800", "invalid stream cursor '\\ud800'"),
        (str(MAX_SENT + 1), f"numbers up to {MAX_SENT}"),
        (f"5-{MAX_SENT + 1}", f"numbers up to {MAX_SENT}"),
        ("0" * (MAX_CURSOR_CHARS + 1), f"invalid stream cursor '{'0' * MAX_CURSOR_CHARS}'"),
        ("9" * 1_000_000, "invalid stream cursor '9"),
    ],
)
def test_other_cursors_are_refused_with_field_and_accepted_forms(
    bound: Any, text: Any, words: str
) -> None:
    detail = refusal(bound, text)
    assert words in detail
    assert f"{FIELDS[bound]}: " in detail
    assert "<ms>-<seq>" in detail
    assert detail.startswith(NOT_CONCRETE) is (bound is after)
    assert len(detail) < 300


def test_the_field_can_have_another_name() -> None:
    assert refusal(lower_bound, "", "since").startswith("since: ")


@given(NUMBERS, NUMBERS)
def test_an_id_reads_back_as_itself(ts_ms: int, seq: int) -> None:
    text = frame_id(ts_ms, seq)
    assert lower_bound(text) == upper_bound(text) == after(text) == (ts_ms, seq)


@given(st.one_of(st.text(max_size=70), st.from_regex(r"[0-9]{0,25}-?[0-9]{0,25}", fullmatch=True)))
def test_every_text_is_an_id_or_a_refusal(text: str) -> None:
    for bound in BOUNDS:
        try:
            found = bound(text)
        except ValidationError:
            continue
        assert found is None or all(number is None or 0 <= number <= MAX_NUMBER for number in found)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ("start", "end"),
        ("start", "0"),
        ("end", "end"),
        ("start", "start"),
        ("5", "end"),
        ("5", "5"),
        ("5-9", "5"),
        ("5-9", "5-9"),
        ("5-9", "6-0"),
        ("0", "start"),
    ],
)
def test_a_range_goes_forwards(lower: str, upper: str) -> None:
    check_range(lower_bound(lower), upper_bound(upper))


@pytest.mark.parametrize(
    ("lower", "upper", "detail"),
    [
        ("6", "5", "from: at or before to (5), got 6-0"),
        ("5-9", "5-8", "from: at or before to (5-8), got 5-9"),
        ("5-1", "5-0", "from: at or before to (5-0), got 5-1"),
        ("5", "start", "from: at or before to (0-0), got 5-0"),
        ("end", "5", f"from: at or before to (5), got {MAX_NUMBER}-{MAX_NUMBER}"),
    ],
)
def test_a_range_that_goes_backwards_is_refused(lower: str, upper: str, detail: str) -> None:
    assert refusal(check_range, lower_bound(lower), upper_bound(upper)) == detail
