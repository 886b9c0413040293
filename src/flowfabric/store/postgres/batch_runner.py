"""Runs one batch of the coalescer on a connection: retries, and isolation of plans that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Set
from typing import Any

from flowfabric.store.batching import split_answers
from flowfabric.store.postgres.connections import LazyConnection
from flowfabric.store.postgres.effects import Effects
from flowfabric.store.postgres.errors import (
    FIRST_PAUSE_S,
    MAX_TRIES,
    as_engine_error,
    concerns_one,
    is_conflict,
    is_read_only,
    must_reconnect,
)
from flowfabric.store.postgres.executor import (
    OPTIMISTIC_FROM,
    Session,
    distinct,
    run_groups,
    run_many,
    run_plans,
    run_together,
    statement_of,
)
from flowfabric.store.postgres.sweeps import (
    run_commits_and_sweeps,
    run_sweeps,
    run_sweeps_together,
)

Shape = tuple[Any, ...]
"""The kind of a job and what jobs of one batch must share."""
Items = list[Any]
Clock = Callable[[], int]


class BatchRunner:
    """A batch begins when the futures of `barrier` are done; `committed` is called after it.

    `moved` is called when the server takes no writes any more.
    """

    def __init__(
        self,
        clock: Clock | None,
        barrier: Set[asyncio.Future[None]],
        committed: Callable[[Effects], None],
        moved: Callable[[], None],
    ) -> None:
        self._clock, self._barrier, self._committed = clock, barrier, committed
        self._moved = moved

    async def run(self, link: LazyConnection, shape: Shape, items: Items) -> Items:
        """A conflict is retried; a value that does not fit fails only its own plan."""
        if shape[0] == "plans" and _must_split(items):
            return await self._one_by_one(link, shape, items)
        for attempt in range(MAX_TRIES):
            effects = Effects()
            connection = await link.get()
            if self._barrier:
                await asyncio.wait(tuple(self._barrier))
            try:
                with link.timeout:
                    await link.replan()
                    answers = await self._perform(connection, shape, items, effects)
            except Exception as error:
                read_only = is_read_only(error)
                if read_only:
                    self._moved()
                lost = must_reconnect(error) or connection.is_closed()
                if lost:
                    link.drop()
                if (read_only or is_conflict(error)) and attempt < MAX_TRIES - 1:
                    await asyncio.sleep(FIRST_PAUSE_S * 2**attempt)
                    continue
                if not lost and concerns_one(error) and _can_split(shape, items):
                    return await self._one_by_one(link, shape, items)
                raise as_engine_error(error) from error
            self._committed(effects)
            return answers
        raise AssertionError("the last try returns or raises")

    async def _perform(
        self, session: Session, shape: Shape, items: Items, effects: Effects
    ) -> Items:
        now = None if self._clock is None else self._clock()
        match shape[0]:
            case "sweep":
                return await run_sweeps(session, items, now, effects)
            case "commit_and_sweep":
                return await run_commits_and_sweeps(session, items, now, effects)
            case "groups":
                return await run_groups(session, items, now, effects)
            case "together":
                return [await run_together(session, items[0], now, effects)]
            case "sweeps":
                first, wanted = items[0]
                return [await run_sweeps_together(session, first, wanted, now, effects)]
        plans = [plan for several in items for plan in several]
        run = run_many if len(plans) >= OPTIMISTIC_FROM else run_plans
        return split_answers(await run(session, plans, now, effects), items)

    async def _one_by_one(self, link: LazyConnection, shape: Shape, items: Items) -> Items:
        """A plan that does not fit is answered by its error; the others are applied."""
        if shape[0] != "plans":
            return [await _only(self.run(link, shape, [item])) for item in items]
        answers = []
        for plans in items:
            singly = [await _only(self.run(link, shape, [[plan]])) for plan in plans]
            answers.append([answer[0] if isinstance(answer, list) else answer for answer in singly])
        return answers


async def _only(running: Awaitable[Items]) -> Any:
    try:
        answers = await running
    except Exception as error:
        return error
    return answers[0]


def _must_split(items: Items) -> bool:
    """Plans that read what they write, or that name one row twice, do not share a statement.

    Only inserts can name a row twice here: the coalescer queues other plans by row.
    """
    form = items[0][0].form
    if statement_of(form).unbatchable:
        return len(items) > 1 or len(items[0]) > 1
    if not form.is_insert or len(items) == 1:
        return False
    return not distinct([plan for plans in items for plan in plans])


def _can_split(shape: Shape, items: Items) -> bool:
    return len(items) > 1 or (shape[0] == "plans" and len(items[0]) > 1)
