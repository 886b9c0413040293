"""Connections: their settings, reconnecting, and a limit on how long a statement takes."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import asyncpg
from msgspec import Struct

from flowfabric.errors import ConfigError, TransportError
from flowfabric.store.postgres.errors import is_gone, unreachable

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
FIRST_PLANS_S, LAST_PLANS_S = 0.25, 60.0
NOTIFIER_SETTINGS = {"synchronous_commit": "off"}
"""A lost notification costs time only."""
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,50}\Z")
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::(\d{1,5}))?")


class Options(Struct, frozen=True):
    """With `pooler`, for a transaction-mode pooler, no state is kept on a session and the store
    does not listen for notifications.
    """

    url: str
    schema: str = "public"
    writers: int = 2
    readers: int = 8
    pooler: bool = False

    def checked(self) -> Options:
        if not isinstance(self.url, str) or self.url.partition("://")[0] not in (
            "postgresql",
            "postgres",
        ):
            raise ConfigError("url: expected postgresql://user@host:port/database")
        _where(self.url)
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
        return self

    @property
    def shown(self) -> str:
        """Host and database, without user and password."""
        return _where(self.url)

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        try:
            shown = self.shown
        except ConfigError as error:
            shown = str(error)
        return [
            ("url", shown),
            *((name, getattr(self, name)) for name in self.__struct_fields__[1:]),
        ]


def _where(url: str) -> str:
    """Hosts and database of a URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigError("url: the brackets of the host do not match") from None
    if "@" in parts.path + parts.query.partition("=")[0] or parts.fragment:
        raise ConfigError("url: in a password, /, ? and # are written %2F, %3F and %23")
    hosts = parts.netloc.rpartition("@")[2]
    for host in hosts.split(","):
        found = _HOST.fullmatch(host)
        if found is None or not 1 <= int(found[1] or 1) <= 65_535:
            raise ConfigError("url: the port is not a number from 1 to 65535")
    return f"postgresql://{hosts or 'localhost'}{parts.path or '/'}"


async def connect(
    options: Options, more: dict[str, str] | None = None, *, watched: bool = False
) -> asyncpg.Connection:
    """The driver limits how long a statement takes, unless a `StatementTimeout` does."""
    settings = {**SESSION_SETTINGS, **(more or {})}
    if options.schema != "public":
        settings["search_path"] = options.schema
    try:
        return await asyncpg.connect(
            options.url,
            timeout=CONNECT_TIMEOUT_S,
            command_timeout=None if watched else COMMAND_TIMEOUT_S,
            statement_cache_size=0 if options.pooler else STATEMENTS_KEPT,
            max_cached_statement_lifetime=0,
            server_settings={} if options.pooler else settings,
        )
    except ConfigError:
        raise
    except Exception as error:
        raise unreachable(error, options.shown) from error


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
        self._is_closed = False
        self._keep_plans_s, self.keep_plans_until = FIRST_PLANS_S, 0.0

    @property
    def current(self) -> asyncpg.Connection | None:
        return self._connection

    async def get(self) -> asyncpg.Connection:
        """Retries for `RECONNECT_FOR_S` while the server is unreachable; nothing was sent yet."""
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
        self._connection = connection
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
                if is_gone(error) or isinstance(error, asyncio.CancelledError):
                    link.drop()
                raise
            finally:
                self._free.append(link)

    async def close(self) -> None:
        for link in self.connections:
            await link.close()
