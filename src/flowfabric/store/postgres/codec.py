"""Arguments as Postgres receives them, and answers as domain values."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from uuid import UUID

import msgspec

from flowfabric.ids import uuid_of, uuid_text
from flowfabric.model.execution import UNREADABLE
from flowfabric.plan import Plan
from flowfabric.store.port import Row
from flowfabric.store.sql.pg_form import PgForm
from flowfabric.store.sql.rows import SqlRow

Values = Sequence[Any]
_VERSION = bytes(0x40 | byte & 0x0F for byte in range(256))
_VARIANT = bytes(0x80 | byte & 0x3F for byte in range(256))
_json = msgspec.json.Encoder().encode


# ---- answers


def _uuid(raw: Any) -> UUID | None:
    return None if raw is None else uuid_of(raw.int)


def _list(raw: Sequence[str]) -> tuple[str, ...]:
    """A damaged list, with nulls or lists in it, does not hold up the rows read with it."""
    return tuple(raw) if all(type(item) is str for item in raw) else UNREADABLE


DECODERS: dict[str, Callable[[Any], object]] = {
    "list": _list,
    "uuid": _uuid,
    "uuidtext": _uuid,
}
_RETURNED: dict[str, Callable[[Any], object]] = {**DECODERS, "list": tuple}


def answer_reader(sql: PgForm) -> Callable[[SqlRow], Row]:
    """Reads the `returning` columns of an answer row."""
    start, end = sql.returned
    decoders = [
        (at, _RETURNED[kind]) for at, kind in enumerate(sql.returned_kinds) if kind in _RETURNED
    ]
    if not decoders:
        return lambda row: tuple(row[start:end])

    def read(row: SqlRow) -> Row:
        values = list(row[start:end])
        for at, decode in decoders:
            values[at] = decode(values[at])
        return tuple(values)

    return read


def plain_key(key: Values) -> Row:
    """A uuid as its number, which is hashed and compared five times faster."""
    return tuple([getattr(part, "int", part) for part in key])


def key_reader(sql: PgForm) -> Callable[[Values], Row]:
    """Reads from the arguments what names the row, as `plain_key`."""
    positions = sql.key
    if len(positions) == 2 and sql.kinds[positions[0]] != "uuid":
        first, second = positions

        def read_two(values: Values) -> Row:
            part = values[second]
            return values[first], getattr(part, "int", part)

        return read_two
    return lambda values: plain_key([values[at] for at in positions])


# ---- arguments


def argument_arrays(sql: PgForm, plans: Sequence[Plan]) -> list[Values]:
    """One array per argument; a form without any gets one that counts the plans."""
    if not sql.kinds:
        return [[1] * len(plans)]
    columns: list[Values] = list(zip(*(plan.values for plan in plans), strict=True))
    unpacked = sql.key or (0,)  # one array at least shows how many plans there are
    arrays = []
    for at in sql.arrays:
        column = columns[at]
        if sql.packed and at not in unpacked and _all_equal(column):
            column = column[:1]
        pack = _items_packer(sql.items) if sql.kinds[at] == "items" else _PACKERS.get(sql.kinds[at])
        arrays.append(column if pack is None else [pack(items) for items in column])
    return arrays


def random_uuids(count: int) -> bytes:
    """The bytes of new uuids of version 4."""
    drawn = bytearray(os.urandom(16 * count))
    drawn[6::16] = drawn[6::16].translate(_VERSION)
    drawn[8::16] = drawn[8::16].translate(_VARIANT)
    return bytes(drawn)


def _all_equal(column: Values) -> bool:
    return bool(column[0] == column[-1]) and column.count(column[0]) == len(column)


def _array_text(items: Sequence[str] | None) -> str | None:
    """A list in Postgres' notation; an array of lists would have to be rectangular."""
    if items is None:
        return None
    if not items:
        return "{}"
    quoted = (item.replace("\\", "\\\\").replace('"', '\\"') for item in items)
    return "{" + ",".join(f'"{item}"' for item in quoted) + "}"


def _uuids_text(items: Sequence[UUID]) -> str:
    return "{" + ",".join(map(uuid_text, items)) + "}"


@cache
def _items_packer(parts: tuple[tuple[str, str], ...]) -> Callable[[Sequence[Row]], str]:
    """Items as a JSON array of objects; parts that are JSON text are inserted as they are."""
    item_type = msgspec.defstruct("Item", [name for name, _ in parts])
    raw = [at for at, (_, kind) in enumerate(parts) if kind == "json"]

    def packed(item: Row) -> msgspec.Struct:
        values = list(item)
        for at in raw:
            values[at] = msgspec.Raw(values[at].encode())
        return item_type(*values)

    return lambda items: _json([packed(item) for item in items]).decode()


_PACKERS: dict[str, Callable[[Any], str | None]] = {"list": _array_text, "uuids": _uuids_text}
