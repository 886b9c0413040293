"""Natural group commit: work that queues while a transaction runs shares the next one.

One thread writes. A job or two that find no other work in progress are written on the calling
thread when the disk is fast: the switch to the writer thread takes longer than the write.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import threading
import time
from queue import Empty, SimpleQueue
from typing import Any, Final

from flowfabric.errors import ResourceExhausted, TransportError
from flowfabric.store.clock import Ratchet
from flowfabric.store.sqlite.group_commit import Answers, FileIdentity, GroupCommit
from flowfabric.store.sqlite.jobs import Job, Work, deliver, is_small
from flowfabric.store.wakeups import Topic, Wakeups

MAX_GROUP = 500
MAX_QUEUE = 100_000
MAX_INLINE_JOBS = 2
SLOW_S = 0.002
"""After a group that takes longer, the next groups are left to the thread."""
GROUPS_AFTER_SLOW = 16


class _CheckOthers:
    """An item of the queue: checks whether another process has committed."""


_CHECK_OTHERS: Final = _CheckOthers()
_Wakeups = tuple[dict[Topic, None], dict[str, int]]


class Writer:
    """`groups`, `jobs` and `inline_groups` count what was written."""

    def __init__(
        self,
        db: sqlite3.Connection,
        clock: Ratchet,
        hub: Wakeups,
        file_identity: FileIdentity = lambda: None,
    ) -> None:
        self._hub = hub
        self.group_commit = GroupCommit(db, clock, file_identity)
        self.groups = self.jobs = self.inline_groups = 0
        self.thread_groups_left = 0
        """How many more groups are left to the thread before a caller may write again."""
        self.is_open = True
        self._queue: SimpleQueue[Job | _CheckOthers | None] = SimpleQueue()
        self._submitting = threading.Lock()
        self._writing = threading.Lock()
        self._handed_over = 0
        self._gathered: list[Job] = []
        self.thread = threading.Thread(
            target=self._run, name="flowfabric-sqlite-writer", daemon=True
        )
        self.thread.start()

    def submit(self, work: Work) -> asyncio.Future[Any]:
        job = Job(work)
        if self._queue.qsize() >= MAX_QUEUE:
            job.future.set_exception(ResourceExhausted("sqlite writer queue", MAX_QUEUE))
            return job.future
        with self._submitting:
            if self.is_open:
                self._gather(job)
                return job.future
        job.future.set_exception(
            TransportError("sqlite", "the database was closed", backend_kind="protocol")
        )
        return job.future

    def _gather(self, job: Job) -> None:
        """A lone job waits for the end of this iteration of its event loop, so others can join."""
        if self._gathered and self._gathered[0].loop is job.loop:
            self._gathered.append(job)
            return
        self._hand_over_gathered()
        if self._handed_over or self.thread_groups_left or not is_small(job):
            self._hand_over([job])
        else:
            self._gathered = [job]
            job.loop.call_soon(self._write_gathered)

    def _write_gathered(self) -> None:
        """Writes the gathered jobs here, or hands them to the thread."""
        with self._submitting:
            group = [job for job in self._gathered if not job.future.cancelled()]
            inline = (
                0 < len(group) <= MAX_INLINE_JOBS
                and not self._handed_over
                and all(map(is_small, group))
                and self._writing.acquire(blocking=False)
            )
            if not inline:
                self._hand_over_gathered()
                return
            self._gathered = []
        try:
            started = time.perf_counter()
            answers = self.group_commit.commit_at_once(group)
            if answers is not None:
                self._count(group, time.perf_counter() - started)
            wakeups = self.group_commit.take_wakeups()
        finally:
            self._writing.release()
        if answers is None:
            self.thread_groups_left = GROUPS_AFTER_SLOW
            with self._submitting:
                self._hand_over(group)
            return
        self.inline_groups += 1
        deliver(list(zip(group, answers, strict=True)), self._hub, *wakeups)

    def _hand_over_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._hand_over(gathered)

    def _hand_over(self, jobs: list[Job]) -> None:
        self._handed_over += len(jobs)
        for job in jobs:
            self._queue.put(job)

    def check_other_processes(self) -> None:
        """Wakes all waiters but the timers if another process has committed."""
        self._queue.put(_CHECK_OTHERS)

    def stop(self) -> None:
        """Finishes what is queued, then ends the thread."""
        with self._submitting:
            self.is_open = False
            self._hand_over_gathered()
            self._queue.put(None)
        self.thread.join()

    # ---- on the writer thread

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            with self._writing:
                group, answers, wakeups = self._write_group(first)
            # After the lock: an answered caller may write inline at once.
            self._deliver(group, answers, *wakeups)
        with self._writing:
            self.group_commit.close()

    def _write_group(self, first: Job | _CheckOthers) -> tuple[list[Job], Answers, _Wakeups]:
        group, taken = self._take_group(first)
        answers: Answers = []
        if group:
            started = time.perf_counter()
            answers = self.group_commit.commit(group)
            self._count(group, time.perf_counter() - started)
        with self._submitting:
            self._handed_over -= taken
        return group, answers, self.group_commit.take_wakeups()

    def _take_group(self, item: Job | _CheckOthers | None) -> tuple[list[Job], int]:
        """Everything that is queued, and how many jobs that were, cancelled ones included."""
        group: list[Job] = []
        taken = 0
        while item is not None:
            if isinstance(item, _CheckOthers):
                if self.group_commit.others_committed():
                    self._hub.ring_all_but_timers()
            else:
                taken += 1
                if not item.future.cancelled():
                    group.append(item)
            if len(group) == MAX_GROUP:
                return group, taken
            try:
                item = self._queue.get_nowait()
            except Empty:
                return group, taken
        self._queue.put(None)
        return group, taken

    def _deliver(
        self, group: list[Job], answers: Answers, topics: dict[Topic, None], dues: dict[str, int]
    ) -> None:
        """One callback per event loop and group delivers the answers and wakes the waiters."""
        for loop, pairs in itertools.groupby(
            zip(group, answers, strict=True), key=lambda pair: pair[0].loop
        ):
            try:
                loop.call_soon_threadsafe(deliver, list(pairs), self._hub, topics, dues)
            except RuntimeError:
                continue  # the event loop is closed; the commit is not undone
            topics, dues = {}, {}
        if topics or dues:
            self._hub.announce(topics, dues)

    def _count(self, group: list[Job], seconds: float) -> None:
        """Leaves the groups after a slow one to the thread: it must not block an event loop."""
        self.groups += 1
        self.jobs += len(group)
        slow = seconds > SLOW_S
        self.thread_groups_left = GROUPS_AFTER_SLOW if slow else max(self.thread_groups_left - 1, 0)
