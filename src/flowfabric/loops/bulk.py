"""The loop that carries out bulk actions."""

from __future__ import annotations

import logging
from uuid import UUID

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.loops.loop import Loop, drain

log = logging.getLogger("flowfabric.loops")

MAX_JOBS = 100
MAX_ROUNDS = 50
"""In each round, every running job gets one page."""


class BulkActions(Loop):
    """Runs the pages of bulk jobs in turn, and removes jobs that ended long ago."""

    name = "bulk_actions"
    topic = "bulk"

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings)
        self._failed: set[UUID] = set()

    async def run(self, engine: Engine) -> int:
        done = 0
        failed = self._failed = set()
        for _ in range(MAX_ROUNDS):
            jobs = [j for j in await engine.running_bulk_jobs(MAX_JOBS) if j not in failed]
            if not jobs:
                break
            for job_id in jobs:
                try:
                    await engine.run_bulk(job_id)
                    done += 1
                except EngineError:
                    failed.add(job_id)
                    engine.telemetry.scanner_errors(self.name)
                    log.warning(
                        "page of a bulk job failed; retrying",
                        exc_info=True,
                        extra={"scanner": self.name, "job_id": str(job_id)},
                    )
        return done + await drain(engine.forget_bulk_jobs)

    async def next_due(self, engine: Engine) -> int | None:
        """A running job is due at once, unless its last page has failed."""
        if set(await engine.running_bulk_jobs(MAX_JOBS)) <= self._failed:
            return None
        return await engine.store.now_ms() + 1
