"""Frames: their checks, their stored form, and their ids."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from flowfabric.errors import Corruption, ValidationError, ValidationKind, invalid
from flowfabric.model import stream as model

SOURCE = "worker"
_FRAME_TYPES = {kind: kind.value for kind in model.FrameKind}
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_texts = msgspec.json.Decoder(dict[str, str]).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode


def fields_of(frame: model.Frame, ts_ms: int, summary_version: int | None) -> dict[str, str]:
    data, encoding = frame.bytes, "utf8"
    try:
        payload = data.decode()
    except UnicodeDecodeError:
        payload, encoding = base64.b64encode(data).decode(), "base64"
    if "\0" in payload:  # jsonb cannot store NUL
        payload, encoding = base64.b64encode(data).decode(), "base64"
    mode = frame.mode
    fields = {
        "encoding": encoding,
        "frame_type": frame.frame_type or _FRAME_TYPES[frame.kind],
        "mode": mode.wire,
        "payload": payload,
        "source": SOURCE,
        "ts": str(ts_ms),
    }
    if frame.correlation_id:
        fields["correlation_id"] = frame.correlation_id
    if summary_version is not None:
        fields["summary_version"] = str(summary_version)
    if isinstance(mode, model.BestEffortLive):
        fields["ttl_ms"] = str(mode.ttl_ms)
    return fields


def encode_fields(fields: dict[str, str]) -> str:
    return _encode(fields).decode()


def decode_fields(text: str | bytes) -> dict[str, str]:
    """The stored fields, sorted. A value that is not text is returned as JSON."""
    try:
        return dict(sorted(_decode_texts(text).items()))
    except msgspec.ValidationError:
        return _decode_mixed(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _corrupt(error) from None


def _decode_mixed(text: str | bytes) -> dict[str, str]:
    try:
        found = _decode_any(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _corrupt(error) from None
    return {
        key: value if isinstance(value, str) else _encode(value).decode()
        for key, value in sorted(found.items())
    }


def _corrupt(error: Exception) -> Corruption:
    return Corruption(f"fields of a stored frame: {error}")


def mint(last: tuple[int, int] | None, now_ms: int, count: int) -> list[tuple[int, int]]:
    """The next ids, which rise even if the clock does not."""
    ts_ms, seq = now_ms, 0
    if last is not None and last[0] >= now_ms:
        ts_ms, seq = last[0], last[1] + 1
    return [(ts_ms, seq + step) for step in range(count)]


def check_batch(frames: object) -> None:
    if not isinstance(frames, Sequence) or isinstance(frames, str | bytes | bytearray | memoryview):
        raise invalid("frames", f"a list of 1 to {model.MAX_BATCH_FRAMES} frames", frames)
    if not 1 <= len(frames) <= model.MAX_BATCH_FRAMES:
        raise invalid("frames", f"1 to {model.MAX_BATCH_FRAMES} frames, got {len(frames)}")
    size, seen = 0, set()
    for at, frame in enumerate(frames):
        check_frame(frame, f"frames[{at}]")
        size += len(frame.bytes)
        if frame.seq is not None and frame.seq in seen:
            raise invalid(f"frames[{at}].seq", "each seq once in a batch", frame.seq)
        seen.add(frame.seq)
    if size > model.MAX_BATCH_BYTES:
        raise _too_large("frames", f"at most {model.MAX_BATCH_BYTES} bytes in a batch", size)


def check_frame(frame: object, field: str = "frame") -> None:
    if not isinstance(frame, model.Frame):
        raise invalid(field, "a Frame", frame)
    if not isinstance(frame.bytes, bytes):
        raise invalid(f"{field}.bytes", "bytes", frame.bytes)
    if len(frame.bytes) > model.MAX_FRAME_BYTES:
        raise _too_large(
            f"{field}.bytes", f"at most {model.MAX_FRAME_BYTES} bytes", len(frame.bytes)
        )
    if not isinstance(frame.kind, model.FrameKind):
        raise invalid(f"{field}.kind", "a FrameKind", frame.kind)
    if frame.frame_type != "":
        _check_label(frame.frame_type, field, "frame_type", model.MAX_FRAME_TYPE_BYTES)
    if frame.correlation_id is not None:
        _check_label(frame.correlation_id, field, "correlation_id", model.MAX_CORRELATION_ID_BYTES)
    if frame.seq is not None:
        _check_whole(frame.seq, field, "seq", 0, model.MAX_FRAME_SEQ)
    if type(frame.mode) is not model.Durable:
        _check_mode(frame.mode, f"{field}.mode")


def _check_mode(mode: object, field: str) -> None:
    if isinstance(mode, model.DurableSummary):
        if mode.patch_kind != model.PATCH_KIND:
            raise invalid(f"{field}.patch_kind", model.PATCH_KIND, mode.patch_kind)
    elif isinstance(mode, model.BestEffortLive):
        _check_whole(mode.ttl_ms, field, "ttl_ms", 0, model.MAX_LIVE_TTL_MS)
        _check_whole(
            mode.maxlen_floor, field, "maxlen_floor", -model.MAX_LIVE_FRAMES, model.MAX_LIVE_FRAMES
        )
        _check_whole(
            mode.maxlen_ceiling,
            field,
            "maxlen_ceiling",
            -model.MAX_LIVE_FRAMES,
            model.MAX_LIVE_FRAMES,
        )
        if not isinstance(mode.ema_alpha, int | float) or isinstance(mode.ema_alpha, bool):
            raise invalid(f"{field}.ema_alpha", "a number", mode.ema_alpha)
    else:
        raise invalid(field, "Durable, DurableSummary or BestEffortLive", mode)


def _check_whole(value: object, owner: str, name: str, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise invalid(f"{owner}.{name}", f"a whole number from {low} to {high}", value)


def _check_label(value: object, owner: str, name: str, most: int) -> None:
    if type(value) is str and len(value) <= most and value.isascii() and "\0" not in value:
        return
    field = f"{owner}.{name}"
    if not isinstance(value, str):
        raise invalid(field, "text", value)
    if len(value) > most or len(value.encode(errors="surrogatepass")) > most:
        raise invalid(field, f"text of at most {most} bytes")
    if any("\ud800" <= ch <= "\udfff" or ch == "\0" for ch in value):
        raise invalid(field, "valid Unicode text without NUL")


def _too_large(field: str, accepted: str, size: int) -> ValidationError:
    detail = f"{field}: {accepted}, got {size}"
    return ValidationError(ValidationKind.RETENTION_LIMIT_EXCEEDED, detail)
