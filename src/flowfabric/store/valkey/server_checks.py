"""What a server's settings promise: refused, or described."""

from __future__ import annotations

import re
from collections.abc import Mapping

from flowfabric.errors import ConfigError

MINIMUM_VERSION = 8
SETTINGS = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")


def check_version(info: str | bytes) -> None:
    named = facts(info)
    version = named.get("valkey_version", "")
    major = version.partition(".")[0]
    if not major.isdigit() or int(major) < MINIMUM_VERSION:
        found = version or named.get("redis_version", "unknown")
        raise ConfigError(f"Valkey {MINIMUM_VERSION} or newer is needed, the server has {found}")


def check_policy(settings: Mapping[str, str]) -> None:
    """A server that evicts keys loses work."""
    policy = settings.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        raise ConfigError(
            f"maxmemory-policy is {policy}: the server would drop work when its memory is full; "
            "set it with: CONFIG SET maxmemory-policy noeviction"
        )


def check_replicas(replication: Mapping[str, str], shown: str) -> None:
    """`durability=replicated` needs a primary that has a replica."""
    if not replicas_of(replication):
        raise ConfigError(
            f"durability=replicated: {shown} has no replica that follows it; add one "
            "with an append file (appendonly yes), or leave out durability=replicated"
        )


def replicas_of(replication: Mapping[str, str]) -> int:
    """Those that follow."""
    found = (value for name, value in replication.items() if re.fullmatch(r"slave\d+", name))
    return sum("state=online" in value for value in found)


UNCONFIRMED = (
    "durability=replicated: no replica has confirmed its append file; set on the replicas: "
    "CONFIG SET appendonly yes, and in their configuration file: appendonly yes"
)


def facts(info: bytes | str) -> dict[str, str]:
    text = info.decode(errors="replace") if isinstance(info, bytes) else info
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def durability(
    settings: Mapping[str, str], *, replicas: int = 0, is_replicated: bool = False
) -> str:
    """What a crash of the machine can lose, and where there are replicas, a failover."""
    if is_replicated:
        return "replicated (an append file of a replica has each answered commit)"
    if not replicas:
        return _of_server(settings)
    tier, _, rest = _of_server(settings).partition(" (")
    return f"{tier} ({rest.removesuffix(')')}; a failover loses what no replica has received)"


def _of_server(settings: Mapping[str, str]) -> str:
    if not settings:
        return "unknown (the server does not show its settings)"
    if settings.get("appendonly") != "yes":
        return "none (no append file: a restart of the server loses everything)"
    match settings.get("appendfsync"):
        case "always":
            return "full (append file, written before each answer)"
        case "everysec":
            return "about a second (append file, written every second)"
    return "up to 30 s (append file, written when the system writes it)"
