"""Runs a bulk job to its end and says exactly what it did."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from msgspec import Struct, structs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from flowfabric.cli import text
from flowfabric.cli.database import Database
from flowfabric.cli.exits import Exit, print_error
from flowfabric.cli.selection import Selection
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.model.bulk import BulkAction, BulkArgs, BulkJob, BulkState

PAGES_AT_ONCE = 5
POLL_S = 0.2
DONE_WORDS = {
    BulkAction.CANCEL: "cancelled",
    BulkAction.RETRY: "retried",
    BulkAction.REPLAY: "replayed",
    BulkAction.PRIORITY: "changed the priority of",
    BulkAction.MOVE: "moved",
    BulkAction.RELEASE: "released",
    BulkAction.DELETE: "deleted",
    BulkAction.ERASE: "erased",
}


class Started(Struct):
    """The job that an interrupted command leaves behind."""

    job: BulkJob | None = None


class Bar(Protocol):
    def __call__(self, done: int) -> None: ...


async def run_to_end(
    engine: EngineProtocol, job: BulkJob, seen: Callable[[BulkJob], None]
) -> BulkJob:
    """The ended job. A store runs it here, a server in its background loop."""
    while job.state == BulkState.RUNNING:
        if isinstance(engine, LocalEngineProtocol):
            job = await engine.run_bulk(job.job_id, PAGES_AT_ONCE)
        else:
            await asyncio.sleep(POLL_S)
            job = await engine.read_bulk(job.job_id) or job
        seen(job)
    return job


async def finished(engine: EngineProtocol, args: BulkArgs, bar: Bar, started: Started) -> BulkJob:
    def seen(job: BulkJob) -> None:
        started.job = job
        bar(job.matched)

    job = await engine.start_bulk(args)
    seen(job)
    return await run_to_end(engine, job, seen)


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Bar]:
    """A bar on standard error if that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(file=sys.stderr)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as shown:
        task = shown.add_task(title, total=total)
        yield lambda done: shown.update(task, completed=done)


def run_bulk(database: Database, selection: Selection, args: BulkArgs) -> int:
    """Counts, asks, runs the job, and reports it."""
    started = Started()
    try:
        job = database.write(lambda engine: _counted_and_run(engine, selection, args, started))
    except KeyboardInterrupt:
        if started.job is not None:
            print_error(_interrupted(database, started.job))
        return Exit.INTERRUPTED
    return report(job)


async def _counted_and_run(
    engine: EngineProtocol, selection: Selection, args: BulkArgs, started: Started
) -> BulkJob:
    where = await selection.filters.resolve(engine)
    args = structs.replace(args, where=where, requested_by=selection.who, reason=selection.reason)
    counting = structs.replace(args, dry_run=True)
    if selection.dry_run:
        with progress("counting") as bar:
            return await finished(engine, counting, bar, Started())
    total: int | None = None
    if not selection.yes:
        with progress("counting") as bar:
            counted = await finished(engine, counting, bar, Started())
        total = counted.matched - counted.skipped
        if total == 0:
            return counted
        selection.confirm(f"{args.action} {text.plural(total, 'execution')}?")
    with progress(str(args.action), total) as bar:
        return await finished(engine, args, bar, started)


def _interrupted(database: Database, job: BulkJob) -> str:
    option, job_id = database.option, job.job_id
    return (
        f"interrupted, {job.changed:,} changed so far; job {job_id} is stored and goes on "
        "wherever background loops run, "
        f"or with `flowfabric bulk run {job_id}{option}`; "
        f"to stop it: `flowfabric bulk stop {job_id}{option}`"
    )


def report(job: BulkJob) -> int:
    """Prints the account of a job; the exit code."""
    text.show(account(job))
    for error in job.errors:
        print_error(error)
    if job.state == BulkState.STOPPED:
        return Exit.PARTLY_DONE
    if job.refused:
        return Exit.PARTLY_DONE if job.changed or job.args.dry_run else Exit.FAILED
    return Exit.DONE


def account(job: BulkJob) -> str:
    if not job.matched:
        return "no executions match; nothing was changed"
    action, changed = BulkAction(job.args.action), job.changed
    title = f"{DONE_WORDS[action]} {text.plural(changed, 'execution')}"
    if job.args.dry_run:
        would = job.matched - job.skipped - job.refused
        title = f"dry run: would {action} {text.plural(would, 'execution')}; nothing was changed"
    facts = [title]
    if job.skipped:
        facts.append(f"{job.skipped:,} left as they are: nothing to change")
    if job.refused:
        facts.append(f"{job.refused:,} refused")
    if job.state == BulkState.STOPPED:
        facts.append("stopped before the end")
    elif job.state == BulkState.RUNNING:
        facts.append("still running")
    return "; ".join(facts)
