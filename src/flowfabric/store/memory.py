"""The reference store: dictionaries, sorted lists, and the plain meaning of every word of a plan."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from flowfabric.errors import TransportError, Unavailable
from flowfabric.model.lease import BackendTag
from flowfabric.plan import (
    Absent,
    Among,
    Answer,
    AnyOf,
    Applied,
    Cond,
    Covered,
    Delete,
    Form,
    Guard,
    Insert,
    InsertEach,
    Plan,
    Present,
    Refused,
    Step,
    Update,
    UpdateMany,
    Upsert,
    Wake,
)
from flowfabric.store.clock import Clock, Ratchet, system_clock
from flowfabric.store.evaluate import (
    TESTS,
    Call,
    Key,
    Record,
    RefusedAt,
    changed,
    default_of,
    key_of,
)
from flowfabric.store.port import Get, GetAll, Loaded, Read, Row, ScanAll, Store, Tally
from flowfabric.store.schema import INDEXES, TABLES, Index, Table, channels_of
from flowfabric.store.wakeups import Topic, Wakeups


class MemoryStore:
    """Everything in this process, gone with it."""

    label = "memory"
    tag = BackendTag.SQLITE
    durability = "none (memory)"

    def __init__(self, clock: Clock = system_clock) -> None:
        self.hub = Wakeups()
        self.clock = Ratchet(clock)
        self._tables: dict[str, dict[Key, Record]] = {name: {} for name in TABLES}
        self._last_event: dict[str, int] = {
            name: 0 for name, t in TABLES.items() if t.columns[0].kind == "auto"
        }
        self._settled_events = dict(self._last_event)
        self._indexes: dict[str, dict[Key, list[tuple[Key, Key]]]] = {name: {} for name in INDEXES}
        self._undo: list[tuple[Table, Key, Record | None]] = []
        self._indexes_of = {t: [i for i in INDEXES.values() if i.table == t] for t in TABLES}
        self._serving = {
            t: [i for i in found if i.group and not i.where]
            for t, found in self._indexes_of.items()
        }
        self._prepared = self._closed = False

    async def prepare(self) -> str | None:
        first, self._prepared = not self._prepared, True
        return "memory tables" if first else None

    async def close(self) -> None:
        self._closed = True
        self.hub.ring_all()

    def _check_open(self) -> None:
        if self._closed:
            raise TransportError("memory", "the database was closed", backend_kind="protocol")

    def inside(self, connection: Any) -> Store:
        raise Unavailable("connection: only Postgres takes work into your own transaction")

    async def now_ms(self) -> int:
        return self.clock()

    async def commit(self, plan: Plan) -> Answer:
        return self._commit((plan,))

    async def commit_together(self, plans: Sequence[Plan]) -> Answer:
        return self._commit(plans)

    async def commit_many(self, plans: Sequence[Plan]) -> list[Answer]:
        return [self._commit_one(plan) for plan in plans]

    def _commit_one(self, plan: Plan) -> Any:
        try:
            return self._commit((plan,))
        except Exception as error:
            return error

    async def sweep(self, plan: Plan, limit: int) -> list[Row]:
        swept = await self.sweeps((), ((plan, limit),))
        assert not isinstance(swept, Refused)
        return swept[0]

    async def sweeps(
        self, first: Sequence[Plan], wanted: Sequence[tuple[Plan, int]]
    ) -> list[list[Row]] | Refused:
        self._check_open()
        now = self.clock()
        rung: list[tuple[Form, Call]] = []
        try:
            refused = self._apply(first, now, rung)
            if refused is not None:
                return refused
            swept = [self._sweep(plan, limit, now, rung) for plan, limit in wanted]
        except BaseException:
            self._roll_back()
            raise
        self._settle(rung)
        return swept

    async def commit_and_sweep(
        self, plans: Sequence[Plan], plan: Plan, limit: int
    ) -> tuple[list[Answer], list[Row]]:
        return await self.commit_many(plans), await self.sweep(plan, limit)

    def _sweep(self, plan: Plan, limit: int, now: int, rung: list[tuple[Form, Call]]) -> list[Row]:
        form, call = plan.form, Call(plan.form, plan.values, now)
        pick, head = form.pick, form.steps[0]
        assert pick is not None and isinstance(head, Update)
        index = INDEXES[pick.index]
        group = {c: call.value(v) for c, v in pick.group.items()}
        found: list[tuple[Key, Record]] = []
        named = next((g for g in pick.where if isinstance(g, Among) and index.primary), None)
        rows_by_key = None if named is None else self._named(index, group, call.value(named.by))
        for key, row in (
            rows_by_key
            if rows_by_key is not None
            else self._walk(index, group, None, call.value(pick.upto))
        ):
            if len(found) >= limit:
                break
            if all(self._holds(g, call, row) for g in (*pick.where, *head.where)):
                found.append((key, row))
        rows = []
        for key, row in found:
            one = Call(form, plan.values, now)
            one.before = dict(row)
            self._run(form, one, key)
            rows.append(one.returned(form))
            rung.append((form, one))
        return rows

    async def load(self, reads: Sequence[Read]) -> Loaded:
        self._check_open()
        return Loaded(self.clock(), [self._read(read) for read in reads])

    async def read_events(self, channel: str, after: int, limit: int) -> list[Row]:
        self._check_open()
        rows = self._tables[channel]
        found = []
        for number in range(after + 1, self._last_event[channel] + 1):
            row = rows.get((number,))
            if row is not None:
                found.append(_tuple(TABLES[channel], row))
                if len(found) >= limit:
                    break
        return found

    def last_event(self, channel: str) -> Awaitable[int]:
        """Fixed when it is asked for, not when it is awaited."""
        return _known(self._last_event[channel])

    async def next_due(self, index: str) -> int | None:
        lists = self._indexes[index].values()
        first = min((entries[0][0][0] for entries in lists if entries), default=None)
        return (
            None if first is None else int(_signed(INDEXES[index], INDEXES[index].order[0], first))
        )

    async def longest_writer(self) -> None:
        return None

    async def dump(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        return {
            t: [_tuple(TABLES[t], row) for _, row in sorted(self._tables[t].items())]
            for t in tables
        }

    def restore(self, tables: Mapping[str, Iterable[Row]], last_events: Mapping[str, int]) -> None:
        """Fills an empty store with dumped tables, and continues the numbers of the events."""
        for name, rows in tables.items():
            table = TABLES[name]
            for row in rows:
                record = dict(zip(table.names, row, strict=True))
                self._put(table, tuple(record[k] for k in table.key), record)
        self._last_event.update(last_events)
        self._undo.clear()
        self._settled_events = dict(self._last_event)

    # ---- applying

    def _commit(self, plans: Sequence[Plan]) -> Answer:
        self._check_open()
        rung: list[tuple[Form, Call]] = []
        now = self.clock()
        try:
            refused = self._apply(plans, now, rung)
        except BaseException:
            self._roll_back()
            raise
        if refused is not None:
            return refused
        self._settle(rung)
        form, call = rung[-1]
        return Applied(now, call.returned(form))

    def _apply(
        self, plans: Sequence[Plan], now: int, rung: list[tuple[Form, Call]]
    ) -> Refused | None:
        """In order; at the first that does not hold everything is as it was."""
        for at, plan in enumerate(plans):
            call = Call(plan.form, plan.values, now)
            try:
                self._run(plan.form, call, None)
            except RefusedAt as refused:
                self._roll_back()
                return Refused(at, refused.step)
            rung.append((plan.form, call))
        return None

    def _run(self, form: Form, call: Call, key: Key | None) -> None:
        for at, step in enumerate(form.steps):
            self._step(step, call, at, key if at == 0 else None)

    def _step(self, step: Step, call: Call, at: int, picked: Key | None) -> None:
        table, head = TABLES[step.table], at == 0
        match step:
            case Insert(row=row, where=where):
                if not all(self._holds(guard, call, {}) for guard in where):
                    raise RefusedAt(at)
                made = self._made(table, row, call)
                key = tuple(made[k] for k in table.key)
                if key in self._tables[step.table]:
                    raise RefusedAt(at)
                self._put(table, key, made)
                if head:
                    call.after = made
            case InsertEach(row=row, of=of):
                for item in call.value(of):
                    call.item = dict(zip(step.items, item, strict=True))
                    made = self._made(table, row, call)
                    key = tuple(made[k] for k in table.key)
                    if key in self._tables[step.table]:
                        raise RefusedAt(at)
                    self._put(table, key, made)
            case Upsert(row=row, set=changes):
                made = self._made(table, row, call)
                key = tuple(made[k] for k in table.key)
                stored = self._tables[step.table].get(key)
                after = made if stored is None else changed(table, stored, changes, call)
                self._put(table, key, after)
                if head:
                    call.before, call.after = stored or {}, after
            case Update(where=where, set=changes):
                key = picked or key_of(table, where, call)
                found = self._tables[step.table].get(key)
                if found is None or not all(self._holds(g, call, found) for g in where):
                    raise RefusedAt(at)
                if head:
                    call.before = found
                after = changed(table, found, changes, call)
                self._put(table, key, after)
                if head:
                    call.after = after
            case UpdateMany(where=where, set=changes):
                for key, row in self._matching(table, where, call):
                    self._put(table, key, changed(table, row, changes, call))
            case Delete(where=where):
                if not head:
                    for key, _ in self._matching(table, where, call):
                        self._put(table, key, None)
                    return
                key = key_of(table, where, call)
                found = self._tables[step.table].get(key)
                if found is None or not all(self._holds(g, call, found) for g in where):
                    raise RefusedAt(at)
                call.before = call.after = found
                for child in table.children:
                    self._delete_children(
                        TABLES[child.table], {child.column(k): found[k] for k in table.key}
                    )
                self._put(table, key, None)

    def _delete_children(self, child: Table, owner: Mapping[str, Any]) -> None:
        gone = [
            k
            for k, row in self._tables[child.name].items()
            if all(row[c] == v for c, v in owner.items())
        ]
        if child.outbox and gone:
            trim = TABLES["ff_outbox_trim"]
            key = (child.name,)
            mark = max(k[0] for k in gone)
            stored = self._tables["ff_outbox_trim"].get(key)
            if stored is None or stored["event_id"] < mark:
                self._put(trim, key, {"channel": child.name, "event_id": mark})
        for key in gone:
            self._put(child, key, None)

    def _made(self, table: Table, row: Mapping[str, Any], call: Call) -> Record:
        made: Record = {}
        for column in table.columns:
            if column.kind == "auto":
                self._last_event[table.name] += 1
                made[column.name] = self._last_event[table.name]
            elif column.name in row:
                made[column.name] = call.value(row[column.name])
            else:
                made[column.name] = default_of(column)
            assert made[column.name] is not None or column.null, (
                f"{table.name}.{column.name} is null"
            )
        return made

    def _holds(self, guard: Guard, call: Call, row: Record) -> bool:
        match guard:
            case Cond():
                return call.cond(guard, row)
            case AnyOf(conds=conds):
                return any(call.cond(c, row) for c in conds)
            case Covered(column=column, by=by):
                return set(row[column]) <= set(call.value(by))
            case Among(column=column, by=by):
                return row[column] in call.value(by)
            case Absent(table=table, where=where):
                return not self._matching(TABLES[table], where, call)
            case Present(table=table, where=where):
                return bool(self._matching(TABLES[table], where, call))

    def _matching(
        self, table: Table, where: tuple[Guard, ...], call: Call
    ) -> list[tuple[Key, Record]]:
        """By the key where it is named, else by an index whose group is, else one by one."""
        rows = self._tables[table.name]
        named: dict[str, Iterable[Any]] = {}
        for guard in where:
            if isinstance(guard, Cond) and guard.op == "=":
                named[guard.column] = (call.value(guard.value),)
            elif isinstance(guard, Among):
                named[guard.column] = call.value(guard.by)
        serving = next(
            (i for i in self._serving[table.name] if all(c in named for c in i.group)), None
        )
        if all(k in named for k in table.key):
            keys = product(*(named[k] for k in table.key))
            candidates: Iterable[tuple[Key, Record]] = [
                (key, rows[key]) for key in keys if key in rows
            ]
        elif serving is not None:
            groups = product(*(named[c] for c in serving.group))
            named_groups = (dict(zip(serving.group, group, strict=True)) for group in groups)
            candidates = [
                found for group in named_groups for found in self._walk(serving, group, None, None)
            ]
        else:
            candidates = list(rows.items())
        return [(k, row) for k, row in candidates if all(self._holds(c, call, row) for c in where)]

    # ---- rows and indexes

    def _put(self, table: Table, key: Key, row: Record | None) -> None:
        rows = self._tables[table.name]
        self._undo.append((table, key, rows.get(key)))
        self._write(table, key, row)

    def _write(self, table: Table, key: Key, row: Record | None) -> None:
        rows = self._tables[table.name]
        before = rows.get(key)
        for index in self._indexes_of[table.name]:
            old = _entry(index, key, before)
            new = _entry(index, key, row)
            if old == new:
                continue
            if old is not None:
                entries = self._indexes[index.name][old[0]]
                del entries[bisect.bisect_left(entries, (old[1], key))]
            if new is not None:
                bisect.insort(self._indexes[index.name].setdefault(new[0], []), (new[1], key))
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row

    def _roll_back(self) -> None:
        while self._undo:
            self._write(*self._undo.pop())
        self._last_event.update(self._settled_events)

    def _settle(self, applied: Sequence[tuple[Form, Call]]) -> None:
        self._undo.clear()
        self._settled_events = dict(self._last_event)
        topics: dict[Topic, None] = {}
        for form, call in applied:
            topics.update(dict.fromkeys((channel, None) for channel in channels_of(form)))
            for wake in form.wakes:
                self._wake(wake, call, topics)
        self.hub.ring(topics)

    def _wake(self, wake: Wake, call: Call, topics: dict[Topic, None]) -> None:
        if wake.at is None:
            topics[wake.topic, call.value(wake.key)] = None
            return
        at = call.value(wake.at)
        if at is not None:
            self.hub.due(wake.topic, at)

    def _read(self, read: Read) -> list[Row]:
        if isinstance(read, GetAll):
            return [
                row
                for key in read.keys
                for row in self._read(Get(read.table, tuple(key), read.columns))
            ]
        if isinstance(read, ScanAll):
            return [row for scan in read.scans() for row in self._read(scan)]
        if isinstance(read, Get):
            row = self._tables[read.table].get(read.key)
            return (
                []
                if row is None
                else [tuple(row[c] for c in read.columns or TABLES[read.table].names)]
            )
        index = INDEXES[read.index]
        if isinstance(read, Tally):
            return self._tally(index, read)
        table, found = TABLES[index.table], []
        if read.limit > 0:
            for _, row in self._walk(index, read.group, read.after, read.upto):
                found.append(tuple(row[c] for c in read.columns or table.names))
                if len(found) >= read.limit:
                    break
        return found

    def _tally(self, index: Index, read: Tally) -> list[Row]:
        groups = (
            [read.group]
            if read.group
            else [dict(zip(index.group, g, strict=True)) for g in sorted(self._indexes[index.name])]
        )
        rows = (row for group in groups for _, row in self._walk(index, group, None, None))
        counts = Counter(
            tuple(row[c] for c in read.columns) for row in islice(rows, max(read.limit, 0))
        )
        return [(*values, n) for values, n in counts.items()]

    def _named(
        self, index: Index, group: Mapping[str, Any], ids: Iterable[Any]
    ) -> Iterator[tuple[Key, Record]]:
        """Rows by their keys, in order, without walking the whole group."""
        rows = self._tables[index.table]
        keys = ((*(group[c] for c in index.group), ident) for ident in sorted(ids))
        return ((key, rows[key]) for key in keys if key in rows)

    def _walk(
        self, index: Index, group: Mapping[str, Any], after: Key | None, upto: Any
    ) -> Iterator[tuple[Key, Record]]:
        entries = self._indexes[index.name].get(tuple(group[c] for c in index.group), [])
        start = 0
        assert upto is None or index.order[0] not in index.descending, (
            f"{index.name}: a bound is for ascending indexes"
        )
        if after is not None:
            mark = tuple(_signed(index, c, v) for c, v in zip(index.order, after, strict=True))
            start = bisect.bisect_right(entries, mark, key=lambda e: e[0])
        rows = self._tables[index.table]
        for at in range(start, len(entries)):
            order, key = entries[at]
            if upto is not None and order[0] > upto:
                return
            yield key, rows[key]


def _entry(index: Index, key: Key, row: Record | None) -> tuple[Key, Key] | None:
    if row is None or not all(TESTS[c.op](row[c.column], c.value) for c in index.where):
        return None
    order = tuple(_signed(index, c, row[c]) for c in index.order)
    return tuple(row[c] for c in index.group), order


def _signed(index: Index, column: str, value: Any) -> Any:
    return -value if column in index.descending else value


def _tuple(table: Table, row: Record) -> Row:
    return tuple(row[c] for c in table.names)


async def _known(value: int) -> int:
    return value
