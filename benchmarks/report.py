"""One line per measured system, as JSON or as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct, structs
from rich.console import Console
from rich.table import Table


class Measured(Struct, kw_only=True):
    """What does not apply is None."""

    scenario: str
    store: str
    system: str
    n: int
    ops_per_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    raw_ops_per_s: float | None = None
    ratio_to_raw: float | None = None
    share_correct: float | None = None
    wal_bytes: float | None = None
    memory_bytes: float | None = None
    notes: str | None = None


def percentile(samples: Sequence[float], share: float) -> float:
    """In milliseconds, from seconds."""
    ordered = sorted(samples)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000


def show(results: Sequence[Measured], *, as_json: bool) -> None:
    if as_json:
        for result in results:
            print(json.dumps(structs.asdict(result)))
        return
    table = Table()
    shown = [
        name
        for name in Measured.__struct_fields__
        if any(getattr(result, name) is not None for result in results)
    ]
    for name in shown:
        left = name in ("scenario", "store", "system", "notes")
        table.add_column(name, justify="left" if left else "right")
    for result in results:
        table.add_row(*(_cell(getattr(result, name)) for name in shown))
    Console(width=160).print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return (
        f"{value:,.3g}"
        if isinstance(value, float) and value < 100
        else f"{value:,.0f}"
        if isinstance(value, float)
        else str(value)
    )
