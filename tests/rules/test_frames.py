from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.model.stream import (
    MAX_BATCH_BYTES,
    MAX_BATCH_FRAMES,
    MAX_FRAME_BYTES,
    BestEffortLive,
    Durable,
    DurableSummary,
    Frame,
    FrameKind,
    FrameMode,
    StreamFrame,
    StreamFrames,
)
from flowfabric.rules.streams.frames import (
    check_batch,
    check_frame,
    decode_fields,
    encode_fields,
    fields_of,
    mint,
)

FRAME = Frame(b"x", FrameKind.Stdout)
LIVE = BestEffortLive(5_000)


def refusal(call: Callable[..., object], *given: Any) -> ValidationError:
    with pytest.raises(ValidationError) as raised:
        call(*given)
    return raised.value


# ---- the stored form


@pytest.mark.parametrize(
    ("frame", "version", "fields"),
    [
        (FRAME, None, {"frame_type": "stdout", "mode": "durable"}),
        (Frame(b"x", FrameKind.Stderr), None, {"frame_type": "stderr", "mode": "durable"}),
        (Frame(b"x", FrameKind.Event), None, {"frame_type": "event", "mode": "durable"}),
        (Frame(b"x", FrameKind.Blob), None, {"frame_type": "blob", "mode": "durable"}),
        (
            Frame(b"x", FrameKind.Event, "delta", "c-1", 9),
            None,
            {"frame_type": "delta", "mode": "durable", "correlation_id": "c-1"},
        ),
        (
            Frame(b"x", FrameKind.Event, correlation_id=""),
            None,
            {"frame_type": "event", "mode": "durable"},
        ),
        (
            Frame(b"x", FrameKind.Event, mode=DurableSummary()),
            3,
            {"frame_type": "event", "mode": "summary", "summary_version": "3"},
        ),
        (
            Frame(b"x", FrameKind.Event, mode=LIVE),
            None,
            {"frame_type": "event", "mode": "best_effort", "ttl_ms": "5000"},
        ),
    ],
)
def test_a_frame_is_stored_as_a_map_of_text(
    frame: Frame, version: int | None, fields: dict[str, str]
) -> None:
    same = {"ts": "1700000000000", "payload": "x", "encoding": "utf8", "source": "worker"}
    found = fields_of(frame, 1_700_000_000_000, version)
    assert found == fields | same
    assert all(type(value) is str for value in found.values())


@pytest.mark.parametrize(
    ("payload", "text", "encoding"),
    [
        (b"", "", "utf8"),
        ("é😀\n\x7f\u2028".encode(), "é😀\n\x7f\u2028", "utf8"),
        (b"\xef\xbb\xbfx", "\ufeffx", "utf8"),
        (b"\xff", "/w==", "base64"),
        (b"a\0b", "YQBi", "base64"),
        (b"\xff\0", "/wA=", "base64"),
        (b"\xed\xa0\x80", "7aCA", "base64"),
        (b"\xc0\x80", "wIA=", "base64"),
    ],
)
def test_a_payload_is_text_if_every_store_can_keep_it_as_text(
    payload: bytes, text: str, encoding: str
) -> None:
    fields = fields_of(Frame(payload, FrameKind.Blob), 1, None)
    assert (fields["payload"], fields["encoding"]) == (text, encoding)


LABELS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=16)
MODES: st.SearchStrategy[FrameMode] = st.sampled_from([Durable(), DurableSummary(), LIVE])
FRAMES = st.builds(
    Frame,
    bytes=st.one_of(
        st.binary(max_size=60),
        st.text(max_size=60, alphabet=st.characters(exclude_categories=["Cs"])).map(str.encode),
    ),
    kind=st.sampled_from(FrameKind),
    frame_type=LABELS,
    correlation_id=st.none() | LABELS,
    seq=st.none() | st.integers(0, 2**63 - 1),
    mode=MODES,
)


@given(FRAMES, st.integers(0, 2**53), st.none() | st.integers(1, 2**40))
def test_whatever_is_written_reads_back(frame: Frame, ts_ms: int, version: int | None) -> None:
    check_frame(frame)
    fields = fields_of(frame, ts_ms, version)
    text = encode_fields(fields)
    assert json.loads(text) == fields == decode_fields(text) == decode_fields(text.encode())
    assert list(decode_fields(text)) == sorted(fields) == list(json.loads(text))
    assert "\0" not in text and "\\u0000" not in text.replace("\\\\", "")
    text.encode()
    found = StreamFrame(f"{ts_ms}-0", decode_fields(text))
    assert (found.payload, found.mode, found.ts_ms) == (frame.bytes, frame.mode.wire, ts_ms)


