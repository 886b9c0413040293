"""What the commands share: their arguments, their output and the texts of their errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId

T = TypeVar("T")
ID_METAVAR = "ID"
ExecutionArgument = Annotated[
    str,
    typer.Argument(
        metavar=ID_METAVAR,
        help="The execution: its uuid, the first 8 or more digits of it, or '{fp:N}:<uuid>'.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
console = Console(highlight=False)


def show(*lines: Text | str) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)


def print_json(value: object) -> None:
    console.file.write(json.dumps(value) + "\n")
    console.file.flush()


def clean(text: str) -> str:
    """The text without characters that could control a terminal or break a document."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def clean_lines(text: str) -> str:
    """As `clean`, for a text of several lines."""
    return "\n".join(clean(line.replace("\t", "    ")) for line in text.splitlines())


def parse_id(parse: Callable[[str], T], text: str, expected: str, *, repeat: bool = True) -> T:
    try:
        return parse(text)
    except ValueError:
        got = f", got {clean(text[:80])!r}" if repeat else ""
        raise ConfigError(f"{expected}{got}") from None


def short(ident: ExecutionId) -> str:
    """The uuid of an execution, as people read and type it."""
    return str(ident.uuid)


def utc(at_ms: int, pattern: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime(pattern)
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
