"""Values as SQLite stores them: uuids as bytes, lists as JSON text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from itertools import combinations
from os import urandom
from typing import Any
from uuid import UUID

import msgspec

from flowfabric.ids import hyphenated, uuid_of
from flowfabric.model.execution import UNREADABLE

FEW_CAPABILITIES = 6
_json = msgspec.json.Encoder().encode
_json_list = msgspec.json.Decoder(tuple[str, ...]).decode


def uuid_text(raw: bytes | UUID | None) -> str | None:
    """The hyphenated text of a uuid."""
    if raw is None:
        return None
    return hyphenated(raw.hex() if isinstance(raw, bytes) else raw.hex)


def list_text(items: Iterable[str]) -> str:
    return "[]" if not items else _json(list(items)).decode()


def _blob(value: UUID | bytes | None) -> bytes | None:
    return value.bytes if isinstance(value, UUID) else value


def _uuids_text(items: Iterable[UUID]) -> str:
    return list_text([item.hex for item in items])


@lru_cache(maxsize=1_024)
def _subsets_text(items: tuple[str, ...]) -> str:
    """Every list that these capabilities cover, as it is stored; above a few only the empty list.

    Looking up a list is much cheaper than comparing two lists row by row.
    """
    few = sorted(set(items)) if len(items) <= FEW_CAPABILITIES else []
    sizes = range(len(few) + 1)
    return list_text([list_text(subset) for size in sizes for subset in combinations(few, size)])


def _many_text(items: Collection[str]) -> str | None:
    return list_text(items) if len(items) > FEW_CAPABILITIES else None


ENCODERS: dict[str, Callable[[Any], object]] = {
    "uuid": _blob,
    "uuidtext": uuid_text,
    "list": list_text,
    "uuids": _uuids_text,
    "subsets": lambda items: _subsets_text(tuple(items)),
    "many": _many_text,
}


def new_uuid_bytes() -> bytes:
    """A version 4 uuid, without the cost of a UUID object."""
    raw = bytearray(urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


def decode_uuid(raw: bytes | None) -> UUID | None:
    return None if raw is None else uuid_of(int.from_bytes(raw, "big"))


def decode_list(raw: str) -> tuple[str, ...]:
    """A damaged list does not hold up the rows that are read with it."""
    try:
        return () if raw == "[]" else _json_list(raw)
    except (ValueError, TypeError):
        return UNREADABLE


DECODERS: dict[str, Callable[[Any], object]] = {
    "uuid": decode_uuid,
    "uuidtext": lambda raw: None if raw is None else UUID(raw),
    "list": decode_list,
}
