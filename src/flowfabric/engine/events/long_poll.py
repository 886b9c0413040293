"""Waiting in turns, for callers who cannot be called back: each call waits a while and says where
the next one goes on.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from flowfabric.codec import frame_id
from flowfabric.engine import validation
from flowfabric.engine.claims.idle_poll import IdlePoll
from flowfabric.engine.core import Core
from flowfabric.engine.events.subscriptions import Subscription, Subscriptions
from flowfabric.engine.streams.streams import FOLLOWED_PAGE, Page, Streams, key_of, visible
from flowfabric.engine.workers.steps import Steps
from flowfabric.errors import StreamBackpressure, invalid
from flowfabric.ids import ExecutionId
from flowfabric.model.event import COMPLETION_EVENTS, Channel, EventPage, ScannerFilter
from flowfabric.model.execution import ExecutionOutcome
from flowfabric.model.stream import MAX_TAIL_BLOCK_MS, FollowedPage, StreamFrame, Visibility

MAX_POLL_MS = 30_000
LOOK_S = 5.0
"""The longest sleep: a lost wake-up delays a waiter no longer than this."""
MAX_EVENTS = 1_000
MAX_POLLED_LANES = 256
Ask = Callable[[int, str], Awaitable[FollowedPage]]


class LongPoll:
    """Waits in bounded calls, for clients that cannot be called back."""

    def __init__(
        self,
        core: Core,
        subscriptions: Subscriptions,
        streams: Streams,
        steps: Steps,
        idle_poll: IdlePoll,
    ) -> None:
        self._store = core.store
        self._subscriptions, self._streams, self._steps, self._idle_poll = (
            subscriptions,
            streams,
            steps,
            idle_poll,
        )

    async def wait_for_work(
        self,
        lanes: Sequence[str],
        seen: int | None = None,
        wait_ms: int = 0,
        namespace: str | None = "default",
    ) -> int:
        """How often there may have been new work in these lanes, as soon as that is not `seen` any
        more and something of the
        namespace is there; `seen` again when the time is up, or when a quota of these lanes opens
        meanwhile.
        """
        wait_s = validation.whole(wait_ms, "wait_ms", 0, MAX_POLL_MS) / 1_000
        if not 1 <= len(lanes) <= MAX_POLLED_LANES:
            raise invalid("lanes", f"1 to {MAX_POLLED_LANES} lanes", len(lanes))
        until = time.monotonic() + wait_s
        hub = self._store.hub
        with await self._steps.work_bell(*lanes, namespace=namespace) as bell:
            while True:
                bell.arm()
                asked = time.monotonic()
                count = sum(map(hub.follow, bell.topics))
                if seen is None or (
                    count != seen and await self._is_anything_there(lanes, namespace, asked)
                ):
                    return count
                is_over = not await bell.wait(max(until - time.monotonic(), 0))
                if is_over or sum(map(hub.follow, bell.topics)) == count:
                    return seen

    async def _is_anything_there(
        self, lanes: Sequence[str], namespace: str | None, asked: float
    ) -> bool:
        """The lanes ring for every namespace: without this, what one of them submits would keep the
        workers of all awake.
        """
        for lane in lanes:
            if (await self._idle_poll.poll((lane, namespace), asked))[0]:
                return True
        return False

    async def wait_for_outcome(
        self, execution: ExecutionId, wait_ms: int = 0
    ) -> ExecutionOutcome | None:
        """How an execution stands, as soon as it has ended, or when the time is up. None if there
        is no such execution.
        """
        until = time.monotonic() + validation.whole(wait_ms, "wait_ms", 0, MAX_POLL_MS) / 1_000
        with self._store.hub.waiter((COMPLETION_EVENTS, None)) as bell:
            while True:
                bell.arm()
                found = await self._steps.read_outcome(execution)
                left = until - time.monotonic()
                if found is None or found.ended or left <= 0:
                    return found
                await bell.wait(min(left, LOOK_S))

    async def read_events(
        self,
        channel: Channel,
        cursor: bytes = b"",
        limit: int = 100,
        wait_ms: int = 0,
        wanted: ScannerFilter | None = None,
    ) -> EventPage:
        """Events behind a cursor, waiting for the first of them at most so long. An empty cursor
        stands for now.
        """
        size = validation.whole(limit, "limit", 1, MAX_EVENTS)
        wait_s = validation.whole(wait_ms, "wait_ms", 0, MAX_POLL_MS) / 1_000
        subscription = await self._channel(channel)(cursor, wanted)
        trimmed = False
        try:
            events = await subscription.page(size, wait_s) if cursor else []
        except StreamBackpressure:
            trimmed = True
            subscription.pass_over_trimmed()
            events = await subscription.page(size, 0)
        return EventPage(**{channel.value: events}, cursor=subscription.cursor, trimmed=trimmed)

    def _channel(
        self, channel: Channel
    ) -> Callable[[bytes, ScannerFilter | None], Subscription[Any]]:
        found: dict[Channel, Callable[[bytes, ScannerFilter | None], Subscription[Any]]] = {
            Channel.COMPLETIONS: self._subscriptions.subscribe_completion,
            Channel.LEASES: self._subscriptions.subscribe_lease_history,
            Channel.SIGNALS: self._subscriptions.subscribe_signal_delivery,
            Channel.OPERATORS: self._subscriptions.subscribe_operator_events,
        }
        return found[Channel(channel)]

    async def read_followed(
        self,
        execution: ExecutionId,
        attempt_index: int = 0,
        after: str = "0-0",
        visibility: Visibility = Visibility.All,
        later_attempts: bool = True,
        block_ms: int = 0,
    ) -> FollowedPage:
        """The next frames of a stream that is followed, and where it goes on: the same attempt, a
        later one, or nowhere.
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
        """Each frame with the index of its attempt, until there can be no more: the execution has
        ended, or the attempt has.

        To go on after a break, give the attempt and the id of the last frame seen.
        """
        return followed(
            lambda at, behind: self.read_followed(
                execution, at, behind, visibility, later_attempts, MAX_TAIL_BLOCK_MS
            ),
            attempt_index,
            after,
        )


async def followed(
    ask: Ask, attempt_index: int, after: str
) -> AsyncIterator[tuple[int, StreamFrame]]:
    """Page after page, until a page says that there is no next."""
    at: int | None = attempt_index
    while at is not None:
        page = await ask(at, after)
        for frame in page.frames:
            yield at, frame
        at, after = page.next_attempt, page.next_after
