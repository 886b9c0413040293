"""The app of a program without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.sdk.app import App as AsyncApp
from flowfabric.sdk.budgets import Budget
from flowfabric.sdk.durations import Span
from flowfabric.sdk.exceptions import Retry
from flowfabric.sdk.quotas import Quota
from flowfabric.sdk.retention import Retention
from flowfabric.sdk.task import P, R
from flowfabric.sdk.task import Task as AsyncTask
from flowfabric.sync.background import background
from flowfabric.sync.flow import FlowBuilder
from flowfabric.sync.run import Run
from flowfabric.sync.task import Task, unwrapped


class App:
    """`App("sqlite:///ff.db")` as usual, or `App(other)` to use the tasks of a `flowfabric.App` from here.

    It connects when it is first used and is closed when the program ends, or by `with app:` at the end of the block.
    """

    def __init__(self, url: str | AsyncApp, **options: Any) -> None:
        if isinstance(url, AsyncApp) and options:
            raise ConfigError(
                f"{', '.join(sorted(options))}: that App has its own; give them to it"
            )
        self.inner = url if isinstance(url, AsyncApp) else AsyncApp(url, **options)
        background.close_at_exit(self.inner)

    @overload
    def task(self, function: Callable[P, R]) -> Task[P, R]: ...

    @overload
    def task(
        self,
        *,
        name: str | None = None,
        lane: str = "default",
        retry: Retry | None = None,
        timeout: Span | None = None,
        priority: int = 0,
        requires: Iterable[str] = (),
        quota: str | None = None,
        retention: Span | Retention | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Makes a function a task. Its arguments and its result are carried as its type hints say."""
        if function is not None:
            return Task(self.inner.task(function))
        return lambda declared: Task(self.inner.task(**options)(declared))

    def schedule(
        self, cron: str, *, tz: str = "UTC", **options: Any
    ) -> Callable[[Task[P, R]], Task[P, R]]:
        """Above `@app.task`: submits the task whenever the cron line falls due; see `flowfabric.App.schedule`."""
        declare = self.inner.schedule(cron, tz=tz, **options)

        def declared(task: Task[P, R]) -> Task[P, R]:
            declare(unwrapped(task))
            return task

        return declared

    def budget(self, name: str, **limits: Any) -> Budget:
        """A budget tasks spend from, made when the app connects."""
        return self.inner.budget(name, **limits)

    def quota(self, name: str, **limits: Any) -> Quota:
        """How many may start in a span of time and run at once; see `flowfabric.App.quota`."""
        return self.inner.quota(name, **limits)

    def named(self, task: str) -> Task[..., Any]:
        return Task(self.inner.named(task))

    def submit(self, task: Task[P, R] | AsyncTask[P, R], *args: Any, **kwargs: Any) -> Run[R]:
        """For a task of the `flowfabric.App` this one was made of."""
        return Task(unwrapped(task)).submit(*args, **kwargs)

    def submit_many(
        self, task: Task[P, R] | AsyncTask[P, R], many: Iterable[Any], **options: Any
    ) -> list[Run[R]]:
        return Task(unwrapped(task)).submit_many(many, **options)

    def run(self, ident: str | ExecutionId, task: str | None = None) -> Run[Any]:
        """A run by its id; with its task's name, its result comes back as the task says."""
        return Run(self.inner.run(ident, task))

    def flow(self, name: str = "flow") -> FlowBuilder:
        """`with app.flow("ship") as flow: ...` submits the whole graph at the end of the block, or nothing of it."""
        return FlowBuilder(self.inner.flow(name))

    def close(self) -> None:
        background.call(self.inner.close())

    def __enter__(self) -> App:
        background.call(self.inner.engine())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
