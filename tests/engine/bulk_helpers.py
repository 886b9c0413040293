"""What the tests of bulk actions share."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.bulk import BulkAction, BulkArgs, BulkJob, BulkState
from flowfabric.model.search import ExecutionFilter
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

from .helpers import outbox

BY = {"requested_by": "ada", "reason": "because"}


def asked(action: str, dry_run: bool = False, **said: Any) -> BulkArgs:
    """A job of `ada`. `priority` and `lane` are values of the action unless `where` names them."""
    where = said.pop("where", {})
    return BulkArgs(
        action=BulkAction(action),
        where=ExecutionFilter(**where),
        dry_run=dry_run,
        **{**BY, **said},
    )


async def done(engine: Engine, args: BulkArgs, pages: int = 100) -> BulkJob:
    """The job of these arguments, carried out once the ends so far are handled."""
    await engine.parts.core.cascade.finish()
    job = await engine.start_bulk(args)
    ended = await engine.run_bulk(job.job_id, pages)
    assert ended.state is BulkState.COMPLETED
    assert ended.ended_at is not None
    return ended


def counts(job: BulkJob) -> tuple[int, int, int, int]:
    return job.matched, job.changed, job.skipped, job.refused


async def operations(engine: Engine, ident: ExecutionId) -> list[tuple[str, dict[str, Any]]]:
    """The operator events of an execution with their details."""
    rows = await outbox(engine, "ff_operator_event", ident)
    return [(row["event_type"], json.loads(row["details"])) for row in rows]


async def sound(engine: Engine) -> None:
    """The invariants hold."""
    await engine.parts.core.cascade.finish()
    assert check(snapshot_of(await engine.store.dump(TABLES_READ))) == []


def before_commits(engine: Engine, act: Callable[[], Awaitable[object]], times: int = 1) -> None:
    """Does something else between the reads of a page and its commit, so many times."""
    store: Any = engine.store
    commit, left = store.commit_together, [times]

    async def late(plans: Any) -> Any:
        if left[0] and plans[0].form.name in ("advance_bulk_job", "finish_bulk_job"):
            left[0] -= 1
            await act()
        return await commit(plans)

    store.commit_together = late
