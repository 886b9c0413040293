"""One thread with an event loop, for a program that has none."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from flowfabric.errors import ConfigError

T = TypeVar("T")
CLOSE_S = 10.0
_END: Any = object()


class Closable(Protocol):
    async def close(self) -> None: ...


class Background:
    """Begun when it is first needed; whatever is still open is closed when the program ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._open: WeakSet[Closable] = WeakSet()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it there and waits for it here. Interrupted here, it is cancelled there."""
        try:
            loop = self._checked()
        except ConfigError:
            work.close()
            raise
        waiting = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return waiting.result()
        except BaseException:
            waiting.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> T:
            return await anext(items, _END)

        try:
            while (item := self.call(following())) is not _END:
                yield item
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                self.call(close())

    def close_at_exit(self, app: Closable) -> None:
        self._open.add(app)

    def _checked(self) -> asyncio.AbstractEventLoop:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._started()
        raise ConfigError(
            "flowfabric.sync: an event loop runs here already and would be blocked; use flowfabric.App and await"
        )

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(
                    target=self._run, args=(self._loop,), name="flowfabric-sync", daemon=True
                ).start()
                # Closing a database takes a thread, and there are none left once ordinary exit functions are called.
                getattr(threading, "_register_atexit", atexit.register)(self._close)
            if self._pid != os.getpid():
                raise ConfigError(
                    "flowfabric.sync: this process was forked from one that used it already; use it first here"
                )
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.close()

    def _close(self) -> None:
        loop = self._loop
        if loop is None or self._pid != os.getpid():
            return

        async def all_of_them() -> None:
            await asyncio.gather(*(app.close() for app in self._open), return_exceptions=True)

        try:
            asyncio.run_coroutine_threadsafe(all_of_them(), loop).result(CLOSE_S)
        except TimeoutError:
            return
        loop.call_soon_threadsafe(loop.stop)


background = Background()
