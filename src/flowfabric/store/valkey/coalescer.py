"""Plans that are committed while a call is in flight go with the next call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from flowfabric.plan import Answer, Plan

MAX_BATCH = 100
Outcome = Answer | BaseException
Run = Callable[[Sequence[Plan]], Awaitable[Sequence[Outcome]]]


class Coalescer:
    """One call at a time, so that plans are applied in the order in which they were committed."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._waiting: deque[tuple[Plan, asyncio.Future[Answer]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def submit(self, plan: Plan) -> asyncio.Future[Answer]:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((plan, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="flowfabric-valkey-commits")
        return answer

    async def finish(self) -> None:
        while self._task is not None:
            await asyncio.wait({self._task})

    async def _drain(self) -> None:
        try:
            while self._waiting:
                count = min(len(self._waiting), MAX_BATCH)
                batch = [self._waiting.popleft() for _ in range(count)]
                await self._send(batch)
        finally:
            self._task = None

    async def _send(self, batch: Sequence[tuple[Plan, asyncio.Future[Answer]]]) -> None:
        try:
            outcomes = await self._run([plan for plan, _ in batch])
        except Exception as error:
            outcomes = [error] * len(batch)
        for (_, answer), outcome in zip(batch, outcomes, strict=True):
            if answer.done():  # its caller was cancelled
                continue
            if isinstance(outcome, BaseException):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)
