"""A short run without faults that the tests of the checker damage, and the ways to damage it."""

from __future__ import annotations

import asyncio
import contextlib
from copy import deepcopy
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4, uuid5

from flowfabric import (
    ClaimPolicy,
    CreateExecutionArgs,
    EngineError,
    ExecutionId,
    FailureClass,
    Worker,
    memory_engine,
)
from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.engine.events.subscriptions import Subscription
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS
from flowfabric.model.execution import CancelExecutionArgs, ReplayExecutionArgs
from flowfabric.model.lease import Work
from flowfabric.model.waitpoint import (
    Count,
    CountKind,
    DeliverSignalArgs,
    FreshWaitpoint,
    Single,
    SuspendArgs,
    UsePending,
)
from flowfabric.store.schema import TABLES
from flowfabric.verify.snapshot import TABLES_READ

from .driver import made
from .engine_log import EngineLog
from .frames import PARTS, appended, batch, sent
from .logs import History, Log, read_history
from .plan import LOOPS, SETTINGS, result
from .signaller import heard
from .subscriber import as_line
from .task_plan import MAIL, PURSE, PURSES
from .tasks import tasks
from .worker import failed, granted, observed, parked, renewed

DONE, KEYED, TWIN, CANCELLED, REPLAYED, LOST, WAITED, EARLY = (
    ExecutionId.solo("lane") for _ in range(8)
)
DIGESTS = {
    ident: f"{number:064x}"
    for number, ident in enumerate((DONE, KEYED, REPLAYED, LOST, WAITED, EARLY))
}
TASKS = {
    "south": ("in_time", "steps"),
    "north": ("steps", "doomed", *["spends_or_fails"] * (PURSE + 1)),
}
Tables = dict[str, list[Any]]


