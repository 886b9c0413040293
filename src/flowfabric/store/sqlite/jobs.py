"""What the writer is asked to do, and how the answers get back to those who asked."""

from __future__ import annotations

import asyncio
from typing import Any

from flowfabric.plan import Form, Plan
from flowfabric.store.wakeups import Topic, Wakeups

MOST_PLANS = 8
MOST_ROWS = 8


class Job:
    __slots__ = ("future", "items", "kind", "limit", "loop")

    def __init__(self, kind: str, items: Any, limit: int = 0) -> None:
        self.kind, self.items, self.limit = kind, items, limit
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()


def is_small(job: Job) -> bool:
    """Written in a fraction of a millisecond."""
    match job.kind:
        case "plan":
            return True
        case "sweep":
            return job.limit <= MOST_ROWS
        case "together" | "many":
            return len(job.items) <= MOST_PLANS
        case "turn":
            return len(job.items[0]) <= MOST_PLANS and job.limit <= MOST_ROWS
    return False


def run_key(job: Job) -> tuple[str, Any]:
    if job.kind == "plan":
        return "plan", job.items.form
    if job.kind == "sweep":
        return "sweep", selection(job.items)
    if job.kind == "turn" and len({plan.form for plan in job.items[0]}) == 1:
        plans, sweep = job.items
        return "turn", (plans[0].form, selection(sweep))
    return "single", id(job)


def selection(plan: Plan) -> tuple[Form, Any]:
    """What a sweep chooses its rows by."""
    return plan.form, plan.form.pick_key(plan.values)


def deliver(
    pairs: list[tuple[Job, Any]], hub: Wakeups, topics: dict[Topic, None], dues: dict[str, int]
) -> None:
    for job, answer in pairs:
        if job.future.done():
            continue
        if isinstance(answer, BaseException):
            job.future.set_exception(answer)
        else:
            job.future.set_result(answer)
    hub.announce(topics, dues)
