"""The child process of `flowfabric dev`: a worker, the loops, the API, and a line per run."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from flowfabric.cli.app_loader import Target, load_app, parse_target
from flowfabric.cli.server import serve_dev_api
from flowfabric.cli.worker import WorkerOptions, in_memory, log_to_stderr, say, serve
from flowfabric.connect import is_postgres
from flowfabric.errors import FlowFabricError
from flowfabric.observe import sentry
from flowfabric.sdk.app import App
from flowfabric.sdk.context import Context
from flowfabric.sdk.exceptions import Parked

GRACE = "5s"


async def report_run(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
    """Middleware: print the result and duration of each run."""
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


async def run_until_pipe_closes(app: App, wanted: WorkerOptions, end: int) -> None:
    loop = asyncio.get_running_loop()

    api = asyncio.create_task(_serve_api(app))

    def listen(stop: Callable[[], None]) -> None:
        def ended() -> None:
            loop.remove_reader(end)
            api.cancel()
            stop()

        loop.add_reader(end, ended)

    try:
        await serve(app, wanted, app.lanes, middleware=[report_run], also_stop=listen)
    finally:
        api.cancel()
        await asyncio.gather(api, return_exceptions=True)


async def _serve_api(app: App) -> None:
    await serve_dev_api(await app.engine())


def main(target: str, url: str | None, concurrency: int, end: int) -> int:
    wanted = WorkerOptions(target, url, concurrency=concurrency, grace=GRACE)
    try:
        with sentry.sentry_from_environment():
            app = load_app(target)
            app.url = dev_url(app.url, parse_target(target), wanted.url)
            log_to_stderr()
            # the first line names the SQLite file
            logging.getLogger("flowfabric.sqlite").setLevel(logging.ERROR)
            asyncio.run(run_until_pipe_closes(app, wanted, end))
    except FlowFabricError as error:
        say(str(error))
        return 2
    return 0


def dev_url(url: str, target: Target, given: str | None) -> str:
    """The app's SQLite file; for an app on another store, a file beside its code."""
    if given:
        return given
    if not is_postgres(url) and not in_memory(url):
        return url
    path = (
        target.path.with_suffix(".dev.db")
        if target.path is not None
        else Path(target.where.rpartition(".")[2] + ".dev.db")
    )
    return f"sqlite:///{path}"
