"""The fallback of waiting claims: one poll per queue for all claims of this process.

A poll asks whether the queue has any work, whatever its required capabilities, so workers of every
kind share the answer. Each claimer then claims for itself.
"""

from __future__ import annotations

import asyncio
import time

from flowfabric.store.port import Scan, Store

MAX_LANES = 10_000
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

    def wait_s(self, queue: Queue, since: float, every_s: float) -> float:
        """The time until the next poll of a queue, for a claimer that knows it as of `since`."""
        last = self.polls.get(queue)
        now = time.monotonic()
        shared = last.began + every_s if last is not None else now
        return (shared if shared > now else since + every_s) - now

    async def poll(self, queue: Queue, since: float) -> tuple[bool, float]:
        """Whether the queue has work, and when the poll began, which is after `since`."""
        last = self.polls.get(queue)
        if last is None or last.began <= since or last.failed:
            if len(self.polls) >= MAX_LANES:
                self.polls.clear()
            last = self.polls[queue] = _Poll(asyncio.ensure_future(self._has_work(*queue)))
        return await asyncio.shield(last.answer), last.began

    async def _has_work(self, lane: str, namespace: str | None) -> bool:
        """Work behind a gate counts: only a claim can tell whether the gate is open."""
        index, group = (
            ("ready_namespaces", {"lane_id": lane})
            if namespace is None
            else ("ready_gates", {"lane_id": lane, "namespace": namespace})
        )
        loaded = await self._store.load((Scan(index, group, limit=1, columns=("execution_id",)),))
        return any(loaded.rows)
