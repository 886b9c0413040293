"""The database or server of a command, opened to read it or to write to it."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from flowfabric.connect import connect_store, is_http, is_server, look_at, look_at_store
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError

URL_VARIABLE, TOKEN_VARIABLE = "FF_URL", "FF_TOKEN"
OLD_VARIABLE = "FLOWFABRIC_DB"
ACCEPTED = (
    "sqlite:///path, a path, postgresql://host/database, valkey://host/cell or http://host:port"
)
T = TypeVar("T")
E = TypeVar("E", bound=EngineProtocol)


def deprecated(old: str, new: str) -> None:
    print(f"deprecated: {old}; use {new}", file=sys.stderr)


def database_url(given: str | None, old: str | None = None) -> str:
    found = named_url(given, old)
    if not found:
        raise ConfigError(f"--db: expected {ACCEPTED}; or set {URL_VARIABLE}")
    return found


def named_url(given: str | None, old: str | None = None) -> str | None:
    """The URL of `--db`, else of an old argument, else of the environment."""
    if given and old:
        raise ConfigError("--db and a URL as the last argument: only one of them is accepted")
    if old:
        deprecated("the URL as an argument", f"--db or {URL_VARIABLE}")
    found = given or old or os.environ.get(URL_VARIABLE)
    if not found and (found := os.environ.get(OLD_VARIABLE)):
        deprecated(OLD_VARIABLE, URL_VARIABLE)
    return found


class Database(Struct, frozen=True):
    """What `--db`, `--token` and their variables name."""

    given: str | None = None
    given_token: str | None = None
    old: str | None = None

    @property
    def url(self) -> str:
        return database_url(self.given, self.old)

    @property
    def named(self) -> str | None:
        """The URL, for a command that works without one."""
        return named_url(self.given, self.old)

    @property
    def token(self) -> str | None:
        return self.given_token or os.environ.get(TOKEN_VARIABLE) or None

    @property
    def option(self) -> str:
        """What a command in a hint adds to name the same database."""
        shown = self.given or self.old
        if shown is None:
            return ""
        return " --db URL" if _has_secret(shown) else f" --db {shlex.quote(shown)}"

    def read(self, work: Callable[[EngineProtocol], Awaitable[T]]) -> T:
        """Runs reads. The database is not created, migrated or written to."""
        return read(self.url, work, self.token)

    def write(self, work: Callable[[EngineProtocol], Awaitable[T]]) -> T:
        """Runs changes of an existing database."""
        return write(self.url, work, self.token)

    async def open_to_write(self) -> EngineProtocol:
        """An engine for changes of an existing database, beside one that reads."""
        if is_http(self.url):
            return await look_at(self.url, self.token)
        _quiet()
        return await _existing(self.url)


def read(url: str, work: Callable[[EngineProtocol], Awaitable[T]], token: str | None = None) -> T:
    return asyncio.run(_closing(look_at(url, token or os.environ.get(TOKEN_VARIABLE)), work))


def write(url: str, work: Callable[[EngineProtocol], Awaitable[T]], token: str | None = None) -> T:
    if is_http(url):
        return read(url, work, token)
    _quiet()
    return asyncio.run(_closing(_existing(url), work))


async def _existing(url: str) -> LocalEngineProtocol:
    """An engine on a store that exists: opening a SQLite file for writing would create it."""
    if not is_server(url):
        await _closing(look_at_store(url), lambda engine: engine.list_lanes(limit=1))
    return await connect_store(url, dev=True, loops=False)


def _quiet() -> None:
    logging.getLogger("flowfabric").setLevel(logging.ERROR)


def store_url(url: str, what: str) -> str:
    if is_http(url):
        raise ConfigError(
            f"--db: {what} needs the store itself, not its server; "
            "use sqlite:///path, postgresql://host/database or valkey://host/cell"
        )
    return url


def _has_secret(url: str) -> bool:
    authority = url.partition("://")[2].partition("/")[0]
    return ":" in authority.rpartition("@")[0] or "password=" in url


async def _closing(opening: Awaitable[E], work: Callable[[E], Awaitable[T]]) -> T:
    engine = await opening
    try:
        return await work(engine)
    finally:
        await engine.close()
