"""One background thread with an event loop, for programs that have none."""

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
Work = Coroutine[Any, Any, T]
CLOSE_TIMEOUT_S = 10.0
_END: Any = object()


class Closable(Protocol):
    async def close(self) -> None: ...


class Background:
    """Starts on first use. Apps that are still open are closed at interpreter exit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._open: WeakSet[Closable] = WeakSet()

    def call(self, work: Work[T]) -> T:
        """Runs the coroutine on the background loop and blocks; an interrupt here cancels it."""
        try:
            loop = self._checked()
        except ConfigError:
            work.close()
            raise
        pending = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return pending.result()
        except BaseException:
            pending.cancel()
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
            "flowfabric.sync: an event loop runs in this thread and would be blocked; "
            "use flowfabric.App and await"
        )

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(
                    target=self._run, args=(self._loop,), name="flowfabric-sync", daemon=True
                ).start()
                # Closing a database needs a thread, and plain atexit functions run too late for it.
                getattr(threading, "_register_atexit", atexit.register)(self._close)
            if self._pid != os.getpid():
                raise ConfigError(
                    "flowfabric.sync: this process was forked from one that used it already; "
                    "make the first call after the fork"
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

        async def close_apps() -> None:
            await asyncio.gather(*(app.close() for app in self._open), return_exceptions=True)

        try:
            asyncio.run_coroutine_threadsafe(close_apps(), loop).result(CLOSE_TIMEOUT_S)
        except TimeoutError:
            return
        loop.call_soon_threadsafe(loop.stop)


background = Background()
