"""Calls the user's code: arguments, middleware, threads and timeouts."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import ExecutionOutcome
from flowfabric.sdk.exceptions import AttemptTimedOut, PayloadError
from flowfabric.sdk.inputs import Stored, chosen, results_wanted
from flowfabric.sdk.serialization import sealed, unsealed

if TYPE_CHECKING:
    from flowfabric.sdk.app import App, Middleware
    from flowfabric.sdk.executor import ActiveRun
    from flowfabric.sdk.session import Session
    from flowfabric.sdk.task import AnyTask

T = TypeVar("T")


async def call_user_code(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> object:
    """Calls an async function here, any other in a thread, because it may block."""
    if is_async(function):
        found = function(*args, **kwargs)
    else:
        found = await asyncio.to_thread(call_in_thread, function, args, kwargs)
    return await found if inspect.isawaitable(found) else found


def is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        inspect.unwrap(function)
    )


def call_in_thread(
    function: Callable[..., T], args: Sequence[object], kwargs: Mapping[str, object]
) -> T:
    """A future cannot carry StopIteration: its waiter would wait for ever."""
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        name = getattr(function, "__name__", function)
        raise RuntimeError(f"{name} raised StopIteration") from error


def _submit(pool: Executor, function: Callable[..., T], kwargs: Mapping[str, object]) -> Future[T]:
    """The thread has the context variables of the caller."""
    call = partial(call_in_thread, function, (), kwargs)
    return pool.submit(contextvars.copy_context().run, call)


class Invoker:
    """One per worker. Its threads run the tasks that are not async, one per slot at most."""

    def __init__(
        self, app: App, state: Mapping[type, object], middleware: Sequence[Middleware], threads: int
    ) -> None:
        self._app, self._state, self._middleware = app, state, middleware
        self._max_threads = threads
        self._threads: ThreadPoolExecutor | None = None
        for task in app.tasks.values():
            for name, kind in task.signature.injected.items():
                if not any(isinstance(each, kind) for each in state.values()):
                    raise ConfigError(
                        f"task {task.name}: {name}: no {kind.__name__} in the worker's state=[...]"
                    )

    async def call(self, run: ActiveRun, task: AnyTask) -> object:
        """Calls the task through its middleware, within its timeout."""
        arguments = await self._arguments(run, task)

        async def call_task() -> object:
            if task.is_async:
                return await task.function(**arguments)
            run.thread = _submit(self._pool, task.thread_function(arguments), arguments)
            return await asyncio.wrap_future(run.thread)

        call: Callable[[], Awaitable[object]] = call_task
        for middleware in reversed(self._middleware):
            call = partial(middleware, run.context, call)
        if task.timeout_ms is None:
            return await call()
        return await _within(task.timeout_ms, run.session.work.time_used_ms, call)

    def sealed_result(self, task: AnyTask, value: object) -> bytes | None:
        data = task.signature.encode_result(value)
        if data is None:
            return None
        return sealed(self._app.codec, data, f"task {task.name}: its result")

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _arguments(self, run: ActiveRun, task: AnyTask) -> dict[str, object]:
        session, signature = run.session, task.signature
        where = f"task {task.name}: its arguments"
        payload = unsealed(self._app.codec, session.work.input_payload, where)
        raw, later = signature.decode(payload)
        results = await self._results(session, later) if later else {}
        arguments = signature.arguments({**raw, **results})
        if signature.context_name is not None:
            arguments[signature.context_name] = task.context_for(run.context, session)
        for name, kind in signature.injected.items():
            arguments[name] = next(each for each in self._state.values() if isinstance(each, kind))
        return arguments

    async def _results(self, session: Session, later: Mapping[str, Stored]) -> dict[str, object]:
        async def read(ident: ExecutionId) -> ExecutionOutcome | None:
            return await session.ask("its arguments", lambda: session.engine.read_outcome(ident))

        found: dict[str, object] = {}
        for name, wanted in (await chosen(session, results_wanted(later), read)).items():
            values = [self._result_of(session, ident, await read(ident)) for ident in wanted.idents]
            found[name] = values if wanted.is_list else values[0]
        return found

    def _result_of(
        self, session: Session, ident: ExecutionId, outcome: ExecutionOutcome | None
    ) -> msgspec.Raw | None:
        if outcome is None or outcome.terminal_outcome != "success":
            raise PayloadError(
                f"task {session.task}: an argument is the result of {ident}, which has none"
            )
        if outcome.result is None:
            return None
        where = f"task {session.task}: the result of {ident}"
        return msgspec.Raw(unsealed(self._app.codec, outcome.result, where))

    @property
    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                self._max_threads, thread_name_prefix="flowfabric-task"
            )
        return self._threads


async def _within(timeout_ms: int, used_ms: int, call: Callable[[], Awaitable[T]]) -> T:
    """The time the attempt used before its waits counts too.

    A task that blocks the event loop is not stopped in time; its late result is refused here.
    """
    began, left_s = asyncio.get_running_loop().time(), max(timeout_ms - used_ms, 0) / 1_000
    limit_text = f"its timeout of {timeout_ms / 1_000:g} s"
    if used_ms:
        limit_text += f", of which {used_ms / 1_000:g} s were used before it waited"
    try:
        async with asyncio.timeout(left_s) as limit:
            result = await call()
    except TimeoutError as error:
        if limit.expired():
            raise AttemptTimedOut(f"it ran for longer than {limit_text}") from error
        raise
    if asyncio.get_running_loop().time() - began > left_s:
        raise AttemptTimedOut(f"it returned after {limit_text}")
    return result
