"""The approval page in a browser."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from flowfabric import App, Context, OpenWaitpoint, Worker, memory_engine
from flowfabric.server.lifecycle import serve
from tests.remote.served import TOKEN, settings
from tests.sdk.helpers import until
from tests.server import browser


@pytest.mark.skipif(browser.found() is None, reason="no chromium on this machine")
async def test_an_approval_in_a_browser() -> None:
    links: list[OpenWaitpoint] = []
    async with AsyncExitStack() as stack:
        engine = memory_engine()
        await engine.seed_waitpoint_hmac_secret("k1", "2a" * 32)
        url = await stack.enter_async_context(serve(engine, settings()))
        app = App(url, token=TOKEN)

        @app.task
        async def release(ctx: Context, version: str) -> list[str]:
            decision = await ctx.approval(f"go-live <b>{version}</b>", notify=links.append)
            return ["approved" if decision.approved else "rejected", decision.by, decision.comment]

        await stack.enter_async_context(app)
        await stack.enter_async_context(Worker(app))
        run = await release.submit("1.0")
        await until(lambda: links)
        page = await stack.enter_async_context(browser.browsing())
        address = links[0].url(url + "/")
        await page.open(address)
        shown = await page.run("document.body.innerText")
        assert "release" in shown and "go-live <b>1.0</b>" in shown
        assert await page.run("document.scripts.length") == 0
        await page.write("input[name=who]", "Ann <O'Neill>")
        await page.write("input[name=comment]", "ship it")
        await page.click("button[value=approved]")
        assert "Thank you" in await page.run("document.body.innerText")
        assert await run.result(timeout="30s") == ["approved", "Ann <O'Neill>", "ship it"]
        await page.open(address)
        assert "Answered already" in await page.run("document.body.innerText")
        await page.open(address[:-4] + "0000")
        assert "not valid" in await page.run("document.body.innerText")
