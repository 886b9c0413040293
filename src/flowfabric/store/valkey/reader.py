"""The thread that reads the answers to all connections of this process.

The driver reads them on the event loop on which its first connection was opened. On a loop of the
program, a task that blocks it would hold up the background loops and the renewals of leases, which
run on loops of their own, and its end would leave them without answers.
"""

from __future__ import annotations

import asyncio
import os
import threading
from asyncio import AbstractEventLoop, InvalidStateError
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from glide import GlideClient, GlideClusterClient, glide_client

Client = GlideClient | GlideClusterClient
Make = Callable[[], Coroutine[Any, Any, Client]]


class _Reader:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._beginning = asyncio.Lock()
        threading.Thread(
            target=self._loop.run_forever, name="flowfabric-valkey-answers", daemon=True
        ).start()

    def begin(self, make: Make) -> Awaitable[None]:
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._begin(make), self._loop))

    async def _begin(self, make: Make) -> None:
        """Opens a connection on the loop of this thread, unless a loop that runs reads answers."""
        async with self._beginning:
            if _is_needed():
                await (await make()).close()


def _is_needed() -> bool:
    """A loop on which the program opened a connection of its own may have stopped by now. It is no
    longer the reader then.
    """
    driver = vars(glide_client)
    with driver["_async_pipe_lock"]:
        loop = driver["_async_pipe_loop"]
        if loop is not None and not loop.is_closed() and not loop.is_running():
            loop.remove_reader(driver["_async_pipe_read_fd"])
            driver["_async_pipe_registered"], driver["_async_pipe_loop"] = False, None
        return loop is None or not loop.is_running()


class _Answers:
    """An event loop, for the answers of one connection. Those that come too late are dropped."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop

    def call_soon_threadsafe(self, give: Callable[[object], None], answer: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(_given, give, answer)


def _given(give: Callable[[object], None], answer: object) -> None:
    with suppress(InvalidStateError):  # its caller was cancelled
        give(answer)


_lock = threading.Lock()
_readers: list[_Reader] = []


async def opened(make: Make) -> Client:
    """A connection whose answers are read on the thread.

    The driver opens a connection in one call, which blocks while it waits for the server.
    """
    await _reader().begin(make)
    opening = asyncio.ensure_future(asyncio.to_thread(asyncio.run, make()))
    try:
        client: Client = await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_unwanted)
        raise
    vars(client)["_loop"] = _Answers(asyncio.get_running_loop())
    return client


def abandoned(client: Client) -> None:
    """Closes a connection whose event loop is closed; those who waited are gone with it."""
    vars(client)["_pending_futures"].clear()
    with suppress(StopIteration):  # it waits for nothing
        client.close().send(None)


def _unwanted(opening: asyncio.Future[Client]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        closing = asyncio.ensure_future(opening.result().close())
        closing.add_done_callback(lambda done: done.cancelled() or done.exception())


def _reader() -> _Reader:
    with _lock:
        if not _readers or _readers[-1].pid != os.getpid():
            _readers[:] = [_Reader()]
        return _readers[-1]
