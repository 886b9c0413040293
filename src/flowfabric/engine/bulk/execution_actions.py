"""Moves, releases, deletes and restarts of one execution."""

from __future__ import annotations

from flowfabric.engine import validation
from flowfabric.engine.bulk.page_actions import PageAction, PageActions
from flowfabric.engine.core import Core
from flowfabric.engine.executions.lanes import Lanes
from flowfabric.engine.snapshots import CORE_COLUMNS, from_core_row, load_rows
from flowfabric.errors import NotFound, invalid
from flowfabric.ids import ExecutionId, execution_id, lane_id, new_attempt_id
from flowfabric.model import bulk as model
from flowfabric.model.execution import Changed
from flowfabric.model.step import MAX_STEP_NAME_BYTES, MAX_STEPS
from flowfabric.rules.decision import Decision
from flowfabric.rules.executions import replay
from flowfabric.store.port import Get, Scan


class ExecutionActions:
    def __init__(self, core: Core, lanes: Lanes, actions: PageActions) -> None:
        self._core, self._store = core, core.store
        self._lanes, self._actions = lanes, actions

    async def move_execution(
        self, execution: ExecutionId, lane: str, requested_by: str = "", reason: str = ""
    ) -> Changed:
        """Moves an execution that waits to another lane, where it has the limits of that lane."""
        why = _why(requested_by, reason)
        await self._lanes.register(lane_id(lane, "lane"), "move_execution")
        ident = execution_id(execution)
        await self._run(ident, self._actions.move(lane, why))
        return Changed(ident)

    async def release_execution(
        self, execution: ExecutionId, requested_by: str = "", reason: str = ""
    ) -> Changed:
        """Ends a delay or a hold of an operator now."""
        ident = execution_id(execution)
        await self._run(ident, self._actions.release(_why(requested_by, reason)))
        return Changed(ident)

    async def delete_execution(
        self, execution: ExecutionId, requested_by: str = "", reason: str = ""
    ) -> model.Deleted:
        """Deletes an ended execution that nothing unfinished may read, with all its rows."""
        ident = execution_id(execution)
        await self._run(ident, self._actions.delete(_why(requested_by, reason)))
        return model.Deleted(ident)

    async def restart_from_step(
        self, execution: ExecutionId, step: str | int, requested_by: str = "", reason: str = ""
    ) -> model.Restarted:
        """Replays an ended execution without its recorded steps from one step on.

        The step is named, or given by its position.
        """
        ident, why = execution_id(execution), _why(requested_by, reason)
        if isinstance(step, str):
            validation.text(step, "step", MAX_STEP_NAME_BYTES)
        elif not isinstance(step, int) or isinstance(step, bool):
            raise invalid("step", "the name or the position of a recorded step", step)
        attempt = new_attempt_id()
        scan = Scan("steps", ident.owner, limit=MAX_STEPS, columns=("position", "name"))

        async def load() -> replay.RestartSnapshot:
            snapshot = await self._core.snapshots.load(ident)
            return replay.RestartSnapshot(snapshot, await load_rows(self._store, scan))

        restarted: model.Restarted = await self._core.run(
            load, lambda found: replay.restart(found, step, attempt_id=attempt, why=why)
        )
        return restarted

    async def _run(self, ident: ExecutionId, action: PageAction) -> None:
        """Carries out the action of a page for one execution."""

        async def load() -> Decision:
            loaded = await self._store.load((Get("ff_exec_core", ident.key, CORE_COLUMNS),))
            rows = loaded.rows[0]
            if not rows:
                raise NotFound("execution", ident)
            return (await action.decide([from_core_row(rows[0])], loaded.now_ms))[ident.uuid]

        await self._core.run(load, lambda decision: decision)


def _why(requested_by: str, reason: str) -> model.Why:
    return model.Why(
        validation.text(requested_by, "requested_by"), validation.text(reason, "reason")
    )
