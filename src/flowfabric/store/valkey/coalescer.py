"""What is committed while a call is in flight goes with the next call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from flowfabric.store.valkey.units import Done, Unit

MAX_WEIGHT = 20
"""Plans and swept rows of a call of several callers. It takes the server two milliseconds or less,
so that it is rarely interrupted on a busy machine, and others do not wait long.
"""
MAX_PLANS = 100
"""Plans of one caller in a call."""


Run = Callable[[Sequence[Unit]], Awaitable[Sequence[Done]]]
Waiting = tuple[Unit, "asyncio.Future[Done]"]


class Coalescer:
    """One call at a time, so that units are applied in the order in which they were submitted.

    A call takes half of the units in progress: while the server works on one half, the callers of
    the other prepare what they do next.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._waiting: deque[Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    def submit(self, unit: Unit) -> asyncio.Future[Done]:
        answer: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        self._waiting.append((unit, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="flowfabric-valkey-commits")
        return answer

    async def finish(self) -> None:
        while self._task is not None:
            await asyncio.wait({self._task})

    async def _drain(self) -> None:
        batch = self._next(0)
        call = self._call(batch)
        try:
            while batch:
                await asyncio.wait({call})
                done, finished = batch, call
                batch = self._next(len(done))
                if batch:  # sent before the callers go on
                    call = self._call(batch)
                _answer(done, finished)
        finally:
            self._task = None

    def _next(self, answered: int) -> list[Waiting]:
        share = -(-(len(self._waiting) + answered) // 2)
        batch: list[Waiting] = []
        weight = 0
        while self._waiting and len(batch) < share:
            weight += self._waiting[0][0].weight
            if batch and weight > MAX_WEIGHT:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _call(self, batch: Sequence[Waiting]) -> asyncio.Future[Sequence[Done]]:
        return asyncio.ensure_future(self._run([unit for unit, _ in batch]))


def _answer(batch: Sequence[Waiting], call: asyncio.Future[Sequence[Done]]) -> None:
    error = None if call.cancelled() else call.exception()
    if call.cancelled():
        error = asyncio.CancelledError()
    found: Sequence[Done | BaseException] = [error] * len(batch) if error else call.result()
    for (_, answer), outcome in zip(batch, found, strict=True):
        if answer.done():  # its caller was cancelled
            continue
        if isinstance(outcome, BaseException):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)
