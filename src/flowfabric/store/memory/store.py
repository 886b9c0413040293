"""The in-memory store: no I/O, one transaction at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from itertools import islice
from typing import cast

from flowfabric.errors import TransportError, Unavailable
from flowfabric.model.lease import BackendTag
from flowfabric.plan import Answer, Plan, Refused
from flowfabric.plan import Applied as Done
from flowfabric.store.clock import Clock, Ratchet, system_clock
from flowfabric.store.memory.apply import Applied, Applier
from flowfabric.store.memory.evaluate import Record
from flowfabric.store.memory.search import find
from flowfabric.store.memory.tables import MemoryTables
from flowfabric.store.port import (
    Count,
    Find,
    Get,
    GetAll,
    Loaded,
    Read,
    Row,
    ScanAll,
    Store,
    Tally,
)
from flowfabric.store.schema import INDEXES, TABLES, Index, Table, channels_of
from flowfabric.store.wakeups import Topic, Wakeups


class MemoryStore:
    """Keeps rows in this process; they are lost with it."""

    label = "memory"
    tag = BackendTag.SQLITE
    durability = "none (memory)"

    def __init__(self, clock: Clock = system_clock) -> None:
        self.hub = Wakeups()
        self.clock = Ratchet(clock)
        self._tables = MemoryTables()
        self._applier = Applier(self._tables)
        self._prepared = self._closed = False

    async def prepare(self) -> str | None:
        first, self._prepared = not self._prepared, True
        return "memory tables" if first else None

    def restore(self, tables: Mapping[str, Iterable[Row]], last_events: Mapping[str, int]) -> None:
        """Fills an empty store with dumped tables, and continues the numbers of the events."""
        for name, rows in tables.items():
            table = TABLES[name]
            for row in rows:
                record = dict(zip(table.names, row, strict=True))
                self._tables.put(table, tuple(record[k] for k in table.key), record)
        self._tables.last_event.update(last_events)
        self._tables.commit()

    async def close(self) -> None:
        self._closed = True
        self.hub.ring_all()

    def _check_open(self) -> None:
        if self._closed:
            raise TransportError("memory", "the database was closed", backend_kind="protocol")

    def inside(self, connection: object) -> Store:
        raise Unavailable("connection: only Postgres takes work into your own transaction")

    async def now_ms(self) -> int:
        return self.clock()

    # ---- commits

    async def commit(self, plan: Plan) -> Answer:
        return self._commit((plan,))

    async def commit_together(self, plans: Sequence[Plan]) -> Answer:
        return self._commit(plans)

    async def commit_many(self, plans: Sequence[Plan]) -> list[Answer]:
        return [self._commit_one(plan) for plan in plans]

    def _commit_one(self, plan: Plan) -> Answer:
        try:
            return self._commit((plan,))
        except Exception as error:
            return cast(Answer, error)  # the port returns exceptions in place of answers

    def _commit(self, plans: Sequence[Plan]) -> Answer:
        self._check_open()
        applied: Applied = []
        now = self.clock()
        try:
            refused = self._applier.apply(plans, now, applied)
        except BaseException:
            self._tables.roll_back()
            raise
        if refused is not None:
            self._tables.roll_back()
            return refused
        self._finish(applied)
        form, call = applied[-1]
        return Done(now, call.returned(form))

    async def sweep(self, plan: Plan, limit: int) -> list[Row]:
        swept = await self.sweeps((), ((plan, limit),))
        assert not isinstance(swept, Refused)
        return swept[0]

    async def sweeps(
        self, first: Sequence[Plan], wanted: Sequence[tuple[Plan, int]]
    ) -> list[list[Row]] | Refused:
        self._check_open()
        now = self.clock()
        applied: Applied = []
        try:
            refused = self._applier.apply(first, now, applied)
            if refused is None:
                swept = [self._applier.sweep(plan, limit, now, applied) for plan, limit in wanted]
        except BaseException:
            self._tables.roll_back()
            raise
        if refused is not None:
            self._tables.roll_back()
            return refused
        self._finish(applied)
        return swept

    async def commit_and_sweep(
        self, plans: Sequence[Plan], plan: Plan, limit: int
    ) -> tuple[list[Answer], list[Row]]:
        return await self.commit_many(plans), await self.sweep(plan, limit)

    def _finish(self, applied: Applied) -> None:
        """Commits, then wakes the waiters of what was applied."""
        self._tables.commit()
        topics: dict[Topic, None] = {}
        for form, call in applied:
            topics.update(dict.fromkeys((channel, None) for channel in channels_of(form)))
            for wake in form.wakes:
                if wake.at is None:
                    topics[wake.topic, call.value(wake.key)] = None
                elif (at := call.value(wake.at)) is not None:
                    self.hub.due(wake.topic, at)
        self.hub.ring(topics)

    # ---- reads

    async def load(self, reads: Sequence[Read]) -> Loaded:
        self._check_open()
        return Loaded(self.clock(), [self._read(read) for read in reads])

    def _read(self, read: Read) -> list[Row]:
        if isinstance(read, GetAll):
            gets = [Get(read.table, tuple(key), read.columns) for key in read.keys]
            return [row for get in gets for row in self._read(get)]
        if isinstance(read, ScanAll):
            return [row for scan in read.scans() for row in self._read(scan)]
        if isinstance(read, Get):
            row = self._tables.rows[read.table].get(read.key)
            return [] if row is None else [_values(TABLES[read.table], row, read.columns)]
        if isinstance(read, Count):
            counts = Counter(
                tuple(row[c] for c in read.columns)
                for row in self._tables.rows[read.table].values()
            )
            return [(*values, n) for values, n in counts.items()]
        index = INDEXES[read.index]
        if isinstance(read, Find):
            return find(self._tables, read)
        if isinstance(read, Tally):
            return self._tally(index, read)
        rows = self._tables.walk(index, read.group, read.after, read.upto)
        table = TABLES[index.table]
        return [_values(table, row, read.columns) for _, row in islice(rows, max(read.limit, 0))]

    def _tally(self, index: Index, read: Tally) -> list[Row]:
        groups = [read.group] if read.group else self._tables.groups(index)
        rows = (row for group in groups for _, row in self._tables.walk(index, group))
        some = islice(rows, max(read.limit, 0))
        counts = Counter(tuple(row[c] for c in read.columns) for row in some)
        return [(*values, n) for values, n in counts.items()]

    async def read_events(self, channel: str, after: int, limit: int) -> list[Row]:
        self._check_open()
        rows = self._tables.rows[channel]
        numbers = range(after + 1, self._tables.last_event[channel] + 1)
        found = (rows[number,] for number in numbers if (number,) in rows)
        return [_values(TABLES[channel], row) for row in islice(found, max(limit, 1))]

    def last_event(self, channel: str) -> Awaitable[int]:
        """Read at the call, not when the answer is awaited."""
        return _known(self._tables.last_event[channel])

    async def next_due(self, index: str) -> int | None:
        return self._tables.first(INDEXES[index])

    async def maintain(self) -> int:
        return 0

    async def longest_writer(self) -> None:
        return None

    async def dump(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        return {
            t: [_values(TABLES[t], row) for _, row in sorted(self._tables.rows[t].items())]
            for t in tables
        }


def _values(table: Table, row: Record, columns: tuple[str, ...] = ()) -> Row:
    return tuple(row[c] for c in columns or table.names)


async def _known(value: int) -> int:
    return value
