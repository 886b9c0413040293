"""HTTP calls to a server over pooled connections; network failures become engine errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import islice
from urllib.parse import urlsplit

import msgspec

from flowfabric.errors import ConfigError, TransportError, Unauthorized
from flowfabric.remote.connection import Address, Connection, ConnectionLost
from flowfabric.wire.errors import as_error

TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10.0
KEEP_ALIVE_S = 60.0
MAX_CALLS, MAX_LONG_POLLS = 64, 1_000
"""Long polls have their own limit, so that they cannot block other calls."""
FIRST_RETRY_S, MAX_RETRY_S, MAX_TRIES = 0.05, 1.0, 4


def pauses(first_s: float, factor: float, longest_s: float) -> Iterator[float]:
    """Growing pauses between the tries of a call."""
    pause = first_s
    while True:
        yield pause
        pause = min(pause * factor, longest_s)


class Transport:
    """A pool of connections to one server. Only idempotent calls are sent again after a failure."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._base = parse_server_url(url)
        self._address = Address.of(self._base)
        self._head = (
            f"host: {self._address.named}\r\ncontent-type: application/json\r\n"
            f"{_authorization(token)}content-length: "
        )
        self._turns, self._waits = asyncio.Semaphore(MAX_CALLS), asyncio.Semaphore(MAX_LONG_POLLS)
        self._open: set[Connection] = set()
        self._free: list[Connection] = []
        self._closed = False

    async def post(self, path: str, body: bytes, *, again: bool, wait_s: float = 0.0) -> bytes:
        retries = MAX_TRIES - 1 if again else 0
        for pause_s in islice(pauses(FIRST_RETRY_S, 4, MAX_RETRY_S), retries):
            try:
                return await self._once(path, body, wait_s)
            except TransportError as error:
                if error.backend != "http" or not error.retryable:
                    raise
            await asyncio.sleep(pause_s)
        return await self._once(path, body, wait_s)

    async def _once(self, path: str, body: bytes, wait_s: float) -> bytes:
        request = (
            f"POST {self._address.path}{path} HTTP/1.1\r\n{self._head}{len(body)}\r\n\r\n".encode()
            + body
        )
        async with self._waits if wait_s else self._turns:
            connection = await self._connection()
            try:
                async with asyncio.timeout(TIMEOUT_S + wait_s):
                    status, answer = await connection.send(request)
            except (ConnectionLost, TimeoutError) as error:
                reason = str(error) or type(error).__name__
                raise TransportError(
                    "http", f"{self._base}: no response ({reason})", doubtful=True
                ) from error
            finally:
                self._put_back(connection)
        if status == 204:
            return b"null"
        if status < 300:
            return answer
        raise _error_of(status, answer)

    async def _connection(self) -> Connection:
        """The connection used last, so that surplus connections expire; else a new one."""
        if self._closed:
            raise TransportError("http", "the connection was closed", backend_kind="protocol")
        while self._free:
            found = self._free.pop()
            if found.is_free and time.monotonic() - found.free_since < KEEP_ALIVE_S:
                return found
            self._drop(found)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                opened = await Connection.open(self._address)
        except (OSError, TimeoutError) as error:  # nothing was sent
            raise TransportError(
                "http", f"{self._base} cannot be reached ({str(error) or 'timeout'})"
            ) from error
        self._open.add(opened)
        return opened

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
            "token: expected a bearer token of printable ASCII characters, "
            "as issued by the operator of the server"
        )
    return f"authorization: Bearer {token}\r\n"


def _error_of(status: int, answer: bytes) -> Exception:
    if status in (401, 403):
        reason = _error_text(answer) or "the token is missing, invalid or lacks the role"
        return Unauthorized(
            f"the server answered {status}: {reason}; pass a token with the required role "
            "in App(url, token=...), --token or FF_TOKEN"
        )
    try:
        return as_error(msgspec.json.decode(answer))
    except msgspec.DecodeError:
        kind = "transport" if status in (502, 503, 504) else "protocol"
        return TransportError("http", f"the server answered {status}", backend_kind=kind)


def _error_text(answer: bytes) -> str | None:
    try:
        problem = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        return None
    return str(problem.get("error"))[:200] if isinstance(problem, dict) else None


def parse_server_url(url: str) -> str:
    wanted = "url: expected http://host:port or https://host:port of a FlowFabric server"
    try:
        parts = urlsplit(url)
        known = parts.port is None or parts.port > 0
    except ValueError:
        raise ConfigError(wanted) from None
    if parts.username or parts.password:
        raise ConfigError("url: must not contain a user or password; use App(url, token=...)")
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.query
        or parts.fragment
        or not known
    ):
        raise ConfigError(wanted)
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f"{wanted}, in ASCII; encode other characters as % or xn--")
    return url.rstrip("/")
