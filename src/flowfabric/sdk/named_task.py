"""A task that is declared elsewhere, and is known by the registry of tasks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.ids import name as checked_name
from flowfabric.model.task import TaskDeclaration
from flowfabric.rules.workers.task_submission import checked_arguments, key_digest, sealed
from flowfabric.sdk import serialization
from flowfabric.sdk.exceptions import PayloadError
from flowfabric.sdk.known_task import known_task
from flowfabric.sdk.options import Options
from flowfabric.sdk.submission import create_run, execution_args

if TYPE_CHECKING:
    from flowfabric.engine.protocol import EngineProtocol
    from flowfabric.sdk.app import App
    from flowfabric.sdk.run import Run

FRESH_S = 5.0
"""A changed declaration is applied after this time at the latest."""


class JsonResult:
    """Decodes a result by its JSON alone."""

    def decode_result(self, data: bytes | None) -> object:
        return None if data is None else msgspec.json.decode(data)


class NamedTask:
    """A task by its name, declared by the workers that serve it. `App.task_named` returns it."""

    def __init__(self, app: App, name: str) -> None:
        self.app, self.name = app, checked_name(name, "name")
        self.signature = JsonResult()
        self._known: tuple[TaskDeclaration, float] | None = None

    def __repr__(self) -> str:
        return f"NamedTask({self.name!r})"

    async def submit(self, /, **arguments: object) -> Run[Any]:
        """Submits one run. Arguments are given by name and checked against the declaration.

        Accepts the options of `Task.submit`. The result of the run is plain JSON: dicts, lists,
        texts and numbers. Raises UnknownTask for a name that no worker has declared.
        """
        options = Options.taken_from(arguments)
        try:
            data = serialization.to_json(arguments)
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(f"task {self.name}: its arguments: {error}") from None
        engine = await self.app.engine()
        task = await self._declaration(engine)
        if task.sealed != self.app.seals:
            raise sealed(self.name) if task.sealed else _not_sealed(self.name)
        checked = checked_arguments(task, data)
        payload = serialization.sealed(self.app.codec, data, f"task {self.name}: its arguments")
        ident = ExecutionId.solo(options.lane or task.lane_id)
        made = execution_args(self.app, task, ident, payload, options)
        if options.key is not None:
            made = replace(made, key_digest=key_digest(task, checked))
        return await create_run(self.app, engine, made, options, cast(Any, self))

    async def _declaration(self, engine: EngineProtocol) -> TaskDeclaration:
        if self._known is not None and self._known[1] > time.monotonic():
            return self._known[0]
        found = (await known_task(engine, self.app.namespace, self.name)).declaration
        self._known = found, time.monotonic() + FRESH_S
        return found


def _not_sealed(task: str) -> ConfigError:
    return ConfigError(
        f"task {task}: codec: its workers have none, and could not read what this app encodes; "
        "submit it with an App without a codec"
    )
