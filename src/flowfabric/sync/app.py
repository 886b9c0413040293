"""The app and the worker of a program without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol, Unpack, overload
from uuid import UUID

from flowfabric.errors import ConfigError
from flowfabric.sdk.app import App as AsyncApp
from flowfabric.sdk.options import ScheduleOptions, TaskOptions
from flowfabric.sdk.sync_context import documented
from flowfabric.sdk.task import P, R
from flowfabric.sdk.task import Task as AsyncTask
from flowfabric.sdk.worker import Worker as AsyncWorker
from flowfabric.sync.background import background
from flowfabric.sync.bridge import Wrapper, blocking, forwarded, wrapped
from flowfabric.sync.runs import Flow, FlowBuilder, NamedTask, Run, Task, unwrapped
from flowfabric.sync.search import Bulk, Runs


class Declare(Protocol):
    """As that of `flowfabric.App.task`."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class App(Wrapper[AsyncApp]):
    """The app of a program without an event loop; every call blocks until it is done.

    `App("sqlite:///ff.db")` takes the arguments of `flowfabric.App`. `App(other)` uses the
    connection and the tasks of a `flowfabric.App`.

    The app connects on first use. It is closed by `with app:`, or at interpreter exit.
    """

    def __init__(self, url: str | AsyncApp, **options: Any) -> None:
        if isinstance(url, AsyncApp) and options:
            raise ConfigError(
                f"{', '.join(sorted(options))}: an existing App has its own; "
                "pass these options where that App is made"
            )
        super().__init__(url if isinstance(url, AsyncApp) else AsyncApp(url, **options))
        background.close_at_exit(self.inner)

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]]) -> Task[P, R]: ...

    @overload
    def task(self, function: Callable[P, R]) -> Task[P, R]: ...

    @overload
    def task(self, **options: Unpack[TaskOptions]) -> Declare: ...

    @documented(AsyncApp.task)
    def task(
        self, function: Callable[..., object] | None = None, **options: Unpack[TaskOptions]
    ) -> object:
        if function is not None:
            return Task(self.inner.task(function))
        return lambda declared: Task(self.inner.task(**options)(declared))

    @documented(AsyncApp.schedule)
    def schedule(
        self, cron: str, *, tz: str = "UTC", **options: Unpack[ScheduleOptions]
    ) -> Callable[[Task[P, R]], Task[P, R]]:
        declare = self.inner.schedule(cron, tz=tz, **options)

        def declared(task: Task[P, R]) -> Task[P, R]:
            declare(unwrapped(task))
            return task

        return declared

    budget = forwarded(AsyncApp.budget)
    quota = forwarded(AsyncApp.quota)
    named = wrapped(AsyncApp.named, Task)

    @documented(AsyncApp.task_named)
    def task_named(self, name: str) -> Task[..., Any] | NamedTask:
        found = self.inner.task_named(name)
        return Task(found) if isinstance(found, AsyncTask) else NamedTask(found)

    run = wrapped(AsyncApp.run, Run)
    counts = blocking(AsyncApp.counts)
    close = blocking(AsyncApp.close)

    @overload
    def flow(self, name: str = "flow") -> FlowBuilder: ...

    @overload
    def flow(self, name: UUID) -> Flow: ...

    @overload
    def flow(self, *, id: UUID | str) -> Flow: ...

    @documented(AsyncApp.flow)
    def flow(
        self, name: str | UUID = "flow", *, id: UUID | str | None = None
    ) -> FlowBuilder | Flow:
        if id is not None:
            return Flow(self.inner.flow(id=id))
        if isinstance(name, UUID):
            return Flow(self.inner.flow(name))
        return FlowBuilder(self.inner.flow(name))

    @property
    def runs(self) -> Runs:
        """Lists runs: `app.runs(state="failed")`, `for info in app.runs.all(...)`."""
        return Runs(self.inner.runs)

    @property
    def bulk(self) -> Bulk:
        """Acts on all runs that match: `app.bulk("cancel", task="mail")`."""
        return Bulk(self.inner.bulk)

    def submit(self, task: Task[P, R] | AsyncTask[P, R], *args: object, **kwargs: object) -> Run[R]:
        """Submits a task of the `flowfabric.App` this app was made of; see `Task.submit`."""
        return Task(unwrapped(task)).submit(*args, **kwargs)

    def submit_many(
        self, task: Task[P, R] | AsyncTask[P, R], many: Iterable[object], **options: object
    ) -> list[Run[R]]:
        """Submits one run per item of `many`; see `Task.submit_many`."""
        return Task(unwrapped(task)).submit_many(many, **options)

    def __enter__(self) -> App:
        background.call(self.inner.engine())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Worker(Wrapper[AsyncWorker]):
    """Runs tasks on a background thread. `with Worker(app): ...` works beside your own code.

    Takes the options of `flowfabric.Worker`. It handles no signals: for a process that only
    runs tasks, use `flowfabric worker app.py`.
    """

    def __init__(self, app: App, **options: Any) -> None:
        super().__init__(AsyncWorker(app.inner, **options))

    @property
    def done(self) -> int:
        """How many executions have ended on this worker."""
        return self.inner.done

    @property
    def running(self) -> int:
        """How many executions are running on this worker."""
        return self.inner.running

    stop = blocking(AsyncWorker.stop)
    run_until_idle = blocking(AsyncWorker.run_until_idle)

    def __enter__(self) -> Worker:
        background.call(self.inner.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
