"""The measuring process: time from enqueue to result at a steady pace, followed streams, and the
speed of the machine. One worker runs only its submissions. That worker and this process last for
the whole run.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from itertools import count
from typing import Any

from flowfabric import App, Engine
from flowfabric.errors import EngineError
from tests.chaos.child import Setup
from tests.chaos.engine_log import EngineLog
from tests.chaos.logs import Log
from tests.chaos.plan import probe_of
from tests.chaos.stores import entered
from tests.chaos.task_plan import CHAT, ECHO, NAMESPACES
from tests.chaos.tasks import tasks

ROLE, WORKER = "gauge", "taskworker1"
EVERY_S, CHAT_EVERY, CONTROL_EVERY = 0.2, 10, 10
MOST_AT_ONCE = 200
RESULT_S = 60.0
CONTROL_ROUNDS = 20_000


class Gauge:
    def __init__(self, app: App, log: Log) -> None:
        self._app, self._log = app, log
        self._asked: set[asyncio.Task[None]] = set()

    async def run(self, setup: Setup, stop: asyncio.Event) -> None:
        """Until the faults are over."""
        due = time.monotonic()
        for number in count():
            if setup.calm or stop.is_set():
                break
            if len(self._asked) < MOST_AT_ONCE:
                self._start(self._echo(number))
                if number % CHAT_EVERY == 0:
                    self._start(self._chat(number))
            if number % CONTROL_EVERY == 0:
                self._log.write("note", "control", seconds=control())
            due = max(due + EVERY_S, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
        await asyncio.gather(*self._asked, return_exceptions=True)

    def _start(self, asked: Any) -> None:
        task = asyncio.create_task(asked)
        self._asked.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._asked.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._log.write("note", "surprise", says=repr(task.exception()))

    async def _echo(self, number: int) -> None:
        began = time.monotonic_ns()
        run = await self._submitted(ECHO, number)
        if run is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(RESULT_S):
                await self._result(run)
        self._log.write("note", "latency", began=began)

    async def _result(self, run: Any) -> None:
        while True:
            try:
                await run.result()
                return
            except EngineError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(EVERY_S)

    async def _chat(self, number: int) -> None:
        began = time.monotonic_ns()
        run = await self._submitted(CHAT, number)
        if run is None:
            return
        found: list[str] = []
        broke = False
        try:
            async with asyncio.timeout(RESULT_S):
                async for frame in run.stream():
                    found.append(frame.fields["payload"])  # noqa: PERF401 - kept when it breaks
        except TimeoutError:
            pass  # what is missing is found by the check
        except EngineError:
            broke = True
        self._log.write("note", "followed", began=began, run=run.id, frames=found, broke=broke)

    async def _submitted(self, kind: str, number: int) -> Any:
        """None while the store is unavailable."""
        try:
            return await self._app.tasks[kind].submit(number, requires=[probe_of(WORKER)])
        except EngineError as error:
            if not error.retryable:
                raise
            return None


def control() -> float:
    """The seconds for a fixed amount of work, as a measure of the machine's speed."""
    began = time.perf_counter()
    total = 0
    for number in range(CONTROL_ROUNDS):
        total += number
    return time.perf_counter() - began


async def main(setup: Setup, engine: Engine, log: Log, stop: asyncio.Event) -> None:
    async with AsyncExitStack() as stack:
        app = tasks(setup.url, NAMESPACES[0])
        app.around = EngineLog(log).around
        await entered(stack, app)
        await Gauge(app, log).run(setup, stop)
