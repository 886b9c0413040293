"""How a group of jobs becomes one transaction, in which a bad plan fails alone."""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, assert_never

from flowfabric.plan import Answer, Plan, Refused
from flowfabric.store.clock import Ratchet
from flowfabric.store.sqlite.errors import (
    FILE_REPLACED,
    FIRST_PAUSE_MS,
    MAX_TRIES,
    SQLITE_ERRORS,
    as_engine_error,
    code_of,
    concerns_the_database,
    is_busy,
    is_doubtful,
    stopped,
    tolerant,
)
from flowfabric.store.sqlite.form_runner import FormRunner, LateRefusal
from flowfabric.store.sqlite.jobs import (
    Commit,
    CommitAndSweep,
    CommitMany,
    CommitTogether,
    Execute,
    Job,
    SweepMany,
    SweepOnce,
    Work,
    batch_key,
)
from flowfabric.store.sqlite.shared_clock import SharedClock
from flowfabric.store.wakeups import Topic

_UNIQUE = ("SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_ROWID")
FileIdentity = Callable[[], tuple[int, int] | None]
Answers = list[Any]
"""One per job: what its caller gets, or an exception."""


class GroupCommit:
    """Used by one thread at a time."""

    def __init__(
        self, db: sqlite3.Connection, clock: Ratchet, file_identity: FileIdentity = lambda: None
    ) -> None:
        self._db = db
        self._file_identity, self._opened_file = file_identity, file_identity()
        self._runner = FormRunner(db.cursor())
        self._clock = SharedClock(self._runner.cursor, clock)
        self._version = db.execute("PRAGMA data_version").fetchone()[0]
        self._broken: str | None = None
        self._busy_timeout_ms = db.execute("PRAGMA busy_timeout").fetchone()[0]
        self._waits_for_locks = True

    @property
    def db(self) -> sqlite3.Connection:
        return self._db

    def replace_cursor(self, wrap: Callable[[sqlite3.Cursor], sqlite3.Cursor]) -> None:
        """Runs all further statements on another cursor, such as one that injects faults."""
        self._runner.cursor = wrap(self._runner.cursor)

    def close(self) -> None:
        self._db.close()

    def others_committed(self) -> bool:
        """The data version of a connection changes when another connection commits."""
        try:
            version = self._runner.cursor.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            return False  # a missed hint is harmless: waiters also poll
        moved, self._version = version != self._version, version
        return bool(moved)

    def take_wakeups(self) -> tuple[dict[Topic, None], dict[str, int]]:
        return self._runner.take_wakeups()

    def commit(self, group: Sequence[Job]) -> Answers:
        """Waits for the lock while another process writes."""
        self._wait_for_locks(True)
        for attempt in range(MAX_TRIES):
            answers = self._attempt(group, is_last=attempt == MAX_TRIES - 1)
            if answers is not None:
                return answers
            time.sleep(FIRST_PAUSE_MS * 2**attempt / 1000)
        raise AssertionError("the last try answers")

    def commit_at_once(self, group: Sequence[Job]) -> Answers | None:
        """None, with nothing written, while another process writes."""
        self._wait_for_locks(False)
        return self._attempt(group, is_last=False)

    def _wait_for_locks(self, waits: bool) -> None:
        if waits is not self._waits_for_locks:
            timeout = self._busy_timeout_ms if waits else 0
            self._runner.cursor.execute(f"PRAGMA busy_timeout = {timeout}").fetchall()
            self._waits_for_locks = waits

    def _attempt(self, group: Sequence[Job], *, is_last: bool) -> Answers | None:
        if self._broken is not None:
            return [stopped(self._broken) for _ in group]
        try:
            answers = self._commit_group(group)
            # Checked after the commit: a commit to a replaced file must not be acknowledged.
            if self._file_identity() == self._opened_file:
                return answers
            self._broken = FILE_REPLACED
            return [stopped(FILE_REPLACED) for _ in group]
        except SQLITE_ERRORS as error:
            self._roll_back()
            if is_doubtful(error):
                self._broken = f"after a disk error: {error}"
                return [stopped(self._broken) for _ in group]
            if is_busy(code_of(error)) and not is_last:
                return None
            return [as_engine_error(error) for _ in group]
        except Exception as error:
            self._roll_back()
            return [error] * len(group)
        except BaseException:
            self._roll_back()
            raise

    def _commit_group(self, group: Sequence[Job]) -> Answers:
        self._begin()
        try:
            answers = self._run_together(group)
        except Exception as error:
            if concerns_the_database(error):
                raise
            self._runner.cursor.execute("ROLLBACK")
            self._begin()
            with tolerant(self._db):
                answers = [self._run_isolated(job.work) for job in group]
        self._runner.cursor.execute("COMMIT")
        return answers

    def _begin(self) -> None:
        self._runner.take_wakeups()
        self._runner.cursor.execute("BEGIN IMMEDIATE")
        self._runner.begin(self._clock.now_ms())

    def _roll_back(self) -> None:
        self._runner.take_wakeups()
        if self._db.in_transaction:
            with suppress(sqlite3.Error):  # the first error is the one to report
                self._runner.cursor.execute("ROLLBACK")

    def _run_together(self, group: Sequence[Job]) -> Answers:
        """Runs adjacent plans of one form together, in the order sent."""
        answers: Answers = []
        for (kind, _), run in itertools.groupby(group, key=batch_key):
            works = [job.work for job in run]
            if kind is None:
                answers += [self._run(work) for work in works]
            elif kind is Commit:
                answers += self._runner.commit([w.plan for w in works if isinstance(w, Commit)])
            elif kind is SweepOnce:
                answers += self._runner.sweep(
                    [(w.plan, w.limit) for w in works if isinstance(w, SweepOnce)]
                )
            else:
                answers += self._runner.commit_and_sweep(
                    [(w.plans, w.sweep, w.limit) for w in works if isinstance(w, CommitAndSweep)]
                )
        return answers

    def _run(self, work: Work) -> object:
        match work:
            case Commit(plan=plan):
                return self._commit_one(plan)
            case CommitTogether(plans=plans):
                return self._runner.commit_together(plans)
            case CommitMany(plans=plans):
                return self._runner.commit_many(plans)
            case SweepOnce(plan=plan, limit=limit):
                return self._runner.sweep([(plan, limit)])[0]
            case SweepMany(first=first, wanted=wanted):
                return self._runner.sweep_many(first, wanted)
            case CommitAndSweep(plans=plans, sweep=sweep, limit=limit):
                return self._runner.commit_and_sweep([(plans, sweep, limit)])[0]
            case Execute(run=run):
                return run(self._db)
        assert_never(work)

    def _run_isolated(self, work: Work) -> object:
        """With a savepoint of its own, so that a bad plan does not fail the others."""
        match work:
            case CommitMany(plans=plans):
                return self._commit_isolated(plans)
            case CommitAndSweep(plans=plans, sweep=sweep, limit=limit):
                answers = self._commit_isolated(plans)
                rows = self._isolated(lambda: self._runner.sweep([(sweep, limit)])[0])
                return rows if isinstance(rows, Exception) else (answers, rows)
        return self._isolated(lambda: self._run(work))

    def _commit_isolated(self, plans: Sequence[Plan]) -> list[object]:
        return [self._isolated(partial(self._commit_one, plan)) for plan in plans]

    def _commit_one(self, plan: Plan) -> Answer:
        return self._runner.commit([plan])[0]

    def _isolated(self, work: Callable[[], object]) -> object:
        self._runner.cursor.execute("SAVEPOINT p")
        try:
            answer = self._runner.keeping_wakeups(work)
        except Exception as error:
            self._runner.cursor.execute("ROLLBACK TO p")
            if concerns_the_database(error):
                raise
            answer = _answer_of(error)
        self._runner.cursor.execute("RELEASE p")
        return answer


def _answer_of(error: Exception) -> Refused | Exception:
    """The error for the caller of a plan that failed alone."""
    if isinstance(error, LateRefusal):
        return error.answer
    if getattr(error, "sqlite_errorname", "") in _UNIQUE:
        return Refused()
    return as_engine_error(error) if isinstance(error, SQLITE_ERRORS) else error
