"""The process with the user's code under `flowfabric dev`: a worker, the loops, and a line for each run."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from flowfabric.cli.app_loader import Target, loaded, parsed
from flowfabric.cli.server import beside
from flowfabric.cli.worker import Wanted, in_memory, log_to_stderr, say, serve
from flowfabric.connect import is_postgres
from flowfabric.errors import FlowFabricError
from flowfabric.observe import sentry
from flowfabric.sdk.app import App
from flowfabric.sdk.context import Context
from flowfabric.sdk.exceptions import Parked

GRACE = "5s"


async def told(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
    """Says how each run went."""
    began = time.monotonic()
    how = "failed"
    try:
        value = await call()
        how = "done"
        return value
    except Parked:
        how = "waits"
        raise
    finally:
        say(f"  {ctx.task} {ctx.execution_id}: {how}, {(time.monotonic() - began) * 1_000:.0f} ms")


async def until_the_pipe_ends(app: App, wanted: Wanted, end: int) -> None:
    loop = asyncio.get_running_loop()

    api = asyncio.create_task(_api(app))

    def listen(stop: Callable[[], None]) -> None:
        def ended() -> None:
            loop.remove_reader(end)
            api.cancel()
            stop()

        loop.add_reader(end, ended)

    try:
        await serve(app, wanted, app.lanes, middleware=[told], also_stop=listen)
    finally:
        api.cancel()
        await asyncio.gather(api, return_exceptions=True)


async def _api(app: App) -> None:
    await beside(await app.engine())


def main(target: str, url: str | None, concurrency: int, end: int) -> int:
    wanted = Wanted(target, url, concurrency=concurrency, grace=GRACE)
    try:
        with sentry.told_from_environment():
            app = loaded(target)
            app.url = dev_url(app.url, parsed(target), wanted.url)
            log_to_stderr()
            logging.getLogger("flowfabric.sqlite").setLevel(
                logging.ERROR
            )  # that this is SQLite is said in the first line
            asyncio.run(until_the_pipe_ends(app, wanted, end))
    except FlowFabricError as error:
        say(str(error))
        return 2
    return 0


def dev_url(url: str, target: Target, given: str | None) -> str:
    """The app's own SQLite file; for an app that is elsewhere, one beside the code."""
    if given:
        return given
    if not is_postgres(url) and not in_memory(url):
        return url
    beside = (
        target.path.with_suffix(".dev.db")
        if target.path is not None
        else Path(target.where.rpartition(".")[2] + ".dev.db")
    )
    return f"sqlite:///{beside}"
