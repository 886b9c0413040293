"""Connections: their settings, reconnecting, and a limit on how long a statement takes."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg
from asyncpg.connect_utils import SessionAttribute
from msgspec import Struct, structs

from flowfabric.errors import ConfigError, TransportError
from flowfabric.store.postgres import hosts
from flowfabric.store.postgres.errors import must_reconnect, unreachable
from flowfabric.store.postgres.hosts import Host

CONNECT_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 60.0
RECONNECT_FOR_S = 10.0
FIRST_PAUSE_S, LAST_PAUSE_S = 0.02, 0.5
STATEMENTS_KEPT = 1_000
SESSION_SETTINGS = {
    "application_name": "flowfabric",
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": "5000",
    "jit": "off",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "timezone": "UTC",
}
WRITER_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
}
READER_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_sort": "off",
    "enable_bitmapscan": "off",
}
KEEPALIVE = {
    "TCP_KEEPIDLE": 5,
    "TCP_KEEPINTVL": 2,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 10_000,
}
"""Of the client's sockets, in seconds; the last one in milliseconds."""
FIRST_PLANS_S, LAST_PLANS_S = 0.25, 60.0
NOTIFIER_SETTINGS = {"synchronous_commit": "off"}
"""A lost notification costs time only."""
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,50}\Z")


class Options(Struct, frozen=True):
    """With `pooler`, for a transaction-mode pooler, no state is kept on a session. Notifications
    then need `listen_url`, which names the server itself; without it the store polls.
    """

    url: str
    schema: str = "public"
    writers: int = 2
    readers: int = 8
    pooler: bool = False
    listen_url: str = ""

    def checked(self) -> Options:
        _check_url("url", self.url)
        if not isinstance(self.schema, str) or not _SCHEMA.match(self.schema):
            raise ConfigError(
                f"schema: lower case letters, digits and underscores, got {self.schema!r:.60}"
            )
        for name, value, most in (("writers", self.writers, 16), ("readers", self.readers, 100)):
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
                raise ConfigError(f"{name}: a whole number from 1 to {most}, got {value!r}")
        if not isinstance(self.pooler, bool):
            raise ConfigError(f"pooler: True or False, got {self.pooler!r:.60}")
        if self.pooler and self.schema != "public":
            raise ConfigError(
                "schema: behind a pooler, set search_path on the role or the database instead"
            )
        if self.listen_url:
            _check_url("listen_url", self.listen_url)
            if not self.pooler:
                raise ConfigError("listen_url: needed only with pooler=True")
        return self

    @property
    def listens(self) -> bool:
        return not self.pooler or bool(self.listen_url)

    @property
    def direct(self) -> Options:
        """For connections that last, around the pooler where `listen_url` allows it."""
        if not self.listen_url:
            return self
        return structs.replace(self, url=self.listen_url, pooler=False, listen_url="")

    @property
    def shown(self) -> str:
        """Host and database, without user and password."""
        return hosts.shown(self.url)

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        urls = [(name, _shown(getattr(self, name))) for name in ("url", "listen_url")]
        others = [name for name in self.__struct_fields__ if name not in ("url", "listen_url")]
        return [urls[0], *((name, getattr(self, name)) for name in others), urls[1]]


def _check_url(name: str, url: object) -> None:
    if not isinstance(url, str) or url.partition("://")[0] not in ("postgresql", "postgres"):
        raise ConfigError(f"{name}: expected postgresql://user@host:port/database")
    hosts.shown(url)
    hosts.target_of(url)


def _shown(url: str) -> str:
    try:
        return hosts.shown(url) if url else ""
    except ConfigError as error:
        return str(error)


async def connect(
    options: Options, more: dict[str, str] | None = None, *, watched: bool = False
) -> asyncpg.Connection:
    """The driver limits how long a statement takes, unless a `StatementTimeout` does."""
    settings = {**SESSION_SETTINGS, **(more or {})}
    if options.schema != "public":
        settings["search_path"] = options.schema
    target = hosts.target_of(options.url)

    async def open_on(host: Host | None) -> asyncpg.Connection:
        connection: asyncpg.Connection = await asyncpg.connect(
            options.url,
            host=None if host is None else host.name,
            port=None if host is None else host.port,
            target_session_attrs=None if target is None else SessionAttribute(target),
            timeout=CONNECT_TIMEOUT_S,
            command_timeout=None if watched else COMMAND_TIMEOUT_S,
            statement_cache_size=0 if options.pooler else STATEMENTS_KEPT,
            max_cached_statement_lifetime=0,
            server_settings={} if options.pooler else settings,
        )
        _notice_a_dead_host(connection)
        return connection

    try:
        several = hosts.hosts_of(options.url)
        if len(several) < 2:
            return await open_on(None)
        return await hosts.connect_to_first(several, open_on)
    except ConfigError:
        raise
    except Exception as error:
        raise unreachable(error, options.shown) from error


