"""A task: a function that can be submitted, and that workers run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, cast, overload
from uuid import UUID

from msgspec.structs import replace

from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId, lane_id
from flowfabric.model.attempt import ATTEMPT_TIMEOUT
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.policy import (
    MAX_COUNT,
    ExecutionPolicy,
    RetentionPolicy,
    RoutingRequirements,
    TimeoutPolicy,
)
from flowfabric.model.task import (
    MAX_DESCRIPTION_BYTES,
    MAX_SIGNATURE_BYTES,
    TaskDeclaration,
)
from flowfabric.rules.retries import DEFAULT_RETRY_POLICY
from flowfabric.sdk.children import Call
from flowfabric.sdk.context import Context
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.exceptions import Retry
from flowfabric.sdk.inputs import Stored
from flowfabric.sdk.limits import quota_id
from flowfabric.sdk.options import OVERTIME_MS, Options, capability_of
from flowfabric.sdk.run import Run
from flowfabric.sdk.serialization import Signature, sealed
from flowfabric.sdk.submission import create_run, create_runs, execution_args, options_of_many
from flowfabric.sdk.sync_context import Context as SyncContext
from flowfabric.sdk.sync_context import thread_function

if TYPE_CHECKING:
    from flowfabric.sdk.app import App
    from flowfabric.sdk.session import Session

P = ParamSpec("P")
R = TypeVar("R")
_NOT_SYNC = (
    "an async def takes flowfabric.Context, whose calls are awaited; those of "
    "flowfabric.sync.Context would block the event loop"
)
_NOT_ASYNC = (
    "a plain def takes flowfabric.sync.Context, whose calls block; those of "
    "flowfabric.Context have to be awaited"
)
_DEFAULT_RETRY = replace(DEFAULT_RETRY_POLICY, retryable_categories=("transient", ATTEMPT_TIMEOUT))
"""Without `retry=`, a raised `Retry` and a timeout are retried; any other exception is final."""


class Task(Generic[P, R]):
    """A task declared with `@app.task`. Calling it calls the function; `submit` queues a run."""

    def __init__(
        self,
        app: App,
        function: Callable[..., Any],
        *,
        name: str,
        lane: str = "default",
        retry: Retry | None = None,
        timeout: Span | None = None,
        version: int = 0,
        priority: int = 0,
        requires: Iterable[str] = (),
        quota: UUID | None = None,
        retention: RetentionPolicy | None = None,
    ) -> None:
        self.app, self.function, self.name = app, function, name
        self.lane, self.retry, self.priority = lane_id(lane), retry, priority
        self.version = _version(version, name)
        self.requires, self.quota, self.retention = tuple(requires), quota, retention
        self.timeout_ms = None if timeout is None else millis(timeout, f"task {name}: timeout")
        self.is_async = inspect.iscoroutinefunction(function)
        context, other, mistake = (
            (Context, SyncContext, _NOT_SYNC)
            if self.is_async
            else (SyncContext, Context, _NOT_ASYNC)
        )
        self.signature: Signature[R] = Signature(name, function, context, other, mistake)
        self.__doc__, self.__name__ = function.__doc__, getattr(function, "__name__", name)
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Task({self.name!r})"

    async def submit(self, /, *args: object, **kwargs: object) -> Run[R]:
        """Submits one run with these arguments; a worker runs it.

        Arguments are checked against the function's type hints and stored as JSON, at most 1 MiB.

        Options, beside the task's own arguments:

        - `key`: the same key with the same arguments returns the existing run; with other
          arguments IdempotencyConflict is raised.
        - `key_ttl`: a key lasts as long as its run is kept, and at least this long; default
          `"24h"`.
        - `delay`: the run becomes claimable after this span; default at once.
        - `deadline`: the run expires if it has not ended after this span; default never.
        - `priority`: 0 to 9,000, larger runs first; default that of the task.
        - `tags`: a dict of text; keys are `owner.name` in lower case.
        - `lane`: default that of the task.
        - `requires`: capabilities a worker needs, in addition to those of the task.
        - `connection`: on Postgres, your own asyncpg connection: the run exists if its transaction
          commits.

        A span is text like `"250ms"` or `"1h30m"`, a number of seconds, or a timedelta.
        """
        options = Options.taken_from(kwargs)
        engine = await self.app.engine()
        made = self.creation(
            ExecutionId.solo(options.lane or self.lane), self.payload(args, kwargs), options
        )
        if options.key is not None:
            made = replace(made, key_digest=self.signature.digest(args, kwargs))
        return await create_run(self.app, engine, made, options, cast(Any, self))

    async def submit_many(self, many: Iterable[object], **kwargs: object) -> list[Run[R]]:
        """Submits one run per item: a tuple of arguments, a dict by name, or a single argument.

        The options are those of `submit` except `key`, and apply to all. Every item is checked
        before the first is submitted. Up to 10,000 runs are created by one commit; more take
        several.
        """
        options = options_of_many(f"task {self.name}", kwargs)
        payloads = [self.payload(*_arguments_of(item)) for item in many]
        if not payloads:
            return []
        ident = ExecutionId.solo(options.lane or self.lane)
        first = self.creation(ident, payloads[0], options)
        engine = await self.app.engine()
        return await create_runs(self.app, engine, first, payloads, options, cast(Any, self))

    def call(self, /, *args: object, detached: bool = False, **kwargs: object) -> Call:
        """The task with its arguments, for `ctx.children(...)`.

        Accepts the options of `submit` except `key`, `key_ttl` and `connection`. A child that has
        not ended when its parent ends is cancelled, unless `detached=True`.
        """
        options = Options.taken_from(kwargs)
        options.check_member(f"task {self.name}", "child")
        return Call(self, self.payload(args, kwargs), options, detached)

    # ---- for the worker

    def context_for(self, context: Context, session: Session) -> Context | SyncContext:
        return context if self.is_async else SyncContext(context, session)

    def thread_function(self, arguments: Mapping[str, object]) -> Callable[..., object]:
        return thread_function(self.function, arguments)

    # ---- for submissions

    def payload(
        self,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        results: Callable[[object], Stored | None] | None = None,
    ) -> bytes:
        return sealed(
            self.app.codec,
            self.signature.encode(args, kwargs, results),
            f"task {self.name}: its arguments",
        )

    def creation(self, ident: ExecutionId, payload: bytes, options: Options) -> CreateExecutionArgs:
        return execution_args(self.app, self.defaults, ident, payload, options)

    @cached_property
    def defaults(self) -> TaskDeclaration:
        """What a submission applies, without the parts of `declaration` for people."""
        requires = tuple(sorted({capability_of(self.name), *self.requires}))
        policy = ExecutionPolicy(
            priority=self.priority,
            retry_policy=self.retry.policy() if self.retry else _DEFAULT_RETRY,
            timeout_policy=TimeoutPolicy(attempt_timeout_ms=self.timeout_ms + OVERTIME_MS)
            if self.timeout_ms
            else None,
            routing_requirements=RoutingRequirements(required_capabilities=requires),
            quota_policy_id=None if self.quota is None else str(self.quota),
            retention_policy=self.retention,
        )
        return TaskDeclaration(
            name=self.name, lane_id=self.lane, version=self.version, policy=policy
        )

    def declaration(self) -> TaskDeclaration:
        """What a worker registers about the task."""
        signature = str(self.signature)
        quotas = (
            name for name in self.app.quotas if self.quota == quota_id(self.app.namespace, name)
        )
        return replace(
            self.defaults,
            quota=next(quotas, ""),
            arguments=self.signature.arguments_schema(),
            result=self.signature.result_schema(),
            description=_cut(inspect.getdoc(self.function) or "", MAX_DESCRIPTION_BYTES),
            signature=_cut(signature, MAX_SIGNATURE_BYTES),
            sealed=self.app.seals,
        )


def _version(value: object, task: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
        raise ConfigError(
            f"task {task}: version: a whole number from 0 to {MAX_COUNT}, got {value!r:.80}"
        )
    return value


def _cut(text: str, most: int) -> str:
    """At most so many bytes, of storable text."""
    plain = text.encode(errors="replace").replace(b"\0", b"")
    return plain[:most].decode(errors="ignore")


class Declare(Protocol):
    """Makes a function a task, whose result is what the function returns or is awaited for."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


def _arguments_of(item: object) -> tuple[tuple[object, ...], Mapping[str, object]]:
    if isinstance(item, dict):
        return (), item
    return (item if isinstance(item, tuple) else (item,)), {}


AnyTask = Task[..., Any]
