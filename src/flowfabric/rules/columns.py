"""Columns and conditions that many forms have in common."""

from __future__ import annotations

from flowfabric.plan import After, Arg, Cond


def from_args(*names: str) -> dict[str, object]:
    """Columns that take the values of the call."""
    return {name: Arg(name) for name in names}


def by_args(*columns: str) -> tuple[Cond, ...]:
    """Rows whose columns equal the values of the call."""
    return tuple(Cond(column, "=", Arg(column)) for column in columns)


def by_row(*columns: str) -> tuple[Cond, ...]:
    """Rows whose columns equal those of the guarded row as this plan leaves it."""
    return tuple(Cond(column, "=", After(column)) for column in columns)


def from_row(*names: str) -> dict[str, object]:
    """Columns that take the values of the guarded row as this plan leaves it."""
    return {name: After(name) for name in names}
