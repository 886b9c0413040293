"""Values as the server keeps them, and keys whose order as bytes is that of the values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any
from uuid import UUID

from flowfabric.ids import uuid_of
from flowfabric.model.execution import UNREADABLE
from flowfabric.store.port import Row
from flowfabric.store.schema import Index, Table

_HALF = 1 << 63
_ALL = (1 << 64) - 1
_UUIDS = ("uuid", "uuidtext")
_NUMBERS = ("int", "auto")
_INT_BYTES, _UUID_BYTES = 8, 16
Decoder = Callable[[bytes], object]


def stored(value: object) -> object:
    """A value of a plan. A sequence is a list of values."""
    kind = type(value)
    if kind in AS_IT_IS:
        return value
    made = _STORED.get(kind)
    if made is not None:
        return made(value)
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [stored(each) for each in value]
    return str(value)


def _flag(value: Any) -> str:
    return "1" if value else "0"


AS_IT_IS = frozenset({str, bytes, type(None)})
_STORED: dict[type, Callable[[Any], object]] = {
    int: repr,
    float: repr,
    bool: _flag,
    UUID: attrgetter("bytes"),
}


def stored_list(value: Sequence[str] | None) -> str | None:
    """The value of a column that holds a list."""
    if not value:
        return None if value is None else "[]"
    return json.dumps(list(value), separators=(",", ":"), ensure_ascii=False)


def part_of_key(kind: str, value: Any, *, descending: bool = False) -> bytes:
    if kind in _NUMBERS:
        number = int(value) + _HALF
        return (_ALL - number if descending else number).to_bytes(8, "big")
    if kind in _UUIDS:
        return bytes(value.bytes)
    return str(value).encode() + b"\0"


def primary_key(table: Table, values: Sequence[object]) -> bytes:
    pairs = zip(table.key, values, strict=True)
    return b"".join(part_of_key(table.kinds[column], value) for column, value in pairs)


def values_of_key(table: Table, key: bytes) -> Row:
    """The values that `primary_key` has encoded."""
    found: list[object] = []
    for column in table.key:
        kind = table.kinds[column]
        if kind in _NUMBERS:
            part, key = key[:_INT_BYTES], key[_INT_BYTES:]
            found.append(int.from_bytes(part, "big") - _HALF)
        elif kind in _UUIDS:
            part, key = key[:_UUID_BYTES], key[_UUID_BYTES:]
            found.append(_uuid(part))
        else:
            part, _, key = key.partition(b"\0")
            found.append(part.decode())
    return tuple(found)


def group_of(table: Table, index: Index, group: Sequence[object]) -> bytes:
    pairs = zip(index.group, group, strict=True)
    return b"".join(part_of_key(table.kinds[column], value) for column, value in pairs)


def position_of(table: Table, index: Index, position: Sequence[object], *, primary: bool) -> bytes:
    """The columns of an order. The keys of a table ascend, whatever index they serve."""
    return b"".join(
        part_of_key(
            table.kinds[column], value, descending=not primary and column in index.descending
        )
        for column, value in zip(index.order, position, strict=True)
    )


# ---- stored rows


def _number(raw: bytes) -> int:
    return int(raw)


def _uuid(raw: bytes) -> UUID:
    return uuid_of(int.from_bytes(raw, "big"))


def _list(raw: bytes) -> tuple[str, ...]:
    """A damaged list does not hold up the rows read with it."""
    try:
        found = json.loads(raw)
    except ValueError:
        return UNREADABLE
    if not isinstance(found, list) or not all(type(item) is str for item in found):
        return UNREADABLE
    return tuple(found)


_DECODERS: dict[str, Decoder] = {
    "auto": _number,
    "int": _number,
    "text": bytes.decode,
    "uuid": _uuid,
    "uuidtext": _uuid,
    "bytes": bytes,
    "json": bytes.decode,
    "list": _list,
    "real": float,
}


def decoders(table: Table, columns: Sequence[str]) -> list[Decoder]:
    return [_DECODERS[table.kinds[column]] for column in columns]


def decoded(values: Sequence[bytes | None], readers: Sequence[Decoder]) -> Row:
    pairs = zip(values, readers, strict=True)
    return tuple([None if value is None else read(value) for value, read in pairs])
