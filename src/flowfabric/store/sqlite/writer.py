"""Who writes when. One thread does, and whatever queued up while the last transaction was in flight goes together in the
next; but a job or two that find nothing else under way are written where they are asked for, when the disk is quick: handing
them to the thread and back takes longer than writing them."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import threading
import time
from queue import Empty, SimpleQueue
from typing import Any

from flowfabric.errors import ResourceExhausted, TransportError
from flowfabric.store.clock import Ratchet
from flowfabric.store.sqlite.group_commit import GroupCommit, Place
from flowfabric.store.sqlite.jobs import Job, deliver, is_small
from flowfabric.store.wakeups import Topic, Wakeups

MAX_GROUP = 500
MAX_QUEUE = 100_000
FEW = 2
SLOW_S = 0.002
WARY_GROUPS = 16
LOOK = object()


class Writer:
    def __init__(
        self, db: sqlite3.Connection, clock: Ratchet, hub: Wakeups, place: Place = lambda: None
    ) -> None:
        self._hub = hub
        self.write = GroupCommit(db, clock, place)
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._entry = threading.Lock()
        self._turn = threading.Lock()
        self._open = True
        self._handed = 0
        self._gathered: list[Job] = []
        self._wary = 0
        self.groups = self.jobs = self.in_place = 0
        self._thread = threading.Thread(
            target=self._work, name="flowfabric-sqlite-writer", daemon=True
        )
        self._thread.start()

    def submit(self, kind: str, items: Any, limit: int = 0) -> asyncio.Future[Any]:
        job = Job(kind, items, limit)
        if self._queue.qsize() >= MAX_QUEUE:
            job.future.set_exception(ResourceExhausted("sqlite writer queue", MAX_QUEUE))
            return job.future
        with self._entry:
            if self._open:
                self._take(job)
                return job.future
        job.future.set_exception(
            TransportError("sqlite", "the database was closed", backend_kind="protocol")
        )
        return job.future

    def _take(self, job: Job) -> None:
        """Whoever is alone waits for the end of this turn of its loop, to see whether it stays so."""
        if self._gathered and self._gathered[0].loop is job.loop:
            self._gathered.append(job)
            return
        self._hand_over_gathered()
        if self._handed or self._wary or not is_small(job):
            self._hand_over([job])
        else:
            self._gathered = [job]
            job.loop.call_soon(self._settle)

    def _settle(self) -> None:
        """The end of that turn: what was gathered is written here, or handed to the thread."""
        with self._entry:
            group = [job for job in self._gathered if not job.future.cancelled()]
            here = (
                0 < len(group) <= FEW
                and not self._handed
                and all(map(is_small, group))
                and self._turn.acquire(blocking=False)
            )
            if not here:
                self._hand_over_gathered()
                return
            self._gathered = []
        try:
            began = time.perf_counter()
            answers = self.write.commit_at_once(group)
            if answers is not None:
                self._note(group, time.perf_counter() - began)
            woken = self.write.woken()
        finally:
            self._turn.release()
        if answers is None:
            self._wary = WARY_GROUPS
            with self._entry:
                self._hand_over(group)
            return
        self.in_place += 1
        deliver(list(zip(group, answers, strict=True)), self._hub, *woken)

    def _hand_over_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._hand_over(gathered)

    def _hand_over(self, jobs: list[Job]) -> None:
        self._handed += len(jobs)
        for job in jobs:
            self._queue.put(job)

    def look(self) -> None:
        """Whether another process has committed; whoever waits here for work or events looks again if so."""
        self._queue.put(LOOK)

    def stop(self) -> None:
        """Finishes what is queued, then ends the thread."""
        with self._entry:
            self._open = False
            self._hand_over_gathered()
            self._queue.put(None)
        self._thread.join()

    # ---- on the writer thread from here on

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            with self._turn:
                done = self._served(first)
            self._answer(*done)  # after the turn, or whoever is answered finds it taken still
        with self._turn:
            self.write.close()

    def _served(self, first: Any) -> tuple[list[Job], list[Any], dict[Topic, None], dict[str, int]]:
        group, taken = self._group_with(first)
        answers: list[Any] = []
        if group:
            began = time.perf_counter()
            answers = self.write.commit(group)
            self._note(group, time.perf_counter() - began)
        with self._entry:
            self._handed -= taken
        return group, answers, *self.write.woken()

    def _group_with(self, job: Any) -> tuple[list[Job], int]:
        """Takes along whatever queued up meanwhile; and how many that were, those included who no longer wait."""
        group: list[Job] = []
        taken = 0
        while job is not None:
            if job is LOOK:
                self._notice_others()
            else:
                taken += 1
                if not job.future.cancelled():
                    group.append(job)
            if len(group) == MAX_GROUP:
                return group, taken
            try:
                job = self._queue.get_nowait()
            except Empty:
                return group, taken
        self._queue.put(None)
        return group, taken

    def _notice_others(self) -> None:
        if self.write.others_committed():
            self._hub.ring_all_but_timers()

    def _answer(
        self, group: list[Job], answers: list[Any], topics: dict[Topic, None], dues: dict[str, int]
    ) -> None:
        """One wake-up per event loop and group carries the answers and rings the hub."""
        for loop, pairs in itertools.groupby(
            zip(group, answers, strict=True), key=lambda pair: pair[0].loop
        ):
            try:
                loop.call_soon_threadsafe(deliver, list(pairs), self._hub, topics, dues)
            except RuntimeError:
                continue  # that loop is closed; its callers are gone, the commit stands
            topics, dues = {}, {}
        if topics or dues:
            self._hub.announce(topics, dues)

    def _note(self, group: list[Job], took_s: float) -> None:
        """After a slow group the next ones go to the thread: nobody's event loop waits for a slow disk twice."""
        self.groups += 1
        self.jobs += len(group)
        self._wary = WARY_GROUPS if took_s > SLOW_S else max(self._wary - 1, 0)