def test_stored_text_is_compact() -> None:
    text = (
        '{"encoding":"utf8","frame_type":"stdout","mode":"durable",'
        '"payload":"x","source":"worker","ts":"7"}'
    )
    assert encode_fields(fields_of(FRAME, 7, None)) == text


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("{}", {}),
        ('{"b": "1", "a": "2"}', {"a": "2", "b": "1"}),
        (
            '{"z": 1, "a": {"y": [1, 2.5], "b": null}, "n": null, "t": true, "s": "é"}',
            {"a": '{"b":null,"y":[1,2.5]}', "n": "null", "s": "é", "t": "true", "z": "1"},
        ),
    ],
)
def test_what_is_not_text_is_shown_as_json(text: str, fields: dict[str, str]) -> None:
    assert list(decode_fields(text).items()) == list(fields.items())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"x"',
        '{"a": 1',
        b'{"a":"\xff"}',
        b'{"a":1,"b":"\xff"}',
        '{"a":' + "[" * 100_000,
    ],
)
def test_stored_fields_that_are_none_are_corrupt(text: str | bytes) -> None:
    error = refusal(decode_fields, text)
    assert error.kind is ValidationKind.CORRUPTION
    assert error.detail.startswith("fields of a stored frame: ")


# ---- what a reader holds


def test_a_frame_of_another_writer_counts_as_durable_text() -> None:
    frame = StreamFrame("12-3", {"payload": "é"})
    assert (frame.payload, frame.mode, frame.ts_ms) == ("é".encode(), "durable", 12)
    assert StreamFrame("12-3", {}).payload == b""


@pytest.mark.parametrize("text", ["x", "/w=", "/w==!", "é"])
def test_a_payload_that_is_not_base64_is_corrupt(text: str) -> None:
    error = refusal(lambda: StreamFrame("12-3", {"payload": text, "encoding": "base64"}).payload)
    assert error.kind is ValidationKind.CORRUPTION
    assert error.detail.startswith("payload of frame 12-3: ")


def test_a_page_has_the_next_cursor_and_the_end_flag() -> None:
    one, two = StreamFrame("5-0", {}), StreamFrame("5-1", {})
    assert StreamFrames((one, two)).next_after == "5-1"
    assert StreamFrames(()).next_after is None
    assert not StreamFrames((one,)).closed
    assert StreamFrames((), 7, "attempt_success").closed
    assert StreamFrames((), 0, "attempt_success").closed


# ---- ids


@pytest.mark.parametrize(
    ("last", "now", "count", "ids"),
    [
        (None, 100, 1, [(100, 0)]),
        (None, 100, 3, [(100, 0), (100, 1), (100, 2)]),
        ((100, 7), 101, 2, [(101, 0), (101, 1)]),
        ((100, 7), 100, 2, [(100, 8), (100, 9)]),
        ((100, 7), 50, 2, [(100, 8), (100, 9)]),
        ((100, 7), 50, 0, []),
    ],
)
def test_ids_rise(
    last: tuple[int, int] | None, now: int, count: int, ids: list[tuple[int, int]]
) -> None:
    assert mint(last, now, count) == ids


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), max_size=30))
def test_ids_rise_whatever_the_clock_does(appends: list[tuple[int, int]]) -> None:
    last, made = None, []
    for now, count in appends:
        ids = mint(last, now, count)
        assert len(ids) == count and len({ts for ts, _ in ids}) == 1 and ids[0][0] >= now
        made += ids
        last = ids[-1]
    assert made == sorted(set(made))


# ---- what is accepted


def alike(**changed: Any) -> Frame:
    return replace(FRAME, **changed)


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        alike(bytes=bytes(MAX_FRAME_BYTES)),
        alike(frame_type="t" * 64, correlation_id="c" * 256),
        alike(frame_type="é" * 32, correlation_id="é" * 128),
        alike(seq=0),
        alike(seq=2**63 - 1),
        alike(mode=DurableSummary()),
        alike(mode=BestEffortLive(0)),
        alike(mode=BestEffortLive(2**32 - 1, -1, -1, -7)),
        alike(mode=BestEffortLive(1, 2**31 - 1, 2**31 - 1, float("nan"))),
    ],
)
def test_a_frame_that_is_accepted(frame: Frame) -> None:
    check_frame(frame)
    check_batch([frame])


NUMBER_FIELDS = {
    "ttl_ms": (-1, 2**32),
    "maxlen_floor": (-(2**31), 2**31),
    "maxlen_ceiling": (-(2**31), 2**31),
}


