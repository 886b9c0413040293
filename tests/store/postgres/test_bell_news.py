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
from flowfabric.store.postgres.executor import Effects
from flowfabric.store.postgres.notify import MAX_TOPICS, Notifier, message
from flowfabric.store.wakeups import Wakeups


def news(*topics: tuple[str, Any]) -> Effects:
    effects = Effects()
    effects.merge(topics, {})
    return effects


@asynccontextmanager
async def running() -> AsyncIterator[Notifier]:
    """A bell that takes news and sends nothing."""

    async def never() -> Any:
        await asyncio.Event().wait()

    bell = Notifier(never, Wakeups(), "x")
    bell.start()
    yield bell
    await bell.stop()


async def test_news_of_leases_waits_for_other_news() -> None:
    async with running() as bell:
        bell.tell(news((LEASE_EVENTS, None)), 0)
        assert not bell._wanted.is_set()
        bell.tell(news((COMPLETION_EVENTS, None)), 0)
        assert bell._wanted.is_set()
        assert set(bell._pending.topics) == {(LEASE_EVENTS, None), (COMPLETION_EVENTS, None)}


async def test_without_other_news_it_is_told_a_little_later() -> None:
    async with running() as bell:
        for _ in range(3):
            bell.tell(news((LEASE_EVENTS, None)), 0)
        await asyncio.wait_for(bell._wanted.wait(), 10)
        assert bell._later is None


async def test_what_is_due_soon_is_told_at_once() -> None:
    async with running() as bell:
        effects = news((LEASE_EVENTS, None))
        effects.due("delayed", 100)
        bell.tell(effects, 0)
        assert bell._wanted.is_set()


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


@pytest.mark.parametrize(
    "key",
    [UUID(int=1), str(UUID(int=1)), "lane", None],
    ids=["uuid", "uuid as text", "text", "none"],
)
async def test_a_topic_arrives_with_the_key_it_was_told_with(key: UUID | str | None) -> None:
    """A lane may be named by the text of a uuid, which is another key than the uuid."""
    async with running() as bell:
        other = str(key) if isinstance(key, UUID) else UUID(int=1)
        with (
            bell._hub.waiter(("frames", key)) as wanted,
            bell._hub.waiter(("frames", other)) as unwanted,
        ):
            wanted.arm()
            unwanted.arm()
            bell._on_notice(None, 0, "x", message("someone else", news(("frames", key))))
            assert await wanted.wait(10)
            assert key is None or not await unwanted.wait(0)


async def test_what_is_told_without_a_key_is_for_everybody_who_waits_for_one() -> None:
    async with running() as bell:
        with (
            bell._hub.waiter(("ready", "a")) as mine,
            bell._hub.waiter(("frames", UUID(int=1))) as other,
        ):
            bell._on_notice(None, 0, "x", '["them", [["ready", null]], {}]')
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

    bell = Notifier(connect, Wakeups(), "x")
    bell.start()
    await asyncio.wait_for(first.ready.wait(), 10)
    first.hear(None, 0, "x", "not JSON")
    first.is_cut = True
    first.cut(None)
    await asyncio.wait_for(second.ready.wait(), 10)
    await bell.stop()
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", "listening for wake-ups of other processes"),
        ("WARNING", "a wake-up that cannot be read is passed over"),
        (
            "WARNING",
            "no wake-ups between processes for now (connection lost); looking now and then instead",
        ),
        *[("INFO", "no wake-ups between processes for now (OSError); looking now and then instead")]
        * 3,
        ("INFO", "listening for wake-ups of other processes"),
    ]
