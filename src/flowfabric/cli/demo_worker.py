"""A worker process of the demo: an App, a task and a Worker as anybody would write them, and a
report of each end on stdout.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from flowfabric.connect import SqliteBackend, sqlite_path
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.engine.proxy import Operation, wrapped
from flowfabric.errors import EngineError, TransportError
from flowfabric.model.lease import Handle
from flowfabric.sdk.app import App
from flowfabric.sdk.worker import Worker

LEASE_MS = 1_500
SLOTS = 4
GRACE_MS = 200
SHORTEST_JOB_S, LONGEST_JOB_S = 0.08, 0.24


def say(kind: str, **facts: object) -> None:
    """One write per line, so that a killed worker never leaves half of one."""
    os.write(1, json.dumps({"kind": kind, **facts}).encode() + b"\n")


class Reporter:
    """Prints the outcome of each write by a lease holder. A late write is refused, once or more
    often; it is printed once.
    """

    def __init__(self) -> None:
        self._refused: set[bytes] = set()

    def wrap(self, name: str, operation: Operation) -> Operation | None:
        match name:
            case "complete" | "renew":
                return self._one(operation, completes=name == "complete")
            case "complete_many":
                return self._many(operation, lambda answer: answer)
            case "complete_and_claim":
                return self._many(operation, lambda answer: answer[0])
        return None

    def _one(self, operation: Operation, *, completes: bool) -> Operation:
        async def reported(handle: Handle, *args: Any, **named: Any) -> Any:
            try:
                answer = await operation(handle, *args, **named)
            except EngineError as error:
                self._report(handle, error)
                raise
            if completes:
                say("completed")
            return answer

        return reported

    def _many(
        self, operation: Operation, errors: Callable[[Any], list[EngineError | None]]
    ) -> Operation:
        async def reported(
            many: Sequence[tuple[Handle, bytes | None]], *args: Any, **named: Any
        ) -> Any:
            answer = await operation(many, *args, **named)
            for (handle, _), error in zip(many, errors(answer), strict=True):
                self._report(handle, error)
                if error is None:
                    say("completed")
            return answer

        return reported

    def _report(self, handle: Handle, error: EngineError | None) -> None:
        if error is None or isinstance(error, TransportError) or handle.opaque in self._refused:
            return
        self._refused.add(handle.opaque)
        say("refused", code=error.code)


REPORTER = Reporter()
"""Shared by the engine of the worker and that of its renewals."""


class DemoApp(App):
    async def another_engine(self) -> EngineProtocol:
        engine = await SqliteBackend.new(
            sqlite_path(self.url), dev=True, settings=Settings(lease_reclaim_grace_ms=GRACE_MS)
        )
        return wrapped(engine, REPORTER.wrap)


def build_app(path: str) -> DemoApp:
    app = DemoApp(f"sqlite:///{path}", name="demo")

    @app.task(lane="demo")
    async def job(number: int) -> str:
        await asyncio.sleep(random.uniform(SHORTEST_JOB_S, LONGEST_JOB_S))  # noqa: S311
        return f"done with {number}"

    return app


async def main(path: str, name: str) -> None:
    logging.disable(logging.WARNING)
    async with build_app(path) as app:
        engine = await app.engine()
        engine.with_scanners(LoopSettings(lease_expiry_ms=250))
        say("started", pid=os.getpid())
        await Worker(
            app, concurrency=SLOTS, lease=timedelta(milliseconds=LEASE_MS), worker_id=name
        ).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
