"""Bulk actions as durable jobs.

A job walks its matches from the oldest to the newest. Each page is one commit: the changes, each
guarded by the version that was checked against the filter, and the cursor and the counts of the
job. So a page that is repeated after a crash changes nothing twice, and two processes can run one
job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.engine import validation
from flowfabric.engine.bulk.namespace_rows import NamespaceRows
from flowfabric.engine.bulk.page_actions import PAGE_SIZE, PAGE_SIZES, Decisions, PageActions
from flowfabric.engine.bulk.recheck import concerns, still_matches
from flowfabric.engine.core import Core
from flowfabric.engine.executions import search_filter
from flowfabric.engine.executions.lanes import Lanes
from flowfabric.engine.executions.search import Search
from flowfabric.engine.flows.replay import Replays
from flowfabric.engine.snapshots import load_all, load_one, load_rows, reader_of
from flowfabric.errors import EngineError, NotFound, StateError, StateKind, TransportError, invalid
from flowfabric.ids import ExecutionId, lane_id, name, time_ordered_uuid
from flowfabric.model.bulk import (
    MAX_PAGES,
    BulkAction,
    BulkArgs,
    BulkJob,
    BulkState,
    JobRow,
    Why,
)
from flowfabric.model.execution import Execution, Page
from flowfabric.model.search import ExecutionFilter, ExecutionSummary
from flowfabric.model.state import PublicState
from flowfabric.plan import Applied, Plan
from flowfabric.rules.bulk import erasure, jobs, matching
from flowfabric.rules.decision import Commit, Decision, Reject
from flowfabric.rules.executions.create import clamp_priority
from flowfabric.store.port import Find, Get, GetAll, Match, Scan, ScanAll

MAX_LISTED = 1_000
MAX_TRIES = 10
FULL_TRIES = 2
"""Behind so many refusals, a page is cut in half for each further one."""
FIRST_PAUSE_S = 0.002
CHILD_COLUMNS = ("parent_partition", "parent_execution_id")
_ACCEPTED = f"one of {', '.join(a for a in BulkAction if a is not BulkAction.ERASE)}"
_LISTED_BY = ("created_at_ms", "job_id")
_COLUMNS = JobRow.__struct_fields__


class _Work(Struct, frozen=True):
    """A job, with its arguments as they apply to executions."""

    row: JobRow
    args: BulkArgs
    where: ExecutionFilter
    why: Why
    cursor: str | None
    phase: str = ""


class _Outcome(Struct, frozen=True):
    """What a page commits, and what becomes of its executions."""

    plans: list[Plan]
    counted: jobs.Counted
    changed: list[Execution]


class BulkActions:
    def __init__(
        self, core: Core, search: Search, lanes: Lanes, replays: Replays, actions: PageActions
    ) -> None:
        self._core, self._store = core, core.store
        self._search, self._lanes, self._replays = search, lanes, replays
        self._actions, self._rows = actions, NamespaceRows(core.store)

    # ---- jobs

    async def start_bulk(self, args: BulkArgs) -> BulkJob:
        """Stores a job, which the background loop or `run_bulk` carries out."""
        return await self.store_job(time_ordered_uuid(), args)

    async def store_job(self, job_id: UUID, args: BulkArgs) -> BulkJob:
        """As `start_bulk`, with an id of the caller."""
        await self._store.commit(jobs.create_job(job_id, await self._checked(args)))
        return jobs.shown(await self._row(job_id))

    async def erase_namespace(self, namespace: str, requested_by: str = "") -> BulkJob:
        """Stores a job that removes all that a namespace has, except what is created later.

        What runs is cancelled first. The counts of the job are those of the deleted executions.
        """
        where = ExecutionFilter(namespace=name(namespace, "namespace"))
        validation.text(requested_by, "requested_by")
        reason = "the namespace is erased"
        args = BulkArgs(
            action=BulkAction.ERASE, where=where, requested_by=requested_by, reason=reason
        )
        job_id = time_ordered_uuid()
        await self._store.commit(jobs.create_job(job_id, args))
        return jobs.shown(await self._row(job_id))

    async def read_bulk(self, job_id: UUID) -> BulkJob | None:
        """A job with its progress. Ended jobs are kept for seven days."""
        row = await self._load(validation.flow_id(job_id, "job_id"))
        return None if row is None else jobs.shown(row)

    async def list_bulk(
        self, namespace: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[BulkJob]:
        """Jobs, the newest first; those of one namespace, or all."""
        wanted = validation.optional_namespace(namespace)
        size = validation.limit(limit, MAX_LISTED)
        after = None if cursor is None else search_filter.parse_cursor(cursor)
        if size == 0:
            return Page([])
        read = Find(
            "bulk_jobs",
            _LISTED_BY,
            _COLUMNS,
            () if wanted is None else (Match("namespace", "=", wanted),),
            descending=True,
            after=after,
            limit=size + 1,
            examine=MAX_LISTED,
        )
        (rows,) = (await self._store.load((read,))).rows
        found = [JobRow(*row[1:]) for row in rows if row[0]]
        page = found[:size]
        last = page[-1] if len(found) > size else None
        if last is None and rows and not rows[-1][0]:
            last = JobRow(*rows[-1][1:])
        position = None if last is None else (last.created_at_ms, last.job_id)
        return Page(
            [jobs.shown(row) for row in page],
            None if position is None else search_filter.cursor_text(position),
        )

    async def stop_bulk(self, job_id: UUID) -> BulkJob:
        """Stops a job behind the page that is being committed. An ended job stays as it is."""
        checked = validation.flow_id(job_id, "job_id")
        await self._store.commit(jobs.stop(checked))
        return jobs.shown(await self._row(checked))

    async def forget_bulk_jobs(self, limit: int = 100) -> int:
        """Removes jobs that ended more than seven days ago; returns how many."""
        size = validation.limit(limit, MAX_LISTED)
        upto = await self._store.now_ms() - jobs.KEPT_MS
        scan = Scan("bulk_ended", upto=upto, limit=size, columns=("job_id",))
        return await self._core.commit_each(
            jobs.forget(await load_all(self._store, scan, lambda job_id: job_id))
        )

    async def running_bulk_jobs(self, limit: int = 100) -> list[UUID]:
        """Jobs that have not ended, those that have waited longest first."""
        size = validation.limit(limit, MAX_LISTED)
        scan = Scan("bulk_running", limit=size, columns=("job_id",))
        return await load_all(self._store, scan, lambda job_id: job_id)

    async def _checked(self, args: BulkArgs) -> BulkArgs:
        validation.instance(args, BulkArgs)
        try:
            action = BulkAction(args.action)
        except ValueError:
            raise invalid("action", _ACCEPTED, args.action) from None
        if action is BulkAction.ERASE:
            raise invalid("action", f"{_ACCEPTED}; erase_namespace erases", args.action)
        validation.text(args.requested_by, "requested_by")
        validation.text(args.reason, "reason")
        made: dict[str, Any] = {"action": action, "where": search_filter.checked(args.where)}
        if args.priority is not None:
            made["priority"] = clamp_priority(
                validation.whole(args.priority, "priority", -(2**31), 2**31 - 1)
            )
        if args.lane is not None:
            made["lane"] = lane_id(args.lane, "lane")
        checked = structs.replace(args, **made)
        refused = matching.check(checked)
        if refused is not None:
            raise refused
        if checked.lane is not None:
            await self._lanes.register(checked.lane, "bulk_action")
        return checked

    # ---- pages

    async def run_bulk(self, job_id: UUID, pages: int = 1) -> BulkJob:
        """Runs up to so many pages of a job; returns the job behind them."""
        checked = validation.flow_id(job_id, "job_id")
        for _ in range(validation.whole(pages, "pages", 1, MAX_PAGES)):
            row = await self._row(checked)
            if row.state != BulkState.RUNNING:
                break
            if row.action == BulkAction.ERASE:
                await self._run_erasure(row)
            else:
                await self._run_page(_work(row))
        return jobs.shown(await self._row(checked))

    async def _run_erasure(self, row: JobRow) -> None:
        """A page of the present phase: cancels, deletes, or rows of other tables."""
        progress = erasure.progress_of(row.cursor)
        if progress.phase != erasure.ROWS:
            await self._run_page(_work(row, progress))
            return
        namespace = jobs.args_of(row).where.namespace or ""
        plans, position = await self._rows.page(row, namespace, progress.position)
        after = jobs.advanced(row, erasure.cursor_of(erasure.ROWS, position), jobs.Counted())
        await self._store.commit_together([jobs.advance(row, after), *plans])

    async def _run_page(self, work: _Work) -> None:
        for ident in jobs.follow_ups_of(work.row):
            await self._replays.resolve_ended_upstreams(ident)
        action = work.args.action
        limit = PAGE_SIZES.get(action, PAGE_SIZE)
        page = await self._search.find_executions(work.where, limit, work.cursor, oldest_first=True)
        found = [each for each in page.items if concerns(each, action)]
        size, why = len(found), ""
        for tries in range(1, MAX_TRIES + 1):
            part = found[:size]
            cursor = page.next_cursor if size == len(found) else _cursor(part[-1])
            last = why if tries == MAX_TRIES else ""
            outcome = await self._outcome(work, part, refused_for=last)
            try:
                if await self._commit(work, outcome, cursor, part):
                    return
                why = "the execution kept changing"
            except EngineError as error:
                if isinstance(error, TransportError) or not part or last:
                    raise
                why = str(error)
            if tries >= FULL_TRIES:
                size = max(size // 2, 1)
            await asyncio.sleep(FIRST_PAUSE_S * tries)

    async def _commit(
        self,
        work: _Work,
        outcome: _Outcome,
        cursor: str | None,
        part: Sequence[ExecutionSummary],
    ) -> bool:
        """Commits a page with its cursor; False when an execution has changed meanwhile."""
        if outcome.counted.follow_ups and cursor is None:
            cursor = _cursor(part[-1])
        counted = outcome.counted
        if work.phase:
            if counted.errors:
                raise StateError(StateKind.STILL_NEEDED, counted.errors[0])
            cursor = erasure.cursor_of(work.phase, cursor)
            counted = jobs.Counted() if work.phase == erasure.CANCEL else counted
        after = jobs.advanced(work.row, cursor, counted)
        plans = [jobs.advance(work.row, after), *outcome.plans]
        answer = await self._store.commit_together(plans)
        if not isinstance(answer, Applied):
            return answer.plan == 0
        await self._start_cascade(outcome)
        return True

    async def _start_cascade(self, outcome: _Outcome) -> None:
        """Handles the ends of executions that others may depend on."""
        if not any(plan.form.ends for plan in outcome.plans):
            return
        ended = [each.id for each in outcome.changed if each.flow_id is not None]
        single = {_key(each): each for each in outcome.changed if each.flow_id is None}
        read = ScanAll("children_of", list(single), 1, CHILD_COLUMNS)
        parents = await load_rows(self._store, read) if single else []
        ended += [single[at, uid].id for at, uid in parents]
        if ended:
            await self._core.cascade.ended(ended)

    async def _outcome(
        self, work: _Work, part: Sequence[ExecutionSummary], *, refused_for: str
    ) -> _Outcome:
        """Decides about executions as they are now, or refuses them for a reason."""
        keys = [(found.partition_key, found.execution_uuid) for found in part]
        action = self._actions.action(work.args, work.why)
        read = GetAll("ff_exec_core", keys, action.columns)
        loaded = await self._store.load((read,)) if keys else None
        rows = [] if loaded is None else loaded.rows[0]
        stored = map(reader_of(action.columns), rows)
        executions = [each for each in stored if still_matches(each, work.where)]
        if not executions or loaded is None:
            return _Outcome([], jobs.Counted(skipped=len(keys)), [])
        if refused_for:
            errors = tuple(f"{each.id}: {refused_for}" for each in executions)
            skipped = len(keys) - len(executions)
            return _Outcome([], jobs.Counted(skipped=skipped, errors=errors), [])
        decisions = await action.decide(executions, loaded.now_ms)
        return _outcome_of(work, len(keys), executions, decisions)

    async def _row(self, job_id: UUID) -> JobRow:
        row = await self._load(job_id)
        if row is None:
            raise NotFound("bulk_job", job_id)
        return row

    async def _load(self, job_id: UUID) -> JobRow | None:
        return await load_one(self._store, Get(jobs.JOB, (job_id,), _COLUMNS), JobRow)


def _work(row: JobRow, progress: erasure.Progress | None = None) -> _Work:
    """`progress`: of an erasure, which cancels before it deletes."""
    args = jobs.args_of(row)
    phase, cursor = "", row.cursor
    if progress is not None:
        phase, cursor = progress.phase, progress.position
        if phase == erasure.CANCEL:
            args = structs.replace(args, action=BulkAction.CANCEL)
    bounds = [at for at in (args.where.created_before, row.created_at_ms + 1) if at is not None]
    where = structs.replace(args.where, state=matching.states_of(args), created_before=min(bounds))
    why = Why(args.requested_by, args.reason, row.job_id)
    return _Work(row, args, where, why, cursor, phase)


def _outcome_of(
    work: _Work,
    found: int,
    executions: Sequence[Execution],
    decisions: Decisions,
) -> _Outcome:
    plans: list[Plan] = []
    changed: list[Execution] = []
    errors: list[str] = []
    follow_ups: list[ExecutionId] = []
    for each in executions:
        decision: Decision = decisions[each.execution_id]
        if isinstance(decision, Reject):
            errors.append(f"{each.id}: {decision.error}")
        elif isinstance(decision, Commit):
            plans += (*decision.first, decision.plan)
            changed.append(each)
            if getattr(decision.result, "public_state", "") == PublicState.WAITING_CHILDREN:
                follow_ups.append(each.id)
    skipped = found - len(changed) - len(errors)
    if work.args.dry_run:
        return _Outcome([], jobs.Counted(0, skipped, tuple(errors), would_change=len(changed)), [])
    plans.sort(key=lambda plan: plan.form.name)
    counted = jobs.Counted(len(changed), skipped, tuple(errors), tuple(follow_ups))
    return _Outcome(plans, counted, changed)


def _key(execution: Execution) -> tuple[int, UUID]:
    return execution.partition_key, execution.execution_id


def _cursor(found: ExecutionSummary) -> str:
    return search_filter.cursor_text((found.created_at, found.execution_uuid))
