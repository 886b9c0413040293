"""`flowfabric verify`: checks the invariants of a database; a table or JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from flowfabric.cli.database import Database, store_url
from flowfabric.cli.text import Json, console
from flowfabric.connect import index_faults, read_tables
from flowfabric.verify.invariants import CHECKS, Violation
from flowfabric.verify.snapshot import TABLES_READ, Snapshot, snapshot_of

SHOWN_VIOLATIONS = 20
INDEXES = "indexes"
INDEXES_SAY = "the keys, indexes and counters of a cell follow from its rows"


def load(url: str) -> Snapshot:
    return snapshot_of(read_tables(url, TABLES_READ))


def summary(snapshot: Snapshot) -> dict[str, int]:
    """Counts of executions by outcome, from rows and events."""
    states = Counter(execution.public_state for execution in snapshot.executions.values())
    ends = {
        key: sum(e["outcome"] == "success" for e in events)
        for key, events in snapshot.completions.items()
    }
    replays = {key: execution.replay_count for key, execution in snapshot.executions.items()}
    return {
        "created": len(snapshot.executions),
        "completed once": sum(n == 1 for n in ends.values()),
        "taken over": sum(
            execution.lease_reclaim_count > 0 for execution in snapshot.executions.values()
        ),
        "not ended": sum(n for state, n in states.items() if state not in _ENDED),
        "done twice": sum(n > 1 + replays.get(key, 0) for key, n in ends.items()),
    }


_ENDED = {"completed", "failed", "cancelled", "expired", "skipped"}


def run(database: Database, as_json: Json = False) -> int:
    """Checks every invariant of a database; exit status 0 only if all hold."""
    url = store_url(database.url, "verify")
    snapshot = load(url)
    found = {name: list(each(snapshot)) for name, each in CHECKS.items()}
    indexes = index_faults(url)
    if indexes is not None:
        found[INDEXES] = [Violation(INDEXES, subject, says) for subject, says in indexes]
    violations = [v for several in found.values() for v in several]
    if as_json:
        console.print_json(json.dumps(_report(snapshot, violations)))
    else:
        console.print(_table(snapshot, found))
        print_violations(violations)
    return 1 if violations else 0


def print_violations(violations: Sequence[Violation]) -> None:
    for each in violations[:SHOWN_VIOLATIONS]:
        console.print(f"[red]{each.invariant}[/red] {each.subject}: {each.says}")


def shown_count(count: int) -> str:
    return f"[red]{count}[/red]" if count else "[green]0[/green]"


def _report(snapshot: Snapshot, violations: list[Violation]) -> dict[str, object]:
    listed = [{"invariant": v.invariant, "subject": v.subject, "says": v.says} for v in violations]
    return {**{k.replace(" ", "_"): n for k, n in summary(snapshot).items()}, "violations": listed}


def _table(snapshot: Snapshot, found: dict[str, list[Violation]]) -> Table:
    table = Table(title=f"{len(snapshot.executions)} executions checked", title_justify="left")
    table.add_column("invariant")
    table.add_column("what must hold")
    table.add_column("violations", justify="right")
    for name, several in found.items():
        says = INDEXES_SAY
        if name in CHECKS:
            says = (CHECKS[name].__doc__ or "").partition(": ")[2].rstrip(".")
        table.add_row(name, says, shown_count(len(several)))
    return table
