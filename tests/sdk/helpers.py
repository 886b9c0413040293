"""Shared by the SDK tests: a worker that works until idle, and engines that lose answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from flowfabric import App, Engine, ExecutionId, Handle, Worker
from flowfabric.errors import TransportError
from flowfabric.model.lease import Work
from flowfabric.sdk import retry

DEADLINE_S = 20.0


async def worked_off(app: App, **more: Any) -> int:
    worker = Worker(app, **more)
    try:
        return await worker.run_until_idle()
    finally:
        await worker.stop()


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries follow each other without a pause."""
    monkeypatch.setattr(retry, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(retry, "LAST_PAUSE_S", 0.0)


def unanswered(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, call: str, times: int, *, landed: bool
) -> list[int]:
    """Loses the first answers to a call, after or before it is carried out. Lists all calls."""
    real, calls = getattr(engine, call), []

    async def lossy(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) > times:
            return await real(*args, **kwargs)
        if landed:
            await real(*args, **kwargs)
        raise TransportError("test", "the answer was lost", doubtful=landed)

    monkeypatch.setattr(engine, call, lossy)
    return calls


def handles(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> dict[ExecutionId, Handle]:
    """The handle of each execution that is claimed from now on, by its id."""
    real, claimed = engine.claim_many, dict[ExecutionId, Handle]()

    async def claim_many(*args: Any, **kwargs: Any) -> list[Work]:
        works = await real(*args, **kwargs)
        claimed.update((work.execution_id, work.handle) for work in works)
        return works

    monkeypatch.setattr(engine, "claim_many", claim_many)
    return claimed


async def until(holds: Callable[[], Any]) -> None:
    ends = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < ends, "it did not come to be"
        await asyncio.sleep(0.002)


PLAIN = (
    "-p",
    "no:cacheprovider",
    "-p",
    "no:schemathesis",
    "-p",
    "no:hypothesispytest",
    "-p",
    "no:anyio",
    "-p",
    "no:xdist",
)
"""Runs pytest in its own process without plugins that take longer than the test."""
