"""The app: where tasks are declared, and how one reaches the engine behind them."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar, overload
from uuid import UUID

from flowfabric.connect import connect, ensure_signing_key, is_in_memory, is_postgres
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError, invalid
from flowfabric.ids import ExecutionId, ExecutionIdError, lane_id
from flowfabric.ids import name as checked_name
from flowfabric.middleware.layer import Layer, checked, with_layers
from flowfabric.model.policy import RetentionPolicy
from flowfabric.sdk.budgets import Budget, budget_id
from flowfabric.sdk.children import JOIN
from flowfabric.sdk.context import Context
from flowfabric.sdk.durations import Span
from flowfabric.sdk.exceptions import Retry, UnknownTask
from flowfabric.sdk.flow import FlowBuilder
from flowfabric.sdk.join_task import joining
from flowfabric.sdk.quotas import Quota, quota_id
from flowfabric.sdk.result_waiter import Results
from flowfabric.sdk.retention import Retention, ages, merged
from flowfabric.sdk.run import Run
from flowfabric.sdk.schedules import Schedule
from flowfabric.sdk.schedules import made as made_schedule
from flowfabric.sdk.serialization import Codec
from flowfabric.sdk.task import P, R, Task, capability_of

T = TypeVar("T")
Middleware = Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]
SECRET = "FF_WAITPOINT_HMAC_SECRET"  # noqa: S105 - the name of a variable
_KID = "app"


class Plain:
    """Stored as it is."""

    def encode(self, data: bytes) -> bytes:
        return data

    def decode(self, data: bytes) -> bytes:
        return data


class App:
    """`App("sqlite:///ff.db")`, `App("postgresql://host/database")`, `App("http://host:9090", token=...)` for a server's, or
    `App("memory://")` for tests.

    It connects when it is first used, and belongs to the event loop it is used in. `async with app:` closes it in the end.
    Its `state` and `middleware` are those of every worker that runs its tasks, before what that worker is given itself.
    `retention` is how long runs are kept after their end, unless their task says so: a span, or `Retention(completed=, failed=)`.
    SQLite is for development: an app opts in by itself and logs a line about it; with `dev=False` it needs FF_DEV_MODE=1.
    Its `layers` stand around every engine it opens, the last of them outermost. Each such engine is put through `around`, and the
    tags of everything it submits through `stamp`.
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
        self.url, self.name, self.namespace = (
            url,
            checked_name(name, "name"),
            checked_name(namespace, "namespace"),
        )
        self.codec: Codec = codec or Plain()
        self.tasks: dict[str, Task[..., Any]] = {}
        self.schedules: dict[str, Schedule] = {}
        self.budgets: list[Budget] = []
        self.quotas: dict[str, Quota] = {}
        self.state, self.middleware = list(state), list(middleware)
        self._ages = ages(retention, "retention")
        self.retention = merged(RetentionPolicy(), self._ages)
        self.results = Results(self.engine)
        self.layers = checked(layers)
        self.around: Callable[[EngineProtocol], EngineProtocol] = self._layered
        self.stamp: Callable[[Mapping[str, str]], Mapping[str, str]] = _same
        self._given, self._dev, self._tuning = engine, dev, tuning
        self._opening: asyncio.Task[EngineProtocol] | None = None

    # ---- declaring

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
            return self._declared(function, options)
        return lambda declared: self._declared(declared, options)

    def _declared(self, function: Callable[..., Any], options: dict[str, Any]) -> Task[..., Any]:
        name = checked_name(options.pop("name", None) or function.__name__, "name")
        if name == JOIN:
            raise ConfigError(
                f"task {name}: that is what the end of ctx.children(...) is called; give it another name"
            )
        if name in self.tasks:
            raise ConfigError(
                f"task {name}: there is one of that name already; give one of them name=..."
            )
        lane = lane_id(options.pop("lane", "default"))
        retry = options.pop("retry", None)
        if retry is not None and not isinstance(retry, Retry):
            raise ConfigError(f"task {name}: retry: a Retry, got {retry!r:.80}")
        made: Task[..., Any] = Task(
            self,
            function,
            name=name,
            lane=lane,
            retry=retry,
            timeout=options.pop("timeout", None),
            priority=options.pop("priority", 0),
            requires=options.pop("requires", ()),
            quota=self._quota_of(name, options.pop("quota", None)),
            retention=merged(
                ages(options.pop("retention", None), f"task {name}: retention"), self._ages
            ),
        )
        if options:
            accepted = "name, lane, retry, timeout, priority, requires, quota and retention"
            raise ConfigError(
                f"task {name}: {', '.join(sorted(options))}: unknown; {accepted} are accepted"
            )
        self.tasks[name] = made
        return made

    def _quota_of(self, task: str, quota: object) -> UUID | None:
        """A quota that nobody has made would limit nobody: a mistaken name is told here."""
        if quota is None:
            return None
        if not isinstance(quota, str) or quota not in self.quotas:
            known = ", ".join(sorted(self.quotas)) or "none"
            raise ConfigError(
                f"task {task}: quota: the name of one made before by app.quota(...), there are {known}; got {quota!r:.80}"
            )
        return quota_id(self.namespace, quota)

    def schedule(self, cron: str, *, tz: str = "UTC", **options: Any) -> Callable[[T], T]:
        """Above `@app.task`: submits the task whenever the cron line falls due in the time zone, while a worker runs anywhere.

        `catch_up` says what becomes of ticks that nobody was there for: "skip" (none), "one" (the latest), "all". Also `paused`,
        `name` (the task's, unless it has several schedules) and `arguments`, a dict for the task.
        """

        def declare(task: T) -> T:
            if not isinstance(task, Task):
                raise ConfigError(
                    f"schedule {getattr(task, '__name__', task)}: a task; put @app.task below @app.schedule(...)"
                )
            schedule = made_schedule(self, task, cron, tz, dict(options))
            self.schedules[schedule.name] = schedule
            return task

        return declare

    def budget(self, name: str, **limits: Any) -> Budget:
        """A budget tasks spend from, made when the app connects; one that is there already gets these limits."""
        made = Budget(name, **limits)
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
        """How many may start `per` span of time and run at once, of a lane, of a tag, and of tasks declared with `quota=name`.

        Made when the app connects; one that is there already gets these limits.
        """
        made = Quota(name, requests, per, concurrent, lane, tag)
        made.checked(self.namespace)
        if name in self.quotas:
            raise ConfigError(
                f"quota {name}: there is one of that name already; give one of them another name"
            )
        self.quotas[name] = made
        return made

    def budget_id(self, name: str) -> UUID:
        return budget_id(self.namespace, name)

    # ---- using

    async def engine(self) -> EngineProtocol:
        """Connected, once, however many ask; after a failure, whoever asks next tries again."""
        opening = self._opening
        if opening is None or _failed(opening):
            opening = self._opening = asyncio.create_task(self._opened(), name="flowfabric-connect")
        elif opening.get_loop() is not asyncio.get_running_loop():
            raise ConfigError(
                f"app {self.name}: it is connected in another event loop; use one App for each loop, "
                "or leave the first loop through `async with app:` or `await app.close()`"
            )
        return opening.result() if opening.done() else await asyncio.shield(opening)

    async def _opened(self) -> EngineProtocol:
        engine = await self.another_engine() if self._given is None else self.around(self._given)
        try:
            if self._given is None and not is_postgres(self.url):
                await engine.prepare()
            if isinstance(engine, LocalEngineProtocol):
                await ensure_signing_key(
                    engine, _KID, os.environ.get(SECRET) or secrets.token_hex(32)
                )
            for budget in self.budgets:
                await budget.make(engine, self.namespace, self.name)
            for quota in self.quotas.values():
                await quota.make(engine, self.namespace, self.name)
        except BaseException:
            if self._given is None:
                await engine.close()
            raise
        return engine

    @property
    def is_local(self) -> bool:
        """Whether nobody else can reach its engine: it was given, or keeps everything in memory."""
        return self._given is not None or is_in_memory(self.url)

    async def another_engine(self) -> EngineProtocol:
        """A connection of one's own, for another event loop. Writing `sqlite://` is saying that one means it."""
        return self.around(await connect(self.url, dev=self._dev, loops=False, **self._tuning))

    def _layered(self, engine: EngineProtocol) -> EngineProtocol:
        return with_layers(engine, *self.layers)

    def use(self, engine: EngineProtocol | None) -> EngineProtocol | None:
        """Puts the app on this engine, for tests; None is its own again. The one that was given before is returned."""
        given, self._given = self._given, engine
        self._opening, self.results = None, Results(self.engine)
        return given

    async def close(self) -> None:
        await self.results.stop()
        opening, self._opening = self._opening, None
        if opening is None or self._given is not None:
            return
        await asyncio.wait({opening})
        if not _failed(opening):
            await opening.result().close()

    async def __aenter__(self) -> App:
        await self.engine()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def named(self, task: str) -> Task[..., Any]:
        found = self.tasks.get(task)
        if found is None:
            known = ", ".join(sorted(self.tasks)) or "none"
            raise UnknownTask(f"task {task}: not declared here; there are {known}")
        return found

    def runnable(self, kind: str) -> Task[..., Any] | None:
        """The task a worker runs for executions of this kind, those of our own included."""
        return self._joining if kind == JOIN else self.tasks.get(kind)

    @cached_property
    def _joining(self) -> Task[..., Any]:
        return joining(self)

    def run(self, ident: str | ExecutionId, task: str | None = None) -> Run[Any]:
        """A run by its id; with its task's name, its result comes back as the task says."""
        try:
            found = ExecutionId(ident)
        except (ExecutionIdError, TypeError):
            raise invalid("id", "the id of a run as str(run.id) gives it", ident) from None
        return Run(self, found, None if task is None else self.named(task))

    def flow(self, name: str = "flow") -> FlowBuilder:
        """`async with app.flow("ship") as flow: ...` submits the whole graph at the end of the block, or nothing of it."""
        return FlowBuilder(self, name)

    @property
    def lanes(self) -> list[str]:
        return sorted({task.lane for task in self.tasks.values()})

    @property
    def capabilities(self) -> list[str]:
        """What a worker with all of these tasks can run."""
        return [capability_of(name) for name in self.tasks]


def _same(given: T) -> T:
    return given


def _failed(opening: asyncio.Task[EngineProtocol]) -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)
