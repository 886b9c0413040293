"""Cells under load, a log of what was answered, and its reconciliation with the rows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from msgspec import Struct, field

from flowfabric.connect import connect_store, read_tables
from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.verify.invariants import CHECKS
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of
from tests.patience import patience

LANE = "default"
LEASE_MS = 600_000
"""Longer than any run: an expired lease would say nothing about a failover."""
PAUSE_S = 0.02
BETWEEN_S = 0.1
"""A long run makes no more rows than `verify` can read."""


class Log(Struct):
    """What the store has answered to the load of a cell."""

    created: set[str] = field(default_factory=set)
    claimed: list[str] = field(default_factory=list)
    completed: list[str] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def answers(self) -> int:
        return len(self.created) + len(self.claimed) + len(self.completed)


class Verdict(Struct):
    """What the rows of a cell say about its log."""

    created: int = 0
    completed: int = 0
    lost_creates: int = 0
    lost_ends: int = 0
    done_again: int = 0
    """Ends that were answered once more, since the first of them was lost."""
    ended_twice: int = 0
    violations: list[str] = field(default_factory=list)

    @property
    def lost(self) -> int:
        return self.lost_creates + self.lost_ends + self.done_again


class Load:
    """Each cell is created in, claimed from and completed in, one call after the other."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.logs = {url: Log() for url in urls}
        self._engines: list[Engine] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        for url, log in self.logs.items():
            engine = await connect_store(url, loops=False)
            self._engines.append(engine)
            self._tasks.append(asyncio.create_task(_run(engine, log)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        for engine in self._engines:
            await engine.close()

    async def progress(self, urls: Sequence[str] = (), more: int = 30) -> None:
        """Returns when each of these cells, or every cell, has had so many more answers."""
        wanted = {url: self.logs[url].answers + more for url in urls or self.logs}
        async with asyncio.timeout(patience(20)):
            while any(self.logs[url].answers < least for url, least in wanted.items()):
                self._check()
                await asyncio.sleep(PAUSE_S)

    async def failures(self, urls: Sequence[str], more: int = 1) -> None:
        wanted = {url: self.logs[url].failures.total() + more for url in urls}
        async with asyncio.timeout(patience(20)):
            while any(self.logs[url].failures.total() < n for url, n in wanted.items()):
                self._check()
                await asyncio.sleep(PAUSE_S)

    def _check(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def verdicts(self) -> dict[str, Verdict]:
        return {url: await asyncio.to_thread(verdict, url, log) for url, log in self.logs.items()}


@asynccontextmanager
async def loaded(urls: Sequence[str]) -> AsyncIterator[Load]:
    load = Load(urls)
    try:
        await load.start()
        yield load
    finally:
        await load.stop()


async def _run(engine: Engine, log: Log) -> None:
    policy = ClaimPolicy("worker", "instance", LEASE_MS)
    while True:
        try:
            ident = ExecutionId.solo(LANE)
            await engine.create_execution(CreateExecutionArgs(execution_id=ident))
            log.created.add(str(ident.uuid))
            for claimed in await engine.claim_many(LANE, (), policy, 4):
                name = str(claimed.execution_id.uuid)
                log.claimed.append(name)
                await engine.complete(claimed.handle, b"done")
                log.completed.append(name)
            await asyncio.sleep(BETWEEN_S)
        except EngineError as error:
            log.failures[f"{error.code}: {str(error)[:90]}"] += 1
            await asyncio.sleep(PAUSE_S)


def verdict(url: str, log: Log) -> Verdict:
    snapshot = snapshot_of(read_tables(url, TABLES_READ))
    states = {str(key[1]): each.public_state for key, each in snapshot.executions.items()}
    ends = {
        str(key[1]): sum(event["outcome"] == "success" for event in events)
        for key, events in snapshot.completions.items()
    }
    answered = Counter(log.completed)
    return Verdict(
        created=len(log.created),
        completed=len(log.completed),
        lost_creates=len(log.created - set(states)),
        lost_ends=sum(states.get(name) != "completed" or not ends.get(name) for name in answered),
        done_again=sum(n > 1 for n in answered.values()),
        ended_twice=sum(n > 1 for n in ends.values()),
        violations=[
            f"{name}: {found}" for name, check in CHECKS.items() for found in check(snapshot)
        ],
    )


def summary(verdicts: Sequence[Verdict]) -> dict[str, int]:
    names = ("created", "completed", "lost_creates", "lost_ends", "done_again", "ended_twice")
    return {name: sum(getattr(each, name) for each in verdicts) for name in names}
