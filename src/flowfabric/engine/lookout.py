"""The net under waiting claims: one of them looks whether there is anything in the lane at all, for all of this process.

It is asked without regard to who may take it, so that workers of every kind share the answer. Each then asks for itself.
"""

from __future__ import annotations

import asyncio
import time

from flowfabric.store.port import Scan, Store

MAX_LANES = 10_000


class _Look:
    __slots__ = ("answer", "began")

    def __init__(self, answer: asyncio.Future[bool]) -> None:
        self.answer, self.began = answer, time.monotonic()

    @property
    def failed(self) -> bool:
        return self.answer.done() and (self.answer.cancelled() or self.answer.exception() is not None)


class Lookout:
    """One per engine. The last look at each lane, under way or answered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: dict[str, _Look] = {}

    def wait_s(self, lane: str, since: float, every_s: float) -> float:
        """How long one may sleep who knows the lane as of `since`: until the next look at it, which all of them wake up for."""
        last = self._last.get(lane)
        now = time.monotonic()
        shared = last.began + every_s if last is not None else now
        return (shared if shared > now else since + every_s) - now

    async def look(self, lane: str, since: float) -> tuple[bool, float]:
        """Whether there may be anything, and as of when; from a look that began after `since`."""
        last = self._last.get(lane)
        if last is None or last.began <= since or last.failed:
            if len(self._last) >= MAX_LANES:
                self._last.clear()
            last = self._last[lane] = _Look(asyncio.ensure_future(self._is_anything_there(lane)))
        return await asyncio.shield(last.answer), last.began

    async def _is_anything_there(self, lane: str) -> bool:
        """In its plain queue, or in one behind a gate, where only a claim can tell."""
        gates = Scan("lane_gates", {"lane_id": lane}, limit=1, columns=("gate",))
        ready = Scan("ready", {"lane_id": lane, "gate": ""}, limit=1, columns=("execution_id",))
        return any((await self._store.load((gates, ready))).rows)
