"""One HTTP call: sent, answered, and read; what the network does to it becomes an error of the engine."""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

import msgspec

from flowfabric.errors import ConfigError, TransportError
from flowfabric.remote.connection import Address, Connection, Lost
from flowfabric.wire.errors import as_error

TIMEOUT_S = 30.0
CONNECT_S = 10.0
KEEP_S = 60.0
MAX_AT_ONCE, MAX_WAITING = 64, 1_000
"""Calls that wait on the server for something to happen are counted apart, so that they never hold up the others."""
FIRST_PAUSE_S, LAST_PAUSE_S, TRIES = 0.05, 1.0, 4


class Transport:
    """Connections to one server, kept open. What may be done twice is sent again when the network fails; nothing else is."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._base = checked_url(url)
        self._address = Address.of(self._base)
        self._head = f"host: {self._address.named}\r\ncontent-type: application/json\r\n{_authorization(token)}content-length: "
        self._turns, self._waits = asyncio.Semaphore(MAX_AT_ONCE), asyncio.Semaphore(MAX_WAITING)
        self._open: set[Connection] = set()
        self._free: list[Connection] = []
        self._closed = False

    async def post(self, path: str, body: bytes, *, again: bool, wait_s: float = 0.0) -> bytes:
        pause = FIRST_PAUSE_S
        for left in reversed(range(TRIES if again else 1)):
            try:
                return await self._once(path, body, wait_s)
            except TransportError as error:
                if not left or error.backend != "http" or not error.retryable:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 4, LAST_PAUSE_S)
        raise AssertionError("the last try returns or raises")

    async def _once(self, path: str, body: bytes, wait_s: float) -> bytes:
        request = (
            f"POST {self._address.path}{path} HTTP/1.1\r\n{self._head}{len(body)}\r\n\r\n".encode()
            + body
        )
        async with self._waits if wait_s else self._turns:
            connection = await self._connection()
            try:
                async with asyncio.timeout(TIMEOUT_S + wait_s):
                    status, answer = await connection.ask(request)
            except (Lost, TimeoutError) as error:
                said = str(error) or type(error).__name__
                raise TransportError(
                    "http", f"{self._base}: no answer ({said})", doubtful=True
                ) from error
            finally:
                self._put_back(connection)
        if status == 204:
            return b"null"
        if status < 300:
            return answer
        raise _refused(status, answer)

    async def _connection(self) -> Connection:
        """The one that was used last: those that are not needed grow old, and are closed."""
        if self._closed:
            raise TransportError("http", "the connection was closed", backend_kind="protocol")
        while self._free:
            found = self._free.pop()
            if found.is_free and time.monotonic() - found.free_since < KEEP_S:
                return found
            self._drop(found)
        try:
            async with asyncio.timeout(CONNECT_S):
                made = await Connection.open(self._address)
        except (OSError, TimeoutError) as error:  # nothing was sent
            raise TransportError(
                "http", f"{self._base} cannot be reached ({str(error) or 'no answer'})"
            ) from error
        self._open.add(made)
        return made

    def _put_back(self, connection: Connection) -> None:
        if connection.is_free and not self._closed:
            connection.free_since = time.monotonic()
            self._free.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        connection.abort()
        self._open.discard(connection)

    async def close(self) -> None:
        self._closed = True
        self._free.clear()
        while self._open:
            await self._open.pop().close()


def _authorization(token: str | None) -> str:
    if token is None:
        return ""
    if not token.strip() or not token.isprintable() or not token.isascii():
        raise ConfigError(
            "token: a bearer token, as the server's operator gave it out; it is blank or has odd characters"
        )
    return f"authorization: Bearer {token}\r\n"


def _refused(status: int, answer: bytes) -> Exception:
    if status in (401, 403):
        said = _said(answer) or "the token is missing, wrong, or not allowed to do this"
        return ConfigError(
            f"the server answered {status}: {said}; give App(url, token=...) a token with the right role"
        )
    try:
        return as_error(msgspec.json.decode(answer))
    except msgspec.DecodeError:
        kind = "transport" if status in (502, 503, 504) else "protocol"
        return TransportError("http", f"the server answered {status}", backend_kind=kind)


def _said(answer: bytes) -> str | None:
    try:
        said = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        return None
    return str(said.get("error"))[:200] if isinstance(said, dict) else None


def checked_url(url: str) -> str:
    wanted = "url: http://host:port or https://host:port of a FlowFabric server, with a path in front if it has one"
    try:
        parts = urlsplit(url)
        known = parts.port is None or parts.port > 0
    except ValueError:
        raise ConfigError(wanted) from None
    if parts.username or parts.password:
        raise ConfigError("url: no user or password in it; give the token as App(url, token=...)")
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.query
        or parts.fragment
        or not known
    ):
        raise ConfigError(wanted)
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f"{wanted}; in plain letters, with what is not one as % or xn--")
    return url.rstrip("/")
