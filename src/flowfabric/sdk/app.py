"""The app: declares tasks, and connects to the engine behind them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import cached_property
from types import EllipsisType
from typing import Any, TypeVar, Unpack, overload
from uuid import UUID

from flowfabric.connect import connect, ensure_signing_key, is_http, is_in_memory, is_postgres
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.ids import name as checked_name
from flowfabric.middleware.layer import Layer, checked, with_layers
from flowfabric.model.budget import HardLimitAction
from flowfabric.model.policy import RetentionPolicy
from flowfabric.sdk.bulk import Bulk
from flowfabric.sdk.children import JOIN, JOIN_RETRY, join_function
from flowfabric.sdk.connection import Connection
from flowfabric.sdk.context import Context
from flowfabric.sdk.durations import Span
from flowfabric.sdk.exceptions import Retry, UnknownTask
from flowfabric.sdk.flow import FlowBuilder
from flowfabric.sdk.flow_handle import Flow
from flowfabric.sdk.limits import Budget, Quota, budget_id, quota_named
from flowfabric.sdk.named_task import NamedTask
from flowfabric.sdk.options import (
    Retention,
    ScheduleOptions,
    TaskOptions,
    ages,
    capability_of,
    check_options,
    merged,
)
from flowfabric.sdk.result_waiter import ResultWaiter
from flowfabric.sdk.run import Run, run_id
from flowfabric.sdk.run_filter import flow_id_of
from flowfabric.sdk.run_info import RunCounts, counts_of
from flowfabric.sdk.runs import Runs
from flowfabric.sdk.schedules import Schedule, new_schedule
from flowfabric.sdk.serialization import Codec, Plain
from flowfabric.sdk.task import AnyTask, Declare, P, R, Task

T = TypeVar("T")
Middleware = Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]
SECRET = "FF_WAITPOINT_HMAC_SECRET"  # noqa: S105 - the name of a variable
_KID = "app"


class App:
    """Declares tasks and connects to the database or server that stores their runs.

    `url` is one of:

    - `sqlite:///ff.db`: a file, for development; one line is logged about that.
    - `postgresql://user@host/database`: run `flowfabric migrate --db URL` once before.
    - `http://host:9090`, with `token="..."`: a FlowFabric server.
    - `memory://`: for tests.

    The app connects on first use and belongs to the event loop it is used in. `async with app:`
    closes it at the end of the block.

    - `name`: recorded as the creator of its runs, default `"app"`.
    - `namespace`: that of its runs, workers, schedules, budgets and quotas, default `"default"`.
    - `codec`: an object with `encode` and `decode` for everything that is stored, such as
      encryption.
    - `engine`: an open engine to use instead of `url`; the app does not close it.
    - `dev`: with False, SQLite needs `FF_DEV_MODE=1` in the environment.
    - `retention`: how long a run is kept after its end: a span, or
      `Retention(completed=..., failed=...)`; default 24 hours, and 7 days after a failure.
    - `state`, `middleware`: for every worker of the app, in front of the worker's own.
    - `layers`: around every engine the app opens; the last one is the outermost.

    Further keyword arguments are passed to `flowfabric.connect`.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "app",
        namespace: str = "default",
        codec: Codec | None = None,
        engine: EngineProtocol | None = None,
        dev: bool = True,
        retention: Span | Retention | None = None,
        state: Iterable[object] = (),
        middleware: Iterable[Middleware] = (),
        layers: Iterable[Layer] = (),
        **tuning: Any,
    ) -> None:
        self.url, self.name = url, checked_name(name, "name")
        self.namespace = checked_name(namespace, "namespace")
        self.codec: Codec = codec or Plain()
        self.seals = codec is not None
        self.tasks: dict[str, AnyTask] = {}
        self.schedules: dict[str, Schedule] = {}
        self.budgets: list[Budget] = []
        self.quotas: dict[str, Quota] = {}
        self.state, self.middleware = list(state), list(middleware)
        self._ages = ages(retention, "retention")
        self.retention = merged(RetentionPolicy(), self._ages)
        self.layers = checked(layers)
        self.around: Callable[[EngineProtocol], EngineProtocol] = lambda engine: with_layers(
            engine, *self.layers
        )
        """Applied to every engine the app opens."""
        self.stamp: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda tags: tags
        """Applied to the tags of every submission."""
        self.given_engine = engine
        """The engine the app was given, by the constructor or by `use`."""
        self._dev, self._tuning = dev, tuning
        self._connection = Connection(self.name, self._connect)
        self.results = ResultWaiter(self.engine, self.namespace)
        self.runs = Runs(self)
        """Lists runs: `await app.runs(state="failed")`, `async for info in app.runs.all(...)`."""
        self.bulk = Bulk(self)
        """Acts on all runs that match: `await app.bulk("cancel", task="mail")`."""

    # ---- declarations

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]]) -> Task[P, R]: ...

    @overload
    def task(self, function: Callable[P, R]) -> Task[P, R]: ...

    @overload
    def task(self, **options: Unpack[TaskOptions]) -> Declare: ...

    def task(
        self, function: Callable[..., object] | None = None, **options: Unpack[TaskOptions]
    ) -> object:
        """Declares a function as a task: `@app.task` or `@app.task(lane="mail", ...)`.

        An `async def` runs on the worker's event loop, a plain `def` in a thread. Arguments and
        result are stored as JSON by their type hints; a type that cannot be stored raises here.

        - `name`: stored with the run, default that of the function.
        - `lane`: the queue its runs wait in, default `"default"`.
        - `version`: a worker with a lower one does not replace the registered declaration.
        - `retry`: a `Retry`; without it, a timeout and a raised `Retry` are retried up to three
          times and every other exception is final.
        - `timeout`: a span one attempt may run, waits excluded; default no limit.
        - `priority`: 0 to 9,000, larger runs first, default 0.
        - `requires`: capabilities a worker must offer, default none.
        - `quota`: the name of a quota declared with `app.quota(...)`.
        - `retention`: how long its runs are kept after their end, default that of the app.
        """
        if function is not None:
            return self._declared(function, {})
        return lambda declared: self._declared(declared, {**options})

    def _declared(self, function: Callable[..., object], options: dict[str, Any]) -> AnyTask:
        name = checked_name(options.pop("name", None) or function.__name__, "name")
        where = f"task {name}"
        if name == JOIN:
            raise ConfigError(f"{where}: the name is reserved for ctx.children(...)")
        if name in self.tasks:
            raise ConfigError(f"{where}: already declared; give one of them another name=...")
        check_options(where, options, TaskOptions.__annotations__)
        retry = options.get("retry")
        if retry is not None and not isinstance(retry, Retry):
            raise ConfigError(f"{where}: retry: a Retry is accepted, got {retry!r:.80}")
        own_ages = ages(options.pop("retention", None), f"{where}: retention")
        made: AnyTask = Task(
            self,
            function,
            name=name,
            quota=quota_named(self.namespace, self.quotas, where, options.pop("quota", None)),
            retention=merged(own_ages, self._ages),
            **options,
        )
        self.tasks[name] = made
        return made

    def schedule(
        self, cron: str, *, tz: str = "UTC", **options: Unpack[ScheduleOptions]
    ) -> Callable[[T], T]:
        """Above `@app.task`: submits the task at every tick of a cron line, while a worker runs.

        Each tick is one run, however many workers there are.

        - `cron`: five fields, minute hour day month weekday, such as `"0 9 * * MON-FRI"`.
        - `tz`: the time zone of the line, default `"UTC"`.
        - `catch_up`: for ticks missed while no worker ran: `"skip"` (default) submits none,
          `"one"` the latest, `"all"` each.
        - `paused`: declares the schedule paused, default False.
        - `name`: default that of the task; required for a second schedule of the same task.
        - `arguments`: a dict of arguments for the task, default none.
        """

        def declare(task: T) -> T:
            if not isinstance(task, Task):
                name = getattr(task, "__name__", task)
                raise ConfigError(
                    f"schedule {name}: a task is accepted; put @app.task below @app.schedule(...)"
                )
            schedule = new_schedule(self, task, cron, tz, dict(options))
            self.schedules[schedule.name] = schedule
            return task

        return declare

    def budget(
        self,
        name: str,
        *,
        hard: Mapping[str, int] = {},
        soft: Mapping[str, int] = {},
        resets: Span | None = None,
        on_hard_limit: HardLimitAction = HardLimitAction.REJECT,
    ) -> Budget:
        """Declares a budget that tasks spend from with `ctx.spend(name, ...)`.

        `hard` and `soft` are limits by dimension, such as `{"tokens": 100_000}`; `resets` is the
        span after which usage starts again at zero, default never; `on_hard_limit` is what a
        report over a hard limit does, default to refuse the report.

        The budget is created when the app connects. An existing one gets these limits.
        """
        made = Budget(name, hard, soft, resets, on_hard_limit)
        made.creation(self.namespace)
        self.budgets.append(made)
        return made

    def quota(
        self,
        name: str,
        *,
        requests: int | None = None,
        per: Span | None = None,
        concurrent: int | None = None,
        lane: str | None = None,
        tag: str | None = None,
    ) -> Quota:
        """Limits how many runs start per span of time, and how many run at once.

        `requests` runs may start within `per` (default `"1m"`), and `concurrent` may run at the
        same time; at least one of the two is required. The quota applies to tasks declared with
        `quota=name`, to the `lane`, and to runs with the `tag`, such as `"app.customer=acme"`.

        The quota is created when the app connects. An existing one gets these limits.
        """
        made = Quota(name, requests, per, concurrent, lane, tag)
        made.creation(self.namespace)
        if name in self.quotas:
            raise ConfigError(f"quota {name}: already declared; give one of them another name")
        self.quotas[name] = made
        return made

    def budget_id(self, name: str) -> UUID:
        """The id of the budget of this name, for the engine's own operations."""
        return budget_id(self.namespace, name)

    # ---- the engine

    async def engine(self) -> EngineProtocol:
        """The engine of the app, connected on the first call."""
        return await self._connection.engine()

    async def _connect(self) -> EngineProtocol:
        given = self.given_engine
        engine = await self.another_engine() if given is None else self.around(given)
        try:
            if given is None and not is_postgres(self.url):
                await engine.prepare()
            if isinstance(engine, LocalEngineProtocol):
                secret = os.environ.get(SECRET) or secrets.token_hex(32)
                await ensure_signing_key(engine, _KID, secret)
            limits: list[Budget | Quota] = [*self.budgets, *self.quotas.values()]
            for declared in limits:
                await declared.make(engine, self.namespace, self.name)
        except BaseException:
            if given is None:
                await engine.close()
            raise
        return engine

    @property
    def is_local(self) -> bool:
        """Whether its engine can be used in this process only: it was given, or is in memory."""
        return self.given_engine is not None or is_in_memory(self.url)

    async def another_engine(self) -> EngineProtocol:
        """Opens a further connection, for another event loop. The caller closes it."""
        return self.around(await connect(self.url, dev=self._dev, loops=False, **self._tuning))

    def connect_to(self, url: str, token: str | None = None) -> None:
        """Names another database or server, before the first use. The token is that of a server."""
        self.url = url
        held = token or self._tuning.get("token")
        self._tuning = {name: value for name, value in self._tuning.items() if name != "token"}
        if is_http(url) and held:
            self._tuning["token"] = held

    def use(self, engine: EngineProtocol | None) -> EngineProtocol | None:
        """For tests: makes the app use this engine, or with None its own again.

        Returns the engine it was given before.
        """
        given, self.given_engine = self.given_engine, engine
        self._connection.forget()
        self.results = ResultWaiter(self.engine, self.namespace)
        return given

    async def close(self) -> None:
        """Closes the connection. An engine the app was given stays open."""
        await self.results.stop()
        if self.given_engine is not None:
            self._connection.forget()
        else:
            await self._connection.close()

    async def __aenter__(self) -> App:
        await self.engine()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---- tasks and runs

    def named(self, task: str) -> AnyTask:
        """The declared task of this name. Raises UnknownTask."""
        found = self.tasks.get(task)
        if found is None:
            known = ", ".join(sorted(self.tasks)) or "none"
            raise UnknownTask(f"task {task}: not declared here; declared: {known}")
        return found

    def task_named(self, name: str) -> AnyTask | NamedTask:
        """A task by its name: the one declared here, or else one that other workers declare."""
        return self.tasks.get(name) or NamedTask(self, name)

    def runnable(self, kind: str) -> AnyTask | None:
        """The task that a worker runs for executions of this kind."""
        return self._join_task if kind == JOIN else self.tasks.get(kind)

    @cached_property
    def _join_task(self) -> AnyTask:
        return Task(self, join_function(self), name=JOIN, retry=JOIN_RETRY)

    def run(self, ident: str | UUID | ExecutionId, task: str | None = None) -> Run[Any]:
        """A handle to an existing run, by its uuid or its full id.

        With the `task`'s name its result is decoded by the task's return annotation; without, it
        is the stored bytes.
        """
        return Run(self, run_id(ident), None if task is None else self.named(task))

    async def counts(self, namespace: str | EllipsisType | None = ...) -> RunCounts:
        """How many runs there are by state, task and lane, ended ones included.

        The counts may be two seconds old. `namespace` is by default that of the app; None is all.
        """
        wanted = self.namespace if isinstance(namespace, EllipsisType) else namespace
        return counts_of(await (await self.engine()).count_executions(wanted))

    @overload
    def flow(self, name: str = "flow") -> FlowBuilder: ...

    @overload
    def flow(self, name: UUID) -> Flow: ...

    @overload
    def flow(self, *, id: UUID | str) -> Flow: ...

    def flow(
        self, name: str | UUID = "flow", *, id: UUID | str | None = None
    ) -> FlowBuilder | Flow:
        """A graph of tasks to submit, or a handle to a flow that was submitted.

        `async with app.flow("ship") as flow: ...` submits all nodes in one commit when the block
        is left. After an exception nothing is submitted.

        `app.flow(id)` with the UUID of an existing flow, or `app.flow(id="...")`, is its handle.
        """
        if id is not None or isinstance(name, UUID):
            return Flow(self, flow_id_of(name if id is None else id, "id"))
        return FlowBuilder(self, name)

    @property
    def lanes(self) -> list[str]:
        """The lanes of its tasks, sorted."""
        return sorted({task.lane for task in self.tasks.values()})

    @property
    def capabilities(self) -> list[str]:
        """The capabilities a worker offers that has all of its tasks."""
        return [capability_of(name) for name in self.tasks]
