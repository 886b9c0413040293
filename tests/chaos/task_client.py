"""The client of the tasks: submits the planned runs, answers approvals, cancels, removes ended
runs, and logs every end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from flowfabric import App, Engine, EngineError, ExecutionId, quorum
from flowfabric.errors import NotFound
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.waitpoint import DeliverSignalArgs

from .child import Setup
from .engine_log import EngineLog
from .evidence import TRIMMED
from .heard import Heard
from .logs import Log, read_history
from .plan import LANES
from .stores import entered
from .task_plan import HOPELESS, NAMESPACES, QUORUM, RETENTION_MS, TASK_LANES, Order, order
from .tasks import tasks

PAUSE_S, LOOK_S, TRIM_S = 0.1, 0.25, 1.0
ANSWERS = {
    "approved": (("approved", "ann"),),
    "approved_by_two": (("approved", "ann"), ("approved", "bob")),
    "rejected": (("rejected", "ann"),),
}
CANCELLED = ("leaver", "waits", "spends_or_waits")
WAITING = ("suspended", "rate_limited")
"""Only then a run is answered or cancelled; one that its budget holds back is the latter."""
SUBMITTED = {"overdue": {"deadline": "1s"}, "in_time": {"deadline": "10m"}}


class Client:
    def __init__(
        self, setup: Setup, engine: Engine, apps: dict[str, App], log: Log, stop: asyncio.Event
    ) -> None:
        self._setup, self._engine, self._apps = setup, engine, apps
        self._log, self._stop = log, stop
        before = read_history(Path(setup.folder), "taskclient-*")
        self._finished = {note["ordinal"] for note in before.notes if note["op"] == "finished"}

    async def run(self) -> None:
        """Repeats what an earlier process did not finish: each run has a key, and a flow may exist
        twice.
        """
        trimming = asyncio.create_task(self._trim())
        left = [
            order(self._setup.seed, n) for n in range(self._setup.tasks) if n not in self._finished
        ]
        rate = self._setup.rate * self._setup.tasks / self._setup.executions
        running: list[asyncio.Task[None]] = []
        try:
            for each in left:
                if self._stop.is_set():
                    return
                if trimming.done():
                    trimming.result()
                running.append(asyncio.create_task(self._see_through(each)))
                await asyncio.sleep(0.02 if self._setup.calm else 1 / rate)
            await asyncio.gather(*running)
        finally:
            trimming.cancel()
            for task in running:
                task.cancel()

    async def _see_through(self, each: Order) -> None:
        if each.kind in (QUORUM, HOPELESS):
            idents = await self._insist(lambda: self._flow(each))
        else:
            idents = [await self._insist(lambda: self._submit(each))]
        for ident in idents:
            await self._insist(lambda ident=ident: self._watch(each, ident))  # type: ignore[misc]
        self._log.write("note", "finished", ordinal=each.ordinal)

    async def _submit(self, each: Order) -> ExecutionId:
        options: dict[str, Any] = {"key": each.key, **SUBMITTED.get(each.kind, {})}
        if each.delay_ms and each.kind not in SUBMITTED:
            options["delay"] = f"{each.delay_ms}ms"
        return (
            await self._apps[each.namespace].tasks[each.kind].submit(each.ordinal, **options)
        ).id

    async def _flow(self, each: Order) -> list[ExecutionId]:
        """Two of three are enough."""
        app, kinds = self._apps[each.namespace], ("racer", "racer", "loser")
        last = "joins"
        if each.kind == HOPELESS:
            kinds, last = ("loser", "loser", "racer"), "unreachable"
        async with app.flow() as flow:
            nodes = [flow.add(app.tasks[kind], each.ordinal) for kind in kinds]
            nodes.append(flow.add(app.tasks[last], each.ordinal, after=quorum(2, *nodes)))
        return [node.id for node in nodes]

    async def _watch(self, each: Order, ident: ExecutionId) -> None:
        """Until it has ended. A removed run had ended before."""
        app = self._apps[each.namespace]
        engine = await app.engine()
        while True:
            outcome = await engine.read_outcome(ident)
            if outcome is None or outcome.ended:
                break
            if outcome.public_state in WAITING:
                await self._attend(each, engine, ident)
            with suppress(TimeoutError, NotFound):
                await app.results.outcome(
                    ident, LOOK_S if each.kind in ANSWERS or each.kind in CANCELLED else 5.0
                )
        if outcome is not None:
            value = None if outcome.result is None else outcome.result.decode()
            self._log.write(
                "note", "saw", execution=ident, outcome=outcome.terminal_outcome, value=value
            )

    async def _attend(self, each: Order, engine: Engine, ident: ExecutionId) -> None:
        with suppress(NotFound):
            if each.kind in CANCELLED:
                await engine.cancel_execution(
                    CancelExecutionArgs(execution_id=ident, reason="by plan")
                )
            if each.kind in ANSWERS:
                for waitpoint in (await engine.list_pending_waitpoints(ident)).items:
                    for name, who in ANSWERS[each.kind]:
                        await self._answer(engine, ident, waitpoint.waitpoint_id, name, who)

    async def _answer(
        self, engine: Engine, ident: ExecutionId, waitpoint: UUID, name: str, who: str
    ) -> None:
        token = await engine.read_waitpoint_token(ident.partition_index, waitpoint)
        if token is None:
            return
        args = DeliverSignalArgs(
            execution_id=ident,
            waitpoint_id=waitpoint,
            signal_id=uuid5(waitpoint, who),
            waitpoint_token=token,
            signal_name=name,
            source_identity=who,
            idempotency_key=who,
        )
        try:
            await engine.deliver_signal(args)
        except EngineError as error:
            if error.retryable:
                raise  # else it is closed by now

    async def _trim(self) -> None:
        """Removes executions that ended a few seconds ago and whose events the subscriber has
        received; not parents and flows.
        """
        engine, heard = self._engine, Heard(self._setup.folder)
        while True:
            await asyncio.sleep(TRIM_S)
            with suppress(EngineError):
                age_ms = await heard.age_ms(engine)
                for lane, kept_ms in self._kept_ms().items() if age_ms is not None else ():
                    await engine.trim_retention(lane, max(kept_ms, age_ms or 0), batch=200)
                if self._setup.soak is not None:
                    self._log.write("note", TRIMMED, kept_ms=self._setup.soak.kept_ms)

    def _kept_ms(self) -> dict[str, int]:
        """A restarted driver creates executions of workers again; they are kept longer than that
        takes.
        """
        soak = self._setup.soak
        of_workers = {} if soak is None else dict.fromkeys(LANES, soak.kept_ms)
        return {**dict.fromkeys(TASK_LANES, RETENTION_MS), **of_workers}

    async def _insist(self, work: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await work()
            except EngineError as error:
                if not error.retryable:
                    raise
                self._log.write("note", "again", what=str(error))
                await asyncio.sleep(PAUSE_S)


async def main(setup: Setup, engine: Engine, log: Log, stop: asyncio.Event) -> None:
    around = EngineLog(log).around
    async with AsyncExitStack() as stack:
        apps = {namespace: tasks(setup.url, namespace) for namespace in NAMESPACES}
        for app in apps.values():
            app.around = around
            await entered(stack, app)
        await Client(setup, engine, apps, log, stop).run()


def value_of(text: str | None) -> Any:
    return None if not text else json.loads(text)
