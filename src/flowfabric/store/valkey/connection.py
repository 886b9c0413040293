"""One server or cluster, and calls of the functions that it keeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import Any

from glide import GlideClusterClient, GlideError, RequestError, SlotKeyRoute, SlotType
from glide import TimeoutError as CallTimeout

from flowfabric.errors import ConfigError, TransportError
from flowfabric.store.valkey import client as clients
from flowfabric.store.valkey.client import Client, Heard, look_around, opened, tls_problem
from flowfabric.store.valkey.errors import (
    as_engine_error,
    is_elsewhere,
    too_few_rights,
    unreachable,
)
from flowfabric.store.valkey.library import library
from flowfabric.store.valkey.options import Options
from flowfabric.store.valkey.reader import abandoned
from flowfabric.store.valkey.replication import NO_REPLICA, Confirming
from flowfabric.store.valkey.server_checks import (
    SETTINGS,
    UNCONFIRMED,
    check_replicas,
    durability,
    facts,
    replicas_of,
)

SEARCH_S = 10.0
"""A cell that moves to another server is looked for so long."""
FIRST_PAUSE_S, LAST_PAUSE_S = 0.01, 0.5
_UNKNOWN_FUNCTION = "Function not found"
Told = Callable[[bytes], None]


class Connection:
    """Loads the library when the server does not know it."""

    def __init__(self, client: Client, options: Options, *, is_shared: bool = False) -> None:
        self._client, self._is_shared, self._doubts = client, is_shared, 0
        self._confirming: Confirming | None = None
        self._options = options
        self._turns: AbstractAsyncContextManager[object] = nullcontext()
        self._keys = options.declared
        self._route = SlotKeyRoute(SlotType.PRIMARY, options.prefix)

    @classmethod
    async def open(cls, options: Options, told: Told | None = None) -> Connection:
        return await cls.hearing(options, None if told is None else lambda _, found: told(found))

    @classmethod
    async def hearing(cls, options: Options, heard: Heard | None) -> Connection:
        """`heard` gets what is published to this cell, and to channels added by `hear`."""
        try:
            client = await opened(options, heard)
        except (GlideError, OSError) as error:
            await _check_hearing(options, heard, error)
            raise unreachable(error, options.shown, await tls_problem(options)) from error
        return await cls(client, options)._confirmed_by_replica(options)

    async def at(self, options: Options, turns: asyncio.Semaphore) -> Connection:
        """Another cell on the same client, which stays open when that connection is closed. Calls
        of all cells take turns.
        """
        made = self.near(options)
        made._turns = turns
        return await made._confirmed_by_replica(options)

    def near(self, options: Options) -> Connection:
        """As `at`, for commands: its commits are not confirmed by a replica."""
        return Connection(self._client, options, is_shared=True)

    async def _confirmed_by_replica(self, options: Options) -> Connection:
        if options.replicated:
            try:
                self._confirming = Confirming(await opened(options, None), options)
                self._confirming.learn(await self.info("persistence"))
            except (GlideError, OSError, TransportError) as error:
                await self.close()
                raise unreachable(error, options.shown) from error
        return self

    async def hear(self, channel: str) -> None:
        """What is published to the channel arrives too."""
        with as_engine_errors():
            await clients.hear(self._client, channel)

    async def forget(self, channel: str) -> None:
        with as_engine_errors():
            await clients.forget(self._client, channel)

    async def publish(self, channel: str, message: bytes) -> None:
        with as_engine_errors():
            await clients.publish(self._client, channel, message)

    async def commit(self, request: bytes, *, frees: bool = False) -> Any:
        """`frees`: it deletes and does nothing else, which a full server takes as well."""
        found = library()
        if self._confirming is None:
            return await self._call(found.free if frees else found.commit, request)
        function = found.free_at if frees else found.commit_at
        try:
            return await self._confirmed(self._confirming, function, request)
        except TransportError as error:
            self._doubts += error.doubtful
            raise

    async def load(self, request: bytes) -> Any:
        """What shows the outcome of a commit in doubt is confirmed as well."""
        if self._confirming is None or not self._doubts:
            return await self._call(library().load, request)
        doubts = self._doubts
        found = await self._confirmed(self._confirming, library().load_at, request)
        self._doubts -= doubts
        return found

    async def check_rights(self) -> None:
        """Before the first commit, since one that lacks a right could be made in part."""
        missing = await self._call(library().missing, b"")
        if missing:
            names = " ".join(f"+{_text(name).lower()}" for name in missing)
            raise too_few_rights(f"the keys and the channel of the cell need {names}")

    async def command(self, *parts: str | bytes) -> Any:
        """Answered by the primary of the cell."""
        try:
            return await self._sent(parts)
        except GlideError as error:
            raise as_engine_error(error) from error

    async def info(self, section: str) -> dict[str, str]:
        return facts(await self.command("INFO", section))

    async def settings(self) -> dict[str, str]:
        """The server's settings; empty where it does not show them."""
        try:
            found = await self.command("CONFIG", "GET", *SETTINGS)
        except TransportError:
            return {}
        return {_text(name): _text(value) for name, value in found.items()}

    def abandon(self) -> None:
        """Closes it although its event loop is closed."""
        if not self._is_shared:
            abandoned(self._client)
        if self._confirming is not None:
            abandoned(self._confirming.client)

    async def close(self) -> None:
        if not self._is_shared:
            await self._client.close()
        if self._confirming is not None:
            await self._confirming.close()

    async def _call(self, function: str, request: bytes) -> Any:
        return await self._found(
            self._client, lambda: self._client.fcall(function, self._keys, [request])
        )

    async def _confirmed(self, confirming: Confirming, function: str, request: bytes) -> Any:
        return await self._found(confirming.client, lambda: confirming.call(function, request))

    async def _found(self, client: Client, call: Callable[[], Awaitable[Any]]) -> Any:
        """Repeats what a server refused because it does not have the cell, or has no library."""
        until, pause, is_missing = time.monotonic() + SEARCH_S, FIRST_PAUSE_S, False
        while True:
            try:
                if is_missing:
                    await self._sent(("FUNCTION", "LOAD", "REPLACE", library().text))
                async with self._turns:
                    return await call()
            except GlideError as error:
                is_missing = isinstance(error, RequestError) and _UNKNOWN_FUNCTION in str(error)
                if not (is_missing or is_elsewhere(error)) or time.monotonic() + pause > until:
                    if isinstance(error, CallTimeout):
                        await look_around(client, self._options)
                    raise as_engine_error(error) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)

    async def _sent(self, parts: Sequence[str | bytes]) -> Any:
        if isinstance(self._client, GlideClusterClient):
            return await self._client.custom_command(list(parts), self._route)
        return await self._client.custom_command(list(parts))


async def _check_hearing(options: Options, heard: Heard | None, error: Exception) -> None:
    """A user that may not subscribe is told only that the time was up."""
    if heard is None or not options.user or "timed out" not in str(error):
        return
    try:
        client = await opened(options, None)
    except (GlideError, OSError):
        return
    await client.close()
    raise too_few_rights(f"subscribing to the channel {options.channel}") from error


@contextmanager
def as_engine_errors() -> Iterator[None]:
    try:
        yield
    except GlideError as error:
        raise as_engine_error(error) from error


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


async def promised(
    connection: Connection,
    options: Options,
    settings: Mapping[str, str],
    try_it: Callable[[], Awaitable[None]],
) -> str:
    """What the store loses at most; refused when a promise that was asked for cannot be kept."""
    replication = await connection.info("replication")
    if options.replicated:
        check_replicas(replication, options.shown)
        try:
            await try_it()
        except TransportError as error:
            if NO_REPLICA not in str(error):
                raise
            raise ConfigError(UNCONFIRMED) from error
    return durability(settings, replicas=replicas_of(replication), is_replicated=options.replicated)
