"""Compares what a cell keeps beside its rows with what follows from the rows: the keys of each
table, the members of each index, the directories of groups, and the counters of outboxes.

Nothing here is shared with the Lua that writes them, except for the codes in the names of keys.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from flowfabric.plan import Cond
from flowfabric.store.schema import INDEXES, TABLES, Index, Table
from flowfabric.store.valkey.cells import cell_of
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.lua_schema import (
    CODE_LENGTH,
    INDEX_CODES,
    TABLE_CODES,
    codes,
    large_columns,
    serves,
)
from flowfabric.store.valkey.options import Options

Raw = dict[str, bytes]
Entries = dict[bytes, set[bytes]]
PAGE, MEMBERS = 500, 2_000
PASSES, PAUSE_S = 3, 0.2
CELL_NAMES = (b"T", b"leader")
REGISTER = b"cells"
"""The time of the last commit, and the process that runs the loops."""
_CODE = CODE_LENGTH + 1
_HALF, _ALL = 1 << 63, (1 << 64) - 1
_TABLES = {code.encode(): TABLES[name] for name, code in TABLE_CODES.items()}
_INDEXES = {code.encode(): INDEXES[name] for name, code in INDEX_CODES.items()}
_COLUMNS = {
    name: {code.encode(): column for column, code in codes(table.names).items()}
    for name, table in TABLES.items()
}
_READ = """
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local found = {}
for _, key in ipairs(page[2]) do
  local kind, value = redis.call('TYPE', key)['ok'], false
  if kind == 'hash' then value = redis.call('HGETALL', key) end
  if kind == 'string' then value = redis.call('GET', key) end
  if kind == 'zset' then
    value = { redis.call('ZCARD', key), redis.call('ZCOUNT', key, 0, 0) }
  end
  found[#found + 1] = { key, kind, value }
end
return { page[1], found }
"""


class Fault(Struct, frozen=True):
    """What is wrong, and where."""

    subject: str
    says: str


class Stored(Struct):
    """The keys of a cell without its prefix, by their kind."""

    rows: dict[bytes, dict[bytes, bytes]] = field(default_factory=dict)
    sets: Entries = field(default_factory=dict)
    texts: dict[bytes, bytes] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)


async def audit_cells(base: Options) -> list[Fault]:
    """The faults of the base cell and of the cells that it has registered."""
    connection = await Connection.open(base)
    try:
        names = await connection.command("SMEMBERS", f"{base.prefix}:cells")
    finally:
        await connection.close()
    found = await audit(base)
    for name in sorted(names):
        cell = cell_of(base, name.decode())
        found += [Fault(f"{cell.cell}: {fault.subject}", fault.says) for fault in await audit(cell)]
    return found


async def audit(options: Options) -> list[Fault]:
    """What stays wrong: a cell in use is read in pieces, and a piece may be older than another."""
    connection = await Connection.open(options)
    try:
        found: dict[Fault, None] = {}
        for at in range(PASSES):
            again = dict.fromkeys(faults(await read(connection, options.prefix)))
            found = again if at == 0 else {fault: None for fault in found if fault in again}
            if not found:
                break
            await asyncio.sleep(PAUSE_S)
        return list(found)
    finally:
        await connection.close()


async def read(connection: Connection, prefix: str) -> Stored:
    stored, cursor, start = Stored(), "0", len(prefix) + 1
    while True:
        asked = ("EVAL", _READ, "1", prefix, cursor, f"{prefix}:*", str(PAGE))
        after, found = await connection.command(*asked)
        for key, kind, value in found:
            name = key[start:]
            if kind == b"hash":
                stored.rows[name] = dict(zip(value[::2], value[1::2], strict=True))
            elif kind == b"string":
                stored.texts[name] = value
            elif kind == b"zset":
                if value[0] != value[1]:
                    stored.odd.append(f"{name!r}: members have scores")
                stored.sets[name] = await _members(connection, key)
            elif name != REGISTER and kind != b"none":  # removed meanwhile
                stored.odd.append(f"{name!r}: a {kind.decode()}")
        cursor = after.decode()
        if cursor == "0":
            return stored


async def _members(connection: Connection, key: bytes) -> set[bytes]:
    found: set[bytes] = set()
    low: bytes | str = "-"
    while True:
        asked = ("ZRANGEBYLEX", key, low, "+", "LIMIT", "0", str(MEMBERS))
        page = await connection.command(*asked)
        found.update(page)
        if len(page) < MEMBERS:
            return found
        low = b"(" + page[-1]


# ---- comparing


def faults(stored: Stored) -> Iterator[Fault]:
    for says in stored.odd:
        yield Fault("cell", says)
    rows = {
        name: dict(_rows_of(name.encode(), table, stored.rows))
        for name, table in ((TABLE_CODES[t], TABLES[t]) for t in TABLES)
    }
    wanted: Entries = {}
    for name, table in TABLES.items():
        of_table = rows[TABLE_CODES[name]]
        yield from _keys(table, of_table, stored)
        yield from _numbers(table, of_table.values(), stored)
        if of_table:
            wanted[TABLE_CODES[name].encode()] = set(of_table)
    for name, index in INDEXES.items():
        if serves(index) == "entries":
            entries = dict(_entries(index, rows[TABLE_CODES[index.table]]))
            code = INDEX_CODES[name].encode()
            wanted |= {code + group: members for group, members in entries.items()}
            if index.group and entries:
                wanted[b"D" + code] = set(entries)
    yield from _differences(wanted, stored.sets)
    yield from _strangers(stored)


def _rows_of(
    code: bytes, table: Table, hashes: Mapping[bytes, Mapping[bytes, bytes]]
) -> Iterator[tuple[bytes, Raw]]:
    columns = _COLUMNS[table.name]
    defaults = {
        column.name: str(column.default).encode()
        for column in table.columns
        if column.default is not None
    }
    for name, stored in hashes.items():
        if name.startswith(code):
            own = {columns[each]: value for each, value in stored.items() if each in columns}
            yield name[_CODE:], {**defaults, **own}


def _keys(table: Table, rows: Mapping[bytes, Raw], stored: Stored) -> Iterator[Fault]:
    for key, row in rows.items():
        if _key_of(table, table.key, row) != key:
            yield Fault(table.name, f"the row {key!r} has another key in its columns")
        unknown = set(stored.rows[TABLE_CODES[table.name].encode() + key]) - set(
            _COLUMNS[table.name]
        )
        if unknown:
            yield Fault(table.name, f"the row {key!r} has fields that are no columns")
    large = large_columns(table)
    code = b"L" + TABLE_CODES[table.name].encode()
    for name in stored.rows:
        if name.startswith(code) and (not large or name[1 + _CODE :] not in rows):
            yield Fault(table.name, f"large columns {name[1 + _CODE :]!r} have no row")


def _numbers(table: Table, rows: Iterable[Raw], stored: Stored) -> Iterator[Fault]:
    """A number that is given twice would overwrite an event."""
    if not table.is_numbered:
        return
    last = int(stored.texts.get(b"N" + TABLE_CODES[table.name].encode(), b"0"))
    highest = max((int(row[table.columns[0].name]) for row in rows), default=0)
    if highest > last:
        yield Fault(table.name, f"the last number is {last}, and a row has {highest}")


def _entries(index: Index, rows: Mapping[bytes, Raw]) -> Iterator[tuple[bytes, set[bytes]]]:
    table = TABLES[index.table]
    found: Entries = defaultdict(set)
    for key, row in rows.items():
        if all(_holds(cond, row.get(cond.column)) for cond in index.where):
            group = _key_of(table, index.group, row)
            found[group].add(_key_of(table, index.order, row, index.descending) + key)
    return iter(found.items())


def _differences(wanted: Entries, stored: Entries) -> Iterator[Fault]:
    for name in sorted(wanted.keys() | stored.keys()):
        should, does = wanted.get(name, set()), stored.get(name, set())
        for says, entries in (("is missing", should - does), ("has no row", does - should)):
            for entry in sorted(entries):
                yield Fault(_shown(name), f"{entry!r} {says}")


def _strangers(stored: Stored) -> Iterator[Fault]:
    """Keys that no row and no index accounts for. Members of unknown sets are named already."""
    for name in stored.rows:
        if name.removeprefix(b"L")[:_CODE] not in _TABLES:
            yield Fault("cell", f"the hash {name!r} is of no table")
    for name in stored.texts:
        if name not in CELL_NAMES and not (name[:1] == b"N" and name[1:] in _TABLES):
            yield Fault("cell", f"the key {name!r} is not known")


def _shown(name: bytes) -> str:
    if name in _TABLES:
        return f"keys of {_TABLES[name].name}"
    if name[:1] == b"D" and name[1:] in _INDEXES:
        return f"groups of index {_INDEXES[name[1:]].name}"
    index = _INDEXES.get(name[:_CODE])
    return f"set {name!r}" if index is None else f"index {index.name}"


# ---- the order of values


def _key_of(
    table: Table, columns: Iterable[str], row: Raw, descending: Iterable[str] = ()
) -> bytes:
    return b"".join(
        _part(table.kinds[column], row.get(column), is_back=column in descending)
        for column in columns
    )


def _part(kind: str, value: bytes | None, *, is_back: bool) -> bytes:
    """A null follows all values."""
    if kind in ("int", "auto"):
        if value is None:
            return b"\xff" * 8
        number = int(value) + _HALF
        return (_ALL - number if is_back else number).to_bytes(8, "big")
    if kind in ("uuid", "uuidtext"):
        return b"\xff" * 16 if value is None else value
    return (b"\xff" if value is None else value) + b"\0"


def _holds(cond: Cond, value: bytes | None) -> bool:
    match cond.op:
        case "is null":
            return value is None
        case "not null":
            return value is not None
    if value is None:
        return False
    given: Any = cond.value
    match cond.op:
        case "in":
            return value in [str(each).encode() for each in given]
        case "=":
            return value == str(given).encode()
        case "!=":
            return value != str(given).encode()
    raise AssertionError(f"an index with {cond.op}")
