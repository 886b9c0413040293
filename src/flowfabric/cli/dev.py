"""`flowfabric dev`: a worker on SQLite that restarts when a source file changes.

Its child process runs a worker, the loops and the API, and prints a line per run.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer

from flowfabric.cli import worker
from flowfabric.cli.app_loader import Target, load_app, parse_target
from flowfabric.cli.database import Database
from flowfabric.cli.exits import refuse_windows
from flowfabric.cli.server import serve_dev_api
from flowfabric.connect import is_server
from flowfabric.errors import ConfigError, FlowFabricError
from flowfabric.observe import sentry
from flowfabric.sdk.app import App
from flowfabric.sdk.context import Context
from flowfabric.sdk.exceptions import Parked
from flowfabric.sdk.task_registry import TaskRegistry

T = TypeVar("T")
POLL_S = 0.2
MAX_FILES = 2_000
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
Stamps = dict[str, tuple[int, int]]
GRACE = "5s"


def run(
    target: worker.AppArgument,
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="URL", help="Overrides the SQLite file of the App."),
    ] = None,
    concurrency: worker.Concurrency = 16,
    url: worker.OldUrl = None,
) -> int:
    """Runs the tasks of an App on SQLite, with the API, and restarts when a file changes."""
    refuse_windows("dev", "it needs os.fork; run `flowfabric worker` instead")
    named = worker.overriding_url(Database(db), url) if db or url else None
    folder = watched_folder(parse_target(target))
    received: list[int] = []
    for number in worker.SIGNALS:
        signal.signal(number, lambda got, _: received.append(got))
    seen = stamps(folder)
    child = Child(target, named, concurrency)
    while not received:
        time.sleep(POLL_S)
        now = stamps(folder)
        if now != seen:
            worker.say(f"{describe_changes(seen, now)} changed: restarting")
            seen = now
            child.stop()
            child = Child(target, named, concurrency)
        elif child.newly_ended():
            worker.say("waiting for the code to change")
    child.stop()
    return 0


def watched_folder(target: Target) -> Path:
    if target.path is None:
        return Path.cwd()
    if not target.path.is_file():
        raise ConfigError(f"{target.path}: no such file")
    return target.path.resolve().parent


def stamps(folder: Path) -> Stamps:
    """The modification time and size of each module."""
    found: Stamps = {}
    for path in modules(folder):
        try:
            info = os.stat(path)
        except FileNotFoundError:
            continue  # an editor saves by renaming; the next poll sees the file
        found[path] = (info.st_mtime_ns, info.st_size)
        if len(found) >= MAX_FILES:
            break
    return found


def modules(folder: Path) -> Iterator[str]:
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name not in SKIPPED and not name.startswith(".")
        )
        yield from (os.path.join(where, name) for name in sorted(files) if name.endswith(".py"))


def describe_changes(before: Stamps, after: Stamps) -> str:
    names = sorted({Path(path).name for path, _ in before.items() ^ after.items()})
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


class Child:
    """The process with the user's code. It ends when its pipe closes: it cannot outlive this one.

    It is a fork of this process, which has imported everything but the user's code, so that a
    restart only imports that.
    """

    def __init__(self, target: str, url: str | None, concurrency: int) -> None:
        end, self._held = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._held)
            _exec_child(lambda: child_main(target, url, concurrency, end))
        os.close(end)
        self._ended = False

    def newly_ended(self) -> bool:
        """True once, after the process has ended without `stop`."""
        if self._ended:
            return False
        self._ended = os.waitpid(self._pid, os.WNOHANG)[0] != 0
        return self._ended

    def stop(self) -> None:
        """Let running tasks finish; the child enforces its own grace period."""
        os.close(self._held)
        if not self._ended:
            os.waitpid(self._pid, 0)


def _exec_child(run: Callable[[], int]) -> NoReturn:
    """Run this instead of the rest of the forked process."""
    status = 1
    try:
        for number in worker.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        status = run()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


async def report_run(ctx: Context, call: Callable[[], Awaitable[T]]) -> T:
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
        took_ms = (time.monotonic() - began) * 1_000
        worker.say(f"  {ctx.task} {ctx.execution_id.uuid}: {how}, {took_ms:.0f} ms")


async def run_until_pipe_closes(app: App, wanted: worker.WorkerOptions, end: int) -> None:
    loop = asyncio.get_running_loop()

    api = asyncio.create_task(_serve_api(app))

    def listen(stop: Callable[[], None]) -> None:
        def ended() -> None:
            loop.remove_reader(end)
            api.cancel()
            stop()

        loop.add_reader(end, ended)

    try:
        await worker.serve(app, wanted, app.lanes, middleware=[report_run], also_stop=listen)
    finally:
        api.cancel()
        await asyncio.gather(api, return_exceptions=True)


async def _serve_api(app: App) -> None:
    """The tasks are registered before the API is announced, so that they can be submitted to."""
    engine = await app.engine()
    await TaskRegistry(app).add(engine)
    await serve_dev_api(engine)


def child_main(target: str, url: str | None, concurrency: int, end: int) -> int:
    wanted = worker.WorkerOptions(target, url, concurrency=concurrency, grace=GRACE)
    try:
        with sentry.sentry_from_environment():
            app = load_app(target)
            app.url = dev_url(app.url, parse_target(target), wanted.url)
            worker.log_to_stderr()
            # the first line names the SQLite file
            logging.getLogger("flowfabric.sqlite").setLevel(logging.ERROR)
            asyncio.run(run_until_pipe_closes(app, wanted, end))
    except FlowFabricError as error:
        worker.say(str(error))
        return 2
    return 0


def dev_url(url: str, target: Target, given: str | None) -> str:
    """The app's SQLite file; for an app on another store, a file beside its code."""
    if given:
        return given
    if not is_server(url) and not worker.in_memory(url):
        return url
    path = (
        target.path.with_suffix(".dev.db")
        if target.path is not None
        else Path(target.where.rpartition(".")[2] + ".dev.db")
    )
    return f"sqlite:///{path}"
