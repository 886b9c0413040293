"""The opaque cursor of a subscriber: a family byte, then the number of its last event."""

from __future__ import annotations

from flowfabric.errors import bad_input

_SQL_FAMILY = 0x02
_FAMILY_BYTE = bytes((_SQL_FAMILY,))
_MAX_EVENT = 2**63 - 1
BEGINNING = _FAMILY_BYTE + bytes(8)


def encode_cursor(event_id: int) -> bytes:
    return _FAMILY_BYTE + event_id.to_bytes(8, "big")


def decode_cursor(cursor: bytes, op: str) -> int | None:
    """The event number to resume after, or None for an empty cursor, which is the tail."""
    if not isinstance(cursor, bytes):
        raise bad_input(f"cursor: expected bytes for {op}")
    if not cursor:
        return None
    number = int.from_bytes(cursor[1:], "big")
    if len(cursor) != 9 or cursor[0] != _SQL_FAMILY or number > _MAX_EVENT:
        raise bad_input(f"cursor: not an event cursor for {op}")
    return number
