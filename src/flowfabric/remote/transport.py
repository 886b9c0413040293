"""One HTTP call: sent, answered, and read; what the network does to it becomes an error of the engine."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import msgspec

from flowfabric.errors import ConfigError, TransportError
from flowfabric.wire.errors import as_error

TIMEOUT_S = 30.0
CONNECT_S = 10.0
MAX_CONNECTIONS = 64
FIRST_PAUSE_S, LAST_PAUSE_S, TRIES = 0.05, 1.0, 4


class Transport:
    """Connections to one server, kept open. What may be done twice is sent again when the network fails; nothing else is."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._base = checked_url(url)
        self._headers = {"content-type": "application/json"}
        if token is not None:
            if not token.strip() or not token.isprintable():
                raise ConfigError(
                    "token: a bearer token, as the server's operator gave it out; it is blank or has odd characters"
                )
            self._headers["authorization"] = f"Bearer {token}"
        self._session: Any = None
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
        aiohttp = _library()
        if self._closed:
            raise TransportError("http", "the connection was closed", backend_kind="protocol")
        if self._session is None:
            self._session = self._opened(aiohttp)
        try:
            more = {"timeout": aiohttp.ClientTimeout(total=TIMEOUT_S + wait_s, connect=CONNECT_S)} if wait_s else {}
            async with self._session.post(self._base + path, data=body, allow_redirects=False, **more) as reply:
                answer: bytes = await reply.read() if reply.status != 204 else b"null"
                status: int = reply.status
        except aiohttp.ClientConnectorError as error:  # nothing was sent
            raise TransportError("http", f"{self._base} cannot be reached ({error.strerror or error})") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            said = str(error) or type(error).__name__
            raise TransportError("http", f"{self._base}: no answer ({said})", doubtful=True) from error
        if status < 300:
            return answer
        raise _refused(status, answer)

    def _opened(self, aiohttp: Any) -> Any:
        connector = aiohttp.TCPConnector(limit=MAX_CONNECTIONS, keepalive_timeout=60)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S, connect=CONNECT_S)
        return aiohttp.ClientSession(
            connector=connector, headers=self._headers, cookie_jar=aiohttp.DummyCookieJar(), timeout=timeout
        )

    async def close(self) -> None:
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _refused(status: int, answer: bytes) -> Exception:
    if status in (401, 403):
        said = _said(answer) or "the token is missing, wrong, or not allowed to do this"
        return ConfigError(f"the server answered {status}: {said}; give App(url, token=...) a token with the right role")
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
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError("url: http://host:port or https://host:port of a FlowFabric server, with a path in front if it has one")
    if parts.username or parts.password:
        raise ConfigError("url: no user or password in it; give the token as App(url, token=...)")
    return url.rstrip("/")


def _library() -> Any:
    try:
        import aiohttp
    except ModuleNotFoundError:
        raise ConfigError("http:// needs one more library: pip install 'flowfabric[http]'") from None
    return aiohttp
