"""The hosts that a URL names, and a connection to the first of them that qualifies."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import asyncpg
from msgspec import Struct

from flowfabric.errors import ConfigError
from flowfabric.store.postgres.errors import is_gone

HEAD_START_S = 0.25
"""How long a host is waited for before the next one is tried beside it."""
TARGETS = ("any", "primary", "read-write", "read-only", "standby")
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d{1,5}))?")
_BAD_PORT = "url: the port is not a number from 1 to 65535"


class Host(Struct, frozen=True):
    """Without a port, the driver's default applies."""

    name: str
    port: int | None


def shown(url: str) -> str:
    """Hosts and database, without user and password. Raises for a malformed URL."""
    parts = _split(url)
    hosts_of(url)
    return f"postgresql://{_authority(parts) or 'localhost'}{parts.path or '/'}"


def hosts_of(url: str) -> list[Host]:
    """In the order of the URL; empty when it names none and the driver's default applies."""
    parts = _split(url)
    authority = _authority(parts)
    hosts = [_host(text) for text in authority.split(",")] if authority else []
    if len(hosts) > 1 and not all(host.name for host in hosts):
        raise ConfigError("url: a host of the list is empty")
    ports = _parameter(parts, "port").split(",")
    if _host_list(parts) or not ports[0]:
        return hosts
    if len(ports) not in (1, len(hosts)):
        raise ConfigError(f"url: {len(ports)} ports for {len(hosts)} hosts")
    numbers = ports * len(hosts) if len(ports) == 1 else ports
    return [
        host if host.port else Host(host.name, _port(port))
        for host, port in zip(hosts, numbers, strict=True)
    ]


def target_of(url: str) -> str | None:
    """The value of `target_session_attrs`. For several hosts the default is the one that takes
    writes.
    """
    said = _parameter(_split(url), "target_session_attrs")
    if said and said not in TARGETS:
        raise ConfigError(f"url: target_session_attrs is one of {', '.join(TARGETS)}")
    said = said or os.environ.get("PGTARGETSESSIONATTRS", "")
    return said or ("read-write" if len(hosts_of(url)) > 1 else None)


async def connect_to_first(
    hosts: Iterable[Host], connect: Callable[[Host], Awaitable[asyncpg.Connection]]
) -> asyncpg.Connection:
    """Tries the hosts in order. A host that does not answer delays the next by `HEAD_START_S`."""
    waiting = list(hosts)
    running: set[asyncio.Future[asyncpg.Connection]] = set()
    errors: list[BaseException] = []
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.ensure_future(connect(waiting.pop(0))))
            done, _ = await asyncio.wait(
                running,
                timeout=HEAD_START_S if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in done:
                running.discard(attempt)
                error = attempt.exception()
                if error is None:
                    running |= done - {attempt}
                    return attempt.result()
                errors.append(error)
    finally:
        await _discard(running)
    raise next((error for error in errors if not is_gone(error)), errors[-1])


async def _discard(attempts: set[asyncio.Future[asyncpg.Connection]]) -> None:
    for attempt in attempts:
        attempt.cancel()
    for made in await asyncio.gather(*attempts, return_exceptions=True):
        if not isinstance(made, BaseException):
            made.terminate()


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigError("url: the brackets of the host do not match") from None
    if "@" in parts.path + parts.query.partition("=")[0] or parts.fragment:
        raise ConfigError("url: in a password, /, ? and # are written %2F, %3F and %23")
    return parts


def _host_list(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _authority(parts: SplitResult) -> str:
    """The host list, or else the parameters `host` and `port` in its form."""
    found = _host_list(parts)
    return found or _parameter(parts, "host")


def _parameter(parts: SplitResult, name: str) -> str:
    return parse_qs(parts.query).get(name, [""])[-1]


def _host(text: str) -> Host:
    if text.startswith("/"):
        return Host(text, None)
    found = _HOST.fullmatch(text)
    if found is None:
        raise ConfigError(_BAD_PORT)
    return Host(unquote(found[1].strip("[]")), _port(found[2]) if found[2] else None)


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise ConfigError(_BAD_PORT)
    return int(text)
