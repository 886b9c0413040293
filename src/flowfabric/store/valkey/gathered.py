"""The rows of several cells in the order of their keys, as a copy reads them.

Each cell numbers its events on its own, so a database that numbers those of all namespaces together
gets new numbers, which begin behind the highest of all cells. It says that earlier events were
removed: the cursor of a subscriber that is older finds out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Any

import msgspec

from flowfabric.errors import ConfigError
from flowfabric.model.bulk import MAX_ERRORS
from flowfabric.store.owners import BASE_ONLY, COUNTED, EVERYWHERE, JOBS
from flowfabric.store.port import Row
from flowfabric.store.schema import OUTBOXES, Table
from flowfabric.store.transfer import NUMBERED
from flowfabric.store.valkey.cell_rows import CellRows, key_of
from flowfabric.store.valkey.encoding import primary_key

_TIMES = ("occurred_at_ms", "event_at_ms")
_TRIMS = "ff_outbox_trim"


async def spread(
    cells: Sequence[CellRows], table: Table, after: bytes | None
) -> AsyncIterator[Row]:
    """The rows that a copy has written, each once. A row of all cells is left out when one of them
    lacks it.
    """
    async for group in _groups(cells, table, after):
        if table.name in EVERYWHERE:
            if len(group) == len(cells) and all(row == group[0] for row in group):
                yield group[0]
        elif table.name == JOBS:
            yield group[0]
        else:
            for row in group:
                yield row


async def gathered(
    cells: Sequence[CellRows], table: Table, after: Row | None
) -> AsyncIterator[Row]:
    """The rows of all cells as those of one database. The base cell is the first."""
    key = None if after is None else primary_key(table, after)
    if table.is_numbered:
        async for row in _renumbered(cells, table, after):
            yield row
    elif table.name == _TRIMS:
        numbers = await _highest(cells)
        for channel in sorted(OUTBOXES):
            if numbers[channel] and (after is None or (channel,) > after):
                yield (channel, numbers[channel])
    elif table.name in BASE_ONLY:
        async for row in cells[0].rows(table, key):
            yield row
    else:
        async for group in _groups(cells, table, key):
            if table.name == JOBS:
                yield _whole_job(table, group)
            elif len(group) == 1 or table.name in EVERYWHERE:
                yield group[0]
            else:
                raise _twice(table, group[0])


async def gathered_numbers(cells: Sequence[CellRows]) -> dict[str, int]:
    highest = await _highest(cells)
    return {
        table.name: highest[table.name] + sum([await cell.count(table) for cell in cells])
        for table in NUMBERED
    }


async def _highest(cells: Sequence[CellRows]) -> dict[str, int]:
    found = [await cell.numbers() for cell in cells]
    return {name: max(each[name] for each in found) for name in found[0]}


async def _renumbered(
    cells: Sequence[CellRows], table: Table, after: Row | None
) -> AsyncIterator[Row]:
    """By their times; those of one cell stay in their order."""
    at = next(table.names.index(name) for name in _TIMES if name in table.names)
    number = (await _highest(cells))[table.name]
    behind = number if after is None else after[0]
    latest = [0] * len(cells)

    def order(index: int, row: Row) -> int:
        latest[index] = max(latest[index], row[at])
        return latest[index]

    async for _, row in _merged(cells, table, None, order):
        number += 1
        if number > behind:
            yield (number, *row[1:])


async def _groups(
    cells: Sequence[CellRows], table: Table, after: bytes | None
) -> AsyncIterator[list[Row]]:
    """The rows of one key, in the order of their cells."""
    last, group = b"", list[Row]()
    async for key, row in _merged(cells, table, after, lambda _, row: key_of(table, row)):
        if group and key != last:
            yield group
            group = []
        last = key
        group.append(row)
    if group:
        yield group


async def _merged(
    cells: Sequence[CellRows],
    table: Table,
    after: bytes | None,
    order: Callable[[int, Row], Any],
) -> AsyncIterator[tuple[Any, Row]]:
    streams = [cell.rows(table, after) for cell in cells]
    rows: dict[int, Row] = {}
    heads: list[tuple[Any, int]] = []

    async def advance(index: int) -> None:
        row = await anext(streams[index], None)
        if row is not None:
            rows[index] = row
            heappush(heads, (order(index, row), index))

    for index in range(len(streams)):
        await advance(index)
    while heads:
        place, index = heappop(heads)
        yield place, rows[index]
        await advance(index)


def _whole_job(table: Table, parts: Sequence[Row]) -> Row:
    """A job over all namespaces is a job of the same id in each cell."""
    jobs = [dict(zip(table.names, row, strict=True)) for row in parts]
    is_running = any(job["state"] == "running" for job in jobs)
    if len(jobs) == 1 and (jobs[0]["namespace"] is not None or not is_running):
        return parts[0]
    if is_running:
        raise ConfigError(
            f"bulk job {jobs[0]['job_id']} runs over all namespaces, and has got to another place "
            "in each cell; stop it, or wait for its end, and copy again"
        )
    errors = chain.from_iterable(msgspec.json.decode(job["errors"]) for job in jobs)
    whole = {
        **jobs[0],
        **{name: sum(job[name] for job in jobs) for name in COUNTED},
        "errors": msgspec.json.encode(list(errors)[:MAX_ERRORS]).decode(),
    }
    return tuple(whole.values())


def _twice(table: Table, row: Row) -> ConfigError:
    key = {name: str(row[table.names.index(name)]) for name in table.key}
    return ConfigError(
        f"{table.name}: {key} is in the cells of two namespaces, and a database of all namespaces "
        "has it once; delete one of them, and copy again"
    )
