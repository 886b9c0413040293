"""The work of the writer, and how answers return to the callers."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from msgspec import Struct

from flowfabric.plan import Plan
from flowfabric.store.batching import Sweep, selection
from flowfabric.store.wakeups import Topic, Wakeups

MAX_INLINE_PLANS = 8
MAX_INLINE_ROWS = 8


class Commit(Struct, frozen=True, gc=False):
    plan: Plan


class CommitTogether(Struct, frozen=True, gc=False):
    """All of the plans or none."""

    plans: Sequence[Plan]


class CommitMany(Struct, frozen=True, gc=False):
    """Each plan on its own."""

    plans: Sequence[Plan]


class SweepOnce(Struct, frozen=True, gc=False):
    plan: Plan
    limit: int


class SweepMany(Struct, frozen=True, gc=False):
    """Plans, then sweeps; a refused plan stops them all."""

    first: Sequence[Plan]
    wanted: Sequence[Sweep]


class CommitAndSweep(Struct, frozen=True, gc=False):
    plans: Sequence[Plan]
    sweep: Plan
    limit: int


class Execute(Struct, frozen=True, gc=False):
    """Calls a function with the writer's connection, in order with the commits."""

    run: Callable[[sqlite3.Connection], object]


Work = Commit | CommitTogether | CommitMany | SweepOnce | SweepMany | CommitAndSweep | Execute


class Job:
    """A piece of work and the caller that waits for it."""

    __slots__ = ("future", "loop", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()


def is_small(job: Job) -> bool:
    """The work takes a fraction of a millisecond."""
    match job.work:
        case Commit():
            return True
        case SweepOnce(limit=limit):
            return limit <= MAX_INLINE_ROWS
        case CommitTogether(plans=plans) | CommitMany(plans=plans):
            return len(plans) <= MAX_INLINE_PLANS
        case CommitAndSweep(plans=plans, limit=limit):
            return len(plans) <= MAX_INLINE_PLANS and limit <= MAX_INLINE_ROWS
    return False


def batch_key(job: Job) -> tuple[type[Work] | None, Hashable]:
    """Adjacent jobs of one key run together; None marks a job that runs alone."""
    match job.work:
        case Commit(plan=plan):
            return Commit, plan.form
        case SweepOnce(plan=plan):
            return SweepOnce, selection(plan)
        case CommitAndSweep(plans=plans, sweep=sweep) if len({p.form for p in plans}) == 1:
            return CommitAndSweep, (plans[0].form, selection(sweep))
    return None, id(job)


def deliver(
    pairs: list[tuple[Job, Any]], hub: Wakeups, topics: dict[Topic, None], dues: dict[str, int]
) -> None:
    """Answers the callers, then wakes the waiters."""
    for job, answer in pairs:
        if job.future.done():
            continue
        if isinstance(answer, BaseException):
            job.future.set_exception(answer)
        else:
            job.future.set_result(answer)
    hub.announce(topics, dues)
