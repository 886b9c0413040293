"""Approvals end to end: a server process, a worker over HTTP, and approval links."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from flowfabric import App, Context, OpenWaitpoint, Rejected, RunFailed, Worker
from tests.remote.served import TOKEN
from tests.remote.servers import ServerProcess, server
from tests.server.client import Client, uuid

pytestmark = pytest.mark.xdist_group("processes")
links: list[OpenWaitpoint] = []


@asynccontextmanager
async def a_company(folder: Path) -> AsyncIterator[tuple[ServerProcess, App, Client]]:
    links.clear()
    with server(f"sqlite:///{folder}/ff.db", folder) as process:
        await process.start()
        async with App(process.url, token=TOKEN) as app, aiohttp.ClientSession() as session:
            yield process, app, Client(session, process.url, None)


async def page(client: Client, link: OpenWaitpoint, **said: Any) -> tuple[int, bytes]:
    """The form of an approver's page, sent; without fields, the page itself."""
    where = URL(link.url(client.url))
    method, data = (
        ("POST", {"t": where.query["t"], "who": "Ann", **said}) if said else ("GET", None)
    )
    async with client.session.request(
        method, where if data is None else where.with_query(None), data=data
    ) as found:
        return found.status, await found.read()


async def signal(client: Client, link: OpenWaitpoint, name: str, payload: Any = None) -> int:
    body: dict[str, Any] = {
        "execution_id": str(link.run),
        "waitpoint_id": str(link.waitpoint_id),
        "signal_id": uuid(),
        "signal_name": name,
        "waitpoint_token": link.token,
        "payload": None if payload is None else list(payload),
    }
    found = await client.with_token(TOKEN).post(f"/v1/executions/{link.run}/signal", body)
    return found.status


@pytest.mark.meets("suspend", "quorum")
async def test_each_link_counts_once_and_only_answers_that_fit_are_taken(tmp_path: Path) -> None:
    async with a_company(tmp_path) as (_, app, client):

        @app.task
        async def release(ctx: Context) -> list[Any]:
            decision = await ctx.approval(
                "days", need=2, approvers=["ann", "bob"], notify=links.append, payload=int
            )
            return [
                decision.approved,
                sorted(decision.by.split(", ")),
                sorted(each.payload for each in decision.answers),
            ]

        run, worker = await release.submit(), Worker(app)
        await worker.run_until_idle()
        ann, bob = sorted(links, key=lambda link: link.approver)
        assert (await page(client, ann))[0] == 200
        for bad in ("", "three", "1.5", "[3]"):
            assert (await page(client, ann, answer="approved", payload=bad))[0] == 400, bad
        for name in ("perhaps", "Approved"):
            assert (await page(client, ann, answer=name, payload="3"))[0] == 400
            assert await signal(client, ann, name, b"3") == 400
        assert await signal(client, ann, "approved", b'"three"') == 400
        assert await run.state() == "suspended"
        for typed in ("ann", "bob", "mallory"):
            assert (await page(client, ann, answer="approved", payload="3", who=typed))[0] in (
                200,
                410,
            )
        await worker.run_until_idle()
        assert await run.state() == "suspended"
        assert await signal(client, bob, "approved", b"5") == 200
        await worker.run_until_idle()
        assert await run.result() == [True, ["ann", "bob"], [3, 5]]
        assert (await page(client, bob))[0] == 410


@pytest.mark.meets("suspend", "crash")
@pytest.mark.parametrize("by_page", [True, False])
async def test_a_rejection_ends_the_run_and_outlives_the_server(
    tmp_path: Path, by_page: bool
) -> None:
    async with a_company(tmp_path) as (process, app, client):

        @app.task
        async def release(ctx: Context) -> str:
            return (
                await ctx.approval("go-live", need=2, approvers=["ann", "bob"], notify=links.append)
            ).by

        run, worker = await release.submit(), Worker(app)
        await worker.run_until_idle()
        process.kill()
        await process.start()
        assert (await page(client, links[0], answer="approved"))[0] == 200
        if by_page:
            assert (await page(client, links[1], answer="rejected", comment="not on a Friday"))[
                0
            ] == 200
        else:
            assert await signal(client, links[1], "rejected") == 200
        await worker.run_until_idle()
        with pytest.raises(RunFailed, match=Rejected.__name__):
            await run.result()
        assert [(await page(client, link))[0] for link in links] == [410, 410]


@pytest.mark.meets("suspend", "cancel")
async def test_the_links_of_a_cancelled_run_ask_nothing(tmp_path: Path) -> None:
    async with a_company(tmp_path) as (_, app, client):

        @app.task
        async def release(ctx: Context) -> None:
            await ctx.approval("go-live", notify=links.append)

        run = await release.submit()
        await Worker(app).run_until_idle()
        await run.cancel("not now")
        for status, text in (
            await page(client, links[0]),
            await page(client, links[0], answer="approved"),
        ):
            assert (status, b"<form" in text) == (410, False)
        assert await signal(client, links[0], "approved") in (404, 409)
