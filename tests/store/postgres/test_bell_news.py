"""What is told to other processes at once, what waits for other news, and what is said when there is too much to say."""

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

from .helpers import until


def news(*topics: tuple[str, Any]) -> Effects:
    effects = Effects()
    effects.merge(topics, {})
    return effects


@asynccontextmanager
async def running() -> AsyncIterator[Notifier]:
    """A notifier that takes news and sends nothing."""

    async def never() -> Any:
        await asyncio.Event().wait()

    notifier = Notifier(never, Wakeups(), "x")
    notifier.start()
    yield notifier
    await notifier.stop()


async def test_news_of_leases_waits_for_other_news() -> None:
    async with running() as notifier:
        notifier.publish(news((LEASE_EVENTS, None)), 0)
        assert not notifier.will_send
        notifier.publish(news((COMPLETION_EVENTS, None)), 0)
        assert notifier.will_send
        assert set(notifier.pending.topics) == {(LEASE_EVENTS, None), (COMPLETION_EVENTS, None)}


async def test_without_other_news_it_is_told_a_little_later() -> None:
    async with running() as notifier:
        for _ in range(3):
            notifier.publish(news((LEASE_EVENTS, None)), 0)
        assert not notifier.will_send
        await until(lambda: notifier.will_send)


async def test_what_is_due_soon_is_told_at_once() -> None:
    async with running() as notifier:
        effects = news((LEASE_EVENTS, None))
        effects.due("delayed", 100)
        notifier.publish(effects, 0)
        assert notifier.will_send


def test_too_many_to_name_are_told_without_their_keys() -> None:
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


async def test_what_is_told_without_a_key_is_for_everybody_who_waits_for_one() -> None:
    async with running() as notifier:
        with (
            notifier.hub.waiter(("ready", "a")) as mine,
            notifier.hub.waiter(("frames", UUID(int=1))) as other,
        ):
            notifier.on_notification(None, 0, "x", '["them", [["ready", null]], {}]')
            assert await mine.wait(5)
            assert not await other.wait(0)


class Line:
    """A connection on which nothing is heard but what the test says, and which the test can cut."""

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


async def test_what_becomes_of_the_listening_is_logged(
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
    await asyncio.wait_for(first.ready.wait(), 10)
    first.hear(None, 0, "x", "not JSON")
    first.is_cut = True
    first.cut(None)
    await asyncio.wait_for(second.ready.wait(), 10)
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
