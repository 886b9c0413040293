"""Actions on all runs that match a filter, as durable jobs."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Unpack
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import ConfigError, NotFound, invalid
from flowfabric.ids import parse_uuid
from flowfabric.model.bulk import BulkAction, BulkArgs, BulkJob, BulkState
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.run_filter import RunFilter, filter_of
from flowfabric.sdk.run_info import time_of

if TYPE_CHECKING:
    from flowfabric.sdk.app import App

Action = Literal["cancel", "retry", "replay", "priority", "move", "release", "delete"]
POLL_S = 0.2


class BulkProgress(Struct, frozen=True):
    """How far a job is. `matched` is the sum of `changed`, `skipped` and `refused`.

    `state` is running, completed or stopped. `skipped` runs no longer matched when they were to be
    changed, or had nothing to change. `errors` has the first texts of refusals.
    """

    state: str
    matched: int
    changed: int
    skipped: int
    refused: int
    errors: tuple[str, ...]
    created_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, job: BulkJob) -> BulkProgress:
        return cls(
            job.state.value,
            job.matched,
            job.changed,
            job.skipped,
            job.refused,
            job.errors,
            time_of(job.created_at),
            None if job.ended_at is None else time_of(job.ended_at),
        )


class BulkRun:
    """A handle to a bulk job. `app.bulk.job(id)` returns one for an existing job."""

    def __init__(self, app: App, ident: UUID) -> None:
        self.app, self.id = app, ident

    def __repr__(self) -> str:
        return f"BulkRun({str(self.id)!r})"

    async def progress(self) -> BulkProgress:
        """How far the job is now."""
        found = await (await self.app.engine()).read_bulk(self.id)
        if found is None:
            raise NotFound("bulk job", self.id)
        return BulkProgress.of(found)

    async def wait(self, timeout: Span | None = None) -> BulkProgress:
        """Waits until the job has ended, and returns what it has done.

        Works on the job itself if the app is connected to a database. After `timeout` (default: no
        limit) TimeoutError is raised, and the job goes on: a worker or a server carries it out.
        """
        wait_s = None if timeout is None else millis(timeout, "timeout") / 1_000
        found = await self.progress()
        try:
            async with asyncio.timeout(wait_s) as limit:
                while found.state == BulkState.RUNNING:
                    found = await self._moved()
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(
                f"bulk job {self.id} has not ended within {wait_s:g} s: {found.matched} runs are "
                "done; it goes on, and job.stop() ends it"
            ) from None
        return found

    async def stop(self) -> BulkProgress:
        """Stops the job. What it has changed stays changed."""
        return BulkProgress.of(await (await self.app.engine()).stop_bulk(self.id))

    async def _moved(self) -> BulkProgress:
        engine = await self.app.engine()
        if isinstance(engine, LocalEngineProtocol):
            return BulkProgress.of(await engine.run_bulk(self.id))
        await asyncio.sleep(POLL_S)
        return await self.progress()


class Bulk:
    """Starts bulk jobs: `job = await app.bulk("cancel", task="mail", state="waiting")`."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(
        self,
        action: Action,
        *,
        to: str | int | None = None,
        reason: str = "",
        dry_run: bool = False,
        **where: Unpack[RunFilter],
    ) -> BulkRun:
        """Starts a durable job that applies an action to every run that matches.

        - `action`: cancel, retry (failed and expired runs), replay (all ended runs), priority,
          move (to another lane), release (end a delay or a hold) or delete (ended runs).
        - `to`: the new priority of `priority`, the new lane of `move`.
        - `reason`: recorded with every run that is changed, beside the name of the app.
        - `dry_run`: counts what would be changed and changes nothing.

        The conditions are those of `app.runs(...)`; at least one is required. Each run is checked
        against them again when it is changed. The job is carried out by `await job.wait()`, by a
        worker or by a server, and goes on after a crash.
        """
        if not where:
            raise ConfigError(
                f"bulk {action}: give at least one condition, such as state=... or task=...; "
                f"namespace={self._app.namespace!r} selects every run of the app"
            )
        if action not in tuple(BulkAction):
            raise invalid("action", f"one of {', '.join(BulkAction)}", action)
        args = BulkArgs(
            action=BulkAction(action),
            where=await filter_of(self._app, "bulk", where),
            requested_by=self._app.name,
            reason=reason,
            priority=_priority(action, to),
            lane=_lane(action, to),
            dry_run=dry_run,
        )
        job = await (await self._app.engine()).start_bulk(args)
        return BulkRun(self._app, job.job_id)

    def job(self, ident: UUID | str) -> BulkRun:
        """A handle to an existing job."""
        try:
            found = ident if isinstance(ident, UUID) else parse_uuid(ident)
        except (TypeError, ValueError):
            raise invalid("id", "the id of a bulk job", ident) from None
        return BulkRun(self._app, found)


def _priority(action: str, to: object) -> int | None:
    if action == BulkAction.PRIORITY:
        if not isinstance(to, int) or isinstance(to, bool):
            raise invalid("to", "the new priority, a whole number", to)
        return to
    if to is not None and action != BulkAction.MOVE:
        raise invalid("to", "only for the actions priority and move", to)
    return None


def _lane(action: str, to: object) -> str | None:
    if action != BulkAction.MOVE:
        return None
    if not isinstance(to, str):
        raise invalid("to", "the new lane", to)
    return to
