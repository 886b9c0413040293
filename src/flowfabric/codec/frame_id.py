"""Frame ids, `<ms>-<seq>`, and the cursors of readers: an id, `<ms>`, `start` or `end`."""

from __future__ import annotations

import re

from flowfabric.errors import ValidationError, bad_input

FrameId = tuple[int, int]
UpperBound = tuple[int, int | None]

MAX_CURSOR_CHARS = 64
MAX_NUMBER = 2**63 - 1
MAX_SENT = 2**64 - 1
"""Clients send unsigned 64-bit numbers; one above MAX_NUMBER is read as MAX_NUMBER."""
START, END = "start", "end"
_BEFORE_ALL: FrameId = (0, 0)
_BEHIND_ALL: FrameId = (MAX_NUMBER, MAX_NUMBER)
_CONCRETE = re.compile(r"([0-9]+)(?:-([0-9]+))?\Z")
_ACCEPTED = "accepted are start, end, <ms> and <ms>-<seq>"
_AFTER_ACCEPTED = "accepted are <ms> and <ms>-<seq>, 0-0 for the beginning"
_NOT_CONCRETE = "tail_stream requires concrete after cursor"


def frame_id(ts_ms: int, seq: int) -> str:
    return f"{ts_ms}-{seq}"


def lower_bound(text: object, field: str = "from") -> FrameId | None:
    """The first id of a range, or None for the start. `<ms>` begins with that millisecond."""
    if text == START:
        return None
    if text == END:
        return _BEHIND_ALL
    ts_ms, seq = _concrete(text, field, _ACCEPTED)
    return ts_ms, seq or 0


def upper_bound(text: object, field: str = "to") -> UpperBound | None:
    """The last id of a range, or None for the end. `<ms>` includes all of that millisecond."""
    if text == END:
        return None
    if text == START:
        return _BEFORE_ALL
    return _concrete(text, field, _ACCEPTED)


def after(text: object, field: str = "after") -> FrameId:
    """The id after which a tail begins."""
    if text in (START, END):
        raise bad_input(_NOT_CONCRETE)
    try:
        ts_ms, seq = _concrete(text, field, _AFTER_ACCEPTED)
    except ValidationError as error:
        raise bad_input(f"{_NOT_CONCRETE}: {error.detail}") from None
    return ts_ms, seq or 0


def check_range(lower: FrameId | None, upper: UpperBound | None) -> None:
    if lower is None or upper is None:
        return
    ts_ms, seq = upper
    if lower > (ts_ms, MAX_NUMBER if seq is None else seq):
        shown = str(ts_ms) if seq is None else frame_id(ts_ms, seq)
        raise bad_input(f"from: at or before to ({shown}), got {frame_id(*lower)}")


def _concrete(text: object, field: str, accepted: str) -> UpperBound:
    if not isinstance(text, str):
        raise bad_input(
            f"{field}: invalid stream cursor: text expected, got {type(text).__name__}; {accepted}"
        )
    if not text:
        raise bad_input(f"{field}: must not be empty; {accepted}")
    if text in ("-", "+"):
        raise bad_input(f"{field}: {text!r} is an internal marker, use start/end; {accepted}")
    found = _CONCRETE.match(text) if len(text) <= MAX_CURSOR_CHARS else None
    if found is None:
        raise bad_input(f"{field}: invalid stream cursor {text[:MAX_CURSOR_CHARS]!a}; {accepted}")
    ts_ms, seq = int(found[1]), None if found[2] is None else int(found[2])
    if ts_ms > MAX_SENT or (seq or 0) > MAX_SENT:
        raise bad_input(
            f"{field}: invalid stream cursor {text!a}: numbers up to {MAX_SENT}; {accepted}"
        )
    return min(ts_ms, MAX_NUMBER), None if seq is None else min(seq, MAX_NUMBER)
