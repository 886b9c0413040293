"""The opaque cursor of a history page. It names its subject, so that it fits no other."""

from __future__ import annotations

import base64
import binascii

import msgspec

from flowfabric.errors import invalid

EntryKey = tuple[int, int, str, int, int]


class _Cursor(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    subject: str
    key: EntryKey
    positions: tuple[int, int, int, int]
    attempt: int | None


def encode_history_cursor(
    subject: str, key: EntryKey, positions: tuple[int, ...], attempt: int | None
) -> str:
    raw = msgspec.json.encode([subject, key, positions, attempt])
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode_history_cursor(
    subject: str, text: object
) -> tuple[EntryKey, tuple[int, ...], int | None]:
    """The key of the last entry, the position in each outbox, and the attempt that ran."""
    refused = invalid("after", "the next_cursor of an earlier page of this history", text)
    if not isinstance(text, str):
        raise refused
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        found = msgspec.json.decode(raw, type=_Cursor)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise refused from None
    if found.subject != subject:
        raise refused
    return found.key, found.positions, found.attempt
