"""`flowfabric worker`: runs the tasks of an App until a signal, then finishes running tasks."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated

import typer
from msgspec import Struct

from flowfabric.cli.app_loader import load_app
from flowfabric.cli.database import Database, deprecated
from flowfabric.cli.text import plural
from flowfabric.connect import is_http, is_postgres, is_valkey, postgres_options, valkey_options
from flowfabric.errors import ConfigError, TransportError
from flowfabric.observe import Metrics, push_from_environment, sentry, watch
from flowfabric.observe.logs import VARIABLE
from flowfabric.observe.logs import log_to_stderr as json_to_stderr
from flowfabric.remote.transport import pauses
from flowfabric.sdk.app import App, Middleware
from flowfabric.sdk.durations import Span
from flowfabric.sdk.worker import Worker

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FIRST_RETRY_S, MAX_RETRY_S = 0.1, 5.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class WorkerOptions(Struct, frozen=True):
    """The options of a worker."""

    target: str
    url: str | None = None
    lanes: str | None = None
    concurrency: int = 16
    grace: Span = "30s"
    metrics: str | None = None
    token: str | None = None


OldUrl = Annotated[str | None, typer.Option("--url", hidden=True)]
AppArgument = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="app.py, package.module, or either with the name of the App: app.py:app",
    ),
]
Concurrency = Annotated[int, typer.Option(min=1, max=10_000, help="How many tasks at once.")]


def run(
    target: AppArgument,
    lanes: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Only these lanes; default: the lanes of all tasks."),
    ] = None,
    concurrency: Concurrency = 16,
    url: OldUrl = None,
    grace: Annotated[
        str,
        typer.Option(metavar="SPAN", help="How long running tasks may take to finish at a stop."),
    ] = "30s",
    metrics: Annotated[
        str | None, typer.Option(metavar="PORT", help="Serve metrics on this port or host:port.")
    ] = None,
    *,
    database: Database,
) -> int:
    """Runs the tasks of an App until SIGTERM or Ctrl-C, then finishes running tasks.

    `--db` or FF_URL overrides the database of the App.
    """
    wanted = WorkerOptions(
        target,
        overriding_url(database, url),
        lanes,
        concurrency,
        grace,
        metrics,
        database.token,
    )
    with sentry.sentry_from_environment():
        return _run(wanted)


def overriding_url(database: Database, old_url: str | None) -> str | None:
    if old_url is not None:
        deprecated("--url", "--db")
    return database.given or old_url or database.named


def _run(wanted: WorkerOptions) -> int:
    app = load_app(wanted.target)
    if wanted.url is not None:
        app.connect_to(wanted.url, wanted.token)
    if in_memory(app.url):
        raise ConfigError(
            f"{wanted.target}: {app.url} is visible to one process only; "
            "use --db sqlite:///path or postgresql://..."
        )
    lanes = selected_lanes(app, wanted)
    log_to_stderr()
    with metrics_page(app, wanted.metrics) as page:
        if page is not None:
            say(f"metrics on {page}")
        asyncio.run(serve(app, wanted, lanes))
    return 0


def selected_lanes(app: App, wanted: WorkerOptions) -> list[str]:
    """The requested lanes, each with at least one task, or all lanes of the App."""
    if wanted.lanes is None:
        return app.lanes
    asked = [lane.strip() for lane in wanted.lanes.split(",") if lane.strip()]
    unknown = [lane for lane in asked if lane not in app.lanes]
    if unknown or not asked:
        missing = f"no task of {wanted.target} is on {', '.join(unknown)}"
        reason = missing if unknown else "expected at least one lane"
        raise ConfigError(f"lanes: {reason}; its lanes are {', '.join(app.lanes)}")
    return sorted(set(asked))


def in_memory(url: str) -> bool:
    return url == "memory://" or ":memory:" in url or "mode=memory" in url


def log_to_stderr() -> None:
    """Log as JSON if FF_LOG is set, else as text unless the user's code has configured logging."""
    if os.environ.get(VARIABLE):
        json_to_stderr()
    else:
        logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)


