"""Long polls: each call waits for a bounded time and returns where the next one continues."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from flowfabric.codec import frame_id
from flowfabric.engine import validation
from flowfabric.engine.claims.idle_poll import IdlePoll
from flowfabric.engine.core import Core
from flowfabric.engine.events import subscriptions
from flowfabric.engine.events.event_reader import EventReader
from flowfabric.engine.streams.streams import FOLLOWED_PAGE, Page, Streams, key_of, visible
from flowfabric.engine.workers.steps import Steps
from flowfabric.errors import StreamBackpressure, invalid
from flowfabric.ids import ExecutionId
from flowfabric.model.event import COMPLETION_EVENTS, Channel, EventPage, ScannerFilter
from flowfabric.model.execution import ExecutionOutcome
from flowfabric.model.stream import MAX_TAIL_BLOCK_MS, FollowedPage, StreamFrame, Visibility

MAX_POLL_MS = 30_000
OUTCOME_POLL_S = 5.0
"""The outcome is read again after this time, in case a wake-up is lost."""
MAX_EVENTS = 1_000
MAX_POLLED_LANES = 256
CHANNELS: dict[Channel, subscriptions.EventChannel[Any]] = {
    each.channel: each
    for each in (
        subscriptions.COMPLETIONS,
        subscriptions.LEASES,
        subscriptions.OPERATORS,
        subscriptions.SIGNALS,
    )
}
ReadPage = Callable[[int, str], Awaitable[FollowedPage]]


class LongPoll:
    def __init__(
        self,
        core: Core,
        streams: Streams,
        steps: Steps,
        idle_poll: IdlePoll,
        events: EventReader,
    ) -> None:
        self._store, self._events = core.store, events
        self._streams, self._steps, self._idle_poll = streams, steps, idle_poll

    async def wait_for_work(
        self,
        lanes: Sequence[str],
        seen: int | None = None,
        wait_ms: int = 0,
        namespace: str | None = "default",
    ) -> int:
        """The number of wake-ups of these lanes, once it differs from `seen` and there is work.

        Returns `seen` when the time is up, or when a quota of these lanes opens.
        """
        wait_s = validation.whole(wait_ms, "wait_ms", 0, MAX_POLL_MS) / 1_000
        if not 1 <= len(lanes) <= MAX_POLLED_LANES:
            raise invalid("lanes", f"1 to {MAX_POLLED_LANES} lanes", len(lanes))
        until = time.monotonic() + wait_s
        hub = self._store.hub
        with await self._steps.work_bell(*lanes, namespace=namespace) as waiter:
            while True:
                waiter.arm()
                asked = time.monotonic()
                count = sum(map(hub.follow, waiter.topics))
                if seen is None or (
                    count != seen and await self._has_work(lanes, namespace, asked)
                ):
                    return count
                is_over = not await waiter.wait(max(until - time.monotonic(), 0))
                if is_over or sum(map(hub.follow, waiter.topics)) == count:
                    return seen

    async def _has_work(self, lanes: Sequence[str], namespace: str | None, asked: float) -> bool:
        """A lane wakes the workers of all namespaces; those of the others must not return."""
        for lane in lanes:
            found, _ = await self._idle_poll.poll((lane, namespace), asked)
            if found:
                return True
        return False

    async def wait_for_outcome(
        self, execution: ExecutionId, wait_ms: int = 0
    ) -> ExecutionOutcome | None:
        """The state of an execution when it has ended or the time is up; None without it."""
        until = time.monotonic() + validation.whole(wait_ms, "wait_ms", 0, MAX_POLL_MS) / 1_000
        with self._store.hub.waiter((COMPLETION_EVENTS, None)) as waiter:
            while True:
                waiter.arm()
                found = await self._steps.read_outcome(execution)
                left = until - time.monotonic()
                if found is None or found.ended or left <= 0:
                    return found
                await waiter.wait(min(left, OUTCOME_POLL_S))

    async def read_events(
        self,
        channel: Channel,
        cursor: bytes = b"",
        limit: int = 100,
        wait_ms: int = 0,
        wanted: ScannerFilter | None = None,
    ) -> EventPage:
        """Events after a cursor; waits up to `wait_ms` for the first. An empty cursor means now."""
        size = validation.whole(limit, "limit", 1, MAX_EVENTS)
        wait_s = validation.whole(wait_ms, "wait_ms", 0, MAX_POLL_MS) / 1_000
        subscription = await subscriptions.subscribe(
            self._store, self._events, CHANNELS[Channel(channel)], cursor, wanted
        )
        trimmed = False
        try:
            events = await subscription.page(size, wait_s) if cursor else []
        except StreamBackpressure:
            trimmed = True
            subscription.pass_over_trimmed()
            events = await subscription.page(size, 0)
        return EventPage(**{channel.value: events}, cursor=subscription.cursor, trimmed=trimmed)

    async def read_followed(
        self,
        execution: ExecutionId,
        attempt_index: int = 0,
        after: str = "0-0",
        visibility: Visibility = Visibility.All,
        later_attempts: bool = True,
        block_ms: int = 0,
    ) -> FollowedPage:
        """The next frames of a followed stream, and where it continues.

        That is the same attempt, a later one, or nowhere.
        """
        wait_s = validation.whole(block_ms, "block_ms", 0, MAX_TAIL_BLOCK_MS) / 1_000

        def enough(page: Page) -> bool:
            return (
                page.ended
                or (page.is_over and not later_attempts)
                or page.current_attempt > attempt_index
            )

        key = key_of(execution, attempt_index)
        page = await self._streams.tail(
            key, frame_id.after(after), wait_s, FOLLOWED_PAGE, visible(visibility), enough
        )
        if page.frames:
            return FollowedPage(page.frames, attempt_index, page.frames[-1].id)
        if not enough(page):
            return FollowedPage((), attempt_index, after)
        later = later_attempts and page.current_attempt > attempt_index
        return (
            FollowedPage((), attempt_index + 1, "0-0") if later else FollowedPage((), None, after)
        )

    def follow_stream(
        self,
        execution: ExecutionId,
        attempt_index: int = 0,
        after: str = "0-0",
        visibility: Visibility = Visibility.All,
        *,
        later_attempts: bool = True,
    ) -> AsyncIterator[tuple[int, StreamFrame]]:
        """Each frame with the index of its attempt, until the end of the execution or attempt.

        To continue later, pass the attempt and the id of the last frame.
        """
        return followed(
            lambda attempt, cursor: self.read_followed(
                execution, attempt, cursor, visibility, later_attempts, MAX_TAIL_BLOCK_MS
            ),
            attempt_index,
            after,
        )


async def followed(
    read: ReadPage, attempt_index: int, after: str
) -> AsyncIterator[tuple[int, StreamFrame]]:
    """Reads page after page, until a page has no next one."""
    attempt: int | None = attempt_index
    while attempt is not None:
        page = await read(attempt, after)
        for frame in page.frames:
            yield attempt, frame
        attempt, after = page.next_attempt, page.next_after
