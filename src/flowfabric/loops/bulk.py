"""The loop that carries out bulk actions."""

from __future__ import annotations

import logging
from uuid import UUID

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.loops.loop import Loop

log = logging.getLogger("flowfabric.loops")

MAX_JOBS = 100
MAX_ROUNDS = 50
"""In each round, every running job gets one page."""


class BulkActions(Loop):
    """Runs the pages of bulk jobs in turn. A job whose page fails waits for the next cycle."""

    name = "bulk_actions"
    topic = "bulk"
    index = "bulk_running"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings)
        self._has_more = False

    async def run(self, engine: Engine) -> int:
        done = 0
        failed: set[UUID] = set()
        for _ in range(MAX_ROUNDS):
            jobs = [j for j in await engine.running_bulk_jobs(MAX_JOBS) if j not in failed]
            self._has_more = bool(jobs)
            if not jobs:
                break
            for job_id in jobs:
                if await self._run_page(engine, job_id):
                    done += 1
                else:
                    failed.add(job_id)
        return done

    async def _run_page(self, engine: Engine, job_id: UUID) -> bool:
        try:
            await engine.run_bulk(job_id)
        except EngineError:
            engine.telemetry.scanner_errors(self.name)
            log.warning(
                "page of a bulk job failed; retrying",
                exc_info=True,
                extra={"scanner": self.name, "job_id": str(job_id)},
            )
            return False
        return True

    async def next_due(self, engine: Engine) -> int | None:
        """The first running job. Jobs that the last cycle left are due at once."""
        due = await super().next_due(engine)
        if due is None or not self._has_more:
            return due
        self._has_more = False
        return await engine.store.now_ms() + 1
