"""The checks of task runs: each ended once, as its plan allows, in its own namespace."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator

from flowfabric.model.event import LEASE_EVENTS
from flowfabric.verify.invariants import Violation

from .evidence import GRANTS, Evidence, TaskRun, stream_of
from .task_plan import PURSE, RIGHT_ENDS, RIGHT_RESULTS, SPENDERS, argument, purse_of

HOME = "default"
"""The namespace of what is no task."""


def runs_ended_right(seen: Evidence) -> Iterator[Violation]:
    for ident, run in seen.runs.items():
        outcome = _outcome(seen, ident, run)
        if outcome not in RIGHT_ENDS.get(run.kind, ()):
            why = getattr(seen.execution(ident), "failure_reason", None)
            says = (
                f"{run.kind} ended {outcome or 'never'} ({why}), right is "
                f"{' or '.join(RIGHT_ENDS.get(run.kind, ()))}"
            )
            yield Violation("wrong end", ident, says)


def results_are_right(seen: Evidence) -> Iterator[Violation]:
    for ident, (outcome, value) in _seen_or_stored(seen).items():
        run = seen.runs[ident]
        if outcome == "success" and run.kind in RIGHT_RESULTS:
            found = json.loads(value) if value else None
            if not RIGHT_RESULTS[run.kind](argument(run.payload), found):
                yield Violation(
                    "wrong result", ident, f"{run.kind} of {argument(run.payload)} returned {value}"
                )


def runs_ended_once(seen: Evidence) -> Iterator[Violation]:
    """By the events of the subscriber, also for removed runs."""
    for ident, run in seen.runs.items():
        if len(run.ends) > 1:
            yield Violation(
                "ended twice", ident, f"{run.kind} was told to have ended {' and '.join(run.ends)}"
            )


def seen_ends_stand(seen: Evidence) -> Iterator[Violation]:
    """An end read by the client is the stored end and the one in the event."""
    for note in seen.history.notes:
        if note["op"] == "saw" and note["execution"] in seen.runs:
            run, execution = seen.runs[note["execution"]], seen.execution(note["execution"])
            stands = {*run.ends, *(() if execution is None else (execution.terminal_outcome,))}
            if stands - {note["outcome"]}:
                yield Violation(
                    "I3",
                    note["execution"],
                    f"was seen to be {note['outcome']}, and is {', '.join(sorted(stands))}",
                )
            if execution is not None and (execution.result or b"").decode() != (
                note["value"] or ""
            ):
                yield Violation(
                    "I3", note["execution"], f"its result was seen to be {note['value']}"
                )


def steps_are_kept(seen: Evidence) -> Iterator[Violation]:
    """A step has one value for every caller, and results consist of such values."""
    asked: dict[tuple[str, int], set[str]] = defaultdict(set)
    told: dict[tuple[str, int], set[str]] = defaultdict(set)
    for call in seen.history.calls:
        if call.op == "step" and call.verdict != "refused":
            asked[call.execution, call.facts["position"]].add(call.facts["value"])
            if call.acknowledged:
                told[call.execution, call.facts["position"]].add(call.reply["value"])
    for (ident, position), values in told.items():
        if len(values) > 1 or not values <= asked[ident, position]:
            yield Violation(
                "lost step", ident, f"position {position} was told to be {sorted(values)}"
            )
    for ident, (outcome, value) in _seen_or_stored(seen).items():
        if (
            seen.runs[ident].kind == "steps"
            and outcome == "success"
            and not seen.runs[ident].forgotten
        ):
            parts = {json.dumps(part) for part in json.loads(value)["steps"]}
            sent = {value for (of, _), values in asked.items() if of == ident for value in values}
            if parts - sent:
                yield Violation(
                    "lost step",
                    ident,
                    f"its result has {sorted(parts - sent)}, which no step was recorded with",
                )


def budgets_admit_exactly(seen: Evidence) -> Iterator[Violation]:
    """As many runs have spent as the budget admits, or all if there are fewer."""
    spent: dict[tuple[str, str], list[bool | None]] = defaultdict(list)
    values = _seen_or_stored(seen)
    for ident, run in seen.runs.items():
        if run.kind in SPENDERS:
            outcome, value = values.get(ident, (_outcome(seen, ident, run), None))
            says_so = None if value is None else value == '"spent"'
            has_spent = outcome == "success" if SPENDERS[run.kind] != "success" else says_so
            spent[run.namespace, purse_of(run.kind, argument(run.payload))].append(has_spent)
    for (namespace, purse), each in spent.items():
        right = min(PURSE, len(each))
        if None not in each and sum(map(bool, each)) != right:
            yield Violation(
                "I13",
                f"{namespace}: {purse}",
                f"{sum(map(bool, each))} of {len(each)} runs spent, right is {right}",
            )


def no_run_crosses(seen: Evidence) -> Iterator[Violation]:
    """Every lease was granted to a worker of the run's own namespace, and every run is stored in
    the one it was submitted to.
    """
    serves = {
        note["worker"]: note["namespace"] for note in seen.history.notes if note["op"] == "serves"
    }
    for line in stream_of(seen.history, LEASE_EVENTS)[0]:
        run = seen.runs.get(line["execution"])
        lives, works = HOME if run is None else run.namespace, serves.get(line["worker"], HOME)
        if line["type"] in GRANTS and lives != works:
            yield Violation(
                "I24",
                line["execution"],
                f"of namespace {lives}, was granted to {line['worker']} of {works}",
            )
    for execution in seen.world.executions.values():
        submitted = seen.runs[execution.id].namespace if execution.id in seen.runs else HOME
        if execution.namespace != submitted:
            yield Violation(
                "I24", execution.id, f"was submitted to {submitted} and is in {execution.namespace}"
            )


def _outcome(seen: Evidence, ident: str, run: TaskRun) -> str:
    execution = seen.execution(ident)
    if execution is not None:
        return execution.terminal_outcome
    return run.ends[0] if run.ends else ""


def _seen_or_stored(seen: Evidence) -> dict[str, tuple[str, str]]:
    """Outcome and result of every run of which both are known."""
    found = {
        note["execution"]: (note["outcome"], note["value"] or "")
        for note in seen.history.notes
        if note["op"] == "saw" and note["execution"] in seen.runs
    }
    for ident in seen.runs:
        execution = seen.execution(ident)
        if execution is not None:
            found[ident] = (execution.terminal_outcome, (execution.result or b"").decode())
    return found


TASK_CHECKS = (
    runs_ended_right,
    results_are_right,
    runs_ended_once,
    seen_ends_stand,
    steps_are_kept,
    budgets_admit_exactly,
    no_run_crosses,
)
