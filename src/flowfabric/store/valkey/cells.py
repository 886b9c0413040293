"""The cells of a deployment: that of the URL, and one per namespace, which it registers.

The cell of namespace `a` beside cell `jobs` is `jobs/a`. The name of a base cell has no slash, and
what a namespace may have and a cell may not is percent-encoded, so no two names are the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import quote
from weakref import WeakMethod

from msgspec import structs

from flowfabric.errors import EngineError
from flowfabric.store.single_flight import SingleFlight, seen
from flowfabric.store.valkey.connection import Connection, Told
from flowfabric.store.valkey.options import Options
from flowfabric.store.valkey.packing import packed

AT_ONCE = 64
MAX_CALLS = 500
"""Calls that wait for an answer at once; the driver refuses the thousand and first."""
REGISTERED = ("cells", "", "", "")
"""What stores of the base cell hear: a topic without a key and a time."""
_SAFE = ".:"


def cell_of(base: Options, namespace: str) -> Options:
    """Where the cell of a namespace is."""
    return structs.replace(base, cell=f"{base.cell}/{quote(namespace, safe=_SAFE)}")


class Link:
    """Two clients for all cells of a deployment, and for one event loop: one calls, one listens.

    Calls got answers that were not theirs while one client subscribed to many channels. The cause
    is not known, so no client does both.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._told: dict[str, WeakMethod[Told]] = {}
        self._flight = SingleFlight()
        self._shared: Connection | None = None
        self._listening: Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns = asyncio.Semaphore(MAX_CALLS)

    async def connection(self, options: Options, told: Told) -> Connection:
        """Calls to a cell. From now on `told` gets what is published in it."""
        shared = await self.shared()
        if self._listening is None:
            self._listening = await self._flight.once("listening", self._listen)
        self._told[options.channel] = WeakMethod(told)
        await self._listening.hear(options.channel)
        return await shared.at(options, self._turns)

    async def shared(self) -> Connection:
        """The connection to the base cell."""
        self._settle_in()
        if self._shared is None:
            self._shared = await self._flight.once("shared", self._open)
        return self._shared

    def _settle_in(self) -> None:
        """Clients of an event loop that was closed are left behind with it."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None:
            for each in (self._shared, self._listening):
                if each is not None:
                    each.abandon()
            self._shared = self._listening = None
            self._flight, self._turns = SingleFlight(), asyncio.Semaphore(MAX_CALLS)
        self._loop = loop

    async def _open(self) -> Connection:
        return await Connection.open(self._options)

    async def _listen(self) -> Connection:
        return await Connection.hearing(self._options, self._heard)

    def _heard(self, channel: str, message: bytes) -> None:
        held = self._told.get(channel)
        told = None if held is None else held()
        if told is not None:
            told(message)
        elif held is not None and self._loop is not None:
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._forget, channel, held)

    def _forget(self, channel: str, held: WeakMethod[Told]) -> None:
        """The store of this cell has gone, and no other has come."""
        if self._listening is not None and self._told.get(channel) is held:
            del self._told[channel]
            asyncio.ensure_future(self._listening.forget(channel)).add_done_callback(seen)

    async def close(self) -> None:
        for each in (self._shared, self._listening):
            if each is not None:
                await each.close()
        self._shared = self._listening = None


class Registry:
    """The namespaces that have cells, in the base cell."""

    def __init__(self, base: Options, link: Link) -> None:
        self._base, self._link, self._key = base, link, f"{base.prefix}:cells"

    async def add(self, namespace: str) -> None:
        """The process that leads the loops is told of a new one."""
        shared = await self._link.shared()
        if await shared.command("SADD", self._key, namespace):
            await shared.publish(self._base.channel, packed([b"", [REGISTERED]]))

    async def names(self) -> list[str]:
        """In the order of their texts."""
        found = await (await self._link.shared()).command("SMEMBERS", self._key)
        return sorted(each.decode() for each in found)

    async def last_commits(self, namespaces: Sequence[str]) -> list[object]:
        """A value per cell that differs after a commit, and None where the cell did not answer."""
        found: list[object] = []
        for at in range(0, len(namespaces), AT_ONCE):
            part = namespaces[at : at + AT_ONCE]
            found += await asyncio.gather(*map(self._last_commit, part))
        return found

    async def _last_commit(self, namespace: str) -> object:
        shared = await self._link.shared()
        with suppress(EngineError):
            cell = cell_of(self._base, namespace)
            return await shared.near(cell).command("GET", f"{cell.prefix}:T") or b""
        return None
