"""A single process sends no notifications; a new one finds what it missed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flowfabric.connect import PostgresBackend, postgres_engine
from flowfabric.engine.claims.claims import POLL_S
from flowfabric.store.postgres import connections, presence
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.notify import CALLERS_TRANSACTION, Notifier
from flowfabric.store.postgres.presence import ANSWER_S, Presence
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.store.wakeups import Wakeups
from tests.engine.helpers import claim, create, fields, parked, worker

from .helpers import engine_on, until


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def alone() -> tuple[Presence, Time]:
    clock = Time()
    made = Presence(clock)
    assert made.begin() == "hello"
    clock.now = ANSWER_S
    assert not made.others_may_listen
    return made, clock


def test_others_may_listen_until_the_answer_time_is_over() -> None:
    clock = Time()
    made = Presence(clock)
    clock.now = 1e9
    assert made.others_may_listen, "it has not asked yet"
    made.begin()
    assert made.others_may_listen, "nobody has had the time to answer"
    clock.now += ANSWER_S
    assert not made.others_may_listen


@pytest.mark.parametrize("word", ["", "hello", "here", "look"])
def test_every_message_shows_that_its_sender_is_present(word: str) -> None:
    made, clock = alone()
    assert made.receive("b", word) == "look", "he may have missed something"
    clock.now += 1e6
    assert made.others_may_listen


def test_only_a_hello_is_answered() -> None:
    made, _ = alone()
    made.receive("b", "hello")
    assert [made.receive("c", word) for word in ("hello", "here", "look", "")] == [
        "here",
        "",
        "",
        "",
    ]


def test_a_process_that_left_is_not_notified() -> None:
    made, _ = alone()
    made.receive("b", "hello")
    made.receive("c", "hello")
    assert made.receive("b", "bye") == "" and made.others_may_listen
    assert made.receive("c", "bye") == "" and not made.others_may_listen
    assert made.receive("nobody", "bye") == ""


def test_hello_is_sent_again_after_an_interruption() -> None:
    made, clock = alone()
    assert made.begin() == "hello" and made.others_may_listen
    clock.now += ANSWER_S
    assert not made.others_may_listen


async def test_words_wake_all_waiters_and_are_not_counted_as_notifications() -> None:
    notifier = Notifier(_never, Wakeups(), "x")
    for word, rings in (("hello", True), ("look", True), ("here", False), ("bye", False)):
        with notifier.hub.waiter(("ready", "a")) as waiter:
            notifier.on_notification(None, 0, "x", f'["them", [], {{}}, "{word}"]')
            assert await waiter.wait(0) is rings, word
    assert notifier.received == 0


async def test_a_callers_transaction_does_not_count_as_a_listener() -> None:
    notifier = Notifier(_never, Wakeups(), "x")
    notifier.presence.begin()
    notifier.presence.alone_from = 0.0
    notifier.on_notification(None, 0, "x", f'["{CALLERS_TRANSACTION}", [["ready", "a"]], {{}}]')
    assert notifier.received == 1 and not notifier.presence.others_may_listen


async def _never() -> Any:
    await asyncio.Event().wait()


# ---- on a real server


def lonely(engine: PostgresBackend) -> Callable[[], bool]:
    return lambda: not engine.store.notifier.presence.others_may_listen


@pytest.fixture
def soon_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "ANSWER_S", 0.05)


@pytest.mark.usefixtures("soon_alone")
async def test_a_process_that_is_alone_sends_nothing_until_another_listens(
    options: Options,
) -> None:
    async with engine_on(options) as here:
        await until(lonely(here))
        sent = here.store.notifier.sent
        ident = await create(here)
        await here.complete(await claim(here))
        assert here.store.notifier.sent == sent
        async with engine_on(options) as there:
            await until(lambda: here.store.notifier.presence.others_may_listen)
            waiting = asyncio.ensure_future(there.claim("default", (), worker(max_wait_ms=60_000)))
            await parked(there, "ready", "default")
            began = asyncio.get_running_loop().time()
            ident = await create(here)
            handle = await waiting
            assert handle is not None and fields(handle).execution_id == ident
            assert asyncio.get_running_loop().time() - began < POLL_S / 2
            await until(
                lambda: here.store.notifier.sent > sent
            )  # the word of the newcomer may have woken him before the news
        await until(lonely(here))


@pytest.mark.usefixtures("soon_alone")
async def test_waiters_of_a_new_process_find_changes_it_was_not_notified_of(
    options: Options,
) -> None:
    """The new process waits for work before the other has received its hello."""
    async with engine_on(options) as here:
        await until(lonely(here))
        notifier, noticed = here.store.notifier, list[tuple[Any, ...]]()
        receive, notifier.on_notification = (
            notifier.on_notification,
            lambda *notice: noticed.append(notice),
        )  # type: ignore[method-assign]
        await notifier.stop()
        notifier.start()  # receives nothing for now
        await until(lambda: notifier.is_listening)
        await until(lonely(here))
        async with engine_on(options) as there:
            await until(
                lambda: any(
                    '"hello"' in notice[3] and notifier.id not in notice[3] for notice in noticed
                )
            )
            waiting = asyncio.ensure_future(there.claim("default", (), worker(max_wait_ms=60_000)))
            await parked(there, "ready", "default")
            began = asyncio.get_running_loop().time()
            ident = await create(here)
            assert notifier.sent == 0 and not waiting.done()
            for notice in noticed:
                receive(*notice)
            handle = await waiting
            assert handle is not None and fields(handle).execution_id == ident
            assert asyncio.get_running_loop().time() - began < POLL_S / 2


async def test_closing_sends_pending_notifications_before_the_notifier_connected(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is closed before its notifier has connected."""
    async with engine_on(options) as there:
        waiting = asyncio.ensure_future(there.claim("default", (), worker(max_wait_ms=60_000)))
        await parked(there, "ready", "default")
        connect, connected = connections.connect, asyncio.Event()

        async def slowly(given: Options, settings: Any = None, **more: Any) -> Any:
            if settings is connections.NOTIFIER_SETTINGS:
                await connected.wait()
            return await connect(given, settings, **more)

        monkeypatch.setattr(connections, "connect", slowly)
        began = asyncio.get_running_loop().time()
        short = postgres_engine(await PostgresStore(options).open())
        ident = await create(short)
        closing = asyncio.create_task(short.close())
        await until(lambda: short.store.notifier.is_leaving)
        connected.set()
        await closing
        handle = await waiting
        assert handle is not None and fields(handle).execution_id == ident
        assert asyncio.get_running_loop().time() - began < POLL_S / 2
