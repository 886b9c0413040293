"""A worker process of the demo: an App, a task and a Worker; reports each result on stdout."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import ClassVar

from flowfabric.connect import SqliteBackend, sqlite_path
from flowfabric.engine.core import Settings
from flowfabric.errors import EngineError, TransportError
from flowfabric.loops.loop import LoopSettings
from flowfabric.model.lease import ClaimPolicy, Handle, LeaseRenewal, Work
from flowfabric.sdk.app import App
from flowfabric.sdk.worker import Worker

LEASE_MS = 1_500
SLOTS = 4
GRACE_MS = 200
SHORTEST_JOB_S, LONGEST_JOB_S = 0.08, 0.24


def say(kind: str, **facts: object) -> None:
    """Write one line in one system call, so that a killed worker leaves no partial line."""
    os.write(1, json.dumps({"kind": kind, **facts}).encode() + b"\n")


class ReportingBackend(SqliteBackend):
    """Reports the result of each write; the first refusal of a lease is reported, not repeats."""

    _refused: ClassVar[set[bytes]] = set()

    async def complete(
        self, handle: Handle, payload: bytes | None = None, *, settle: bool = True
    ) -> None:
        with self._told(handle):
            await super().complete(handle, payload, settle=settle)
        say("completed")

    async def complete_many(
        self, many: Sequence[tuple[Handle, bytes | None]]
    ) -> list[EngineError | None]:
        answers = await super().complete_many(many)
        self._hear_all(many, answers)
        return answers

    async def complete_and_claim(
        self,
        many: Sequence[tuple[Handle, bytes | None]],
        lane: str,
        capabilities: Iterable[str],
        policy: ClaimPolicy,
        n: int,
    ) -> tuple[list[EngineError | None], list[Work]]:
        answers, works = await super().complete_and_claim(many, lane, capabilities, policy, n)
        self._hear_all(many, answers)
        return answers, works

    def _hear_all(
        self, many: Sequence[tuple[Handle, bytes | None]], answers: list[EngineError | None]
    ) -> None:
        for (handle, _), error in zip(many, answers, strict=True):
            self._hear(handle, error)
            if error is None:
                say("completed")

    async def renew(self, handle: Handle) -> LeaseRenewal:
        with self._told(handle):
            return await super().renew(handle)

    @contextmanager
    def _told(self, handle: Handle) -> Iterator[None]:
        try:
            yield
        except EngineError as error:
            self._hear(handle, error)
            raise

    def _hear(self, handle: Handle, error: EngineError | None) -> None:
        if error is None or isinstance(error, TransportError) or handle.opaque in self._refused:
            return
        self._refused.add(handle.opaque)
        say("refused", code=error.code)


class DemoApp(App):
    async def another_engine(self) -> SqliteBackend:
        return await ReportingBackend.new(
            sqlite_path(self.url), dev=True, settings=Settings(lease_reclaim_grace_ms=GRACE_MS)
        )


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
        assert isinstance(engine, ReportingBackend)
        engine.with_scanners(LoopSettings(lease_expiry_ms=250))
        say("started", pid=os.getpid())
        await Worker(
            app, concurrency=SLOTS, lease=timedelta(milliseconds=LEASE_MS), worker_id=name
        ).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
