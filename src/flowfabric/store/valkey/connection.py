"""One server or cluster, and calls of the functions that it keeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from glide import GlideClusterClient, GlideError, RequestError, SlotKeyRoute, SlotType
from glide import TimeoutError as CallTimeout

from flowfabric.errors import ConfigError, TransportError
from flowfabric.store.valkey.client import Client, Told, look_around, opened, tls_problem
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


class Connection:
    """Loads the library when the server does not know it."""

    def __init__(self, client: Client, options: Options, confirming: Confirming | None) -> None:
        self._client, self._confirming, self._doubts = client, confirming, 0
        self._options = options
        self._keys = options.declared
        self._route = SlotKeyRoute(SlotType.PRIMARY, options.prefix)

    @classmethod
    async def open(cls, options: Options, told: Told | None = None) -> Connection:
        try:
            client = await opened(options, told)
        except (GlideError, OSError) as error:
            await _check_hearing(options, told, error)
            raise unreachable(error, options.shown, await tls_problem(options)) from error
        made = cls(client, options, None)
        if options.replicated:
            try:
                made._confirming = Confirming(await opened(options, None), options)
                made._confirming.learn(await made.info("persistence"))
            except (GlideError, OSError, TransportError) as error:
                await made.close()
                raise unreachable(error, options.shown) from error
        return made

    async def commit(self, request: bytes) -> Any:
        if self._confirming is None:
            return await self._call(library().commit, request)
        try:
            return await self._confirmed(self._confirming, library().commit_at, request)
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
        abandoned(self._client)
        if self._confirming is not None:
            abandoned(self._confirming.client)

    async def close(self) -> None:
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


async def _check_hearing(options: Options, told: Told | None, error: Exception) -> None:
    """A user that may not subscribe is told only that the time was up."""
    if told is None or not options.user or "timed out" not in str(error):
        return
    try:
        client = await opened(options, None)
    except (GlideError, OSError):
        return
    await client.close()
    raise too_few_rights(f"subscribing to the channel {options.channel}") from error


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
