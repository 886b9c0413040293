"""One HTTP/1.1 connection: a request at a time, answered whole."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from flowfabric.errors import ConfigError

MAX_ANSWER_BYTES = 256 * 1024 * 1024


class Answer(NamedTuple):
    status: int
    body: bytes


class Lost(Exception):
    """The connection ended, or what came was no HTTP, before the answer was there."""


class Address(NamedTuple):
    """Where a server is, and how requests to it begin."""

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
        self._asked: asyncio.Future[Answer] | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._gone = asyncio.get_running_loop().create_future()
        self.free_since = 0.0

    @classmethod
    async def open(cls, address: Address) -> Connection:
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(cls, address.host, address.port, ssl=address.tls)
        return made

    @property
    def is_free(self) -> bool:
        """Open, with nothing under way."""
        return (
            self._asked is None and self._transport is not None and not self._transport.is_closing()
        )

    async def ask(self, request: bytes) -> Answer:
        """Whoever stops waiting must close it: its answer would be taken for that to the next request."""
        if not self.is_free:
            raise Lost("it is closed")
        assert self._transport is not None
        self._asked = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._asked

    async def close(self) -> None:
        self.abort()
        if self._transport is not None:
            await self._gone

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
                raise Lost(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
            self._parser.feed_data(data)
        except Exception as error:  # the library's own, and ours
            self._lose(str(error) or "it is no HTTP")

    def connection_lost(self, error: Exception | None) -> None:
        self._lose(str(error) if error else "the server closed the connection")
        if not self._gone.done():
            self._gone.set_result(None)

    def _lose(self, why: str) -> None:
        asked, self._asked = self._asked, None
        if asked is not None and not asked.done():
            asked.set_exception(Lost(why))
        self.abort()

    # ---- called by the parser

    def on_message_begin(self) -> None:
        if self._asked is None:
            raise Lost("an answer that nobody asked for")

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # news of an answer that is to come
            return
        answer = Answer(status, b"".join(self._parts))
        asked, self._asked = self._asked, None
        self._parts, self._size = [], 0
        if not self._parser.should_keep_alive():
            self.abort()
        if asked is not None and not asked.done():
            asked.set_result(answer)


def _parser(connection: Connection) -> Any:
    try:
        from httptools import HttpResponseParser
    except ModuleNotFoundError:
        raise ConfigError(
            "http:// needs one more library: pip install 'flowfabric[http]'"
        ) from None
    return HttpResponseParser(connection)