def _notice_a_dead_host(connection: asyncpg.Connection) -> None:
    """A host that lost its power or its network sends no reset, and an idle client waits."""
    transport = getattr(connection, "_transport", None)
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with socket.fromfd(sock.fileno(), sock.family, sock.type) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            if hasattr(socket, name):
                own.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def closed() -> TransportError:
    return TransportError("postgres", "the database was closed", backend_kind="protocol")


class StatementTimeout:
    """Ends a statement that takes too long.

    One timer serves all statements of a connection: a timer each would cost as much as sending it.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._since = time.monotonic()
        if self._timer is None:
            self._check()

    def __exit__(self, *_: object) -> None:
        self._since = None

    def _check(self) -> None:
        self._timer = None
        if self._since is None:
            return
        left = self._since + COMMAND_TIMEOUT_S - time.monotonic()
        if left > 0:
            self._timer = asyncio.get_running_loop().call_later(left, self._check)
        else:
            self._end()

    @property
    def is_armed(self) -> bool:
        return self._timer is not None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LazyConnection:
    """Connects when first used, and again when the connection is lost.

    A `watched` one is used inside `with link.timeout`.
    """

    def __init__(
        self, options: Options, settings: dict[str, str] | None = None, *, watched: bool = False
    ) -> None:
        self._options, self._settings, self._watched = options, settings, watched
        self._connection: asyncpg.Connection | None = None
        self.timeout = StatementTimeout(self.drop)
        self._is_closed = self.is_outdated = False
        self._keep_plans_s, self.keep_plans_until = FIRST_PLANS_S, 0.0

    @property
    def current(self) -> asyncpg.Connection | None:
        return self._connection

    async def get(self) -> asyncpg.Connection:
        """Retries for `RECONNECT_FOR_S` while the server is unreachable; nothing was sent yet.

        An outdated connection is replaced: another server takes the writes.
        """
        if self.is_outdated:
            self.drop()
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        give_up = time.monotonic() + RECONNECT_FOR_S
        pause = FIRST_PAUSE_S
        while True:
            try:
                connection = await connect(self._options, self._settings, watched=self._watched)
                if self._is_closed:  # closed while it was connecting
                    connection.terminate()
                    raise closed()
                self.adopt(connection)
                return connection
            except Exception as error:
                if not getattr(error, "retryable", False) or time.monotonic() + pause > give_up:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)

    def adopt(self, connection: asyncpg.Connection) -> None:
        self._connection, self.is_outdated = connection, False
        self._keep_plans_s, self.keep_plans_until = FIRST_PLANS_S, time.monotonic() + FIRST_PLANS_S

    async def replan(self) -> None:
        """Discards plans now and then.

        A plan made while a table was empty reads the whole table, and is kept until ANALYZE runs.
        """
        if (
            self._settings is not None
            and self._connection is not None
            and time.monotonic() >= self.keep_plans_until
        ):
            self._keep_plans_s = min(self._keep_plans_s * 2, LAST_PLANS_S)
            self.keep_plans_until = time.monotonic() + self._keep_plans_s
            await self._connection.execute("DISCARD PLANS")

    def drop(self) -> None:
        self.timeout.stop()
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def close(self) -> None:
        self.timeout.stop()
        self._is_closed = True
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=2)
            except Exception:
                connection.terminate()
            except BaseException:  # cancelled: a connection that is merely collected warns
                connection.terminate()
                raise


class ConnectionPool:
    """Each connection is lent to one read at a time."""

    def __init__(self, options: Options, count: int) -> None:
        self.connections = [
            LazyConnection(options, None if options.pooler else READER_SETTINGS)
            for _ in range(count)
        ]
        self._free = list(self.connections)
        self._available = asyncio.Semaphore(count)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[asyncpg.Connection]:
        async with self._available:
            link = self._free.pop()
            try:
                connection = await link.get()
                await link.replan()
                yield connection
            except BaseException as error:
                if must_reconnect(error) or isinstance(error, asyncio.CancelledError):
                    link.drop()
                raise
            finally:
                self._free.append(link)

    async def close(self) -> None:
        for link in self.connections:
            await link.close()
