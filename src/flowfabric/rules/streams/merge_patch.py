"""The summary document of an attempt, built by JSON merge patches (RFC 7396)."""

from __future__ import annotations

import re

import msgspec

from flowfabric.errors import Corruption, ValidationError, ValidationKind, bad_input
from flowfabric.model import stream as model

Document = dict[str, object]

MAX_PARSED_DEPTH = 64
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = re.compile(rb"[^\[\]{}]+")
_OPENING = b"[{"
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def parse_patch(raw: bytes) -> Document:
    """Parses a patch. The error for text too deep to parse depends on its first character."""
    depth = _nesting(raw)
    if depth > MAX_PARSED_DEPTH:
        raise _too_deep() if raw.lstrip()[:1] == b"{" else _no_object()
    try:
        patch = _decode(raw)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise bad_input(f"summary patch not valid JSON: {error}") from None
    if not isinstance(patch, dict):
        raise _no_object()
    if depth > model.MAX_PATCH_DEPTH:
        raise _too_deep()
    return patch


def parse_document(raw: bytes) -> Document:
    """Parses a stored document."""
    try:
        if _nesting(raw) > model.MAX_DOCUMENT_DEPTH:
            raise _corrupt(f"nested more than {model.MAX_DOCUMENT_DEPTH} deep")
        document = _decode(raw)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _corrupt(str(error)) from None
    if not isinstance(document, dict):
        raise _corrupt("not a JSON object")
    return document


def merge(document: Document, patch: Document) -> Document:
    """Applies a patch: null deletes, objects merge, other values replace; the sentinel is null."""
    return {key: _with_nulls(value) for key, value in _merged(document, patch).items()}


def _merged(target: object, patch: Document) -> Document:
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value) if isinstance(value, dict) else value
    return merged


def _with_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: _with_nulls(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_nulls(inner) for inner in value]
    return None if value == model.NULL_SENTINEL else value


def document_bytes(document: Document) -> bytes:
    return _encode(document)


def check_document_size(raw: bytes) -> None:
    """Bounds the document: each patch is bounded, but their number is not."""
    if len(raw) > model.MAX_SUMMARY_BYTES:
        detail = f"summary document: at most {model.MAX_SUMMARY_BYTES} bytes, got {len(raw)}"
        raise ValidationError(ValidationKind.RETENTION_LIMIT_EXCEEDED, detail)


def _nesting(raw: bytes) -> int:
    """The nesting depth, or 0 if it is small. Invalid JSON counts at least as a parser descends."""
    if raw.count(b"{") + raw.count(b"[") <= model.MAX_PATCH_DEPTH:
        return 0
    depth = deepest = 0
    for bracket in _NO_BRACKETS.sub(b"", _STRING.sub(b"", raw)):
        depth += 1 if bracket in _OPENING else -1
        deepest = max(deepest, depth)
    return deepest


def _too_deep() -> ValidationError:
    return bad_input("patch_depth_exceeded")


def _no_object() -> ValidationError:
    return bad_input("patch must be a JSON object")


def _corrupt(detail: str) -> Corruption:
    return Corruption(f"corrupt summary document in ff_stream_summary: {detail}")
