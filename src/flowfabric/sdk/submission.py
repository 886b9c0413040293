"""Submits one run of a task, declared here or elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import (
    MAX_BULK_CREATE,
    Created,
    CreateExecutionArgs,
    Duplicate,
)
from flowfabric.model.task import Submission, TaskDeclaration
from flowfabric.rules.workers.task_submission import creation
from flowfabric.sdk.durations import millis
from flowfabric.sdk.exceptions import IdempotencyConflict
from flowfabric.sdk.options import Options, checked_tags
from flowfabric.sdk.run import Run

if TYPE_CHECKING:
    from flowfabric.engine.protocol import EngineProtocol
    from flowfabric.sdk.app import App
    from flowfabric.sdk.task import Task


def execution_args(
    app: App, task: TaskDeclaration, ident: ExecutionId, payload: bytes, options: Options
) -> CreateExecutionArgs:
    """The execution that a submission with these options creates."""
    if options.key_ttl is not None and options.key is None:
        raise ConfigError("key_ttl: the lifetime of a key; give key=... as well")
    wanted = Submission(
        execution_id=ident,
        namespace=app.namespace,
        payload=payload,
        creator=app.name,
        lane_id=options.lane,
        priority=options.priority,
        requires=tuple(options.requires),
        tags=app.stamp(checked_tags(options.tags)),
        key=options.key,
        key_ttl_ms=None if options.key_ttl is None else millis(options.key_ttl, "key_ttl"),
    )
    return options.dated(creation(task, wanted), time.time_ns() // 1_000_000)


def options_of_many(where: str, kwargs: dict[str, object]) -> Options:
    """The options of runs that are created together."""
    options = Options.taken_from(kwargs)
    if kwargs:
        unknown = ", ".join(sorted(kwargs))
        raise ConfigError(f"{where}: {unknown}: unknown option of submit_many()")
    if options.key is not None:
        raise ConfigError("key: a key belongs to one run; submit() accepts it")
    return options


async def create_runs(
    app: App,
    engine: EngineProtocol,
    first: CreateExecutionArgs,
    payloads: Sequence[bytes],
    options: Options,
    handle: Task[..., Any] | None,
) -> list[Run[Any]]:
    """One run for each payload, each like the first, by as few commits as possible."""
    first = await options.dated_by(engine, first)
    made = [
        replace(first, execution_id=ExecutionId.solo(first.lane_id), input_payload=payload)
        for payload in payloads
    ]
    for at in range(0, len(made), MAX_BULK_CREATE):
        await engine.create_executions(
            made[at : at + MAX_BULK_CREATE], connection=options.connection
        )
    return [Run(app, each.execution_id, handle) for each in made]


async def create_run(
    app: App,
    engine: EngineProtocol,
    made: CreateExecutionArgs,
    options: Options,
    handle: Task[..., Any] | None,
) -> Run[Any]:
    """Creates the execution, or finds that of the key."""
    made = await options.dated_by(engine, made)
    seen = app.results.seen
    answer = await engine.create_execution(made, connection=options.connection)
    if isinstance(answer, Duplicate) and answer.key_digest not in (None, made.key_digest):
        raise IdempotencyConflict(made.execution_kind, str(options.key), answer.execution_id)
    created_at = seen if isinstance(answer, Created) else None
    return Run(app, answer.execution_id, handle, created_at)
