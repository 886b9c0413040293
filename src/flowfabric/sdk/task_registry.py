"""Registers the tasks of a worker, so that they can be listed and submitted by name."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from flowfabric.model.task import MAX_TASKS_PER_CALL, RegisterTasksArgs

if TYPE_CHECKING:
    from flowfabric.engine.protocol import EngineProtocol
    from flowfabric.sdk.app import App

log = logging.getLogger("flowfabric.worker")

START_S = 2.0
"""A worker starts after this time although its tasks are not registered."""
AGAIN_S = 600.0


class TaskRegistry:
    """Registers at the start of a worker and again every ten minutes; a failure is only logged.

    A server of an older release does not have the operation.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._declared_at_ms: int | None = None

    async def add(self, engine: EngineProtocol) -> None:
        if not self._app.tasks:
            return
        try:
            async with asyncio.timeout(START_S):
                await self._register(engine)
        except Exception as error:
            reason = str(error) or type(error).__name__
            log.warning(
                "the tasks are not registered; they run, but cannot be submitted by name",
                extra={"reason": reason},
            )

    async def keep(self, engine: EngineProtocol) -> None:
        while True:
            await asyncio.sleep(AGAIN_S)
            await self.add(engine)

    async def _register(self, engine: EngineProtocol) -> None:
        tasks = [task.declaration() for task in self._app.tasks.values()]
        for at in range(0, len(tasks), MAX_TASKS_PER_CALL):
            args = RegisterTasksArgs(
                tasks=tuple(tasks[at : at + MAX_TASKS_PER_CALL]),
                namespace=self._app.namespace,
                declared_at_ms=self._declared_at_ms,
            )
            answer = await engine.register_tasks(args)
            self._declared_at_ms = answer.declared_at_ms
            if answer.newer:
                log.info(
                    "a newer declaration is registered and stays",
                    extra={"tasks": ", ".join(answer.newer)[:1_000]},
                )
