"""How a group of jobs becomes one transaction: runs of one form together, and a bad plan by itself."""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from flowfabric.plan import Answer, Applied, Form, Plan, Refused
from flowfabric.store.clock import Ratchet
from flowfabric.store.fan_out import dealt
from flowfabric.store.sql.sqlite_expr import Statement, Values, list_text
from flowfabric.store.sql.sqlite_plan import Script, decode_uuid, script
from flowfabric.store.sqlite.errors import (
    FIRST_PAUSE_MS,
    GONE,
    MAX_TRIES,
    TROUBLE,
    as_engine_error,
    code_of,
    concerns_the_database,
    is_busy,
    is_doubtful,
    stopped,
    tolerant,
)
from flowfabric.store.sqlite.jobs import Job, run_key, selection
from flowfabric.store.sqlite.shared_clock import SharedClock
from flowfabric.store.wakeups import Topic

NOBODY = list_text(())
_UNIQUE = ("SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_ROWID")
Row = tuple[Any, ...]
Place = Callable[[], tuple[int, int] | None]


class _Late(Exception):
    """A plan was refused after something of its group was written."""

    def __init__(self, answer: Refused) -> None:
        self.answer = answer


class GroupCommit:
    """Used by one thread at a time; whom to wake once a group is committed is in `topics` and `dues`."""

    def __init__(self, db: sqlite3.Connection, clock: Ratchet, place: Place = lambda: None) -> None:
        self._db = db
        self._place, self._opened = place, place()
        self._cursor = db.cursor()
        self._clock = SharedClock(self._cursor, clock)
        self._version = db.execute("PRAGMA data_version").fetchone()[0]
        self._broken: str | None = None
        self._patience_ms = db.execute("PRAGMA busy_timeout").fetchone()[0]
        self._patient = True
        self._scripts: dict[Form, Script] = {}
        self._topics: dict[Topic, None] = {}
        self._dues: dict[str, int] = {}
        self._now = 0

    def close(self) -> None:
        self._db.close()

    def others_committed(self) -> bool:
        """On this connection the version moves only when somebody else commits."""
        try:
            version = self._cursor.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            return False  # a hint is not worth the thread; whoever waits polls as well
        moved, self._version = version != self._version, version
        return bool(moved)

    def woken(self) -> tuple[dict[Topic, None], dict[str, int]]:
        """Whom the last group wakes, asked once."""
        topics, dues, self._topics, self._dues = self._topics, self._dues, {}, {}
        return topics, dues

    def commit(self, group: Sequence[Job]) -> list[Any]:
        """Waits its turn where another process writes."""
        self._be(patient=True)
        for attempt in range(MAX_TRIES):
            answers = self._once(group, attempt == MAX_TRIES - 1)
            if answers is not None:
                return answers
            time.sleep(FIRST_PAUSE_MS * 2**attempt / 1000)
        raise AssertionError("the last try answers")

    def commit_at_once(self, group: Sequence[Job]) -> list[Any] | None:
        """None, and nothing written, where another process writes just now."""
        self._be(patient=False)
        return self._once(group, False)

    def _be(self, *, patient: bool) -> None:
        if patient is not self._patient:
            self._cursor.execute(
                f"PRAGMA busy_timeout = {self._patience_ms if patient else 0}"
            ).fetchall()
            self._patient = patient

    def _once(self, group: Sequence[Job], last: bool) -> list[Any] | None:
        if self._broken is not None:
            return [stopped(self._broken) for _ in group]
        try:
            answers = self._try_group(group)
            if (
                self._place() == self._opened
            ):  # asked after the commit: what is acknowledged is in the file that is found there
                return answers
            self._broken = GONE
            return [stopped(GONE) for _ in group]
        except TROUBLE as error:
            self._roll_back()
            if is_doubtful(error):
                self._broken = f"after a disk error: {error}"
                return [stopped(self._broken) for _ in group]
            if is_busy(code_of(error)) and not last:
                return None
            return [as_engine_error(error) for _ in group]
        except Exception as error:
            self._roll_back()
            return [error] * len(group)
        except BaseException:
            self._roll_back()
            raise

    def _try_group(self, group: Sequence[Job]) -> list[Any]:
        execute = self._cursor.execute
        self._begin()
        try:
            answers = self._together(group)
        except Exception as error:
            if concerns_the_database(error):
                raise
            execute("ROLLBACK")
            self._begin()
            with tolerant(self._db):
                answers = [self._isolated(job) for job in group]
        execute("COMMIT")
        return answers

    def _begin(self) -> None:
        self._topics, self._dues = {}, {}
        self._cursor.execute("BEGIN IMMEDIATE")
        self._now = self._clock.now_ms()

    def _roll_back(self) -> None:
        self._topics, self._dues = {}, {}
        if self._db.in_transaction:
            with suppress(sqlite3.Error):  # the error that led here is the one to tell
                self._cursor.execute("ROLLBACK")

    def _together(self, group: Sequence[Job]) -> list[Any]:
        """Runs of one form in the order sent; a refusal by a deciding step costs nothing."""
        answers: list[Any] = []
        for (kind, _), run in itertools.groupby(group, key=run_key):
            jobs = list(run)
            if kind == "plan":
                answers += self._plans([job.items for job in jobs])
            elif kind == "sweep":
                answers += self._sweeps([(job.items, job.limit) for job in jobs])
            elif kind == "turn":
                answers += self._turns(jobs)
            else:
                answers += [self._single(job) for job in jobs]
        return answers

    def _single(self, job: Job) -> Any:
        match job.kind:
            case "together":
                return self._all_or_none(job.items)
            case "many":
                return self._many(job.items)
            case "read":
                return job.items(self._db)
            case "plan":
                return self._plans([job.items])[0]
            case "sweeps":
                return self._all_sweeps(*job.items)
            case "turn":
                return self._turns([job])[0]
        return self._sweeps([(job.items, job.limit)])[0]

    def _isolated(self, job: Job) -> Any:
        """With a savepoint of its own, so that the neighbours of a bad plan survive."""
        if job.kind == "many":
            return [self._isolated_plan(plan) for plan in job.items]
        if job.kind == "turn":
            plans, sweep = job.items
            answers = [self._isolated_plan(plan) for plan in plans]
            rows = self._guarded(lambda: self._sweeps([(sweep, job.limit)])[0])
            return rows if isinstance(rows, Exception) else (answers, rows)
        return self._guarded(lambda: self._single(job))

    def _isolated_plan(self, plan: Plan) -> Any:
        return self._guarded(lambda: self._plans([plan])[0])

    def _guarded(self, work: Callable[[], Any]) -> Any:
        topics, dues = dict(self._topics), dict(self._dues)
        self._cursor.execute("SAVEPOINT p")
        try:
            answer = work()
        except Exception as error:
            self._cursor.execute("ROLLBACK TO p")
            self._topics, self._dues = topics, dues
            if isinstance(error, _Late):
                answer = error.answer
            elif getattr(error, "sqlite_errorname", "") in _UNIQUE:
                answer = Refused()
            elif concerns_the_database(error):
                raise
            elif isinstance(error, TROUBLE):
                answer = as_engine_error(error)
            else:
                answer = error
        self._cursor.execute("RELEASE p")
        return answer

    def _all_or_none(self, plans: Sequence[Plan]) -> Answer:
        answer: Answer = Refused()
        at = 0
        for _, run in itertools.groupby(plans, key=lambda p: p.form):
            same = list(run)
            for answer in self._plans(same):
                if isinstance(answer, Refused):
                    if at or len(same) > 1:
                        raise _Late(Refused(at, answer.step))
                    return answer
                at += 1
        return answer

    def _many(self, plans: Sequence[Plan]) -> list[Answer]:
        answers: list[Answer] = []
        for _, run in itertools.groupby(plans, key=lambda p: p.form):
            answers += self._plans(list(run))
        return answers

    def _plans(self, plans: list[Plan]) -> list[Answer]:
        """The deciding step of each, then each further step of all that were applied."""
        form, now = plans[0].form, self._now
        text = self._script(form)
        rows = [text.bind(now, plan.values) for plan in plans]
        if text.alone:
            return [self._alone(text, values) for values in rows]
        if text.select is not None:
            applied = self._read_then_write(text, text.select, rows)
        elif form.is_insert and len(rows) > 1:
            applied = self._inserts(text, rows)
        else:
            full = [text.extend(values, ()) for values in rows]
            applied = [values if self._write(text.head, values) else None for values in full]
            self._follow(text, applied)
        if not form.returning:
            done = Applied(now)
            return [Refused() if full is None else done for full in applied]
        return [Refused() if full is None else Applied(now, text.answer(full)) for full in applied]

    def _alone(self, text: Script, values: Values) -> Answer:
        """A plan that a later step may refuse, or whose guards ask for what it writes itself, is done before the next begins."""
        before: Row = ()
        if text.select is not None:
            found = self._cursor.execute(text.select.sql, text.select.pick(values)).fetchone()
            if found is None:
                return Refused()
            before = found
        full = text.extend(values, before)
        execute = self._cursor.execute
        execute("SAVEPOINT alone")
        for statement in (text.head, *text.rest):
            touched = self._run(statement, [full])
            if touched != 1 and (statement.must or statement is text.head):
                execute("ROLLBACK TO alone")
                execute("RELEASE alone")
                return Refused(0, statement.step)
        execute("RELEASE alone")
        self._wake(text, [full])
        return Applied(self._now, text.answer(full))

    def _read_then_write(
        self, text: Script, select: Statement, rows: list[Values]
    ) -> list[Values | None]:
        """Plans are decided one by one and written together; two about one row never wait in the same batch."""
        execute, extend, key_of = self._cursor.execute, text.extend, text.key
        answers: list[Values | None] = []
        waiting: list[Values | None] = []
        seen: set[Values] = set()
        for values in rows:
            key = key_of(values)
            if key in seen:
                self._write_all(text, waiting)
                waiting, seen = [], set()
            before = execute(select.sql, select.pick(values)).fetchone()
            full = None if before is None else extend(values, before)
            answers.append(full)
            waiting.append(full)
            seen.add(key)
        self._write_all(text, waiting)
        return answers

    def _write_all(self, text: Script, rows: list[Values | None]) -> None:
        found = [values for values in rows if values is not None]
        if found:
            self._run(text.head, found)
            self._follow(text, rows)

    def _inserts(self, text: Script, rows: list[Values]) -> list[Values | None]:
        """All at once when all are new, which is nearly always; otherwise one by one to learn which are not."""
        execute = self._cursor.execute
        full = [text.extend(values, ()) for values in rows]
        kept: list[Values | None] = list(full)
        execute("SAVEPOINT bulk")
        if self._run(self._bare(text, full), full) != len(rows):
            execute("ROLLBACK TO bulk")
            kept = [values if self._write(text.head, values) else None for values in full]
        execute("RELEASE bulk")
        self._follow(text, kept)
        return kept

    def _bare(self, text: Script, rows: list[Values]) -> Statement:
        """The insert without its questions, once they are answered for all rows; usually there is one answer for all."""
        if text.bulk is None:
            return text.head
        asked, bare = text.bulk
        holds = all(
            self._cursor.execute(asked.sql, args).fetchone() for args in set(map(asked.pick, rows))
        )
        return bare if holds else text.head

    def _all_sweeps(
        self, first: Sequence[Plan], wanted: Sequence[tuple[Plan, int]]
    ) -> list[list[Row]] | Refused:
        answer = self._all_or_none(first) if first else None
        if isinstance(answer, Refused):
            return answer
        answers: list[list[Row]] = []
        for _, run in itertools.groupby(wanted, key=lambda each: selection(each[0])):
            answers += self._sweeps(list(run))
        return answers

    def _turns(self, jobs: Sequence[Job]) -> list[tuple[list[Answer], list[Row]]]:
        """The plans of all, then the sweeps of all."""
        answers = self._many([plan for job in jobs for plan in job.items[0]])
        swept = self._sweeps([(job.items[1], job.limit) for job in jobs])
        return list(zip(dealt(answers, (job.items[0] for job in jobs)), swept, strict=True))

    def _sweeps(self, wanted: Sequence[tuple[Plan, int]]) -> list[list[Row]]:
        """Equal selections share one; each request then applies its own values to its share of the rows."""
        text = self._script(wanted[0][0].form)
        assert text.select is not None
        bases = [text.bind(self._now, plan.values) for plan, _ in wanted]
        limit = sum(limit for _, limit in wanted)
        picked = self._cursor.execute(
            f"{text.select.sql}{limit:d}", text.select.pick(bases[0])
        ).fetchall()
        answers: list[list[Row]] = []
        applied: list[Values | None] = []
        start = 0
        for (_, most), base in zip(wanted, bases, strict=True):
            share = [text.extend(base, row) for row in picked[start : start + most]]
            answers.append([text.answer(full) for full in share])
            applied += share
            start += most
        self._write_all(text, applied)
        return answers

    def _write(self, statement: Statement, values: Values) -> bool:
        return self._cursor.execute(statement.sql, statement.pick(values)).rowcount == 1

    def _run(self, statement: Statement, rows: list[Values]) -> int:
        """How many rows it touched."""
        execute = self._cursor.execute
        if statement.each is not None:
            rows = [values + item for values in rows for item in values[statement.each]]
        if statement.among is not None:
            rows = [values for values in rows if values[statement.among] != NOBODY]
        if not rows:
            return 0
        if len(rows) == 1:
            return execute(statement.sql, statement.pick(rows[0])).rowcount
        picked = list(map(statement.pick, rows))
        if not statement.wide:
            return self._cursor.executemany(statement.sql, picked).rowcount
        at = touched = 0
        for width, sql in (*statement.wide.items(), (1, statement.sql)):
            while len(picked) - at >= width:
                touched += execute(
                    sql, tuple(chain.from_iterable(picked[at : at + width]))
                ).rowcount
                at += width
        return touched

    def _follow(self, text: Script, rows: list[Values | None]) -> None:
        """The further steps of what was applied."""
        applied = [values for values in rows if values is not None]
        if not applied:
            return
        for statement in text.rest:
            self._run(statement, applied)
        self._wake(text, applied)

    def _wake(self, text: Script, applied: list[Values]) -> None:
        """Whom to wake once this is committed."""
        for channel in text.channels:
            self._topics[channel, None] = None
        for rung in text.rung:
            if rung.at < 0:
                for values in applied:
                    key = values[rung.key] if rung.key >= 0 else None
                    self._topics[rung.topic, decode_uuid(key) if rung.is_uuid else key] = None
                continue
            times = [values[rung.at] for values in applied if values[rung.at] is not None]
            if times:
                self._dues[rung.topic] = min(min(times), self._dues.get(rung.topic, times[0]))

    def _script(self, form: Form) -> Script:
        found = self._scripts.get(form)
        if found is None:
            found = self._scripts[form] = script(form)
        return found
