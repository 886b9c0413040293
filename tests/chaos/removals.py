"""The checks of removed executions of workers in a run of many minutes."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from flowfabric.verify.invariants import Violation

from .evidence import TRIMMED, Evidence
from .fences import nothing_accepted_too_late, nothing_stale_accepted
from .logs import History

BORROWED = ("fail", "give_up")
"""A late holder may be answered what an operator's cancel came to; the row that tells is gone."""


def nothing_removed_early(seen: Evidence) -> Iterator[Violation]:
    """Removed executions had ended at least their retention age before retention last ran."""
    trims = [note for note in seen.history.notes if note["op"] == TRIMMED]
    latest = max((note["ms"] - note["kept_ms"] for note in trims), default=0)
    for ident, ended_ms in seen.ended_ms.items():
        if ended_ms > latest:
            yield Violation("I1", ident, f"was removed {ended_ms - latest} ms too early")


def removed_were_fenced(seen: Evidence) -> Iterator[Violation]:
    """From the logs alone. After a lost answer only the removed rows would show which try was
    accepted.
    """
    calls = seen.removed
    doubtful = {(c.op, c.execution, c.epoch) for c in calls if c.verdict == "unknown"}
    kept = [
        call
        for call in calls
        if call.op not in BORROWED
        and (call.op == "claim" or (call.op, call.execution, call.epoch) not in doubtful)
    ]
    logged = structs.replace(seen, history=History(kept, [], []))
    yield from nothing_stale_accepted(logged)
    yield from nothing_accepted_too_late(logged)


REMOVAL_CHECKS = (nothing_removed_early, removed_were_fenced)
