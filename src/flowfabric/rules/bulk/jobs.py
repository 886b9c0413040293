"""Jobs of bulk actions: created, advanced page by page, ended and forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from flowfabric.ids import ExecutionId
from flowfabric.model.bulk import MAX_ERRORS, BulkArgs, BulkJob, BulkState, JobRow
from flowfabric.plan import Add, Cond, Delete, Form, Insert, Now, Plan, Update, Wake
from flowfabric.rules.columns import by_args, from_args

JOB = "ff_bulk_job"
WAKE = "bulk"
KEPT_MS = 7 * 86_400_000
"""How long an ended job is kept, with the operator events of the executions that it deleted."""
MAX_ERROR_CHARS = 300

_COUNTS = ("matched", "changed", "skipped", "refused", "errors", "follow_ups")
_UNCHANGED = (*by_args("job_id", "version"), Cond("state", "=", "running"))
_ADVANCED = {**from_args("cursor", *_COUNTS), "version": Add(1), "updated_at_ms": Now()}
CREATE_JOB = Form(
    "create_bulk_job",
    Insert(
        JOB,
        {
            **from_args("job_id", "namespace", "action", "args"),
            "created_at_ms": Now(),
            "updated_at_ms": Now(),
        },
    ),
    Wake(WAKE),
)
ADVANCE_JOB = Form("advance_bulk_job", Update(JOB, _UNCHANGED, _ADVANCED))
FINISH_JOB = Form(
    "finish_bulk_job",
    Update(JOB, _UNCHANGED, {**_ADVANCED, "state": "completed", "ended_at_ms": Now()}),
)
STOP_JOB = Form(
    "stop_bulk_job",
    Update(
        JOB,
        (*by_args("job_id"), Cond("state", "=", "running")),
        {"state": "stopped", "version": Add(1), "updated_at_ms": Now(), "ended_at_ms": Now()},
    ),
)
FORGET_JOB = Form(
    "forget_bulk_job", Delete(JOB, (*by_args("job_id"), Cond("state", "!=", "running")))
)

_args = msgspec.json.Decoder(BulkArgs)
_texts = msgspec.json.Decoder(tuple[str, ...])
_idents = msgspec.json.Decoder(list[str])


class Counted(Struct, frozen=True):
    """What became of the matches of a page."""

    changed: int = 0
    skipped: int = 0
    errors: tuple[str, ...] = ()
    follow_ups: tuple[ExecutionId, ...] = ()
    would_change: int = 0
    """How many a dry run would change."""

    @property
    def matched(self) -> int:
        return self.changed + self.would_change + self.skipped + len(self.errors)


def create_job(job_id: UUID, args: BulkArgs) -> Plan:
    return CREATE_JOB(
        job_id=job_id,
        namespace=args.where.namespace,
        action=args.action.value,
        args=msgspec.json.encode(args).decode(),
    )


def args_of(job: JobRow) -> BulkArgs:
    return _args.decode(job.args)


def follow_ups_of(job: JobRow) -> list[ExecutionId]:
    return [ExecutionId(text) for text in _idents.decode(job.follow_ups)]


def shown(job: JobRow) -> BulkJob:
    return BulkJob(
        job.job_id,
        args_of(job),
        BulkState(job.state),
        job.matched,
        job.changed,
        job.skipped,
        job.refused,
        _texts.decode(job.errors),
        job.created_at_ms,
        job.updated_at_ms,
        job.ended_at_ms,
    )


def advanced(job: JobRow, cursor: str | None, counted: Counted) -> JobRow:
    """The job behind a page. Without a cursor there is no further page."""
    errors = (*_texts.decode(job.errors), *counted.errors)[:MAX_ERRORS]
    return structs.replace(
        job,
        cursor=cursor,
        state=job.state if cursor is not None else BulkState.COMPLETED.value,
        matched=job.matched + counted.matched,
        changed=job.changed + counted.changed,
        skipped=job.skipped + counted.skipped,
        refused=job.refused + len(counted.errors),
        errors=msgspec.json.encode([text[:MAX_ERROR_CHARS] for text in errors]).decode(),
        follow_ups=msgspec.json.encode([str(each) for each in counted.follow_ups]).decode(),
    )


def advance(job: JobRow, after: JobRow) -> Plan:
    """Stores the job behind a page, unless another process has moved or stopped it."""
    form = ADVANCE_JOB if after.state == BulkState.RUNNING else FINISH_JOB
    values = {name: getattr(after, name) for name in ("cursor", *_COUNTS)}
    return form(job_id=job.job_id, version=job.version, **values)


def stop(job_id: UUID) -> Plan:
    return STOP_JOB(job_id=job_id)


def forget(jobs: Sequence[UUID]) -> list[Plan]:
    return [FORGET_JOB(job_id=job_id) for job_id in jobs]
