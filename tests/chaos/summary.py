"""The summary of a run: faults, ends of runs, calls and checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from flowfabric.verify.invariants import Violation

from .checker import CHECKS
from .evidence import FENCED, GRANTS, Evidence
from .fences import is_borrowed
from .logs import Call
from .survivors import reconnects
from .task_plan import RIGHT_ENDS
from .waits import MET

LATE = ("lease_conflict", "lease_expired", "lease_revoked", "stale_lease", "execution_not_active")
THAWED_NS = 3_000_000_000
ENDS = ("success", "failed", "cancelled", "expired", "skipped")
Table = Mapping[str, Any]


def faults(seen: Evidence, self_kills: int, restarts: Mapping[str, int], cut: int) -> Table:
    ops = Counter(note["op"] for note in seen.history.notes)
    frozen = [note for note in seen.history.notes if note["op"] == "freeze"]
    return {
        "killed": ops["kill"],
        "killed itself at a point": self_kills,
        "stopped for a moment": ops["stop"],
        "frozen beyond every limit": f"{len(frozen)}, {sum(note['led'] for note in frozen)} of "
        f"them the leader",
        "asked to end": ops["term"],
        "blocked its event loop": ops["blocks"],
        "wall clock set wrong": ops["clock"],
        "clock of the server stepped": ops["server_clock"],
        "server restarts": ", ".join(f"{count} by {how}" for how, count in restarts.items()),
        "connections cut": cut,
    }


def ends(seen: Evidence) -> Table:
    """Of tasks by name, and of all other executions together."""
    told: dict[str, Counter[str]] = {}
    for ident, run in seen.runs.items():
        execution = seen.execution(ident)
        outcome = (
            execution.terminal_outcome if execution is not None else (run.ends or ("lost",))[0]
        )
        told.setdefault(run.kind, Counter())[outcome] += 1
    for execution in seen.world.executions.values():
        if execution.id not in seen.runs:
            told.setdefault("(plain)", Counter())[execution.terminal_outcome] += 1
    return {
        kind: ", ".join(f"{n} {end}" for end, n in sorted(told[kind].items()))
        for kind in sorted(told, key=_rank)
    }


def _rank(kind: str) -> tuple[bool, int]:
    return kind in RIGHT_ENDS, list(RIGHT_ENDS).index(kind) if kind in RIGHT_ENDS else 0


def work(seen: Evidence) -> Table:
    history, world = seen.history, seen.world
    leases = [event for events in world.leases.values() for event in events]
    verdicts = {
        word: sum(call.verdict == word for call in history.calls)
        for word in ("acknowledged", "refused", "unknown")
    }
    lost = "sibling_quorum"
    return {
        "calls": ", ".join(f"{count} {word}" for word, count in verdicts.items()),
        "unknown outcomes told": sum(
            call.verdict == "unknown" and call.answered_ns > 0 for call in history.calls
        ),
        "reconnects": reconnects(seen),
        "claims": sum(event["event_type"] in GRANTS for event in leases),
        "completes acknowledged": sum(1 for _ in history.of("complete")),
        "takeovers": sum(execution.lease_reclaim_count for execution in world.executions.values()),
        "late writes refused": sum(
            _was_late(call) for call in history.of(*FENCED, verdict="refused")
        ),
        "refused right after a freeze": sum(
            _was_late(call) and _was_thawed(seen, call) for call in history.calls
        ),
        "steps recorded": sum(1 for _ in history.of("step")),
        "suspends, over at once": f"{_count(seen, 'suspend')}, "
        f"{_count(seen, 'suspend', lambda r: r['outcome'] == 'met')}",
        "signals, resumes": f"{_count(seen, 'signal')}, "
        f"{_count(seen, 'signal', lambda r: r['effect'] == MET)}",
        "waits timed out": sum(
            (s.close_reason or "").startswith("timed_out") for s in world.suspensions.values()
        ),
        "frames acknowledged": sum(len(call.reply["ids"]) for call in history.of("append")),
        "flows, losers cancelled": f"{len(world.flows)}, "
        f"{sum((e.cancellation_reason or '').startswith(lost) for e in world.executions.values())}",
        "ends borrowed": sum(is_borrowed(seen, call) for call in history.of("fail", "give_up")),
        "runs forgotten": sum(run.forgotten for run in seen.runs.values()),
        "subscriber lives": len({life.instance for life in history.lives}),
    }


def checks(seen: Evidence, violations: list[Violation], worst_ms: int) -> Table:
    probes = sum(note["op"] == "probe" for note in seen.history.notes)
    return {
        "checks": len(CHECKS),
        "worker and lane pairs probed": probes,
        "timer overdue when healthy": f"{max(worst_ms, 0)} ms at the most",
        "violations": len(violations),
    }


def show(title: str, table: Table) -> None:
    print(f"\n{title}")
    for name, value in table.items():
        print(f"  {name:<30}{value}")


def _count(
    seen: Evidence, op: str, wanted: Callable[[dict[str, Any]], bool] = lambda reply: True
) -> int:
    return sum(wanted(call.reply) for call in seen.history.of(op))


def _was_late(call: Call) -> bool:
    """A renewal after the end of its own execution is superfluous and not late."""
    if call.verdict != "refused" or call.op not in FENCED:
        return False
    return call.reply["code"] in LATE and (call.op, call.reply["code"]) != (
        "renew",
        "execution_not_active",
    )


def _was_thawed(seen: Evidence, call: Call) -> bool:
    """The process had been frozen and continued just before the answer."""
    for note in seen.history.notes:
        if note["op"] == "freeze" and note["target"] == call.instance:
            thawed = note["t"] + int(float(note["seconds"]) * 1e9)
            if thawed <= call.answered_ns <= thawed + THAWED_NS:
                return True
    return False
