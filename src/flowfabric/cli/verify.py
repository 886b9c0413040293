"""`flowfabric verify`: the invariants over a database, as a table or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table

from flowfabric.connect import read_tables
from flowfabric.verify.invariants import CHECKS, Violation
from flowfabric.verify.snapshot import TABLES_READ, Snapshot, world_of

SHOWN_VIOLATIONS = 20


def load(url: str) -> Snapshot:
    return world_of(read_tables(url, TABLES_READ))


def summary(world: Snapshot) -> dict[str, int]:
    """What a person wants to know first, counted from the rows and the events."""
    states = Counter(execution.public_state for execution in world.executions.values())
    ends = {
        key: sum(e["outcome"] == "success" for e in events)
        for key, events in world.completions.items()
    }
    replays = {key: execution.replay_count for key, execution in world.executions.items()}
    return {
        "created": len(world.executions),
        "completed once": sum(n == 1 for n in ends.values()),
        "taken over": sum(
            execution.lease_reclaim_count > 0 for execution in world.executions.values()
        ),
        "not ended": sum(n for state, n in states.items() if state not in _ENDED),
        "done twice": sum(n > 1 + replays.get(key, 0) for key, n in ends.items()),
    }


_ENDED = {"completed", "failed", "cancelled", "expired", "skipped"}


def run(url: str, console: Console, *, as_json: bool) -> int:
    world = load(url)
    found = {name: list(each(world)) for name, each in CHECKS.items()}
    violations = [v for several in found.values() for v in several]
    if as_json:
        console.print_json(json.dumps(_report(world, violations)))
    else:
        console.print(_table(world, found))
        for violation in violations[:SHOWN_VIOLATIONS]:
            console.print(
                f"[red]{violation.invariant}[/red] {violation.subject}: {violation.says}",
                highlight=False,
            )
    return 1 if violations else 0


def _report(world: Snapshot, violations: list[Violation]) -> dict[str, Any]:
    listed = [{"invariant": v.invariant, "subject": v.subject, "says": v.says} for v in violations]
    return {**{k.replace(" ", "_"): n for k, n in summary(world).items()}, "violations": listed}


def _table(world: Snapshot, found: dict[str, list[Violation]]) -> Table:
    table = Table(title=f"{len(world.executions)} executions checked", title_justify="left")
    table.add_column("invariant")
    table.add_column("what must hold")
    table.add_column("violations", justify="right")
    for name, several in found.items():
        says = (CHECKS[name].__doc__ or "").partition(": ")[2].rstrip(".")
        table.add_row(name, says, f"[red]{len(several)}[/red]" if several else "[green]0[/green]")
    return table
