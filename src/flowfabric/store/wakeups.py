"""Wake-ups inside one process. A hint only: who is woken looks again, and the rows are the truth."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, Protocol

Topic = tuple[str, Any]


class WorkWaiter(Protocol):
    """Waits for work, locally or on a server. Enter it, arm it, look for work, then wait."""

    topics: tuple[Topic, ...]

    def __enter__(self) -> WorkWaiter: ...

    def __exit__(self, *_: object) -> None: ...

    def arm(self) -> None: ...

    def ring(self) -> None: ...

    async def wait(self, timeout_s: float | None) -> bool: ...


class Waiter:
    """Rings at most once per wait. Arm it, look, then wait: nothing that happens in between is missed."""

    __slots__ = ("_event", "_hub", "_loop", "topics")

    def __init__(self, hub: Wakeups, topics: tuple[Topic, ...]) -> None:
        self._hub, self.topics = hub, topics
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def __enter__(self) -> Waiter:
        with self._hub.lock:
            for topic in self.topics:
                self._hub.waiters.setdefault(topic, set()).add(self)
        return self

    def __exit__(self, *_: object) -> None:
        with self._hub.lock:
            for topic in self.topics:
                waiting = self._hub.waiters.get(topic)
                if waiting is not None:
                    waiting.discard(self)
                    if not waiting:
                        del self._hub.waiters[topic]

    def arm(self) -> None:
        self._event.clear()

    def ring(self) -> None:
        """Safe from any thread."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            self._event.set()
            return
        with suppress(RuntimeError):  # that loop is closed; nobody waits there any more
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout_s: float | None) -> bool:
        """True when rung, False when the time is up."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class Wakeups:
    """Who waits for what, how often what is followed has rung, and when each timer topic was last said to be due.

    Shared by event loops of several threads: the loops have their own.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiters: dict[Topic, set[Waiter]] = {}
        self.counts: dict[Topic, int] = {}
        self._planned: dict[str, float] = {}
        self._heard: dict[str, float] = {}

    def waiter(self, *topics: Topic) -> Waiter:
        return Waiter(self, topics)

    def follow(self, topic: Topic) -> int:
        """How often it has rung since somebody began to ask: who keeps something at hand sees that it may be outdated."""
        return self.counts.setdefault(topic, 0)

    def ring(self, topics: Iterable[Topic]) -> None:
        for topic in topics:
            if topic in self.counts:
                self.counts[topic] += 1
            for waiter in tuple(self.waiters.get(topic, ())):
                waiter.ring()

    def _topics(self) -> dict[Topic, None]:
        """Copied in one breath each, for this may be another thread's."""
        return dict.fromkeys(tuple(self.waiters) + tuple(self.counts))

    def ring_named(self, names: Collection[str]) -> None:
        """Everybody who waits for these, whatever the key."""
        self.ring([topic for topic in self._topics() if topic[0] in names])

    def ring_all(self) -> None:
        self.ring(self._topics())

    def ring_all_but_timers(self) -> None:
        """For changes nobody described: a loop keeps its own time, and its interval is the net."""
        self.ring([topic for topic in self._topics() if topic[0] not in self._planned])

    def listen(self, timer: str) -> None:
        """A pass of the loop behind a timer begins: what is said from now on is kept for its end."""
        with self.lock:
            self._planned[timer] = float("-inf")
            self._heard[timer] = float("inf")

    def plan(self, timer: str, at_ms: float) -> float:
        """The pass is over and the loop will look again at this time, or at one it was told of meanwhile."""
        with self.lock:
            self._planned[timer] = planned = min(at_ms, self._heard.pop(timer, at_ms))
        return planned

    def announce(self, topics: Iterable[Topic], dues: dict[str, int]) -> None:
        """What a commit touched."""
        for timer, at_ms in dues.items():
            self.due(timer, at_ms)
        self.ring(topics)

    def due(self, timer: str, at_ms: float) -> None:
        """Only something earlier than planned has to wake the loop."""
        with self.lock:
            if timer in self._heard:
                self._heard[timer] = min(self._heard[timer], at_ms)
            if at_ms >= self._planned.get(timer, float("inf")):
                return
            self._planned[timer] = at_ms
        self.ring(((timer, None),))
