"""One server or cluster, and calls of the functions that it keeps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from glide import (
    AdvancedGlideClientConfiguration,
    ClosingError,
    GlideClient,
    GlideClientConfiguration,
    GlideError,
    NodeAddress,
    PubSubMsg,
    RequestError,
)
from glide import TimeoutError as CallTimeout
from msgspec import Struct

from flowfabric.errors import TimedOut, TransportError
from flowfabric.store.valkey.library import library

log = logging.getLogger("flowfabric.valkey")

CALL_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_MS = 5_000
_UNKNOWN_FUNCTION = "Function not found"
_FULL = "OOM"


class Address(Struct, frozen=True):
    host: str
    port: int


class Connection:
    """Loads the library when the server does not know it."""

    def __init__(self, client: GlideClient, cell: str) -> None:
        self._client = client
        self.prefix = f"{{{cell}}}"

    @classmethod
    async def open(
        cls, address: Address, cell: str, told: Callable[[bytes], None] | None = None
    ) -> Connection:
        subscriptions = None
        if told is not None:
            subscriptions = GlideClientConfiguration.PubSubSubscriptions(
                {GlideClientConfiguration.PubSubChannelModes.Exact: {f"{{{cell}}}:W"}},
                callback=lambda message, _: told(_payload(message)),
                context=None,
            )
        config = GlideClientConfiguration(
            [NodeAddress(address.host, address.port)],
            request_timeout=CALL_TIMEOUT_MS,
            pubsub_subscriptions=subscriptions,
            advanced_config=AdvancedGlideClientConfiguration(connection_timeout=CONNECT_TIMEOUT_MS),
        )
        try:
            return cls(await GlideClient.create(config), cell)
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

    async def close(self) -> None:
        await self._client.close()

    async def _call(self, function: str, request: bytes) -> Any:
        try:
            try:
                return await self._client.fcall(function, [self.prefix], [request])
            except RequestError as error:
                if _UNKNOWN_FUNCTION not in str(error):
                    raise
            await self._client.function_load(library().text, replace=True)
            return await self._client.fcall(function, [self.prefix], [request])
        except GlideError as error:
            raise as_engine_error(error) from error


def _payload(message: PubSubMsg) -> bytes:
    data = message.message
    return data if isinstance(data, bytes) else data.encode()


def as_engine_error(error: BaseException) -> Exception:
    text = str(error)[:500]
    if isinstance(error, CallTimeout | asyncio.TimeoutError):
        return TimedOut("valkey call", f"{CALL_TIMEOUT_MS} ms")
    if isinstance(error, RequestError):
        if _FULL in text:
            return TransportError(
                "valkey", f"the server is out of memory: {text}", backend_kind="full"
            )
        return TransportError("valkey", text, backend_kind="protocol")
    if isinstance(error, ClosingError):
        return TransportError("valkey", text, backend_kind="protocol")
    return TransportError("valkey", text, doubtful=True)
