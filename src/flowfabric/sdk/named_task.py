"""A task that is declared elsewhere, and is known by the registry of tasks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from flowfabric.errors import ConfigError, ValidationError, bad_input
from flowfabric.ids import ExecutionId
from flowfabric.ids import name as checked_name
from flowfabric.model.task import TaskDeclaration
from flowfabric.rules.workers.task_submission import checked_arguments, key_digest, sealed
from flowfabric.sdk import serialization
from flowfabric.sdk.exceptions import PayloadError
from flowfabric.sdk.known_task import known_task
from flowfabric.sdk.options import Options
from flowfabric.sdk.submission import create_run, create_runs, execution_args, options_of_many

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
        data = self._json(arguments)
        engine, task = await self._declared()
        checked = checked_arguments(task, data)
        ident = ExecutionId.solo(options.lane or task.lane_id)
        made = execution_args(self.app, task, ident, self._payload(data), options)
        if options.key is not None:
            made = replace(made, key_digest=key_digest(task, checked))
        return await create_run(self.app, engine, made, options, cast(Any, self))

    async def submit_many(
        self, many: Iterable[Mapping[str, object]], /, **kwargs: object
    ) -> list[Run[Any]]:
        """Submits one run per item, a dict of arguments by name.

        The options are those of `Task.submit_many`. Every item is checked against the declaration
        before the first is submitted; an error names the item. Up to 10,000 runs are created by
        one commit; more take several.
        """
        options = options_of_many(f"task {self.name}", kwargs)
        items = [self._json(item, at) for at, item in enumerate(many)]
        if not items:
            return []
        engine, task = await self._declared()
        for at, data in enumerate(items):
            try:
                checked_arguments(task, data)
            except ValidationError as error:
                raise bad_input(f"item {at}: {error.detail or error}") from None
        payloads = [self._payload(data) for data in items]
        ident = ExecutionId.solo(options.lane or task.lane_id)
        first = execution_args(self.app, task, ident, payloads[0], options)
        return await create_runs(self.app, engine, first, payloads, options, cast(Any, self))

    def _json(self, arguments: object, item: int | None = None) -> bytes:
        where = f"task {self.name}: " + ("" if item is None else f"item {item}: ")
        if not isinstance(arguments, Mapping):
            raise PayloadError(
                f"{where}a dict of arguments by name is accepted, got {arguments!r:.80}"
            )
        try:
            return serialization.to_json(arguments)
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(f"{where}its arguments: {error}") from None

    def _payload(self, data: bytes) -> bytes:
        return serialization.sealed(self.app.codec, data, f"task {self.name}: its arguments")

    async def _declared(self) -> tuple[EngineProtocol, TaskDeclaration]:
        engine = await self.app.engine()
        task = await self._declaration(engine)
        if task.sealed != self.app.seals:
            raise sealed(self.name) if task.sealed else _not_sealed(self.name)
        return engine, task

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
