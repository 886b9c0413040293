"""Plans and reads as the server's functions take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowfabric.plan import Plan
from flowfabric.store.port import Get, GetAll, Scan, ScanAll, Tally
from flowfabric.store.schema import INDEXES, TABLES, Index
from flowfabric.store.valkey.encoding import (
    AS_IT_IS,
    group_of,
    part_of_key,
    position_of,
    primary_key,
    stored,
    stored_list,
)
from flowfabric.store.valkey.library import server_form
from flowfabric.store.valkey.lua_schema import serves

Request = list[object]
"""What msgpack packs: texts, bytes, nulls, flags, numbers, and lists of them."""
Simple = Get | GetAll | Scan | ScanAll | Tally


def plan_request(plan: Plan) -> Request:
    form = server_form(plan.form)
    values = [v if type(v) in AS_IT_IS else stored(v) for v in plan.values]
    for at in form.lists:
        values[at] = stored_list(plan.values[at])
    for at, places in form.items.items():
        if places:
            values[at] = [_item(item, places) for item in plan.values[at]]
    return [form.number, *values]


def _item(item: Sequence[Any], places: frozenset[int]) -> Request:
    return [stored_list(v) if at in places else stored(v) for at, v in enumerate(item)]


def read_request(read: Simple) -> Request:
    columns = read.columns
    if isinstance(read, Get | GetAll):
        table = TABLES[read.table]
        keys = [read.key] if isinstance(read, Get) else read.keys
        return [
            "get",
            table.name,
            [primary_key(table, k) for k in keys],
            _shown(read.table, columns),
        ]
    index = INDEXES[read.index]
    table, code = TABLES[index.table], index.name
    if isinstance(read, ScanAll):
        groups = [group_of(table, index, group) for group in read.groups]
        return ["scans", code, groups, max(read.limit, 0), _shown(table.name, columns)]
    if isinstance(read, Tally):
        return ["tally", code, group_named(index, read.group), max(read.limit, 0), list(columns)]
    one = _one_group(index, read.group)
    return ["scan", code, one, *_bounds(read), max(read.limit, 0), _shown(table.name, columns)]


def group_named(index: Index, named: Mapping[str, object]) -> bytes | bool:
    """False for all groups."""
    return False if index.group and not named else _one_group(index, named)


def _one_group(index: Index, named: Mapping[str, object]) -> bytes:
    return group_of(TABLES[index.table], index, [named[column] for column in index.group])


def _bounds(read: Scan) -> Request:
    index = INDEXES[read.index]
    upto: bytes | bool = False
    if read.upto is not None:
        upto = part_of_key(TABLES[index.table].kinds[index.bound_column()], read.upto)
    return [behind(index, read.after), upto]


def behind(index: Index, position: Sequence[object] | None) -> bytes | bool:
    """False for the beginning."""
    if position is None:
        return False
    return position_of(TABLES[index.table], index, position, primary=serves(index) == "key")


def _shown(table: str, columns: tuple[str, ...]) -> list[str]:
    return list(columns or TABLES[table].names)
