"""Text of the commands: what users type, and what the terminal shows."""

from __future__ import annotations

from datetime import UTC, datetime

from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId, ExecutionIdError

EXECUTION_ID = "{fp:N}:<uuid>"


def clean(text: str) -> str:
    """The text without characters that could control a terminal or break a document."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def parse_execution_id(text: str) -> ExecutionId:
    try:
        return ExecutionId(text)
    except ExecutionIdError:
        raise ConfigError(
            f"ID: expected an execution id such as {EXECUTION_ID}, in quotes because of the "
            f"braces, got {clean(text[:80])!r}"
        ) from None


def not_found(kind: str, ident: object) -> ConfigError:
    return ConfigError(f"{ident}: no such {kind} in this database; retention may have removed it")


def utc(at_ms: int, pattern: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime(pattern)
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
