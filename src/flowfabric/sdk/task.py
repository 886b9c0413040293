"""A task: a function that can be submitted, and is run once or as often as its policy says."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import MAX_BULK_CREATE, Created, CreateExecutionArgs
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, RoutingRequirements, TimeoutPolicy
from flowfabric.sdk.blocking import Context as BlockingContext
from flowfabric.sdk.children import Call
from flowfabric.sdk.context import Context
from flowfabric.sdk.failures import Retry
from flowfabric.sdk.payloads import SUBMIT_OPTIONS, Signature, sealed
from flowfabric.sdk.run import Run
from flowfabric.sdk.times import Span, millis

if TYPE_CHECKING:
    from flowfabric.sdk.app import App

P = ParamSpec("P")
R = TypeVar("R")
OVERTIME_MS = 10_000
"""The worker keeps the time of its tasks; the engine does so a little later, for a worker that does not."""
_WAITS = "an async def takes flowfabric.Context, whose calls are awaited; this one's would block the event loop"
_BLOCKS = "a plain def takes flowfabric.sync.Context, whose calls block; this one's have to be awaited"
_ONCE = RetryPolicy(max_retries=0, backoff={"type": "fixed", "delay_ms": 0})


class Options(Struct, frozen=True):
    """What one submission may say beside the arguments."""

    key: str | None = None
    delay: Span | None = None
    priority: int | None = None
    tags: Mapping[str, str] = {}
    deadline: Span | None = None
    lane: str | None = None
    requires: Iterable[str] = ()
    connection: Any = None


def capability_of(task: str) -> str:
    """What a worker must be able to do to run it: a worker offers one of these for each of its tasks."""
    return f"task:{task}"


class Task(Generic[P, R]):
    """Called, it is the plain function. Submitted, it is run by a worker."""

    def __init__(
        self,
        app: App,
        function: Callable[..., Any],
        *,
        name: str,
        lane: str,
        retry: Retry | None,
        timeout: Span | None,
        priority: int,
        requires: Iterable[str],
        quota: UUID | None = None,
    ) -> None:
        self.app, self.function, self.name, self.lane, self.retry = app, function, name, lane, retry
        self.timeout_ms = None if timeout is None else millis(timeout, f"task {name}: timeout")
        self.priority, self.requires, self.quota = priority, tuple(requires), quota
        self.is_async = inspect.iscoroutinefunction(function)
        if self.is_async:
            self.signature: Signature[R] = Signature(name, function, Context, (BlockingContext, _WAITS))
        else:
            self.signature = Signature(name, function, BlockingContext, (Context, _BLOCKS))
        self.__doc__, self.__name__ = function.__doc__, getattr(function, "__name__", name)
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Task({self.name!r})"

    async def submit(self, *args: Any, **kwargs: Any) -> Run[R]:
        """Hands it to the workers. With `key`, the same submission again is the same run.

        Beside the task's own arguments: key, delay, priority, tags, deadline, lane, requires, and on Postgres `connection`, your
        own, in whose transaction it is submitted.
        """
        options = Options(**{name: kwargs.pop(name) for name in SUBMIT_OPTIONS & kwargs.keys()})
        engine = await self.app.engine()
        made = self.creation(ExecutionId.solo(options.lane or self.lane), self.payload(args, kwargs), options)
        heard = self.app.results.heard
        answer = await engine.create_execution(made, connection=options.connection)
        return Run(self.app, answer.execution_id, cast(Any, self), heard if isinstance(answer, Created) else None)

    async def submit_many(self, many: Iterable[Any], **kwargs: Any) -> list[Run[R]]:
        """One run for each: a tuple of arguments, a dict of them by name, or the only one. Options are for all of them.

        All are checked before the first is submitted; more than ten thousand are submitted in several parts.
        """
        unknown = kwargs.keys() - SUBMIT_OPTIONS
        if unknown:
            raise ConfigError(f"task {self.name}: {', '.join(sorted(unknown))}: unknown option of submit_many()")
        options = Options(**kwargs)
        if options.key is not None:
            raise ConfigError("key: one key is for one run; give it to submit()")
        lane = options.lane or self.lane
        payloads = [self.payload(*_given(each)) for each in many]
        if not payloads:
            return []
        first = self.creation(ExecutionId.solo(lane), payloads[0], options)
        made = [first, *(replace(first, execution_id=ExecutionId.solo(lane), input_payload=each) for each in payloads[1:])]
        engine = await self.app.engine()
        for at in range(0, len(made), MAX_BULK_CREATE):
            await engine.create_executions(made[at : at + MAX_BULK_CREATE], connection=options.connection)
        return [Run(self.app, each.execution_id, cast(Any, self)) for each in made]

    def call(self, *args: Any, **kwargs: Any) -> Call:
        """The task with its arguments, for `ctx.children(...)`; it takes the options of `submit` but `key` and `connection`."""
        options = Options(**{name: kwargs.pop(name) for name in SUBMIT_OPTIONS & kwargs.keys()})
        if options.key is not None or options.connection is not None:
            raise ConfigError(f"task {self.name}: key, connection: a child belongs to its parent's run and has neither")
        return Call(self, self.payload(args, kwargs), options)

    def payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], results: Callable[[Any], Any] | None = None) -> bytes:
        return sealed(self.app.codec, self.signature.encode(args, kwargs, results), f"task {self.name}: its arguments")

    def creation(self, ident: ExecutionId, payload: bytes, options: Options) -> CreateExecutionArgs:
        now = time.time_ns() // 1_000_000
        requires = sorted({capability_of(self.name), *self.requires, *options.requires})
        policy = ExecutionPolicy(
            priority=self.priority if options.priority is None else options.priority,
            retry_policy=self.retry.policy() if self.retry else _ONCE,
            timeout_policy=TimeoutPolicy(attempt_timeout_ms=self.timeout_ms + OVERTIME_MS) if self.timeout_ms else None,
            routing_requirements=RoutingRequirements(required_capabilities=tuple(requires)),
            quota_policy_id=None if self.quota is None else str(self.quota),
        )
        return CreateExecutionArgs(
            execution_id=ident,
            lane_id=options.lane or self.lane,
            namespace=self.app.namespace,
            execution_kind=self.name,
            input_payload=payload,
            payload_encoding="json",
            priority=policy.priority,
            creator_identity=self.app.name,
            idempotency_key=None if options.key is None else f"{self.name}:{options.key}",
            tags=self.app.stamp(options.tags),
            policy=policy,
            delay_until=None if options.delay is None else now + millis(options.delay, "delay"),
            execution_deadline_at=None if options.deadline is None else now + millis(options.deadline, "deadline"),
        )

    async def run(self, arguments: Mapping[str, Any]) -> Any:
        """The function itself; one that is not async runs in a thread of the worker's."""
        found = self.function(**arguments)
        return await found if inspect.isawaitable(found) else found


def _given(one: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """One of `submit_many`, as `submit` takes it."""
    if isinstance(one, dict):
        return (), one
    return (one if isinstance(one, tuple) else (one,)), {}
