"""What a URL names, and which settings go with it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from flowfabric.errors import ConfigError
from flowfabric.store.sqlite.uri import is_memory

POSTGRES_SCHEMES = ("postgresql://", "postgres://")
VALKEY_SCHEMES = ("valkey://", "valkeys://")
HTTP_SCHEMES = ("http://", "https://")
_POSTGRES_PAIRS = re.compile(
    r"\s*(?:postgres(?:ql)?:|(?:host|hostaddr|port|dbname|user|password|service|sslmode)\s*=)"
)


def is_postgres(url: str) -> bool:
    return url.startswith(POSTGRES_SCHEMES)


def is_valkey(url: str) -> bool:
    return url.startswith(VALKEY_SCHEMES)


def is_http(url: str) -> bool:
    return url.startswith(HTTP_SCHEMES)


def is_server(url: str) -> bool:
    """Whether it names a database server."""
    return is_postgres(url) or is_valkey(url)


def is_in_memory(url: str) -> bool:
    """True when the data ends with this process."""
    if url == "memory://":
        return True
    return not is_server(url) and not is_http(url) and is_memory(sqlite_path(url))


def sqlite_path(url: str) -> str:
    """The path, URI or `:memory:` inside a sqlite:// URL; anything without a scheme is a path
    already.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "file":
        if _POSTGRES_PAIRS.match(url):  # not shown: it may hold a password
            raise ConfigError(
                "url: pairs such as host=... dbname=... are not a URL; "
                "use postgresql://user@host/database"
            )
        return url
    if scheme != "sqlite":
        raise ConfigError(
            f"url: {scheme}:// is not supported here; use memory://, sqlite:///path, "
            f"postgresql://host/database, valkey://host/cell or http://host:port"
        )
    return rest if rest.startswith((":memory:", "file:")) else rest.removeprefix("/") or ":memory:"


def check_settings(kind: str, given: Iterable[str], known: Iterable[str]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        accepted = ", ".join(sorted(known))
        raise ConfigError(f"unknown {kind} setting {unknown[0]!r}; accepted: {accepted}")
