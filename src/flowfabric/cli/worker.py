"""`flowfabric worker`: runs the tasks of an App until it is told to stop, then finishes what it has begun."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from flowfabric.cli.app_loader import loaded
from flowfabric.cli.metrics_page import counted
from flowfabric.connect import is_http, is_postgres, postgres_options
from flowfabric.errors import ConfigError, TransportError
from flowfabric.observe import sentry
from flowfabric.observe.logs import VARIABLE
from flowfabric.observe.logs import log_to_stderr as json_to_stderr
from flowfabric.sdk.app import App, Middleware
from flowfabric.sdk.durations import Span
from flowfabric.sdk.worker import Worker

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FIRST_PAUSE_S, LAST_PAUSE_S = 0.1, 5.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Wanted(Struct, frozen=True):
    """How the worker is to be run."""

    target: str
    url: str | None = None
    lanes: str | None = None
    concurrency: int = 16
    grace: Span = "30s"
    metrics: str | None = None


def run(wanted: Wanted) -> int:
    with sentry.told_from_environment():
        return _run(wanted)


def _run(wanted: Wanted) -> int:
    app = loaded(wanted.target)
    if wanted.url is not None:
        app.url = wanted.url
    if in_memory(app.url):
        raise ConfigError(
            f"{wanted.target}: {app.url} is seen by its own process only; say --url sqlite:///path or postgresql://..."
        )
    lanes = lanes_of(app, wanted)
    log_to_stderr()
    with counted(app, wanted.metrics) as page:
        if page is not None:
            say(f"metrics on {page}")
        asyncio.run(serve(app, wanted, lanes))
    return 0


def lanes_of(app: App, wanted: Wanted) -> list[str]:
    """Those asked for, each with at least one task, or all there are."""
    if wanted.lanes is None:
        return app.lanes
    asked = [lane.strip() for lane in wanted.lanes.split(",") if lane.strip()]
    strange = [lane for lane in asked if lane not in app.lanes]
    if strange or not asked:
        said = (
            f"no task of {wanted.target} is on {', '.join(strange)}"
            if strange
            else "at least one lane is needed"
        )
        raise ConfigError(f"lanes: {said}; there are {', '.join(app.lanes)}")
    return sorted(set(asked))


def in_memory(url: str) -> bool:
    return url == "memory://" or ":memory:" in url or "mode=memory" in url


def log_to_stderr() -> None:
    """Unless the user's own code has said where to. With FF_LOG set, as JSON, and as much as it says."""
    if os.environ.get(VARIABLE):
        json_to_stderr()
    else:
        logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)


def say(text: str) -> None:
    """At once, whoever reads it."""
    os.write(sys.stdout.fileno(), f"{text}\n".encode())


def shown_url(url: str) -> str:
    """Without who and with which password."""
    return f"postgresql://{postgres_options(url).shown}" if is_postgres(url) else url


async def serve(
    app: App,
    wanted: Wanted,
    lanes: Sequence[str],
    *,
    middleware: Sequence[Middleware] = (),
    also_stop: Callable[[Callable[[], None]], None] | None = None,
) -> None:
    """Until a signal; a second one does not wait for what runs. `also_stop` is given another way to be told."""
    await reached(app)
    async with app:
        worker = Worker(
            app,
            lanes=lanes,
            concurrency=wanted.concurrency,
            grace=wanted.grace,
            middleware=middleware,
        )
        stopper = Stopper(worker, wanted.grace)
        working = asyncio.create_task(worker.run())
        await asyncio.sleep(
            0
        )  # it has begun to listen to the signals; here they are answered in words as well
        for number in SIGNALS:
            with suppress(ValueError, RuntimeError):
                asyncio.get_running_loop().add_signal_handler(number, stopper.signalled)
        if also_stop is not None:
            also_stop(stopper.stop)
        say(f"{wanted.target}: {_counted(app, lanes, wanted)} on {shown_url(app.url)}")
        await working
        await stopper.over()
    say(f"stopped; {worker.done} run by this worker")


async def reached(app: App) -> None:
    """A worker may be started before the server that it works for, or while that one is replaced."""
    pause, told = FIRST_PAUSE_S, False
    while True:
        try:
            await app.engine()
            return
        except TransportError as error:
            if not is_http(app.url) or not error.retryable:
                raise
            if not told:
                told = True
                say(f"waiting for the server: {error}")
        await asyncio.sleep(pause)
        pause = min(pause * 2, LAST_PAUSE_S)


def _counted(app: App, lanes: Sequence[str], wanted: Wanted) -> str:
    tasks = sorted(name for name, task in app.tasks.items() if task.lane in lanes)
    plural = "task" if len(tasks) == 1 else "tasks"
    return f"{plural} {', '.join(tasks)}; lanes {', '.join(lanes)}; {wanted.concurrency} at once;"


class Stopper:
    """Lets a worker finish, and says so. Asked by a second signal, it gives back what is not finished yet."""

    def __init__(self, worker: Worker, grace: Span) -> None:
        self._worker, self._grace = worker, grace
        self._stops: list[asyncio.Task[None]] = []
        self._signals = 0

    def signalled(self) -> None:
        self._signals += 1
        if self._signals == 2:
            say("not waiting: what is not finished is given back")
            self._stops.append(asyncio.create_task(self._worker.stop(0)))
        self.stop()

    def stop(self) -> None:
        if self._stops:
            return
        running = self._worker.running
        rest = (
            f"{running} still running, finishing within {self._grace}"
            if running
            else "nothing is running"
        )
        say(f"stopping: {rest}")
        self._stops.append(asyncio.create_task(self._worker.stop()))

    async def over(self) -> None:
        await asyncio.gather(*self._stops)
