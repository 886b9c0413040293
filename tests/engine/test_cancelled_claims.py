"""A claim that is cancelled during its grant gives back what it was granted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import uuid4

import pytest

from flowfabric.engine.claims.routing import Routing
from flowfabric.engine.engine import Engine
from flowfabric.errors import TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Work
from flowfabric.model.quota import CreateQuotaPolicyArgs

from .helpers import LANE, create, running, told, worker


class Held:
    """Grants that are held up once, between their commit and their answer."""

    def __init__(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str = "sweep"
    ) -> None:
        self._real: Callable[..., Any] = getattr(engine.store, name)
        self.granted, self.go = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(engine.store, name, self._held)

    async def _held(self, *args: Any) -> Any:
        found = await self._real(*args)
        if any(found) and not self.granted.is_set():
            self.granted.set()
            await self.go.wait()
        return found


async def called_off(held: Held, asked: Coroutine[Any, Any, Any]) -> None:
    claiming = asyncio.create_task(asked)
    await held.granted.wait()
    claiming.cancel()
    held.go.set()
    with pytest.raises(asyncio.CancelledError):
        await claiming


def claim(engine: Engine) -> Coroutine[Any, Any, list[Work]]:
    return engine.claim_many(LANE, (), worker(1, max_wait_ms=60_000), 10)


async def is_anybodys(engine: Engine, ident: ExecutionId) -> bool:
    """At this very time, and as the same attempt."""
    await engine.promote_delayed(ident)
    found = await engine.claim_many(LANE, (), worker(2), 10)
    assert [(work.execution_id, work.attempt_index) for work in found] == [(ident, 0)]
    await engine.complete(found[0].handle)
    return True


async def test_a_granted_execution_is_given_back(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident = await create(engine)
    await called_off(Held(engine, monkeypatch), claim(engine))
    assert await is_anybodys(engine, ident)


async def test_a_grant_beside_a_committed_completion_is_given_back(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, handle = await running(engine)
    ident = await create(engine)
    turning = engine.complete_and_claim(
        [(handle, b"out")], LANE, (), worker(1, max_wait_ms=60_000), 10
    )
    await called_off(Held(engine, monkeypatch, "commit_and_sweep"), turning)
    assert await is_anybodys(engine, ident)
    assert await engine.get_execution_result(ended) == b"out"
    await engine.complete(handle, b"again")
    assert (await told(engine, ended))["DONE"] == ["success"]


async def test_its_quota_slot_is_given_back(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = uuid4()
    await engine.create_quota_policy(CreateQuotaPolicyArgs(quota_policy_id=quota, max_concurrent=1))
    await engine.attach_limit("quota", quota, "lane", LANE)
    ident = await create(engine)
    await called_off(Held(engine, monkeypatch, "sweeps"), claim(engine))
    assert await is_anybodys(engine, ident)


async def test_a_claim_that_fails_after_its_grant_gives_it_back(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> bool:
        raise TransportError("store", "gone")

    ident = await create(engine)
    with monkeypatch.context() as patch:
        patch.setattr(engine.parts.part(Routing), "check_routes", broken)
        with pytest.raises(TransportError):
            await engine.claim_many(LANE, (), worker(1), 10)
    assert await is_anybodys(engine, ident)


async def test_a_failed_grant_gives_nothing_back(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def broken(*_: object) -> list[Any]:
        asked.set()
        await go.wait()
        raise TransportError("store", "gone")

    ident = await create(engine)
    with monkeypatch.context() as patch:
        patch.setattr(engine.store, "sweep", broken)
        claiming = asyncio.create_task(claim(engine))
        await asked.wait()
        claiming.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await claiming
    assert await is_anybodys(engine, ident)


async def test_a_failed_give_back_is_logged(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> Any:
        raise TransportError("store", "gone")

    ident, held = await create(engine), Held(engine, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(engine.parts.core, "run_fenced", broken)
        await called_off(held, claim(engine))
    (record,) = (r for r in caplog.records if "could not be given back" in r.message)
    assert record.__dict__["execution_id"] == str(ident)
