"""Connections to the shared database, kept from test to test: opening one and planning on it costs
more than most tests.

What a test leaves on a connection is reset; one that was lost, or left in a transaction, is not
kept.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import defaultdict
from collections.abc import Coroutine
from typing import Any

import asyncpg

from flowfabric.store.postgres import connections
from flowfabric.store.postgres.connections import Options

_connect = connections.connect
UNWIND_S = 10.0
_Way = tuple[str, tuple[tuple[str, str], ...], bool]


class KeptOptions(Options, frozen=True):
    """Of a store that finds its connections here and leaves them here."""


class _Kept(asyncpg.Connection):  # type: ignore[misc]
    """Closing gives it back."""

    __slots__ = ()

    async def close(self, *, timeout: float | None = None) -> None:
        way = _ways.get(self)
        if (
            way is None
            or self.is_closed()
            or self.is_in_transaction()
            or asyncio.get_running_loop() is not loop()
        ):
            _ways.pop(self, None)
            await super().close(timeout=timeout)
            return
        await self.reset(timeout=timeout)
        self._termination_listeners.clear()
        _idle[way].append(self)


_ways: dict[_Kept, _Way] = {}
_idle: dict[_Way, list[_Kept]] = defaultdict(list)
_runners: list[asyncio.Runner] = []


def run(test: Coroutine[Any, Any, None]) -> None:
    """On the one event loop that these connections belong to; with variables of its own.

    A test that was interrupted, or leaves something running that does not end, gets others a new
    one.
    """
    ended: list[bool] = []
    try:
        _runner().run(_alone(test, ended), context=contextvars.copy_context())
    finally:
        if not any(ended):
            _runners.clear()
            _ways.clear()
            _idle.clear()


def loop() -> asyncio.AbstractEventLoop:
    return _runner().get_loop()


def _runner() -> asyncio.Runner:
    if not _runners:
        _runners.append(asyncio.Runner())
    return _runners[0]


async def _alone(test: Coroutine[Any, Any, None], ended: list[bool]) -> None:
    """What a test leaves running ends with it."""
    try:
        await test
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        ended.append(not left or not (await asyncio.wait(left, timeout=UNWIND_S))[1])


async def _connect_or_reuse(
    options: Options, more: dict[str, str] | None = None, *, watched: bool = False
) -> asyncpg.Connection:
    if not isinstance(options, KeptOptions) or asyncio.get_running_loop() is not loop():
        return await _connect(options, more, watched=watched)
    way = (options.url, tuple((more or {}).items()), watched)
    while _idle[way]:
        if not (found := _idle[way].pop()).is_closed():
            return found
    made = await _connect(options, more, watched=watched)
    made.__class__ = _Kept
    _ways[made] = way
    return made


connections.connect = _connect_or_reuse


def close() -> None:
    """When the last test is over."""
    if not _runners:
        return
    runner = _runners.pop()
    runner.run(_close_all())
    runner.close()


async def _close_all() -> None:
    for connection in _ways:
        connection.terminate()
    _ways.clear()
    _idle.clear()
