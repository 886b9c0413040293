"""The engines of the cells of a deployment, each opened at its first use."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from typing import Protocol, TypeVar
from weakref import WeakSet

from flowfabric.engine.cells import inherited
from flowfabric.engine.engine import Engine
from flowfabric.ids import name
from flowfabric.store.port import Row
from flowfabric.store.single_flight import SingleFlight

T = TypeVar("T")
BASE = "default"
"""The namespace whose cell is the base cell."""
MAX_OPEN = 1_000
"""Further cells replace those that were used longest ago."""
AT_ONCE = 64


class Registry(Protocol):
    """The namespaces that have cells beside the base cell."""

    async def add(self, namespace: str) -> None: ...

    async def names(self) -> list[str]: ...


class Cells:
    """`open_cell` asks no server, so a cell that is only named costs nothing there."""

    def __init__(
        self, base: Engine, registry: Registry, open_cell: Callable[[str], Engine]
    ) -> None:
        self.base, self._registry, self._open_cell = base, registry, open_cell
        self._open: OrderedDict[str, Engine] = OrderedDict()
        self._in_use: WeakSet[Engine] = WeakSet()
        self._known = {BASE}
        self._flight = SingleFlight()
        self.only: str | None = None

    def limited_to(self, namespace: str) -> Cells:
        """The same cells, of which lists and searches ask that of one namespace."""
        view = copy(self)
        view.only = namespace
        return view

    def cell(self, namespace: str) -> Engine:
        """The engine of a namespace, whether it is registered or not."""
        if namespace == BASE:
            return self.base
        found = self._open.get(namespace)
        if found is None:
            found = self._open[namespace] = self._open_cell(name(namespace, "namespace"))
            self._in_use.add(found)
            found.watched_by(self.base.telemetry)
            if len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)
        else:
            self._open.move_to_end(namespace)
        return found

    async def registered(self, namespace: str) -> Engine:
        """The engine of a namespace that is about to be written to."""
        cell = self.cell(namespace)
        if namespace not in self._known:
            await self._flight.once(namespace, lambda: self._register(namespace, cell))
        return cell

    async def _register(self, namespace: str, cell: Engine) -> None:
        """The cell is registered before it gets what all cells share, and both before the first
        write. A crash in between leaves an empty cell, and the next caller repeats both.
        """
        await self._registry.add(namespace)
        await inherited.give(self.base, cell)
        self._known.add(namespace)

    async def names(self) -> list[str]:
        """The namespaces that have cells, in the order of their texts."""
        if self.only is not None:
            return [self.only]
        return await self._all_names()

    async def _all_names(self) -> list[str]:
        return sorted({BASE, *await self._registry.names()})

    def opened(self) -> list[str]:
        """The base cell and those that this process uses, the latest first."""
        return [BASE, *reversed(self._open)]

    async def all(self, call: Callable[[Engine], Awaitable[T]]) -> list[tuple[str, T]]:
        """The answers of all cells, by namespace."""
        names = await self.names()
        return list(zip(names, await self.among(names, call), strict=True))

    async def answers(self, call: Callable[[Engine], Awaitable[T]]) -> list[T]:
        return [answer for _, answer in await self.all(call)]

    async def among(self, names: Sequence[str], call: Callable[[Engine], Awaitable[T]]) -> list[T]:
        """The answers of some cells, of which a few are asked at once."""
        found: list[T] = []
        for at in range(0, len(names), AT_ONCE):
            part = names[at : at + AT_ONCE]
            found += await asyncio.gather(*(call(self.cell(each)) for each in part))
        return found

    async def everywhere(self, call: Callable[[Engine], Awaitable[T]]) -> T:
        """The answer of the base cell, after a change that all cells get. A cell that is registered
        meanwhile gets it from the base cell.
        """
        first = await call(self.base)
        others = [each for each in await self._all_names() if each != BASE]
        await self.among(others, call)
        return first

    def engines(self) -> Iterable[Engine]:
        return (self.base, *self._in_use)


async def dump_cells(cells: Cells, tables: Iterable[str]) -> dict[str, list[Row]]:
    """Whole tables of all cells, one cell after the other."""
    listed = list(tables)
    found: dict[str, list[Row]] = {table: [] for table in listed}
    for each in await cells.names():
        for table, rows in (await cells.cell(each).store.dump(listed)).items():
            found[table] += rows
    return found
