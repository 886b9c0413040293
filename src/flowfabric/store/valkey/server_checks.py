"""What a server's settings promise: refused, or described."""

from __future__ import annotations

from collections.abc import Mapping

from flowfabric.errors import ConfigError

MINIMUM_VERSION = 8
SETTINGS = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")


def check_version(info: str) -> None:
    named = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
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


def durability(settings: Mapping[str, str]) -> str:
    """What a crash of the machine can lose."""
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
