"""Phrases for users: durations, lists, counts, and clipped texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flowfabric.model.explanation import MAX_TEXT

NOTHING_TO_DO = "nothing to do while a process runs the background loops"
FEW = 3
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def span(ms: int) -> str:
    """The largest whole unit: `3 min`."""
    for size, unit in _UNITS:
        if ms >= size:
            return f"{ms // size} {unit}"
    return "less than a second"


def ago(now: int, at: int | None) -> str:
    """` 3 min ago`, or nothing without a time."""
    return "" if at is None else f" {span(max(now - at, 0))} ago"


def coming(now: int, at: int | None) -> str:
    """` in 3 min`, or nothing without a time."""
    return "" if at is None else f" in {span(max(at - now, 0))}"


def clipped(text: str | None, size: int = MAX_TEXT) -> str:
    full = text or ""
    return full if len(full) <= size else full[: size - 1] + "…"


def quoted(texts: Iterable[str]) -> str:
    return listed([f"`{clipped(text)}`" for text in texts])


def listed(texts: Sequence[str], more: int = 0) -> str:
    """The first few, and the number of the others."""
    rest = max(len(texts) - FEW, 0) + more
    shown = ", ".join(texts[:FEW])
    return f"{shown} and {rest} more" if rest else shown


def tail(text: str | None) -> str:
    """`: text`, or nothing for an empty text."""
    return f": {clipped(text)}" if text else ""


def counted(n: int, one: str, several: str = "") -> str:
    return f"1 {one}" if n == 1 else f"{n:,} {several or one + 's'}"
