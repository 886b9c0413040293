"""`flowfabric bulk`: the jobs of actions on all executions that match."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer
from msgspec import to_builtins

from flowfabric.cli import tables, text
from flowfabric.cli.bulk_jobs import account, progress, report, run_to_end
from flowfabric.cli.database import Database
from flowfabric.cli.exits import Exit
from flowfabric.cli.identify import not_found
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.ids import parse_uuid
from flowfabric.model.bulk import BulkJob

Job = Annotated[
    str, typer.Argument(metavar="JOB", help="The job's uuid; `flowfabric bulk list` shows them.")
]


def list_jobs(
    database: Database,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="At most this many.")] = 20,
    as_json: text.JsonLines = False,
) -> int:
    """Lists bulk jobs, the newest first."""

    async def work(engine: EngineProtocol) -> tuple[list[BulkJob], int]:
        return (await engine.list_bulk(None, limit)).items, await engine.server_time_ms()

    jobs, now = database.read(work)
    if as_json:
        for job in jobs:
            text.print_json(to_json(job))
    elif jobs:
        rows = [
            (
                str(job.job_id),
                job.args.action + (" (dry run)" if job.args.dry_run else ""),
                job.state.value,
                tables.ago(job.created_at, now),
                job.args.requested_by,
                account(job),
            )
            for job in jobs
        ]
        tables.print_table(("job", "action", "state", "created", "by", "account"), rows)
    else:
        text.show("no bulk jobs")
    return Exit.DONE


def show_job(job: Job, database: Database, as_json: text.Json = False) -> int:
    """Shows a bulk job and its progress."""
    found = database.read(lambda engine: _read(engine, job))
    if as_json:
        text.print_json(to_json(found))
    else:
        text.show(f"{found.args.action} {found.state}, by {found.args.requested_by or 'unknown'}")
        text.show(account(found), *(f"  {error}" for error in found.errors))
    return Exit.DONE


def stop_job(job: Job, database: Database) -> int:
    """Stops a bulk job behind the page it is at. What was changed stays changed."""

    async def work(engine: EngineProtocol) -> BulkJob:
        return await engine.stop_bulk((await _read(engine, job)).job_id)

    text.show(account(database.write(work)))
    return Exit.DONE


def run_job(job: Job, database: Database) -> int:
    """Runs a bulk job to its end, or waits for a server that runs it."""

    async def work(engine: EngineProtocol) -> BulkJob:
        found = await _read(engine, job)
        with progress(str(found.args.action)) as bar:
            return await run_to_end(engine, found, lambda job: bar(job.matched))

    return report(database.write(work))


async def _read(engine: EngineProtocol, job: str) -> BulkJob:
    found = await engine.read_bulk(_job_id(job))
    if found is None:
        raise not_found("bulk job", job)
    return found


def _job_id(given: str) -> UUID:
    return text.parse_id(parse_uuid, given, "JOB: expected the uuid of a bulk job")


def to_json(job: BulkJob) -> dict[str, object]:
    made: dict[str, object] = to_builtins(job, enc_hook=str)
    return made
