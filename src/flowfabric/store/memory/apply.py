"""Steps of a plan applied to the in-memory tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from flowfabric.plan import (
    Absent,
    Among,
    AnyOf,
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
)
from flowfabric.store.memory.evaluate import Call, Key, Record, Values, changed, key_of, new_row
from flowfabric.store.memory.tables import Found, MemoryTables
from flowfabric.store.port import Row
from flowfabric.store.schema import INDEXES, TABLES, Table

Applied = list[tuple[Form, Call]]
"""What one transaction has applied so far."""


class _RefusedAt(Exception):
    def __init__(self, step: int) -> None:
        self.step = step


class Applier:
    """Writes to the tables; the caller commits them or rolls them back."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def apply(self, plans: Sequence[Plan], now: int, applied: Applied) -> Refused | None:
        """All plans in order, up to the first that is refused."""
        for at, plan in enumerate(plans):
            call = Call(plan.form, plan.values, now)
            try:
                self._run(plan.form, call, None)
            except _RefusedAt as refused:
                return Refused(at, refused.step)
            applied.append((plan.form, call))
        return None

    def sweep(self, plan: Plan, limit: int, now: int, applied: Applied) -> list[Row]:
        form, rows = plan.form, list[Row]()
        for key, row in self._picked(form, Call(form, plan.values, now), limit):
            call = Call(form, plan.values, now)
            call.before = dict(row)
            self._run(form, call, key)
            rows.append(call.returned(form))
            applied.append((form, call))
        return rows

    def _picked(self, form: Form, call: Call, limit: int) -> list[Found]:
        pick, head = form.pick, form.steps[0]
        assert pick is not None and isinstance(head, Update)
        index = INDEXES[pick.index]
        group = {c: call.value(v) for c, v in pick.group.items()}
        ids = next((g for g in pick.where if isinstance(g, Among) and index.primary), None)
        if ids is not None:
            candidates = self._tables.by_ids(index, group, call.value(ids.by))
        else:
            candidates = self._tables.walk(index, group, upto=call.value(pick.upto))
        guards, found = (*pick.where, *head.where), list[Found]()
        for key, row in candidates:
            if len(found) >= limit:
                break
            if all(self._holds(guard, call, row) for guard in guards):
                found.append((key, row))
        return found

    def _run(self, form: Form, call: Call, picked: Key | None) -> None:
        """The deciding step, which a sweep has picked a row for, then the further steps."""
        self._decide(form.steps[0], call, picked)
        for at, step in enumerate(form.steps[1:], 1):
            self._follow(step, call, at)

    def _decide(self, step: Step, call: Call, picked: Key | None) -> None:
        table = TABLES[step.table]
        match step:
            case Insert(row=row, where=where):
                call.after = self._insert(table, row, where, call, 0)
            case Upsert(row=row, set=changes):
                call.before, call.after = self._upsert(table, row, changes, call)
            case Update(where=where, set=changes):
                call.before, call.after = self._update(table, where, changes, call, 0, picked)
            case Delete(where=where):
                key, found = self._guarded(table, where, call, 0)
                call.before = call.after = found
                for child in table.children:
                    owner = {child.column(k): found[k] for k in table.key}
                    self._delete_children(TABLES[child.table], owner)
                self._tables.put(table, key, None)
            case _:
                self._follow(step, call, 0)

    def _follow(self, step: Step, call: Call, at: int) -> None:
        table = TABLES[step.table]
        match step:
            case Insert(row=row, where=where):
                self._insert(table, row, where, call, at)
            case InsertEach(row=row, of=of):
                for item in call.value(of):
                    call.item = dict(zip(step.items, item, strict=True))
                    self._insert(table, row, (), call, at)
            case Upsert(row=row, set=changes):
                self._upsert(table, row, changes, call)
            case Update(where=where, set=changes):
                self._update(table, where, changes, call, at)
            case UpdateMany(where=where, set=changes):
                for key, row in self._matching(table, where, call):
                    self._tables.put(table, key, changed(table, row, changes, call))
            case Delete(where=where):
                for key, _ in self._matching(table, where, call):
                    self._tables.put(table, key, None)

    def _insert(
        self, table: Table, row: Values, where: tuple[Guard, ...], call: Call, at: int
    ) -> Record:
        if not all(self._holds(guard, call, {}) for guard in where):
            raise _RefusedAt(at)
        made = new_row(table, row, call, self._tables.next_number(table))
        key = tuple(made[k] for k in table.key)
        if key in self._tables.rows[table.name]:
            raise _RefusedAt(at)
        self._tables.put(table, key, made)
        return made

    def _upsert(
        self, table: Table, row: Values, changes: Values, call: Call
    ) -> tuple[Record, Record]:
        made = new_row(table, row, call, self._tables.next_number(table))
        key = tuple(made[k] for k in table.key)
        stored = self._tables.rows[table.name].get(key)
        after = made if stored is None else changed(table, stored, changes, call)
        self._tables.put(table, key, after)
        return stored or {}, after

    def _update(
        self,
        table: Table,
        where: tuple[Guard, ...],
        changes: Values,
        call: Call,
        at: int,
        picked: Key | None = None,
    ) -> tuple[Record, Record]:
        key, before = self._guarded(table, where, call, at, picked)
        if at == 0:
            call.before = before
        after = changed(table, before, changes, call)
        self._tables.put(table, key, after)
        return before, after

    def _guarded(
        self,
        table: Table,
        where: tuple[Guard, ...],
        call: Call,
        at: int,
        picked: Key | None = None,
    ) -> Found:
        """The one row that a step is about, if its guards hold."""
        key = picked or key_of(table, where, call)
        found = self._tables.rows[table.name].get(key)
        if found is None or not all(self._holds(guard, call, found) for guard in where):
            raise _RefusedAt(at)
        return key, found

    def _delete_children(self, child: Table, owner: Values) -> None:
        rows = self._tables.rows[child.name]
        deleted = [key for key, row in rows.items() if all(row[c] == v for c, v in owner.items())]
        if child.outbox and deleted:
            trim, key = TABLES["ff_outbox_trim"], (child.name,)
            mark = max(number for number, *_ in deleted)
            stored = self._tables.rows[trim.name].get(key)
            if stored is None or stored["event_id"] < mark:
                self._tables.put(trim, key, {"channel": child.name, "event_id": mark})
        for key in deleted:
            self._tables.put(child, key, None)

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

    def _matching(self, table: Table, where: tuple[Guard, ...], call: Call) -> list[Found]:
        """By the key where it is named, else by an index whose group is, else by a full scan."""
        rows = self._tables.rows[table.name]
        named: dict[str, Iterable[Any]] = {}
        for guard in where:
            if isinstance(guard, Cond) and guard.op == "=":
                named[guard.column] = (call.value(guard.value),)
            elif isinstance(guard, Among):
                named[guard.column] = call.value(guard.by)
        if all(k in named for k in table.key):
            keys = product(*(named[k] for k in table.key))
            candidates = [(key, rows[key]) for key in keys if key in rows]
        elif (index := self._tables.index_for(table, named)) is not None:
            groups = product(*(named[c] for c in index.group))
            candidates = [
                found
                for group in groups
                for found in self._tables.walk(index, dict(zip(index.group, group, strict=True)))
            ]
        else:
            candidates = list(rows.items())
        return [(k, row) for k, row in candidates if all(self._holds(g, call, row) for g in where)]
