"""Helpers of the tests of the Batcher: batches that end when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from flowfabric.engine.batcher import TASK, Batch, Batcher
from tests.patience import patient

SOON_S = 10.0


class Runs:
    """Records the batches; each ends when `end` is called with its index."""

    def __init__(self, **said: Any) -> None:
        self.batches: list[list[int]] = []
        self.ends: list[asyncio.Future[None]] = []
        self.batcher: Batcher[str, int, int] = Batcher(self, **{"limit": 100, **said})

    async def __call__(self, key: str, items: list[int]) -> Sequence[int | BaseException]:
        end = asyncio.get_running_loop().create_future()
        self.batches.append(items)
        self.ends.append(end)
        await end
        return [item * 10 for item in items]

    def submit(self, *items: int, key: str = "a") -> list[asyncio.Future[int]]:
        return [self.batcher.submit(key, item) for item in items]

    async def end(self, at: int) -> None:
        await self.begun(at + 1)
        self.ends[at].set_result(None)
        await turns()

    async def begun(self, count: int) -> None:
        async with patient(SOON_S):
            while len(self.ends) < count:  # noqa: ASYNC110
                await asyncio.sleep(0)


class Accepted:
    """A fast path that takes every batch without a 9."""

    def __init__(self) -> None:
        self.batches: list[Batch[str, int, int]] = []

    def __call__(self, batch: Batch[str, int, int]) -> bool:
        if 9 in batch.items:
            return False
        self.batches.append(batch)
        return True

    def items(self) -> list[list[int]]:
        return [batch.items for batch in self.batches]


def tasks() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == TASK]


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def all_of(calls: Sequence[asyncio.Future[int]]) -> list[Any]:
    async with patient(SOON_S):
        return await asyncio.gather(*calls, return_exceptions=True)


def kinds(results: Sequence[object]) -> list[type]:
    return [type(result) for result in results]
