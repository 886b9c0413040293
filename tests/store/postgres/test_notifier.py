"""Which notifications are sent at once, which are delayed, and how they are shortened."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS
from flowfabric.store.postgres import notify as module
from flowfabric.store.postgres.effects import Effects
from flowfabric.store.postgres.notify import MAX_TOPICS, Notifier, message
from flowfabric.store.wakeups import Wakeups
from tests.patience import patience

from .helpers import until


def news(*topics: tuple[str, Any]) -> Effects:
    effects = Effects()
    effects.merge(topics, {})
    return effects


@asynccontextmanager
async def running() -> AsyncIterator[Notifier]:
    """A notifier that never connects."""

    async def never() -> Any:
        await asyncio.Event().wait()

    notifier = Notifier(never, Wakeups(), "x")
    notifier.start()
    yield notifier
    await notifier.stop()


async def test_lease_events_wait_for_other_notifications() -> None:
    async with running() as notifier:
        notifier.publish(news((LEASE_EVENTS, None)), 0)
        assert not notifier.will_send
        notifier.publish(news((COMPLETION_EVENTS, None)), 0)
        assert notifier.will_send
        assert set(notifier.pending.topics) == {(LEASE_EVENTS, None), (COMPLETION_EVENTS, None)}


async def test_lease_events_are_sent_after_the_maximum_delay() -> None:
    async with running() as notifier:
        for _ in range(3):
            notifier.publish(news((LEASE_EVENTS, None)), 0)
        assert not notifier.will_send
        await until(lambda: notifier.will_send)


async def test_a_due_time_soon_is_sent_at_once() -> None:
    async with running() as notifier:
        effects = news((LEASE_EVENTS, None))
        effects.due("delayed", 100)
        notifier.publish(effects, 0)
        assert notifier.will_send


def test_too_many_topics_are_sent_without_their_keys() -> None:
    many = news(("ready", "lane"), *(("frames", UUID(int=n)) for n in range(MAX_TOPICS + 1)))
    assert json.loads(message("me", many)) == ["me", [["ready", None], ["frames", None]], {}]
    long = news(*(("ready", f"{n}-{'x' * 200}") for n in range(MAX_TOPICS)))
    assert json.loads(message("me", long)) == ["me", [["ready", None]], {}]
    few = news(("ready", "lane"), ("frames", UUID(int=1)))
    assert json.loads(message("me", few)) == [
        "me",
        [["ready", "lane"], ["frames", [str(UUID(int=1))]]],
        {},
    ]


@pytest.mark.parametrize(
    "key",
    [UUID(int=1), str(UUID(int=1)), "lane", None],
    ids=["uuid", "uuid as text", "text", "none"],
)
async def test_a_topic_arrives_with_its_key(key: UUID | str | None) -> None:
    """A lane may be named by the text of a uuid, which is another key than the uuid."""
    async with running() as notifier:
        other = str(key) if isinstance(key, UUID) else UUID(int=1)
        with (
            notifier.hub.waiter(("frames", key)) as wanted,
            notifier.hub.waiter(("frames", other)) as unwanted,
        ):
            wanted.arm()
            unwanted.arm()
            notifier.on_notification(None, 0, "x", message("someone else", news(("frames", key))))
            assert await wanted.wait(10)
            assert key is None or not await unwanted.wait(0)


async def test_a_topic_without_a_key_wakes_the_waiters_of_all_keys() -> None:
    async with running() as notifier:
        with (
            notifier.hub.waiter(("ready", "a")) as mine,
            notifier.hub.waiter(("frames", UUID(int=1))) as other,
        ):
            notifier.on_notification(None, 0, "x", '["them", [["ready", null]], {}]')
            assert await mine.wait(5)
            assert not await other.wait(0)


class Line:
    """A connection whose messages and end are controlled by the test."""

    def __init__(self) -> None:
        self.hear: Any = None
        self.cut: Any = None
        self.is_cut = False
        self.ready = asyncio.Event()

    async def add_listener(self, _channel: str, hear: Any) -> None:
        self.hear = hear

    def add_termination_listener(self, cut: Any) -> None:
        self.cut = cut
        self.ready.set()

    def is_closed(self) -> bool:
        return self.is_cut

    async def execute(self, *_: object) -> None: ...

    async def close(self, timeout: float) -> None: ...

    def terminate(self) -> None: ...


async def test_listening_and_its_interruptions_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "flowfabric.postgres")
    monkeypatch.setattr(module, "LAST_RETRY_S", 0.001)
    monkeypatch.setattr(module, "FIRST_RETRY_S", 0.0001)
    first, second = Line(), Line()
    answers: list[Any] = [first, OSError(), OSError(), OSError(), second]

    async def connect() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    notifier = Notifier(connect, Wakeups(), "x")
    notifier.start()
    await asyncio.wait_for(first.ready.wait(), patience(10))
    first.hear(None, 0, "x", "not JSON")
    first.is_cut = True
    first.cut(None)
    await asyncio.wait_for(second.ready.wait(), patience(10))
    await notifier.stop()
    unavailable = "wake-ups of other processes are unavailable; waiters poll until the next try"
    assert [vars(each)["reason"] for each in caplog.records if hasattr(each, "reason")] == [
        "connection lost",
        *["OSError"] * 3,
    ]
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", "listening for wake-ups of other processes"),
        ("WARNING", "unreadable wake-up ignored"),
        ("WARNING", unavailable),
        *[("INFO", unavailable)] * 3,
        ("INFO", "listening for wake-ups of other processes"),
    ]
