"""`valkey://[user:password@]host:6379/CELL`: where a cell is."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct

from flowfabric.errors import ConfigError

SCHEMES = ("valkey", "valkeys")
PORT = 6379
_CELL = re.compile(r"[A-Za-z0-9_.:-]{1,100}\Z")
_ACCEPTED = (
    "valkey://[user:password@]host:6379/CELL, valkeys:// for TLS, ?cluster=1 for a cluster, "
    "?durability=replicated, ?ca=FILE with valkeys://"
)
SERVER, REPLICATED = "server", "replicated"
DURABILITIES = (SERVER, REPLICATED)
"""What the settings of the server promise, or that of a replica as well."""


class Options(Struct, frozen=True):
    """The keys of a cell begin with its name in braces: a cluster keeps them in one slot."""

    host: str
    port: int = PORT
    cell: str = "default"
    user: str = ""
    password: str = ""
    tls: bool = False
    cluster: bool = False
    replicated: bool = False
    """A commit is answered when a replica has it in its append file."""
    ca: str = ""
    """A file with the certificates that sign the server's, in place of the system's."""

    @property
    def prefix(self) -> str:
        return f"{{{self.cell}}}"

    @property
    def channel(self) -> str:
        return f"{self.prefix}:W"

    @property
    def declared(self) -> list[str]:
        """The keys that a call names: the prefix, and where there is a cluster one more.

        Neither exists, so a server refuses the call while the keys of the slot move to another one
        by one; it would see one part of the cell.
        """
        return [self.prefix, f"{self.prefix}:"] if self.cluster else [self.prefix]

    @property
    def shown(self) -> str:
        """Without user and password."""
        return f"valkey{'s' if self.tls else ''}://{self.host}:{self.port}/{self.cell}"

    def __repr__(self) -> str:
        return f"Options({self.shown!r})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("url", self.shown)]


def options_of(url: str, durability: str | None = None) -> Options:
    """`durability` overrides that of the URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORT
    except ValueError:
        raise ConfigError(f"url: {_ACCEPTED}") from None
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ConfigError(f"url: {_ACCEPTED}")
    cell = unquote(parts.path.strip("/")) or "default"
    if not _CELL.match(cell):
        raise ConfigError("url: the cell has letters, digits and any of _ . : -, at most 100")
    query = {name: found[-1] for name, found in parse_qs(parts.query, True).items()}
    if unknown := sorted(set(query) - {"cluster", "durability", "ca"}):
        raise ConfigError(f"url: {unknown[0]} is not known; {_ACCEPTED}")
    cluster = query.get("cluster", "0")
    if cluster not in ("0", "1"):
        raise ConfigError("url: cluster: 0 or 1 is accepted")
    tls, ca = parts.scheme == "valkeys", query.get("ca", "")
    if ca and not tls:
        raise ConfigError("url: ca: only valkeys:// uses certificates")
    return Options(
        parts.hostname,
        port,
        cell,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        tls,
        cluster == "1",
        is_replicated(durability or query.get("durability", SERVER)),
        ca,
    )


def is_replicated(durability: str) -> bool:
    if durability not in DURABILITIES:
        raise ConfigError(
            f"durability: {' or '.join(DURABILITIES)} is accepted, not {durability!r}"
        )
    return durability == REPLICATED
