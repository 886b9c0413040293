"""One HTTP/1.1 connection with one request at a time."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import urlsplit

from flowfabric.errors import ConfigError

if TYPE_CHECKING:
    from httptools import HttpResponseParser

MAX_ANSWER_BYTES = 256 * 1024 * 1024


class HttpResponse(NamedTuple):
    status: int
    body: bytes


class ConnectionLost(Exception):
    """The connection ended, or received invalid HTTP, before the response was complete."""


class Address(NamedTuple):
    """The address of a server, its path prefix and its Host header."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    path: str
    named: str

    @classmethod
    def of(cls, url: str) -> Address:
        parts = urlsplit(url)
        secure, host = parts.scheme == "https", parts.hostname or ""
        port = parts.port or (443 if secure else 80)
        return cls(
            host,
            port,
            ssl.create_default_context() if secure else None,
            parts.path.rstrip("/"),
            parts.netloc,
        )


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._parser = _parser(self)
        self._transport: asyncio.Transport | None = None
        self._pending: asyncio.Future[HttpResponse] | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._closed = asyncio.get_running_loop().create_future()
        self.free_since = 0.0

    @classmethod
    async def open(cls, address: Address) -> Connection:
        loop = asyncio.get_running_loop()
        _, opened = await loop.create_connection(cls, address.host, address.port, ssl=address.tls)
        return opened

    @property
    def is_free(self) -> bool:
        """Open, without a pending request."""
        transport = self._transport
        return self._pending is None and transport is not None and not transport.is_closing()

    async def send(self, request: bytes) -> HttpResponse:
        """Sends a request and waits for its response.

        A cancelled caller must close the connection: the late response would be taken for that of
        the next request.
        """
        if not self.is_free:
            raise ConnectionLost("it is closed")
        assert self._transport is not None
        self._pending = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._pending

    async def close(self) -> None:
        self.abort()
        if self._transport is not None:
            await self._closed

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ---- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        try:
            if self._size > MAX_ANSWER_BYTES:
                raise ConnectionLost(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
            self._parser.feed_data(data)
        except Exception as error:  # of the parser library, or ConnectionLost
            self._fail(str(error) or "invalid HTTP")

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(str(error) if error else "the server closed the connection")
        if not self._closed.done():
            self._closed.set_result(None)

    def _fail(self, reason: str) -> None:
        pending, self._pending = self._pending, None
        if pending is not None and not pending.done():
            pending.set_exception(ConnectionLost(reason))
        self.abort()

    # ---- called by the parser

    def on_message_begin(self) -> None:
        if self._pending is None:
            raise ConnectionLost("a response without a request")

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # an informational response precedes the final one
            return
        response = HttpResponse(status, b"".join(self._parts))
        pending, self._pending = self._pending, None
        self._parts, self._size = [], 0
        if not self._parser.should_keep_alive():
            self.abort()
        if pending is not None and not pending.done():
            pending.set_result(response)


def _parser(connection: Connection) -> HttpResponseParser:
    try:
        from httptools import HttpResponseParser
    except ModuleNotFoundError:
        raise ConfigError(
            "http:// needs one more library: pip install 'flowfabric[http]'"
        ) from None
    return HttpResponseParser(connection)
