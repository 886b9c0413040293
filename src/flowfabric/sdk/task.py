"""A task: a function that can be submitted, and is run once or as often as its policy says."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast
from uuid import UUID

from msgspec.structs import replace

from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import ATTEMPT_TIMEOUT
from flowfabric.model.execution import MAX_BULK_CREATE, Created, CreateExecutionArgs, Duplicate
from flowfabric.model.policy import (
    TASK,
    ExecutionPolicy,
    RetentionPolicy,
    RoutingRequirements,
    TimeoutPolicy,
)
from flowfabric.rules.retries import DEFAULT_RETRY_POLICY
from flowfabric.sdk.children import Call
from flowfabric.sdk.context import Context
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.exceptions import IdempotencyConflict, Retry
from flowfabric.sdk.options import Options, checked_tags
from flowfabric.sdk.run import Run
from flowfabric.sdk.serialization import SUBMIT_OPTIONS, Signature, sealed
from flowfabric.sdk.sync_context import Context as BlockingContext

if TYPE_CHECKING:
    from flowfabric.sdk.app import App

P = ParamSpec("P")
R = TypeVar("R")
OVERTIME_MS = 1_000
"""The worker keeps the time of its tasks; the engine does so a little later, for a worker that does not."""
_WAITS = "an async def takes flowfabric.Context, whose calls are awaited; this one's would block the event loop"
_BLOCKS = (
    "a plain def takes flowfabric.sync.Context, whose calls block; this one's have to be awaited"
)
_UNDECLARED = replace(DEFAULT_RETRY_POLICY, retryable_categories=("transient", ATTEMPT_TIMEOUT))
"""Without `retry=` a raised exception is final; a `Retry` that is raised and a timeout are tried again."""


def capability_of(task: str) -> str:
    """What a worker must be able to do to run it: a worker offers one of these for each of its tasks."""
    return f"{TASK}{task}"


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
        retention: RetentionPolicy | None = None,
    ) -> None:
        self.app, self.function, self.name, self.lane, self.retry = app, function, name, lane, retry
        self.timeout_ms = None if timeout is None else millis(timeout, f"task {name}: timeout")
        self.priority, self.requires, self.quota, self.retention = (
            priority,
            tuple(requires),
            quota,
            retention,
        )
        self.is_async = inspect.iscoroutinefunction(function)
        if self.is_async:
            self.signature: Signature[R] = Signature(
                name, function, Context, (BlockingContext, _WAITS)
            )
        else:
            self.signature = Signature(name, function, BlockingContext, (Context, _BLOCKS))
        self.__doc__, self.__name__ = function.__doc__, getattr(function, "__name__", name)
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Task({self.name!r})"

    async def submit(self, *args: Any, **kwargs: Any) -> Run[R]:
        """Hands it to the workers. With `key`, the same submission again is the same run, and one with other arguments raises
        `IdempotencyConflict`. A key lasts as long as its run is kept, and at least `key_ttl`, by default 24 hours.

        Beside the task's own arguments: key, key_ttl, delay, priority, tags, deadline, lane, requires, and on Postgres
        `connection`, your own, in whose transaction it is submitted.
        """
        options = Options(**{name: kwargs.pop(name) for name in SUBMIT_OPTIONS & kwargs.keys()})
        engine = await self.app.engine()
        made = self.creation(
            ExecutionId.solo(options.lane or self.lane), self.payload(args, kwargs), options
        )
        made = await options.dated_by(engine, made)
        if options.key is not None:
            made = replace(made, key_digest=self.signature.digest(args, kwargs))
        heard = self.app.results.heard
        answer = await engine.create_execution(made, connection=options.connection)
        if isinstance(answer, Duplicate) and answer.key_digest not in (None, made.key_digest):
            raise IdempotencyConflict(self.name, str(options.key), answer.execution_id)
        return Run(
            self.app,
            answer.execution_id,
            cast(Any, self),
            heard if isinstance(answer, Created) else None,
        )

    async def submit_many(self, many: Iterable[Any], **kwargs: Any) -> list[Run[R]]:
        """One run for each: a tuple of arguments, a dict of them by name, or the only one. Options are for all of them.

        All are checked before the first is submitted; more than ten thousand are submitted in several parts.
        """
        unknown = kwargs.keys() - SUBMIT_OPTIONS
        if unknown:
            raise ConfigError(
                f"task {self.name}: {', '.join(sorted(unknown))}: unknown option of submit_many()"
            )
        options = Options(**kwargs)
        if options.key is not None:
            raise ConfigError("key: one key is for one run; give it to submit()")
        lane = options.lane or self.lane
        payloads = [self.payload(*_given(each)) for each in many]
        if not payloads:
            return []
        first = self.creation(ExecutionId.solo(lane), payloads[0], options)
        engine = await self.app.engine()
        first = await options.dated_by(engine, first)
        made = [
            first,
            *(
                replace(first, execution_id=ExecutionId.solo(lane), input_payload=each)
                for each in payloads[1:]
            ),
        ]
        for at in range(0, len(made), MAX_BULK_CREATE):
            await engine.create_executions(
                made[at : at + MAX_BULK_CREATE], connection=options.connection
            )
        return [Run(self.app, each.execution_id, cast(Any, self)) for each in made]

    def call(self, *args: Any, detached: bool = False, **kwargs: Any) -> Call:
        """The task with its arguments, for `ctx.children(...)`; of the options of `submit`, not `key`, `key_ttl`, `connection`.

        A child that has not ended when its parent ends is cancelled, unless it is `detached`.
        """
        options = Options(**{name: kwargs.pop(name) for name in SUBMIT_OPTIONS & kwargs.keys()})
        if options.key is not None or options.key_ttl is not None or options.connection is not None:
            raise ConfigError(
                f"task {self.name}: key, key_ttl, connection: a child belongs to its parent's run and has none"
            )
        return Call(self, self.payload(args, kwargs), options, detached)

    def payload(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        results: Callable[[Any], Any] | None = None,
    ) -> bytes:
        return sealed(
            self.app.codec,
            self.signature.encode(args, kwargs, results),
            f"task {self.name}: its arguments",
        )

    def creation(self, ident: ExecutionId, payload: bytes, options: Options) -> CreateExecutionArgs:
        if options.key_ttl is not None and options.key is None:
            raise ConfigError("key_ttl: it says how long a key lasts; give a key with it")
        requires = sorted({capability_of(self.name), *self.requires, *options.requires})
        policy = ExecutionPolicy(
            priority=self.priority if options.priority is None else options.priority,
            retry_policy=self.retry.policy() if self.retry else _UNDECLARED,
            timeout_policy=TimeoutPolicy(attempt_timeout_ms=self.timeout_ms + OVERTIME_MS)
            if self.timeout_ms
            else None,
            routing_requirements=RoutingRequirements(required_capabilities=tuple(requires)),
            quota_policy_id=None if self.quota is None else str(self.quota),
            retention_policy=self.retention,
            dedup_window_ms=None if options.key_ttl is None else millis(options.key_ttl, "key_ttl"),
        )
        made = CreateExecutionArgs(
            execution_id=ident,
            lane_id=options.lane or self.lane,
            namespace=self.app.namespace,
            execution_kind=self.name,
            input_payload=payload,
            payload_encoding="json",
            priority=policy.priority,
            creator_identity=self.app.name,
            idempotency_key=None if options.key is None else f"{self.name}:{options.key}",
            tags=self.app.stamp(checked_tags(options.tags)),
            policy=policy,
        )
        return options.dated(made, time.time_ns() // 1_000_000)

    async def run(self, arguments: Mapping[str, Any]) -> Any:
        """The function itself; one that is not async runs in a thread of the worker's."""
        found = self.function(**arguments)
        return await found if inspect.isawaitable(found) else found


def _given(one: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """One of `submit_many`, as `submit` takes it."""
    if isinstance(one, dict):
        return (), one
    return (one if isinstance(one, tuple) else (one,)), {}
