"""Workers that stop or disconnect during a grant: the work is released at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flowfabric import App, ClaimPolicy, Engine, Worker, connect
from flowfabric.sdk import producer
from flowfabric.server import endpoint
from flowfabric.server.lifecycle import serve
from flowfabric.server.pending_claims import ClaimOwner, PendingClaims
from tests.engine.test_cancelled_claims import Held
from tests.patience import patient
from tests.remote.served import TOKEN, settings
from tests.sdk.processes import STORES, eventually, url_on

LEASE = "1h"
SOON_S = 20.0
"""More than anything here takes, and far less than a lease."""


@asynccontextmanager
async def an_app(url: str, ran: list[int]) -> AsyncIterator[tuple[Engine, App]]:
    async with (
        await connect(url, dev=True) as engine,
        serve(engine, settings()) as address,
        App(address, token=TOKEN) as app,
    ):

        @app.task
        async def count(n: int) -> int:
            ran.append(n)
            return 2 * n

        yield engine, app


@pytest.fixture
def called_off(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many claims each call-off has met on the server."""
    met: list[int] = []
    real = PendingClaims.cancel

    def call_off(self: PendingClaims, who: ClaimOwner) -> int:
        met.append(real(self, who))
        return met[-1]

    monkeypatch.setattr(PendingClaims, "cancel", call_off)
    return met


@pytest.mark.parametrize("store", STORES)
async def test_a_worker_stopped_during_a_grant_releases_it(
    store: str, tmp_path: Path, called_off: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    url = await asyncio.to_thread(url_on, store, tmp_path)
    async with an_app(url, ran) as (engine, app):
        held = Held(engine, monkeypatch)
        async with Worker(app, lease=LEASE) as first:
            run = await app.tasks["count"].submit(21)
            await held.granted.wait()
            stopping = asyncio.create_task(first.stop())
            await eventually(lambda: called_off)
            held.go.set()
            await stopping
        assert (first.done, called_off) == (0, [1])
        async with Worker(app, lease=LEASE):
            assert await run.result(timeout=SOON_S) == 42
    assert ran == [21]


async def test_a_worker_stopped_during_a_response_runs_the_task(
    tmp_path: Path, called_off: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has been granted work and does not know it yet: it stops when that is done."""
    ran: list[int] = []
    url = await asyncio.to_thread(url_on, "sqlite", tmp_path)
    async with an_app(url, ran) as (_, app):
        worker = Worker(app, lease=LEASE)
        real, answered = endpoint.to_response, asyncio.Event()

        def response(reply: endpoint.Reply) -> endpoint.Response:
            if reply.undo is not None and not answered.is_set():
                answered.set()
                worker.request_stop()
            return real(reply)

        monkeypatch.setattr(endpoint, "to_response", response)
        async with worker:
            run = await app.tasks["count"].submit(21)
            await answered.wait()
            await worker.stop()
        assert (worker.done, ran) == (1, [21])
        assert await run.result(timeout=SOON_S) == 42


async def test_an_idle_worker_cancels_its_claim_and_stops(
    tmp_path: Path, called_off: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "CALL_OFF_S", 3_600.0)
    url = await asyncio.to_thread(url_on, "sqlite", tmp_path)
    real, claims = PendingClaims.claim, list[ClaimOwner]()

    async def claimed(self: PendingClaims, who: ClaimOwner, claiming: Any, *, waits: bool) -> Any:
        claims.append(who)
        return await real(self, who, claiming, waits=waits)

    monkeypatch.setattr(PendingClaims, "claim", claimed)
    async with an_app(url, []) as (_, app), patient(SOON_S):
        async with Worker(app) as worker:
            assert await (await app.tasks["count"].submit(1)).result() == 2
            await eventually(lambda: worker.running == 0 and len(claims) == 2)
        assert called_off == [1]


async def test_a_worker_does_not_wait_for_a_failed_cancel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one behind a proxy that has sent the call to another."""
    monkeypatch.setattr(PendingClaims, "cancel", lambda self, who: 0)
    monkeypatch.setattr(producer, "CALL_OFF_S", 0.05)
    monkeypatch.setattr(producer, "POLL_S", 30.0)
    url = await asyncio.to_thread(url_on, "sqlite", tmp_path)
    async with an_app(url, []) as (_, app), patient(SOON_S), Worker(app):
        assert await (await app.tasks["count"].submit(1)).result() == 2


@pytest.mark.parametrize("store", STORES)
async def test_a_client_lost_during_a_grant_releases_it(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    real, noticed = endpoint.wait_for_disconnect, asyncio.Event()

    async def gone(request: endpoint.Request) -> None:
        await real(request)
        noticed.set()

    monkeypatch.setattr(endpoint, "wait_for_disconnect", gone)
    url = await asyncio.to_thread(url_on, store, tmp_path)
    async with an_app(url, ran) as (engine, app):
        held, remote = Held(engine, monkeypatch), await app.engine()
        policy = ClaimPolicy("w", "w-1", 3_600_000, 20_000)
        claiming = asyncio.create_task(remote.claim_many("default", app.capabilities, policy, 1))
        run = await app.tasks["count"].submit(21)
        await held.granted.wait()
        claiming.cancel()
        await noticed.wait()
        held.go.set()
        async with Worker(app, lease=LEASE):
            assert await run.result(timeout=SOON_S) == 42
    assert ran == [21]
