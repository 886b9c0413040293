"""Where a page of a history ended. Opaque to its holder: text that names its subject, so that it
fits no other.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from flowfabric.errors import invalid

Numbers = tuple[int, int, str, int, int]


class _Written(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    subject: str
    key: Numbers
    told: tuple[int, int, int, int]
    attempt: int | None


def encode_history_cursor(subject: str, key: Numbers, told: tuple[int, ...], attempt: int | None) -> str:
    return (
        base64.urlsafe_b64encode(msgspec.json.encode([subject, key, told, attempt]))
        .decode()
        .rstrip("=")
    )


def decode_history_cursor(subject: str, text: object) -> tuple[Numbers, tuple[int, ...], int | None]:
    """The key of the last entry told, how far each outbox was, and which attempt ran."""
    refused = invalid("after", "the next_cursor of an earlier page of this history", text)
    if not isinstance(text, str):
        raise refused
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        found = msgspec.json.decode(raw, type=_Written)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise refused from None
    if found.subject != subject:
        raise refused
    return found.key, found.told, found.attempt
