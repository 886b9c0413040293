"""Reads a task from the registry; the error for an unknown one lists those that are known."""

from __future__ import annotations

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.model.task import TaskInfo
from flowfabric.rules.workers.task_submission import MAX_NAMED, unknown_task
from flowfabric.sdk.exceptions import UnknownTask


async def known_task(engine: EngineProtocol, namespace: str, name: str) -> TaskInfo:
    found = await engine.read_task(namespace, name)
    if found is not None:
        return found
    page = await engine.list_tasks(namespace, MAX_NAMED + 1)
    raise UnknownTask(unknown_task(name, namespace, [each.name for each in page.items]))
