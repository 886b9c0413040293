"""How a worker calls a task: with what arguments, within which middleware, here or in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import ExecutionOutcome
from flowfabric.sdk.active_run import Running
from flowfabric.sdk.app import App, Middleware
from flowfabric.sdk.call_user_code import submitted
from flowfabric.sdk.context import Context
from flowfabric.sdk.exceptions import AttemptTimedOut, PayloadError
from flowfabric.sdk.inputs import chosen, results_wanted
from flowfabric.sdk.serialization import sealed, unsealed
from flowfabric.sdk.sync_context import Context as BlockingContext
from flowfabric.sdk.sync_context import in_its_thread
from flowfabric.sdk.task import Task


class Invoker:
    """One per worker. Functions that are not async share its threads, as many as the worker runs at a time."""

    def __init__(
        self, app: App, state: Mapping[type, object], middleware: Sequence[Middleware], threads: int
    ) -> None:
        self._app, self._state, self._middleware, self._most = app, state, middleware, threads
        self._threads: ThreadPoolExecutor | None = None
        for task in app.tasks.values():
            for name, kind in task.signature.injected.items():
                if not any(isinstance(each, kind) for each in state.values()):
                    raise ConfigError(
                        f"task {task.name}: {name}: no {kind.__name__} in the worker's state=[...]"
                    )

    async def call(self, engine: EngineProtocol, running: Running, task: Task[..., Any]) -> Any:
        """What the task returns, within its timeout."""
        arguments = await self._arguments(engine, running, task)

        async def call_task() -> Any:
            if task.is_async:
                return await task.run(arguments)
            running.thread = submitted(
                self._pool, in_its_thread(task.function, arguments), arguments
            )
            return await asyncio.wrap_future(running.thread)

        call: Callable[[], Awaitable[Any]] = call_task
        for middleware in reversed(self._middleware):
            call = partial(middleware, running.context, call)
        if task.timeout_ms is None:
            return await call()
        return await _within(task.timeout_ms, running.work.time_used_ms, call)

    def sealed(self, task: Task[..., Any], value: Any) -> bytes | None:
        """A result as it is kept."""
        data = task.signature.encode_result(value)
        return (
            None if data is None else sealed(self._app.codec, data, f"task {task.name}: its result")
        )

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _arguments(
        self, engine: EngineProtocol, running: Running, task: Task[..., Any]
    ) -> dict[str, Any]:
        payload = unsealed(
            self._app.codec, running.work.input_payload, f"task {task.name}: its arguments"
        )
        raw, later = task.signature.decode(payload)
        if later:
            raw |= await self._results(engine, running.context, later)
        arguments = task.signature.arguments(raw)
        if task.signature.context_name is not None:
            arguments[task.signature.context_name] = (
                running.context if task.is_async else BlockingContext(running.context)
            )
        for name, kind in task.signature.injected.items():
            arguments[name] = next(each for each in self._state.values() if isinstance(each, kind))
        return arguments

    async def _results(
        self, engine: EngineProtocol, context: Context, later: Mapping[str, Any]
    ) -> dict[str, Any]:
        async def read(ident: ExecutionId) -> ExecutionOutcome | None:
            return await context.ask("its arguments", lambda: engine.read_outcome(ident))

        found = {}
        for name, wanted in (await chosen(context, results_wanted(later), read)).items():
            values = [self._result_of(context, ident, await read(ident)) for ident in wanted.idents]
            found[name] = values if wanted.is_list else values[0]
        return found

    def _result_of(
        self, context: Context, ident: ExecutionId, outcome: ExecutionOutcome | None
    ) -> Any:
        if outcome is None or outcome.terminal_outcome != "success":
            raise PayloadError(
                f"task {context.task}: the result of {ident} is wanted, and it has none"
            )
        if outcome.result is None:
            return None
        return msgspec.Raw(
            unsealed(self._app.codec, outcome.result, f"task {context.task}: the result of {ident}")
        )

    @property
    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._most, thread_name_prefix="flowfabric-task")
        return self._threads


async def _within(timeout_ms: int, used_ms: int, call: Callable[[], Awaitable[Any]]) -> Any:
    """The time the attempt used before it waited counts too.

    A task that blocks the event loop cannot be stopped in time, so a result that is late does not count either.
    """
    began, left_s = asyncio.get_running_loop().time(), max(timeout_ms - used_ms, 0) / 1_000
    said = f"its timeout of {timeout_ms / 1_000:g} s"
    if used_ms:
        said += f", of which {used_ms / 1_000:g} s were used before it waited"
    try:
        async with asyncio.timeout(left_s) as limit:
            result = await call()
    except TimeoutError as error:
        if limit.expired():
            raise AttemptTimedOut(f"it ran for longer than {said}") from error
        raise
    if asyncio.get_running_loop().time() - began > left_s:
        raise AttemptTimedOut(f"it returned after {said}")
    return result
