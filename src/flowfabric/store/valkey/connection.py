"""One server or cluster, and calls of the functions that it keeps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from glide import (
    AdvancedGlideClientConfiguration,
    AdvancedGlideClusterClientConfiguration,
    GlideClient,
    GlideClientConfiguration,
    GlideClusterClient,
    GlideClusterClientConfiguration,
    GlideError,
    Logger,
    LogLevel,
    NodeAddress,
    PubSubMsg,
    RequestError,
    ServerCredentials,
)
from glide import ClosingError as Closed
from glide import TimeoutError as CallTimeout

from flowfabric.errors import TimedOut, TransportError
from flowfabric.store.valkey.library import library
from flowfabric.store.valkey.options import Options
from flowfabric.store.valkey.server_checks import SETTINGS

log = logging.getLogger("flowfabric.valkey")

Logger.init(LogLevel.OFF)  # its lines go to standard error; the errors it logs are raised as well
CALL_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_MS = 5_000
_UNKNOWN_FUNCTION = "Function not found"
_FULL = "OOM"
Client = GlideClient | GlideClusterClient
Told = Callable[[bytes], None]


class Connection:
    """Loads the library when the server does not know it."""

    def __init__(self, client: Client, options: Options) -> None:
        self._client, self._prefix = client, options.prefix

    @classmethod
    async def open(cls, options: Options, told: Told | None = None) -> Connection:
        try:
            return cls(await _client(options, told), options)
        except (GlideError, OSError) as error:
            raise as_engine_error(error) from error

    async def commit(self, request: bytes) -> Any:
        return await self._call(library().commit, request)

    async def load(self, request: bytes) -> Any:
        return await self._call(library().load, request)

    async def command(self, *parts: str) -> Any:
        try:
            return await self._client.custom_command(list(parts))
        except GlideError as error:
            raise as_engine_error(error) from error

    async def info(self) -> str:
        found = await self.command("INFO", "server")
        return str(_text(next(iter(found.values())) if isinstance(found, dict) else found))

    async def settings(self) -> dict[str, str]:
        """The server's settings; empty where it does not show them."""
        try:
            found = await self.command("CONFIG", "GET", *SETTINGS)
        except TransportError:
            return {}
        if found and isinstance(next(iter(found.values())), dict):  # of a cluster, per node
            found = next(iter(found.values()))
        return {_text(name): _text(value) for name, value in found.items()}

    async def close(self) -> None:
        await self._client.close()

    async def _call(self, function: str, request: bytes) -> Any:
        try:
            try:
                return await self._client.fcall(function, [self._prefix], [request])
            except RequestError as error:
                if _UNKNOWN_FUNCTION not in str(error):
                    raise
            await self._client.function_load(library().text, replace=True)
            return await self._client.fcall(function, [self._prefix], [request])
        except GlideError as error:
            raise as_engine_error(error) from error


async def _client(options: Options, told: Told | None) -> Client:
    addresses = [NodeAddress(options.host, options.port)]
    credentials = None
    if options.password:
        credentials = ServerCredentials(options.password, options.user or None)
    channel = f"{options.prefix}:W"

    def heard(message: PubSubMsg, _: object) -> None:
        data = message.message
        if told is not None:
            told(data if isinstance(data, bytes) else data.encode())

    if options.cluster:
        cluster = GlideClusterClientConfiguration
        return await GlideClusterClient.create(
            cluster(
                addresses,
                options.tls,
                credentials,
                request_timeout=CALL_TIMEOUT_MS,
                pubsub_subscriptions=None
                if told is None
                else cluster.PubSubSubscriptions(
                    {cluster.PubSubChannelModes.Exact: {channel}}, heard, None
                ),
                advanced_config=AdvancedGlideClusterClientConfiguration(CONNECT_TIMEOUT_MS),
            )
        )
    single = GlideClientConfiguration
    return await GlideClient.create(
        single(
            addresses,
            options.tls,
            credentials,
            request_timeout=CALL_TIMEOUT_MS,
            pubsub_subscriptions=None
            if told is None
            else single.PubSubSubscriptions(
                {single.PubSubChannelModes.Exact: {channel}}, heard, None
            ),
            advanced_config=AdvancedGlideClientConfiguration(CONNECT_TIMEOUT_MS),
        )
    )


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def as_engine_error(error: BaseException) -> Exception:
    text = str(error)[:500]
    if isinstance(error, CallTimeout | asyncio.TimeoutError):
        return TimedOut("valkey call", f"no answer within {CALL_TIMEOUT_MS} ms")
    if isinstance(error, RequestError):
        if _FULL in text:
            detail = "the server's memory is full, and nothing was written; raise maxmemory"
            return TransportError("valkey", detail, backend_kind="full")
        return TransportError("valkey", text, backend_kind="protocol")
    if isinstance(error, Closed):
        return TransportError("valkey", text)
    return TransportError("valkey", text, doubtful=True)