def say(text: str) -> None:
    """Write a line without buffering, also to a pipe."""
    os.write(sys.stdout.fileno(), f"{text}\n".encode())


def shown_url(url: str) -> str:
    """The URL without user and password."""
    if is_valkey(url):
        return valkey_options(url).shown
    return postgres_options(url).shown if is_postgres(url) else url


async def serve(
    app: App,
    wanted: WorkerOptions,
    lanes: Sequence[str],
    *,
    middleware: Sequence[Middleware] = (),
    also_stop: Callable[[Callable[[], None]], None] | None = None,
) -> None:
    """Run until a signal; a second signal does not wait for running tasks.

    `also_stop` receives a function that stops the worker as a signal does.
    """
    await wait_for_server(app)
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
        await asyncio.sleep(0)  # the worker installs its signal handlers first; replace them
        for number in SIGNALS:
            with suppress(ValueError, RuntimeError):
                asyncio.get_running_loop().add_signal_handler(number, stopper.on_signal)
        if also_stop is not None:
            also_stop(stopper.stop)
        say(f"{wanted.target}: {_describe(app, lanes, wanted)} on {shown_url(app.url)}")
        if is_valkey(app.url):
            say(f"durability: {(await app.engine()).durability}")
        await working
        await stopper.finish()
    say(f"stopped; this worker has run {plural(worker.done, 'task')}")


async def wait_for_server(app: App) -> None:
    """Connect, and retry while the server is not reachable: it may start or restart later."""
    announced = False
    for pause_s in pauses(FIRST_RETRY_S, 2, MAX_RETRY_S):
        try:
            await app.engine()
            return
        except TransportError as error:
            if not is_http(app.url) or not error.retryable:
                raise
            if not announced:
                announced = True
                say(f"waiting for the server: {error}")
        await asyncio.sleep(pause_s)


def _describe(app: App, lanes: Sequence[str], wanted: WorkerOptions) -> str:
    tasks = sorted(name for name, task in app.tasks.items() if task.lane in lanes)
    noun = "task" if len(tasks) == 1 else "tasks"
    return f"{noun} {', '.join(tasks)}; lanes {', '.join(lanes)}; {wanted.concurrency} at once;"


class Stopper:
    """Stops a worker after its running tasks; a second signal releases the unfinished ones."""

    def __init__(self, worker: Worker, grace: Span) -> None:
        self._worker, self._grace = worker, grace
        self._stops: list[asyncio.Task[None]] = []
        self._signals = 0

    def on_signal(self) -> None:
        self._signals += 1
        if self._signals == 2:
            say("second signal: releasing unfinished tasks")
            self._stops.append(asyncio.create_task(self._worker.stop(0)))
        self.stop()

    def stop(self) -> None:
        if self._stops:
            return
        running = self._worker.running
        rest = f"waiting up to {self._grace} for {plural(running, 'task')}"
        say(f"stopping: {rest if running else 'no task is running'}")
        self._stops.append(asyncio.create_task(self._worker.stop()))

    async def finish(self) -> None:
        await asyncio.gather(*self._stops)


@contextmanager
def metrics_page(app: App, address: str | None) -> Iterator[str | None]:
    """Serve the metrics of an app, and push them if the environment names an OTLP endpoint.

    Enter it before the app is used; yields the URL of the page.
    """
    if address is None:
        yield None
        return
    host, port = _parse_address(address)
    metrics = Metrics()
    watch(app, metrics)
    try:
        end_page = metrics.serve(port, host)
    except OSError as error:
        raise ConfigError(
            f"metrics: cannot listen on {host}:{port} ({error.strerror}); choose another port"
        ) from None
    end_push = push_from_environment(metrics)
    try:
        yield f"http://{host}:{port}/metrics"
    finally:
        end_push()
        end_page()


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65_535:
        raise ConfigError(
            "metrics: expected a port from 1 to 65535, or host:port to serve other machines, "
            f"got {text!r:.60}"
        )
    return host.strip("[]") or "127.0.0.1", int(port)
