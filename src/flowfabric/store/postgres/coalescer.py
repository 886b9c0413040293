"""Natural group commit: jobs that queue while a statement is in flight share the next one.

Jobs that name the same row are queued behind each other: the second becomes ready when the first is
answered. That keeps the order of one caller, and it keeps a row from occurring twice in a batch,
where `UPDATE ... FROM unnest` would silently drop one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any

MAX_BATCH = 100
SMALLEST_SHARE = 8
MAX_HOLD_S = 0.005
"""How long jobs are held back while a carrier is free: the larger batch may wait for a lock."""
Key = tuple[Any, ...]
Run = Callable[[Any, Any, list[Any]], Awaitable[list[Any]]]


class _Job:
    __slots__ = ("ahead", "future", "item", "keys", "shape", "size")

    def __init__(
        self,
        shape: Hashable,
        item: Any,
        keys: Sequence[Key],
        size: int,
        future: asyncio.Future[Any],
    ) -> None:
        self.shape, self.item, self.keys, self.size, self.future = shape, item, keys, size, future
        self.ahead = 0


class Coalescer:
    """Jobs of one shape share a batch, and shapes take turns.

    Each carrier (a connection) has one batch at a time. Free carriers share the ready jobs, so that
    the database works on all of them at once. A batch costs as much as ten of its jobs: a few jobs
    are held back while a larger batch is in flight, and join its callers when they return.
    """

    def __init__(self, run: Run, carriers: Sequence[Any], max_batch: int = MAX_BATCH) -> None:
        self._run, self._free, self._max = run, list(carriers), max_batch
        self._loop = asyncio.get_running_loop()
        self._idle = len(carriers)
        self._waiting = self._flying = self._gathering = 0
        self._held: asyncio.TimerHandle | None = None
        self._ready: dict[Hashable, deque[_Job]] = {}
        self._lines: dict[Key, deque[_Job]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.batches = self.jobs = 0

    def submit(
        self, shape: Hashable, item: Any, keys: Sequence[Key] = (), size: int = 1
    ) -> asyncio.Future[Any]:
        unique = keys if len(keys) < 2 else list(dict.fromkeys(keys))
        job = _Job(shape, item, unique, size, self._loop.create_future())
        for key in job.keys:
            line = self._lines.get(key)
            if line is None:
                self._lines[key] = deque((job,))
            else:
                line.append(job)
                job.ahead += 1
        if not job.ahead:
            self._enqueue(job)
        return job.future

    async def drain(self) -> None:
        """Waits until every submitted job is answered."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def _enqueue(self, job: _Job) -> None:
        queue = self._ready.get(job.shape)
        if queue is None:
            queue = self._ready[job.shape] = deque()
        queue.append(job)
        self._waiting += 1
        self._start()

    def _should_send(self) -> bool:
        """Less than half as many jobs as are in flight are held back."""
        return bool(self._ready) and 2 * self._waiting >= self._flying

    def _start(self) -> None:
        if not self._free or not self._ready or self._gathering:
            return
        if self._should_send():
            self._send()
        elif self._held is None:
            self._held = self._loop.call_later(MAX_HOLD_S, self._send_held_jobs)

    def _send_held_jobs(self) -> None:
        self._held = None
        if self._free and self._ready:
            self._send(held=True)

    def _send(self, *, held: bool = False) -> None:
        task = self._loop.create_task(self._drive(self._free.pop(), held=held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _take(self) -> list[_Job]:
        shape = next(iter(self._ready))
        queue = self._ready.pop(shape)
        parts = max(min(self._idle, len(queue) // SMALLEST_SHARE), 1)
        share = -(-len(queue) // parts)
        group = [queue.popleft()]
        size = group[0].size
        while queue and len(group) < share and size + queue[0].size <= self._max:
            size += queue[0].size
            group.append(queue.popleft())
        if queue:
            self._ready[shape] = queue  # after the other shapes
        self._waiting -= len(group)
        return group

    async def _drive(self, carrier: Any, *, held: bool) -> None:
        try:
            while self._should_send() or (held and self._ready):
                held = False
                group = self._take()
                self.batches += 1
                self.jobs += len(group)
                self._idle -= 1
                self._flying += len(group)
                self._start()
                try:
                    answers = await self._run(carrier, group[0].shape, [job.item for job in group])
                except BaseException as error:  # bad plans are isolated by the runner
                    answers = [error] * len(group)
                self._idle += 1
                self._gathering += 1
                for job, answer in zip(group, answers, strict=True):
                    self._release(job)
                    _answer(job.future, answer)
                await asyncio.sleep(0)  # lets answered callers submit again
                self._gathering -= 1
                self._flying -= len(group)
        finally:
            self._free.append(carrier)
            self._start()

    def _release(self, job: _Job) -> None:
        for key in job.keys:
            line = self._lines[key]
            line.popleft()
            if not line:
                del self._lines[key]
                continue
            line[0].ahead -= 1
            if not line[0].ahead:
                self._enqueue(line[0])


def _answer(future: asyncio.Future[Any], answer: Any) -> None:
    """A cancelled caller gets no answer; the commit is not undone."""
    if future.done():
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
