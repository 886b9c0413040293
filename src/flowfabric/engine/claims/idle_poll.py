"""The net under waiting claims: one of them looks whether there is anything in the lane at all, for all of this process.

It is asked by namespace, and without regard to who may take it there, so that workers of every kind share the answer. Each then
asks for itself.
"""

from __future__ import annotations

import asyncio
import time

from flowfabric.store.port import Scan, Store

MAX_LANES = 10_000
Place = tuple[str, str | None]
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
    """One per engine. The last look at each place, under way or answered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: dict[Place, _Poll] = {}

    def wait_s(self, place: Place, since: float, every_s: float) -> float:
        """How long one may sleep who knows the place as of `since`: until the next look at it, which all of them wake up for."""
        last = self._last.get(place)
        now = time.monotonic()
        shared = last.began + every_s if last is not None else now
        return (shared if shared > now else since + every_s) - now

    async def look(self, place: Place, since: float) -> tuple[bool, float]:
        """Whether there may be anything, and as of when; from a look that began after `since`."""
        last = self._last.get(place)
        if last is None or last.began <= since or last.failed:
            if len(self._last) >= MAX_LANES:
                self._last.clear()
            last = self._last[place] = _Poll(asyncio.ensure_future(self._is_anything_there(*place)))
        return await asyncio.shield(last.answer), last.began

    async def _is_anything_there(self, lane: str, namespace: str | None) -> bool:
        """In the plain queue, or in one behind a gate, where only a claim can tell."""
        if namespace is None:
            read = Scan("ready_namespaces", {"lane_id": lane}, limit=1, columns=("execution_id",))
        else:
            read = Scan(
                "ready_gates",
                {"lane_id": lane, "namespace": namespace},
                limit=1,
                columns=("execution_id",),
            )
        return bool((await self._store.load((read,))).rows[0])
