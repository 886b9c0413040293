"""A worker process of the demo: an App, a task and a Worker, with refused writes on stdout."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
from collections.abc import Sequence
from datetime import timedelta

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


WRITES = ("complete", "renew", "complete_many", "complete_and_claim")


class Reporter:
    """Reports each lease with a refused late write once."""

    def __init__(self) -> None:
        self._refused: set[bytes] = set()

    def wrap(self, name: str, operation: Operation) -> Operation | None:
        if name not in WRITES:
            return None

        async def reported(*args: object, **named: object) -> object:
            subject = args[0]
            try:
                answer = await operation(*args, **named)
            except EngineError as error:
                self._report(subject, error)
                raise
            if isinstance(subject, Sequence):
                refusals = answer[0] if isinstance(answer, tuple) else answer
                for (handle, _), refusal in zip(subject, refusals, strict=True):
                    self._report(handle, refusal)
            return answer

        return reported

    def _report(self, handle: object, error: EngineError | None) -> None:
        if error is None or isinstance(error, TransportError) or not isinstance(handle, Handle):
            return
        if handle.opaque not in self._refused:
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
        await Worker(
            app, concurrency=SLOTS, lease=timedelta(milliseconds=LEASE_MS), worker_id=name
        ).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
