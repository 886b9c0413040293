"""Lines of Lua."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Lines = Iterator[str]


def joined(parts: Iterable[str]) -> str:
    return " .. ".join(parts) or "''"


def indented(lines: Iterable[str], depth: int) -> Lines:
    for line in lines:
        yield "  " * depth + line
