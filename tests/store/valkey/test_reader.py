"""Connections of several event loops in one process do not depend on each other."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest

from flowfabric.errors import TransportError
from flowfabric.store.valkey.options import Options
from flowfabric.store.valkey.reader import _Answers
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import helpers as h
from flowfabric.testing.postgres import free_port
from tests import valkey
from tests.patience import patience

TWO_LOOPS = """
import asyncio, sys, threading
from flowfabric.store.valkey.options import options_of
from flowfabric.store.valkey.store import ValkeyStore

first_is_over = threading.Event()

async def first(ready, other):
    store = await ValkeyStore(options_of(sys.argv[1])).open()
    other.start()
    await asyncio.to_thread(ready.wait)
    await store.close()

async def second(ready):
    store = await ValkeyStore(options_of(sys.argv[1])).open()
    ready.set()
    await asyncio.to_thread(first_is_over.wait)
    await store.now_ms()
    await store.close()
    print("answered", flush=True)

ready = threading.Event()
other = threading.Thread(target=lambda: asyncio.run(second(ready)))
asyncio.run(first(ready, other))
first_is_over.set()
other.join()
"""
"""The event loop of the first connection ends while another is in use."""
OWN_CLIENT = """
import asyncio, sys
from glide import GlideClient, GlideClientConfiguration, NodeAddress
from flowfabric.store.valkey.options import options_of
from flowfabric.store.valkey.store import ValkeyStore

options = options_of(sys.argv[1])

async def own():
    address = NodeAddress(options.host, options.port)
    return await GlideClient.create(GlideClientConfiguration([address]))

async def ours():
    store = await ValkeyStore(options).open()
    await store.now_ms()
    await store.close()
    print("answered", flush=True)

stopped = asyncio.new_event_loop()
client = stopped.run_until_complete(own())
asyncio.run(ours())
assert stopped.run_until_complete(client.ping()) == b"PONG"
"""
"""The program has a client of its own, on an event loop that is not running."""


async def test_a_blocked_event_loop_holds_up_no_other() -> None:
    options = valkey.new_store(ManualClock()).options
    here = await ValkeyStore(options).open()
    ready: Future[None] = Future()

    def other() -> None:
        async def work() -> None:
            store = await ValkeyStore(options).open()
            for _ in range(10):
                await store.now_ms()
            await store.close()

        asyncio.run(work())
        ready.set_result(None)

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    ready.result(patience(20))  # no answer is read on this event loop meanwhile
    thread.join()
    await here.close()


@pytest.mark.parametrize("program", [TWO_LOOPS, OWN_CLIENT], ids=["ended", "not-running"])
def test_an_event_loop_without_answers_takes_none_from_others(program: str) -> None:
    url = valkey.server().url_of("two-loops")
    command = [sys.executable, "-c", program, url]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=patience(60), check=False
    )
    assert done.stdout == "answered\n", done.stderr


def test_a_store_serves_one_event_loop_after_another(clock: ManualClock) -> None:
    """The first loop is closed in the middle of a commit."""
    store = valkey.new_store(clock)
    first = asyncio.new_event_loop()
    first.run_until_complete(h.put(store, h.execution(1)))
    left = first.create_task(store.commit(h.execution(2)))
    first.run_until_complete(asyncio.sleep(0))
    pending = asyncio.all_tasks(first)
    for task in pending:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    first.close()

    async def again() -> int:
        await h.put(store, h.execution(3))
        found = await h.count(store, h.EXEC)
        await store.close()
        return found

    assert asyncio.run(asyncio.wait_for(again(), patience(20))) in (2, 3)
    assert not left.done()
    for task in (left, *pending):
        task.get_coro().close()  # type: ignore[union-attr]


async def test_an_answer_that_comes_too_late_is_dropped() -> None:
    loop = asyncio.get_running_loop()
    problems: list[object] = []
    loop.set_exception_handler(lambda _, context: problems.append(context))
    answers, future = _Answers(loop), loop.create_future()
    future.cancel()
    answers.call_soon_threadsafe(future.set_result, b"late")
    await asyncio.sleep(0)
    assert problems == []
    closed = asyncio.new_event_loop()
    closed.close()
    _Answers(closed).call_soon_threadsafe(future.set_result, b"later")
    loop.set_exception_handler(None)


async def test_a_server_that_is_away_blocks_no_event_loop() -> None:
    """The driver waits seconds for it."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await (await ValkeyStore(valkey.new_store(ManualClock()).options).open()).close()
    ticks = 0
    with pytest.raises(TransportError) as refused:
        await ValkeyStore(Options("127.0.0.1", free_port())).open()
    ticking.cancel()
    assert refused.value.retryable and not refused.value.doubtful
    assert ticks > 20