@pytest.mark.parametrize(
    ("frame", "detail"),
    [
        (None, "frame: a Frame"),
        (b"x", "frame: a Frame, got b'x'"),
        (alike(bytes="x"), "frame.bytes: bytes, got 'x'"),
        (alike(bytes=bytearray(b"x")), "frame.bytes: bytes, got bytearray(b'x')"),
        (alike(kind="stdout"), "frame.kind: a FrameKind, got 'stdout'"),
        (alike(frame_type=None), "frame.frame_type: text"),
        (alike(frame_type=b"x"), "frame.frame_type: text, got b'x'"),
        (alike(frame_type="t" * 65), "frame.frame_type: text of at most 64 bytes"),
        (alike(frame_type="é" * 33), "frame.frame_type: text of at most 64 bytes"),
        (alike(frame_type="a\0"), "frame.frame_type: valid Unicode text without NUL"),
        (alike(frame_type="\ud800"), "frame.frame_type: valid Unicode text without NUL"),
        (alike(correlation_id=7), "frame.correlation_id: text, got 7"),
        (alike(correlation_id="c" * 257), "frame.correlation_id: text of at most 256 bytes"),
        (alike(correlation_id="é\0"), "frame.correlation_id: valid Unicode text without NUL"),
        *[
            (alike(seq=bad), f"frame.seq: a whole number from 0 to {2**63 - 1}, got {bad!r}")
            for bad in (-1, 2**63, 1.0, True, "1")
        ],
        (alike(mode=None), "frame.mode: Durable, DurableSummary or BestEffortLive"),
        (
            alike(mode="durable"),
            "frame.mode: Durable, DurableSummary or BestEffortLive, got 'durable'",
        ),
        (
            alike(mode=Durable),
            f"frame.mode: Durable, DurableSummary or BestEffortLive, got {Durable!r}",
        ),
        (
            alike(mode=DurableSummary("json-patch")),
            "frame.mode.patch_kind: json-merge-patch, got 'json-patch'",
        ),
        *[
            (
                alike(mode=replace(LIVE, **{name: bad})),
                f"frame.mode.{name}: a whole number from {low + 1} to {high - 1}"
                + (f", got {bad!r}" if bad is not None else ""),
            )
            for name, (low, high) in NUMBER_FIELDS.items()
            for bad in (low, high, 1.5, True, None)
        ],
        (alike(mode=BestEffortLive(1, ema_alpha="x")), "frame.mode.ema_alpha: a number, got 'x'"),
        (alike(mode=BestEffortLive(1, ema_alpha=True)), "frame.mode.ema_alpha: a number, got True"),
    ],
)
def test_a_refused_frame_names_the_field_and_what_is_accepted(frame: Any, detail: str) -> None:
    error = refusal(check_frame, frame)
    assert (error.kind, error.detail) == (ValidationKind.INVALID_INPUT, detail)
    error = refusal(check_batch, (FRAME, frame))
    assert error.detail == detail.replace("frame", "frames[1]", 1)


def test_a_payload_over_the_limit_is_refused_as_too_much_to_keep() -> None:
    error = refusal(check_frame, alike(bytes=bytes(MAX_FRAME_BYTES + 1)))
    assert error.kind is ValidationKind.RETENTION_LIMIT_EXCEEDED
    assert error.code == "retention_limit_exceeded"
    assert error.detail == "frame.bytes: at most 65536 bytes, got 65537"


@pytest.mark.parametrize(
    ("frames", "detail"),
    [
        (None, "frames: a list of 1 to 256 frames"),
        (b"xx", "frames: a list of 1 to 256 frames, got b'xx'"),
        ("xx", "frames: a list of 1 to 256 frames, got 'xx'"),
        ({FRAME}, f"frames: a list of 1 to 256 frames, got {{{FRAME!r}}}"[:119]),
        ([], "frames: 1 to 256 frames, got 0"),
        ([FRAME] * (MAX_BATCH_FRAMES + 1), "frames: 1 to 256 frames, got 257"),
        (
            [alike(seq=1), FRAME, alike(seq=2), alike(seq=1)],
            "frames[3].seq: each seq once in a batch, got 1",
        ),
    ],
)
def test_a_batch_that_is_refused(frames: Any, detail: str) -> None:
    error = refusal(check_batch, frames)
    assert error.kind is ValidationKind.INVALID_INPUT
    assert error.detail.removesuffix("...").startswith(detail[:100])


def test_a_batch_holds_so_many_frames_and_so_many_bytes() -> None:
    check_batch([FRAME] * MAX_BATCH_FRAMES)
    check_batch((alike(seq=1), alike(seq=2), FRAME, FRAME))
    full = [alike(bytes=bytes(MAX_FRAME_BYTES))] * (MAX_BATCH_BYTES // MAX_FRAME_BYTES)
    check_batch(full)
    error = refusal(check_batch, [*full, FRAME])
    assert error.kind is ValidationKind.RETENTION_LIMIT_EXCEEDED
    assert error.detail == "frames: at most 1048576 bytes in a batch, got 1048577"
