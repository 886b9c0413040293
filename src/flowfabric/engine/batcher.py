"""Collects calls while a batch is in flight and runs them together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import Generic, TypeVar

TASK = "flowfabric-batch"
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R")
Results = Sequence[R | BaseException]


class _Line(Generic[K, T, R]):
    """The calls of one key that wait, and how many batches of the key are in flight."""

    __slots__ = ("in_flight", "key", "waiting")

    def __init__(self, key: K) -> None:
        self.key = key
        self.waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self.in_flight = 0


class Batch(Generic[K, T, R]):
    """Items of one key that run together. It is in flight until it is answered, once."""

    __slots__ = ("_answers", "_ended", "_line", "items")

    def __init__(
        self,
        line: _Line[K, T, R],
        items: list[T],
        answers: list[asyncio.Future[R]],
        ended: Callable[[_Line[K, T, R]], None],
    ) -> None:
        self.items = items
        self._line, self._answers, self._ended = line, answers, ended

    @property
    def key(self) -> K:
        return self._line.key

    def answer(self, results: Results[R]) -> None:
        """Gives callers the results or exceptions of the first items; the others wait again.

        The next batch starts before the callers wake.
        """
        answers, count = self._answers, len(results)
        if not 0 < count <= len(answers):
            error = RuntimeError(f"{count} results for {len(answers)} items")
            results = [error] * len(answers)
        elif count < len(answers):
            rest = zip(reversed(self.items[count:]), reversed(answers[count:]), strict=True)
            self._line.waiting.extendleft(rest)
        self._ended(self._line)
        for answer, result in zip(answers, results, strict=False):
            if answer.done():
                continue
            if not isinstance(result, BaseException):
                answer.set_result(result)
            elif isinstance(result, asyncio.CancelledError):
                answer.cancel()
            else:
                answer.set_exception(result)

    def fail(self, error: BaseException) -> None:
        self.answer([error] * len(self._answers))


class Batcher(Generic[K, T, R]):
    """Runs the items of a key in batches of at most `limit`, in the order of their submission.

    Calls of one turn of the event loop share a batch. Calls that come while `in_flight` batches
    of the key are in flight wait until one of them ends. `run` returns a result or an exception
    for each item, or for the first items if the others shall go with the next batch; an exception
    that it raises is the answer to all items. The item of a cancelled caller is dropped unless
    its batch has started or `keeps_cancelled` is set. A cancelled batch cancels its own calls
    only.

    `fitting` returns how many of the first items go together. `idle` is called when no call of a
    key waits; the work that it returns runs like a batch. `fast` is offered each batch before
    `run`: it returns False, or starts the batch without a task and answers it later. With `fast`
    the first batch of a key starts at the submission.
    """

    def __init__(
        self,
        run: Callable[[K, list[T]], Coroutine[None, None, Results[R]]],
        limit: int,
        *,
        in_flight: int = 1,
        keeps_cancelled: bool = False,
        fitting: Callable[[Sequence[T]], int] | None = None,
        idle: Callable[[], Coroutine[None, None, None] | None] | None = None,
        fast: Callable[[Batch[K, T, R]], bool] | None = None,
    ) -> None:
        self._run, self._limit, self._in_flight = run, limit, in_flight
        self._keeps_cancelled = keeps_cancelled
        self._fitting, self._idle, self._fast = fitting, idle, fast
        self._lines: dict[K, _Line[K, T, R]] = {}
        self._tasks: set[asyncio.Task[Results[R] | None]] = set()
        self._finished: asyncio.Future[None] | None = None

    def submit(self, key: K, item: T) -> asyncio.Future[R]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[R] = loop.create_future()
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(key)
        line.waiting.append((item, answer))
        if len(line.waiting) == 1 and line.in_flight < self._in_flight:
            if self._fast is None:
                loop.call_soon(self._start, line)
            else:
                self._start(line)
        return answer

    def backlog(self, key: K) -> int:
        """The number of calls of a key that no batch contains yet."""
        line = self._lines.get(key)
        return 0 if line is None else len(line.waiting)

    def is_idle(self, *keys: K) -> bool:
        """True when no call of these keys, or of any key, waits or is in a batch."""
        return not self._lines.keys() & set(keys) if keys else not self._lines

    async def finish(self) -> None:
        """Waits until no call waits and no batch is in flight."""
        while self._lines:
            if self._finished is None:
                self._finished = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._finished)

    def run(self, batch: Batch[K, T, R]) -> None:
        """Runs a batch in a task. `fast` may call it later for a batch that it has accepted."""
        self._watch(batch, self._run(batch.key, batch.items))

    def _start(self, line: _Line[K, T, R]) -> None:
        """Starts as many batches of a key as there may be; removes a key that has none."""
        while line.in_flight < self._in_flight:
            batch = self._next(line) if line.waiting else None
            if batch is not None:
                line.in_flight += 1
                if self._fast is None or not self._fast(batch):
                    self.run(batch)
            elif self._idle is not None and (work := self._idle()) is not None:
                line.in_flight += 1
                self._watch(Batch(line, [], [], self._ended), work)
            else:
                break
        if not line.in_flight and self._lines.get(line.key) is line:
            del self._lines[line.key]
            if self._finished is not None and not self._lines:
                self._finished.set_result(None)
                self._finished = None

    def _next(self, line: _Line[K, T, R]) -> Batch[K, T, R] | None:
        waiting = line.waiting
        items: list[T] = []
        answers: list[asyncio.Future[R]] = []
        while waiting and len(items) < self._limit:
            item, answer = waiting.popleft()
            if self._keeps_cancelled or not answer.done():
                items.append(item)
                answers.append(answer)
        if self._fitting is not None and len(items) > 1:
            count = max(self._fitting(items), 1)
            rest = zip(reversed(items[count:]), reversed(answers[count:]), strict=True)
            waiting.extendleft(rest)
            del items[count:], answers[count:]
        return Batch(line, items, answers, self._ended) if items else None

    def _watch(self, batch: Batch[K, T, R], work: Coroutine[None, None, Results[R] | None]) -> None:
        task = asyncio.create_task(work, name=TASK)
        self._tasks.add(task)
        task.add_done_callback(partial(self._answer, batch))

    def _answer(self, batch: Batch[K, T, R], task: asyncio.Task[Results[R] | None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            batch.fail(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            batch.fail(error)
        else:
            batch.answer(task.result() or ())

    def _ended(self, line: _Line[K, T, R]) -> None:
        line.in_flight -= 1
        self._start(line)
