"""The client: creates the planned executions, some of them twice, and flows; cancels, revokes and
replays some.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from flowfabric import CreateExecutionArgs, Engine, EngineError, ExecutionId
from flowfabric.errors import TransportError
from flowfabric.model.execution import CancelExecutionArgs, Created, Duplicate, ReplayExecutionArgs
from flowfabric.model.flow import FlowAlreadyExists, FlowSubmitted
from flowfabric.model.lease import Revoked, RevokeLeaseArgs
from flowfabric.store.clock import system_clock

from .child import Setup
from .logs import Log, read_history
from .plan import EXECUTIONS_PER_FLOW, Job, flow, job

BULK = 6
PAUSE_S = 0.1
ENDED_OR_REMOVED = ("completed", "failed", "cancelled", "expired", "skipped", None)
Asked = list[tuple[ExecutionId, Job]]


class Driver:
    def __init__(self, setup: Setup, engine: Engine, log: Log, stop: asyncio.Event) -> None:
        self._setup, self._engine, self._log, self._stop = setup, engine, log, stop
        self._rng = Random(f"{setup.seed}/{setup.instance}")
        before = read_history(Path(setup.folder), "driver-*")
        self._finished = {note["ordinal"] for note in before.notes if note["op"] == "finished"}
        self._replayed = {call.execution for call in before.of("replay")}

    async def run(self) -> None:
        """Repeats what an earlier process did not finish: every call is idempotent."""
        left = [n for n in range(self._setup.executions) if n not in self._finished]
        running: set[asyncio.Task[None]] = set()
        while left and not self._stop.is_set():
            size = self._rng.randint(1, BULK)
            chunk, left = [job(self._setup.seed, n) for n in left[:size]], left[size:]
            for part in [chunk] if self._rng.random() < 0.5 else [[one] for one in chunk]:
                running.add(asyncio.create_task(self._see_through(part)))
            for task in [task for task in running if task.done()]:
                running.discard(task)
                task.result()
            await asyncio.sleep(0.01 if self._setup.calm else len(chunk) / self._setup.rate)
        await asyncio.gather(*running)

    async def _see_through(self, jobs: list[Job]) -> None:
        """Every n-th job comes with a flow."""
        flows = [
            each.ordinal // EXECUTIONS_PER_FLOW
            for each in jobs
            if each.ordinal % EXECUTIONS_PER_FLOW == 0
        ]
        await asyncio.gather(*(self._submit(number) for number in flows))
        await self._create(jobs)
        await asyncio.gather(*(self._afterwards(each) for each in jobs))

    async def _create(self, jobs: list[Job]) -> None:
        """Creates jobs together; jobs with a key a second time under another id, before, after or
        at the same time.
        """
        first: Asked = [(each.execution, each) for each in jobs]
        twins: Asked = [(each.twin, each) for each in jobs if each.twin is not None]
        for asked in self._rng.choice(([first, twins], [twins, first], [first + twins])):
            if not asked:
                continue
            if len(asked) > 1 and self._rng.random() < 0.5:
                await self._insist("create_many", partial(self._bulk, asked))
            else:
                await asyncio.gather(
                    *(self._insist("create", partial(self._one, *one)) for one in asked)
                )

    async def _submit(self, number: int) -> None:
        args = flow(self._setup.seed, number)
        idents = [node.execution_id for node in args.nodes]

        def told(answer: FlowSubmitted | FlowAlreadyExists) -> dict[str, Any]:
            return {"made": [(ident, isinstance(answer, FlowSubmitted)) for ident in idents]}

        async def once() -> None:
            await self._log.call(
                "create",
                self._engine.submit_flow(args),
                told,
                asked=[(ident, None) for ident in idents],
            )

        await self._insist("submit_flow", once)

    async def _one(self, ident: ExecutionId, each: Job) -> None:
        created = self._engine.create_execution(self._args(ident, each))
        await self._log.call("create", created, made, asked=[(ident, each.key)])

    async def _bulk(self, asked: Asked) -> None:
        created = self._engine.create_executions([self._args(*one) for one in asked])
        keys = [(ident, each.key) for ident, each in asked]
        await self._log.call("create", created, made, asked=keys)

    def _args(self, ident: ExecutionId, each: Job) -> CreateExecutionArgs:
        delay_until = system_clock() + each.delay_ms if each.delay_ms else None
        return CreateExecutionArgs(
            execution_id=ident,
            lane_id=each.lane,
            priority=each.priority,
            delay_until=delay_until,
            idempotency_key=each.key,
            policy=each.policy,
            input_payload=each.payload,
        )

    async def _afterwards(self, each: Job) -> None:
        """Only one of the two executions of a key exists; it may be the twin."""
        ident = each.execution
        if each.twin is not None and await self._state(ident) is None:
            ident = each.twin
        if each.revoke_after_s is not None:
            await asyncio.sleep(each.revoke_after_s)
            revoke = RevokeLeaseArgs(execution_id=ident)
            await self._try("revoke", ident, lambda: self._engine.revoke_lease(revoke), _revoked)
        if each.cancel_after_s is not None:
            await asyncio.sleep(each.cancel_after_s)
            cancel = CancelExecutionArgs(execution_id=ident, reason="by plan")
            for _ in range(2):
                await self._try("cancel", ident, lambda: self._engine.cancel_execution(cancel))
        if each.replays and ident not in self._replayed:
            while await self._state(ident) not in ENDED_OR_REMOVED:
                if self._stop.is_set():
                    return
                await asyncio.sleep(PAUSE_S)
            replay = ReplayExecutionArgs(execution_id=ident)
            await self._try("replay", ident, lambda: self._engine.replay_execution(replay))
        self._log.write("note", "finished", ordinal=each.ordinal)

    async def _try(
        self,
        op: str,
        ident: ExecutionId,
        asked: Callable[[], Awaitable[Any]],
        saw: Callable[[Any], dict[str, Any]] | None = None,
    ) -> None:
        """Repeats the call until it has an answer, and logs the answer."""

        async def once() -> None:
            try:
                await self._log.call(op, asked(), saw, execution=ident)
            except TransportError:
                raise
            except EngineError:
                return

        await self._insist(op, once)

    async def _state(self, ident: ExecutionId) -> Any:
        return await self._insist("read", lambda: self._engine.read_execution_state(ident))

    async def _insist(self, what: str, work: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await work()
            except EngineError as error:
                if not error.retryable:
                    raise
                self._log.write("note", "again", what=what)
                await asyncio.sleep(PAUSE_S)


def made(answers: Created | Duplicate | list[Created | Duplicate]) -> dict[str, Any]:
    told = answers if isinstance(answers, list) else [answers]
    return {"made": [(answer.execution_id, isinstance(answer, Created)) for answer in told]}


def _revoked(result: Any) -> dict[str, Any]:
    return (
        {"epoch": int(result.lease_epoch)}
        if isinstance(result, Revoked)
        else {"reason": result.reason}
    )


async def main(setup: Setup, engine: Engine, log: Log, stop: asyncio.Event) -> None:
    await Driver(setup, engine, log, stop).run()
