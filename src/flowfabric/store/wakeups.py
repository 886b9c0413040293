"""Wake-ups inside one process. They are hints: a woken waiter reads the rows again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, Protocol

Topic = tuple[str, Any]


class WorkWaiter(Protocol):
    """Waits for work, locally or on a server. Enter it, arm it, check for work, then wait."""

    topics: tuple[Topic, ...]

    def __enter__(self) -> WorkWaiter: ...

    def __exit__(self, *_: object) -> None: ...

    def arm(self) -> None: ...

    def ring(self) -> None: ...

    async def wait(self, timeout_s: float | None) -> bool: ...


class Waiter:
    """Arm it, read the rows, then wait: a change in between is not missed."""

    __slots__ = ("_event", "_hub", "_loop", "_waits", "topics")

    def __init__(self, hub: Wakeups, topics: tuple[Topic, ...]) -> None:
        self._hub, self.topics = hub, topics
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._waits = False

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
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout_s: float | None) -> bool:
        """True when rung, False at the timeout."""
        self._waits = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        finally:
            self._waits = False
        return True

    @property
    def is_asleep(self) -> bool:
        """It waits, and has not been rung."""
        return self._waits and not self._event.is_set()


class Wakeups:
    """Waiters by topic, counts of followed topics, and the planned time of each timer topic.

    Event loops of several threads share it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiters: dict[Topic, set[Waiter]] = {}
        self.counts: dict[Topic, int] = {}
        self._planned: dict[str, float] = {}
        self._due_during_pass: dict[str, float] = {}

    def waiter(self, *topics: Topic) -> Waiter:
        return Waiter(self, topics)

    def follow(self, topic: Topic) -> int:
        """How often the topic has rung since the first call; a change outdates a cached value."""
        return self.counts.setdefault(topic, 0)

    def ring(self, topics: Iterable[Topic]) -> None:
        for topic in topics:
            if topic in self.counts:
                self.counts[topic] += 1
            for waiter in tuple(self.waiters.get(topic, ())):
                waiter.ring()

    def _topics(self) -> dict[Topic, None]:
        """Each dict is copied in one step, since another thread may change it."""
        return dict.fromkeys(tuple(self.waiters) + tuple(self.counts))

    def ring_named(self, names: Collection[str]) -> None:
        """All topics of these names, with any key."""
        self.ring([topic for topic in self._topics() if topic[0] in names])

    def ring_all(self) -> None:
        self.ring(self._topics())

    def ring_all_but_timers(self) -> None:
        """For changes of unknown extent: timer loops wake up at their own interval."""
        self.ring([topic for topic in self._topics() if topic[0] not in self._planned])

    def listen(self, timer: str) -> None:
        """A pass of the timer's loop begins: due times from now on are kept for its end."""
        with self.lock:
            self._planned[timer] = float("-inf")
            self._due_during_pass[timer] = float("inf")

    def plan(self, timer: str, at_ms: float) -> float:
        """The pass ends; the loop wakes up at this time, or earlier if one came due meanwhile."""
        with self.lock:
            self._planned[timer] = planned = min(at_ms, self._due_during_pass.pop(timer, at_ms))
        return planned

    def announce(self, topics: Iterable[Topic], dues: dict[str, int]) -> None:
        """Wakes the waiters of what a commit changed."""
        for timer, at_ms in dues.items():
            self.due(timer, at_ms)
        self.ring(topics)

    def due(self, timer: str, at_ms: float) -> None:
        """Wakes the loop only for a time earlier than planned."""
        with self.lock:
            if timer in self._due_during_pass:
                self._due_during_pass[timer] = min(self._due_during_pass[timer], at_ms)
            if at_ms >= self._planned.get(timer, float("inf")):
                return
            self._planned[timer] = at_ms
        self.ring(((timer, None),))
