"""Claims and ends over cells. A claim for all namespaces asks one cell after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec import structs

from flowfabric.engine import validation
from flowfabric.engine.cells import locate
from flowfabric.engine.cells.calls import CellCalls
from flowfabric.engine.cells.locate import Locator
from flowfabric.engine.cells.pool import BASE, Cells
from flowfabric.engine.engine import Engine
from flowfabric.engine.events.long_poll import MAX_POLL_MS
from flowfabric.engine.executions.bulk_create import checked_runs
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Created, CreateExecutionArgs, Duplicate
from flowfabric.model.lease import ClaimGrant, ClaimPolicy, Handle, NoWork, Work
from flowfabric.store.wakeups import Topic, WorkWaiter

T = TypeVar("T")
R = TypeVar("R")
POLL_S = 5.0
Ended = tuple[Handle, bytes | None]


class CombinedWaiter:
    """Is woken with the first of several waiters, which belong to the hubs of several cells."""

    def __init__(self, waiters: Sequence[WorkWaiter]) -> None:
        self._waiters = waiters
        self.topics: tuple[Topic, ...] = tuple(
            dict.fromkeys(topic for each in waiters for topic in each.topics)
        )

    def __enter__(self) -> CombinedWaiter:
        for each in self._waiters:
            each.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._waiters:
            each.__exit__(None, None, None)

    def arm(self) -> None:
        for each in self._waiters:
            each.arm()

    def ring(self) -> None:
        for each in self._waiters[:1]:
            each.ring()

    async def wait(self, timeout_s: float | None) -> bool:
        tasks = [asyncio.ensure_future(each.wait(timeout_s)) for each in self._waiters]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return any(task.done() and task.result() for task in tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class CellWork:
    def __init__(self, cells: Cells, locator: Locator, calls: CellCalls) -> None:
        self._cells, self._locator, self._calls = cells, locator, calls
        self._last = ""
        """The namespace of the last claim for all namespaces."""

    # ---- creates

    async def create_executions(
        self, many: Sequence[CreateExecutionArgs], *, connection: object = None
    ) -> list[Created | Duplicate]:
        """Those of a namespace in one call. Nothing is created if one of them is invalid."""
        groups = _grouped(many, lambda each: getattr(each, "namespace", BASE))
        if len(groups) == 1:
            ((namespace, _),) = groups.items()
            return await self._created(namespace, many, connection)
        checked_runs(many)
        found: dict[int, Created | Duplicate] = {}
        for namespace, positions in groups.items():
            part = [many[at] for at in positions]
            made = await self._created(namespace, part, connection)
            found |= zip(positions, made, strict=True)
        return [found[at] for at in range(len(many))]

    async def _created(
        self, namespace: object, many: Sequence[CreateExecutionArgs], connection: object
    ) -> list[Created | Duplicate]:
        is_base = not isinstance(namespace, str) or namespace == BASE
        cell = self._cells.base if is_base else await self._cells.registered(str(namespace))
        made = await cell.create_executions(many, connection=connection)
        if not is_base:
            for each in made:
                self._locator.note((locate.EXECUTION, each.execution_id), str(namespace))
        return made

    # ---- claims

    async def claim_many(
        self, lane: str, capabilities: Iterable[str], policy: ClaimPolicy, n: int
    ) -> list[Work]:
        namespace = getattr(policy, "namespace", BASE)
        if isinstance(namespace, str):
            works = await self._cells.cell(namespace).claim_many(lane, capabilities, policy, n)
            return self._noted(works, namespace)
        offered = list(capabilities)
        until = time.monotonic() + (validation.claim_policy(policy).max_wait_ms or 0) / 1_000
        at_once = structs.replace(policy, max_wait_ms=None)
        while True:
            bell = await self.work_bell(lane, namespace=None)
            with bell:
                bell.arm()
                works = await self._in_turn(
                    n, lambda cell, left: cell.claim_many(lane, offered, at_once, left)
                )
                wait_s = until - time.monotonic()
                if works or wait_s <= 0:
                    return works
                await bell.wait(min(wait_s, POLL_S))

    async def _in_turn(
        self, n: int, claim: Callable[[Engine, int], Awaitable[list[Work]]]
    ) -> list[Work]:
        """From one cell after the other, beginning behind that of the last claim."""
        works: list[Work] = []
        for name in await self._next_names():
            found = await claim(self._cells.cell(name), n - len(works))
            if found:
                works += self._noted(found, name)
                self._last = name
            if len(works) >= n:
                break
        return works

    async def _next_names(self) -> list[str]:
        names = await self._cells.names()
        behind = [each for each in names if each > self._last]
        return behind + names[: len(names) - len(behind)]

    def _noted(self, works: list[Work], namespace: str) -> list[Work]:
        if namespace != BASE:
            for each in works:
                self._locator.note((locate.EXECUTION, each.execution_id), namespace)
        return works

    async def claim_for_worker(
        self,
        lane: str,
        worker_id: str,
        worker_instance_id: str,
        worker_capabilities: Iterable[str],
        grant_ttl_ms: int,
        namespace: str | None = BASE,
    ) -> ClaimGrant | NoWork:
        names = await self._next_names() if namespace is None else [namespace]
        offered = list(worker_capabilities)
        for name in names:
            found = await self._cells.cell(name).claim_for_worker(
                lane, worker_id, worker_instance_id, offered, grant_ttl_ms, namespace
            )
            if isinstance(found, ClaimGrant):
                self._last = name if namespace is None else self._last
                self._locator.note((locate.EXECUTION, found.execution_id), name)
                return found
        return NoWork()

    async def scan_eligible_executions(
        self,
        lane: str,
        partition: int | str | None = None,
        limit: int = 100,
        namespace: str | None = BASE,
    ) -> list[ExecutionId]:
        """Those of one cell behind those of another, if all namespaces are asked for."""
        names = await self._cells.names() if namespace is None else [namespace]
        found: list[ExecutionId] = []
        for name in names:
            left = limit - len(found)
            cell = self._cells.cell(name)
            found += await cell.scan_eligible_executions(lane, partition, left, namespace)
            if len(found) >= limit:
                break
        return found

    # ---- ends

    async def are_held(self, handles: Sequence[Handle]) -> list[bool]:
        return await self._by_cell(
            handles, lambda each: each, lambda cell, part: cell.are_held(part)
        )

    async def complete_many(self, many: Sequence[Ended]) -> list[EngineError | None]:
        return await self._by_cell(
            many, lambda each: each[0], lambda cell, part: cell.complete_many(part)
        )

    async def complete_and_claim(
        self,
        many: Sequence[Ended],
        lane: str,
        capabilities: Iterable[str],
        policy: ClaimPolicy,
        n: int,
    ) -> tuple[list[EngineError | None], list[Work]]:
        """One call where all of it is in the cell of the claim."""
        namespace = getattr(policy, "namespace", BASE)
        if isinstance(namespace, str):
            cell = self._cells.cell(namespace)
            if {namespace} >= {await self._namespace_of(handle) for handle, _ in many}:
                ended, works = await cell.complete_and_claim(many, lane, capabilities, policy, n)
                return ended, self._noted(works, namespace)
        ended = await self.complete_many(many)
        return ended, await self.claim_many(lane, capabilities, policy, n)

    async def _by_cell(
        self,
        many: Sequence[T],
        handle_of: Callable[[T], Handle],
        call: Callable[[Engine, Sequence[T]], Awaitable[list[R]]],
    ) -> list[R]:
        names = [await self._namespace_of(handle_of(each)) for each in many]
        groups = _grouped(names, lambda each: each)
        if len(groups) <= 1:
            return await call(self._cells.cell(names[0] if names else BASE), many)
        found: dict[int, R] = {}
        for name, positions in groups.items():
            part = await call(self._cells.cell(name), [many[at] for at in positions])
            found |= zip(positions, part, strict=True)
        return [found[at] for at in range(len(many))]

    async def _namespace_of(self, handle: object) -> str:
        subject = self._calls.held(handle)
        return BASE if subject is None else await self._locator.namespace_of(subject)

    # ---- waiting

    async def work_bell(self, *lanes: str, namespace: str | None = BASE) -> WorkWaiter:
        if namespace is not None:
            return await self._cells.cell(namespace).work_bell(*lanes, namespace=namespace)
        waiters = await self._cells.answers(lambda cell: cell.work_bell(*lanes, namespace=None))
        return waiters[0] if len(waiters) == 1 else CombinedWaiter(waiters)

    async def wait_for_work(
        self,
        lanes: Sequence[str],
        seen: int | None = None,
        wait_ms: int = 0,
        namespace: str | None = BASE,
    ) -> int:
        if namespace is not None:
            return await self._cells.cell(namespace).wait_for_work(lanes, seen, wait_ms, namespace)
        until = time.monotonic() + validation.whole(wait_ms, "wait_ms", 0, MAX_POLL_MS) / 1_000
        with await self.work_bell(*lanes, namespace=None) as bell:
            while True:
                bell.arm()
                count = sum(
                    await self._cells.answers(lambda cell: cell.wait_for_work(lanes, None, 0, None))
                )
                left = until - time.monotonic()
                if count != seen or left <= 0:
                    return count
                await bell.wait(min(left, POLL_S))


def _grouped(many: Sequence[T], key: Callable[[T], Any]) -> dict[Any, list[int]]:
    """The positions of the items of each key."""
    groups: dict[Any, list[int]] = {}
    for at, each in enumerate(many):
        groups.setdefault(key(each), []).append(at)
    return groups