class Sound:
    """Returns its tables and the logs of its processes."""

    def __init__(self, folder: Path) -> None:
        self.engine = memory_engine(settings=SETTINGS)
        self.driver, self.first, self.second = (
            Log(folder, name) for name in ("driver-1", "worker0-1", "worker1-1")
        )
        self.folder = folder

    async def run(self) -> tuple[Tables, History]:
        for ident, key in (
            (DONE, None),
            (KEYED, "k"),
            (TWIN, "k"),
            (CANCELLED, None),
            (REPLAYED, None),
        ):
            await self._create(ident, key)
        cancel = CancelExecutionArgs(execution_id=CANCELLED)
        await self.driver.call("cancel", self.engine.cancel_execution(cancel), execution=CANCELLED)
        held = {work.execution_id: work for work in await self._claim(self.first, 30_000)}
        await self._fenced(
            self.first, "renew", held[DONE], self.engine.renew(held[DONE].handle), renewed
        )
        await self._fenced(
            self.first, "progress", held[DONE], self.engine.progress(held[DONE].handle, 50)
        )
        for part in (*range(PARTS), 0):
            await self._append(self.first, held[DONE], part)
        await self._complete(self.first, held[DONE])
        await self._complete(self.first, held[KEYED])
        ended = self.engine.fail(held[REPLAYED].handle, "no", FailureClass.PERMANENT)
        await self._fenced(self.first, "fail", held[REPLAYED], ended, failed)
        await self._wait()
        await self._create(LOST, None)
        (lost,) = await self._claim(self.first, 20)
        await asyncio.sleep(0.05)
        await self.engine.mark_lease_expired_if_due(LOST)
        await self.engine.requeue_lost(LOST, 0)
        replay = ReplayExecutionArgs(execution_id=REPLAYED)
        await self.driver.call("replay", self.engine.replay_execution(replay), execution=REPLAYED)
        for work in await self._claim(self.second, 30_000):
            await self._complete(self.second, work)
        await asyncio.sleep(0.01)
        with contextlib.suppress(EngineError):
            await self._complete(self.first, lost)
        with contextlib.suppress(EngineError):
            await self._append(self.first, lost, 0)
        await self._tasks()
        await self._subscribe()
        await self.engine.trim_retention(MAIL, 0)
        return await self.engine.store.dump(TABLES_READ), read_history(self.folder)

    async def _tasks(self) -> None:
        """Both namespaces run tasks; those on the second lane of one are removed at the end."""
        client = Log(self.folder, "taskclient-1")
        for namespace, kinds in TASKS.items():
            log = Log(self.folder, f"taskworker{namespace}-1")
            asking, working = (
                tasks("memory://", namespace),
                tasks("memory://", namespace, "taskworker-1"),
            )
            asking.around, working.around = EngineLog(client).around, EngineLog(log).around
            for app in (asking, working):
                app.use(self.engine)
            worker = Worker(working, loops=LOOPS)
            log.write("note", "serves", worker=worker.instance_id, namespace=namespace)
            async with worker:
                for n, kind in enumerate(kinds):
                    run = await asking.tasks[kind].submit(n * PURSES, key=f"{namespace}-{n}")
                    outcome = await asking.results.outcome(run.id, 30.0)
                    value = None if outcome.result is None else outcome.result.decode()
                    client.write(
                        "note",
                        "saw",
                        execution=run.id,
                        outcome=outcome.terminal_outcome,
                        value=value,
                    )
            await asking.results.stop()
        await self.engine.shutdown_prepare()

    async def _wait(self) -> None:
        """One is signalled twice and resumes; for the other an earlier signal was enough."""
        await self.engine.seed_waitpoint_hmac_secret("k1", "5e" * 32)
        for ident in (WAITED, EARLY):
            await self._create(ident, None)
        held = {work.execution_id: work for work in await self._claim(self.first, 30_000)}
        ahead = await self.engine.create_waitpoint(held[EARLY].handle, "a")
        await self._signal(EARLY, ahead.waitpoint_id, ahead.hmac_token, 1)
        until = Count(2, CountKind.DISTINCT_SOURCES, ("a",))
        waits = {
            WAITED: (FreshWaitpoint(uuid4(), "a"), until),
            EARLY: (UsePending(ahead.waitpoint_id), Single("a")),
        }
        for ident, (waitpoint, condition) in waits.items():
            args = SuspendArgs(
                suspension_id=uuid4(), waitpoints=[waitpoint], resume_condition=condition
            )
            asked = self.engine.suspend(held[ident].handle, args)
            outcome = await self._fenced(self.first, "suspend", held[ident], asked, parked)
            if ident is WAITED:
                bound = outcome.details
        await self._complete(self.first, held[EARLY])
        for number in (1, 1, 2):
            await self._signal(WAITED, bound.waitpoint_id, bound.waitpoint_token, number)
        (work,) = await self._claim(self.second, 30_000)
        await self._fenced(
            self.second, "observe", work, self.engine.observe_signals(work.handle), observed
        )
        await self._complete(self.second, work)

    async def _signal(self, ident: ExecutionId, waitpoint: UUID, token: str, number: int) -> None:
        args = DeliverSignalArgs(
            execution_id=ident,
            waitpoint_id=waitpoint,
            signal_id=uuid5(waitpoint, str(number)),
            waitpoint_token=token,
            source_identity=str(number),
            idempotency_key=str(number),
        )
        facts = {"execution": ident, "waitpoint": str(waitpoint), "signal": str(args.signal_id)}
        await self.driver.call("signal", self.engine.deliver_signal(args), heard, **facts)

    async def _create(self, ident: ExecutionId, key: str | None) -> None:
        created = self.engine.create_execution(
            CreateExecutionArgs(execution_id=ident, idempotency_key=key)
        )
        await self.driver.call("create", created, made, asked=[(ident, key)])

    async def _claim(self, log: Log, ttl_ms: int) -> list[Work]:
        policy = ClaimPolicy("w", log.path.stem, lease_ttl_ms=ttl_ms)
        return await log.call("claim", self.engine.claim_many("default", (), policy, 10), granted)

    async def _complete(self, log: Log, work: Work) -> None:
        digest = DIGESTS[work.execution_id]
        done = self.engine.complete(work.handle, result(digest, 40))
        await self._fenced(log, "complete", work, done, digest=digest, size=40)

    async def _append(self, log: Log, work: Work, part: int) -> None:
        frames = batch(work.lease_epoch, part)
        asked = self.engine.append_frames(work.handle, frames)
        await self._fenced(
            log, "append", work, asked, appended, attempt=work.attempt_index, **sent(frames)
        )

    async def _fenced(
        self, log: Log, op: str, work: Work, asked: Any, saw: Any = None, **facts: Any
    ) -> Any:
        return await log.call(
            op, asked, saw, execution=work.execution_id, epoch=work.lease_epoch, **facts
        )

    async def _subscribe(self) -> None:
        """Two processes; the second receives the events after the saved cursor again."""
        for channel, follow in (
            (COMPLETION_EVENTS, self.engine.subscribe_completion),
            (LEASE_EVENTS, self.engine.subscribe_lease_history),
        ):
            stored = len((await self.engine.store.dump((channel,)))[channel])
            cursor = BEGINNING
            for life, (reads, saves) in enumerate(((4, 2), (stored - 2, stored - 2)), 1):
                log = Log(self.folder, f"subscriber-{life}")
                log.write("resume", channel, cursor=cursor.hex())
                events: Subscription[Any] = follow(cursor)
                for number in range(reads):
                    event = await anext(events)
                    log.write("event", channel, **as_line(event))
                    cursor = event.cursor if number < saves else cursor


def alter(tables: Tables, table: str, ident: ExecutionId, **changes: Any) -> None:
    """Changes an execution's rows directly."""
    names = TABLES[table].names
    for at, row in enumerate(tables[table]):
        if row[names.index("execution_id")] == ident.uuid:
            tables[table][at] = tuple(
                changes.get(name, value) for name, value in zip(names, row, strict=True)
            )


def rows_of(tables: Tables, table: str, ident: ExecutionId) -> list[Any]:
    return [
        row for row in tables[table] if row[TABLES[table].names.index("execution_id")] == ident.uuid
    ]


def call_of(history: History, op: str, ident: ExecutionId, verdict: str = "acknowledged") -> Any:
    return next(call for call in history.of(op, verdict=verdict) if call.execution == ident)


def again(history: History, op: str, ident: ExecutionId, **changes: Any) -> None:
    """A copy of a call with these changes."""
    copy = deepcopy(call_of(history, op, ident))
    copy.facts.update(changes)
    history.calls.append(copy)


def run_of(history: History, kind: str) -> Any:
    """The submission of the first run of a task."""
    return next(
        call
        for call in history.of("create")
        if "runs" in call.facts and call.facts["runs"][0][1] == kind
    )


def ident_of(history: History, kind: str) -> ExecutionId:
    return ExecutionId(run_of(history, kind).reply["made"][0][0])


def create_call(history: History, ident: ExecutionId) -> Any:
    return next(call for call in history.of("create") if call.facts["asked"][0][0] == ident)
