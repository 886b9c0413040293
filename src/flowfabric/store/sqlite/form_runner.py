"""Plans and sweeps as statements inside a transaction that the caller has begun."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Sequence
from itertools import chain

from flowfabric.plan import Answer, Applied, Form, Plan, Refused
from flowfabric.store.batching import Sweep, selection, split_answers
from flowfabric.store.port import Row
from flowfabric.store.sql.sqlite_codec import decode_uuid, list_text
from flowfabric.store.sql.sqlite_expr import Statement, Values
from flowfabric.store.sql.sqlite_plan import SqliteForm, sqlite_form
from flowfabric.store.wakeups import Topic

_NO_IDS = list_text(())
CommitsAndSweeps = Sequence[tuple[Sequence[Plan], Plan, int]]


class LateRefusal(Exception):
    """A plan was refused after another of its group was written."""

    def __init__(self, answer: Refused) -> None:
        self.answer = answer


class FormRunner:
    """Runs forms on one cursor and collects the wake-ups of what it applied."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self.cursor = cursor
        self.topics: dict[Topic, None] = {}
        self.dues: dict[str, int] = {}
        self._now = 0
        self._forms: dict[Form, SqliteForm] = {}

    def begin(self, now_ms: int) -> None:
        self._now = now_ms

    # ---- plans

    def commit(self, plans: Sequence[Plan]) -> list[Answer]:
        """Plans of one form: the deciding step of each, then the further steps of all applied."""
        form, now = plans[0].form, self._now
        sql = self._sqlite_form(form)
        bind, extend = sql.layout.bind, sql.layout.extend
        rows = [bind(now, plan.values) for plan in plans]
        if sql.unbatchable:
            return [self._commit_alone(sql, values) for values in rows]
        if sql.select is not None:
            applied = self._read_then_write(sql, sql.select, rows)
        elif form.is_insert and len(rows) > 1:
            applied = self._insert_many(sql, rows)
        else:
            full = [extend(values, ()) for values in rows]
            applied = [values if self._write(sql.head, values) else None for values in full]
            self._follow(sql, applied)
        if not form.returning:
            done = Applied(now)
            return [Refused() if full is None else done for full in applied]
        answer = sql.layout.answer
        return [Refused() if full is None else Applied(now, answer(full)) for full in applied]

    def commit_many(self, plans: Sequence[Plan]) -> list[Answer]:
        answers: list[Answer] = []
        for _, run in itertools.groupby(plans, key=lambda plan: plan.form):
            answers += self.commit(list(run))
        return answers

    def commit_together(self, plans: Sequence[Plan]) -> Answer:
        """The answer to the last. A refusal after a write raises LateRefusal."""
        answer: Answer = Refused()
        at = 0
        for _, run in itertools.groupby(plans, key=lambda plan: plan.form):
            same = list(run)
            for answer in self.commit(same):
                if isinstance(answer, Refused):
                    if at or len(same) > 1:
                        raise LateRefusal(Refused(at, answer.step))
                    return answer
                at += 1
        return answer

    def _commit_alone(self, sql: SqliteForm, values: Values) -> Answer:
        """For a plan that a later step may refuse, or whose guards read what it writes."""
        before: Row = ()
        if sql.select is not None:
            found = self.cursor.execute(sql.select.sql, sql.select.pick(values)).fetchone()
            if found is None:
                return Refused()
            before = found
        full = sql.layout.extend(values, before)
        execute = self.cursor.execute
        execute("SAVEPOINT alone")
        for statement in (sql.head, *sql.rest):
            touched = self._run(statement, [full])
            if touched != 1 and (statement.must or statement is sql.head):
                execute("ROLLBACK TO alone")
                execute("RELEASE alone")
                return Refused(0, statement.step)
        execute("RELEASE alone")
        self._collect_wakeups(sql, [full])
        return Applied(self._now, sql.layout.answer(full))

    def _read_then_write(
        self, sql: SqliteForm, select: Statement, rows: list[Values]
    ) -> list[Values | None]:
        """Plans are decided one by one and written together, but never two about one row."""
        execute, extend, key_of = self.cursor.execute, sql.layout.extend, sql.key
        answers: list[Values | None] = []
        unwritten: list[Values | None] = []
        seen: set[Values] = set()
        for values in rows:
            key = key_of(values)
            if key in seen:
                self._write_all(sql, unwritten)
                unwritten, seen = [], set()
            before = execute(select.sql, select.pick(values)).fetchone()
            full = None if before is None else extend(values, before)
            answers.append(full)
            unwritten.append(full)
            seen.add(key)
        self._write_all(sql, unwritten)
        return answers

    def _write_all(self, sql: SqliteForm, rows: Sequence[Values | None]) -> None:
        found = [values for values in rows if values is not None]
        if found:
            self._run(sql.head, found)
            self._follow(sql, rows)

    def _insert_many(self, sql: SqliteForm, rows: list[Values]) -> list[Values | None]:
        """All at once, since nearly always all are new; otherwise one by one."""
        execute = self.cursor.execute
        full = [sql.layout.extend(values, ()) for values in rows]
        kept: list[Values | None] = list(full)
        execute("SAVEPOINT bulk")
        if self._run(self._insert_for(sql, full), full) != len(rows):
            execute("ROLLBACK TO bulk")
            kept = [values if self._write(sql.head, values) else None for values in full]
        execute("RELEASE bulk")
        self._follow(sql, kept)
        return kept

    def _insert_for(self, sql: SqliteForm, rows: list[Values]) -> Statement:
        """The bare insert where the guards hold for all rows; most rows share their guards."""
        if sql.split_insert is None:
            return sql.head
        guards, bare = sql.split_insert
        holds = all(
            self.cursor.execute(guards.sql, values).fetchone()
            for values in set(map(guards.pick, rows))
        )
        return bare if holds else sql.head

    # ---- sweeps

    def sweep(self, wanted: Sequence[Sweep]) -> list[list[Row]]:
        """Sweeps of one selection share a read; each applies its own values to its rows."""
        sql = self._sqlite_form(wanted[0][0].form)
        assert sql.select is not None
        extend, answer = sql.layout.extend, sql.layout.answer
        bound = [sql.layout.bind(self._now, plan.values) for plan, _ in wanted]
        limit = sum(limit for _, limit in wanted)
        values = sql.select.pick(bound[0])
        picked = self.cursor.execute(f"{sql.select.sql}{limit:d}", values).fetchall()
        answers: list[list[Row]] = []
        applied: list[Values] = []
        start = 0
        for (_, most), base in zip(wanted, bound, strict=True):
            rows = [extend(base, row) for row in picked[start : start + most]]
            answers.append([answer(full) for full in rows])
            applied += rows
            start += most
        self._write_all(sql, applied)
        return answers

    def sweep_many(
        self, first: Sequence[Plan], wanted: Sequence[Sweep]
    ) -> list[list[Row]] | Refused:
        answer = self.commit_together(first) if first else None
        if isinstance(answer, Refused):
            return answer
        answers: list[list[Row]] = []
        for _, run in itertools.groupby(wanted, key=lambda each: selection(each[0])):
            answers += self.sweep(list(run))
        return answers

    def commit_and_sweep(self, requests: CommitsAndSweeps) -> list[tuple[list[Answer], list[Row]]]:
        """The plans of all requests, then their sweeps."""
        answers = self.commit_many([plan for plans, _, _ in requests for plan in plans])
        swept = self.sweep([(sweep, limit) for _, sweep, limit in requests])
        split = split_answers(answers, (plans for plans, _, _ in requests))
        return list(zip(split, swept, strict=True))

    # ---- statements

    def _write(self, statement: Statement, values: Values) -> bool:
        return self.cursor.execute(statement.sql, statement.pick(values)).rowcount == 1

    def _run(self, statement: Statement, rows: list[Values]) -> int:
        """Returns how many rows it touched."""
        execute = self.cursor.execute
        if statement.each is not None:
            rows = [values + item for values in rows for item in values[statement.each]]
        if statement.among is not None:
            rows = [values for values in rows if values[statement.among] != _NO_IDS]
        if not rows:
            return 0
        if len(rows) == 1:
            return execute(statement.sql, statement.pick(rows[0])).rowcount
        picked = list(map(statement.pick, rows))
        if not statement.wide:
            return self.cursor.executemany(statement.sql, picked).rowcount
        at = touched = 0
        for width, sql in (*statement.wide.items(), (1, statement.sql)):
            while len(picked) - at >= width:
                values = tuple(chain.from_iterable(picked[at : at + width]))
                touched += execute(sql, values).rowcount
                at += width
        return touched

    def _follow(self, sql: SqliteForm, rows: Sequence[Values | None]) -> None:
        """The further steps of what was applied."""
        applied = [values for values in rows if values is not None]
        if applied:
            for statement in sql.rest:
                self._run(statement, applied)
            self._collect_wakeups(sql, applied)

    def _sqlite_form(self, form: Form) -> SqliteForm:
        found = self._forms.get(form)
        if found is None:
            found = self._forms[form] = sqlite_form(form)
        return found

    # ---- wake-ups

    def _collect_wakeups(self, sql: SqliteForm, applied: list[Values]) -> None:
        for channel in sql.channels:
            self.topics[channel, None] = None
        for wake in sql.wakes:
            if wake.at < 0:
                for values in applied:
                    key = values[wake.key] if wake.key >= 0 else None
                    self.topics[wake.topic, decode_uuid(key) if wake.is_uuid else key] = None
                continue
            times = [values[wake.at] for values in applied if values[wake.at] is not None]
            if times:
                self.dues[wake.topic] = min(min(times), self.dues.get(wake.topic, times[0]))

    def take_wakeups(self) -> tuple[dict[Topic, None], dict[str, int]]:
        """Topics and due times collected since the last call."""
        taken = self.topics, self.dues
        self.topics, self.dues = {}, {}
        return taken

    def keeping_wakeups(self, work: Callable[[], object]) -> object:
        """Drops the wake-ups of work that fails."""
        kept = dict(self.topics), dict(self.dues)
        try:
            return work()
        except Exception:
            self.topics, self.dues = kept
            raise
