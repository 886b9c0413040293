"""The fallback of waiting claims: one poll per queue for all claims of this process.

A poll asks whether the queue has any work, whatever its required capabilities, so workers of every
kind share the answer. Each claimer then claims for itself. The polls of all queues fall on the same
moments and share round trips, so that a thousand idle lanes cost no more statements than one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from flowfabric.engine.batcher import Batcher
from flowfabric.engine.moments import moment_before
from flowfabric.store.port import Scan, Store

MAX_LANES = 10_000
MAX_POLLS = 200
"""Queues in one round trip."""
Queue = tuple[str, str | None]
"""A lane, and a namespace or None for all of them."""


class _Poll:
    __slots__ = ("answer", "began")

    def __init__(self, answer: asyncio.Future[bool]) -> None:
        self.answer, self.began = answer, time.monotonic()

    @property
    def failed(self) -> bool:
        return self.answer.done() and (
            self.answer.cancelled() or self.answer.exception() is not None
        )


class IdlePoll:
    """One per engine. Keeps the last poll of each queue, running or answered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.polls: dict[Queue, _Poll] = {}
        """At most `MAX_LANES`."""
        self._batcher: Batcher[None, Queue, bool] = Batcher(
            lambda _, queues: self._have_work(queues), MAX_POLLS
        )

    def wait_s(self, queue: Queue, since: float, every_s: float) -> float:
        """The time until the next poll of a queue, for a claimer that knows it as of `since`."""
        last = self.polls.get(queue)
        now = time.monotonic()
        shared = last.began + every_s if last is not None else now
        due = shared if shared > now else since + every_s
        return moment_before(due, every_s, now) - now

    async def poll(self, queue: Queue, since: float) -> tuple[bool, float]:
        """Whether the queue has work, and when the poll began, which is after `since`."""
        last = self.polls.get(queue)
        if last is None or last.began <= since or last.failed:
            if len(self.polls) >= MAX_LANES:
                self.polls.clear()
            last = self.polls[queue] = _Poll(self._batcher.submit(None, queue))
        return await asyncio.shield(last.answer), last.began

    async def _have_work(self, queues: Sequence[Queue]) -> list[bool]:
        """Work behind a gate counts: only a claim can tell whether the gate is open."""
        loaded = await self._store.load([_scan(*queue) for queue in queues])
        return [bool(rows) for rows in loaded.rows]


def _scan(lane: str, namespace: str | None) -> Scan:
    if namespace is None:
        return Scan("ready_namespaces", {"lane_id": lane}, limit=1, columns=("execution_id",))
    group = {"lane_id": lane, "namespace": namespace}
    return Scan("ready_gates", group, limit=1, columns=("execution_id",))
