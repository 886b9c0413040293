"""Checks of suspensions, their waitpoints and their signals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from flowfabric.model.event import is_end
from flowfabric.model.waitpoint import OPEN_STATES, Suspension, Waitpoint
from flowfabric.verify.snapshot import Key, Snapshot
from flowfabric.verify.violation import Check, Finding, invariant

STATES = (*OPEN_STATES, "closed", "expired")
SATISFIED = "resume_condition_satisfied"
SYNTHETIC = "timed_out_auto_resume"


@invariant("I19")
def suspensions_match_executions(snapshot: Snapshot) -> Iterator[Finding]:
    """I19: an execution has an open suspension, and names it, exactly while it is suspended."""
    for key, execution in snapshot.executions.items():
        found = snapshot.suspensions.get(key)
        is_open = found is not None and found.is_open
        if is_open != (execution.lifecycle_phase == "suspended"):
            says = "open" if is_open else "none open"
            yield key, f"{execution.public_state}, its suspension: {says}"
        named = execution.current_suspension_id
        if named != (found.suspension_id if found is not None and is_open else None):
            yield key, f"names suspension {named}, which is not the open one"
        if found is not None and (found.closed_at_ms is None) != (found.close_reason is None):
            yield key, f"closed at {found.closed_at_ms}, for reason {found.close_reason!r}"


@invariant("I19")
def waitpoints_end_with_their_suspension(snapshot: Snapshot) -> Iterator[Finding]:
    """I19: an active waitpoint has an open suspension; a closed one has a time and a reason."""
    for key, several in snapshot.waitpoints.items():
        found = snapshot.suspensions.get(key)
        for waitpoint in several:
            yield from _waitpoint(key, waitpoint, found)


def _waitpoint(key: Key, waitpoint: Waitpoint, found: Suspension | None) -> Iterator[Finding]:
    ident = waitpoint.waitpoint_id
    if waitpoint.state not in STATES:
        yield key, f"waitpoint {ident} in an unknown state: {waitpoint.state!r}"
    if waitpoint.state == "active":
        bound = (
            found is not None and found.is_open and found.suspension_id == waitpoint.suspension_id
        )
        if not bound:
            yield key, f"waitpoint {ident} is active, but its suspension is not open"
    if waitpoint.state == "pending" and waitpoint.suspension_id is not None:
        yield key, f"waitpoint {ident} is pending, but bound to a suspension"
    closed = (waitpoint.closed_at_ms, waitpoint.close_reason)
    if (None in closed) if not waitpoint.is_open else closed != (None, None):
        when = f"closed at {closed[0]} for {closed[1]!r}"
        yield key, f"waitpoint {ident} is {waitpoint.state}, {when}"
    if waitpoint.satisfied_at_ms is not None and waitpoint.close_reason != "resumed":
        yield key, f"waitpoint {ident} satisfied, but closed for {waitpoint.close_reason!r}"
    if waitpoint.matched_signal_count > waitpoint.signal_count:
        yield key, f"waitpoint {ident} matched more signals than it got"


@invariant("I19")
def resolved_at_most_once(snapshot: Snapshot) -> Iterator[Finding]:
    """I19: one signal ends a suspension, and each such end has one completion event."""
    for key, several in snapshot.signals.items():
        ended: dict[object, list[object]] = {}
        for signal in several:
            if signal.observed_effect in (SATISFIED, SYNTHETIC):
                ended.setdefault(signal.suspension_id, []).append(signal.signal_id)
        for suspension, by in ended.items():
            if len(by) > 1:
                yield key, f"suspension {suspension} was ended by {len(by)} signals"
        resumed = sum(not is_end(e["outcome"]) for e in snapshot.completions.get(key, []))
        satisfied = sum(e["event_type"] == SATISFIED for e in snapshot.signal_events.get(key, []))
        if resumed != satisfied:
            says = f"{satisfied} signals ended a suspension, {resumed} completion events report it"
            yield key, says


@invariant("I19")
def signals_are_kept(snapshot: Snapshot) -> Iterator[Finding]:
    """I19: every signal with an event is stored on a waitpoint of its execution, unless trimmed."""
    for key in snapshot.signal_events.keys() | snapshot.signals.keys():
        stored = {signal.signal_id: signal for signal in snapshot.signals.get(key, [])}
        mailboxes = {w.waitpoint_id: w for w in snapshot.waitpoints.get(key, [])}
        events = snapshot.signal_events.get(key, [])
        delivered = {(event["waitpoint_id"], event["signal_id"]) for event in events}
        gone = Counter(waitpoint for waitpoint, signal in delivered if signal not in stored)
        for waitpoint, count in gone.items():
            trimmed = mailboxes[waitpoint].signals_trimmed if waitpoint in mailboxes else 0
            if count > trimmed:
                detail = f"{count} accepted signals are missing, {trimmed} of them trimmed"
                yield key, f"waitpoint {waitpoint}: {detail}"
        for signal in stored.values():
            if signal.waitpoint_id not in mailboxes and signal.observed_effect != SYNTHETIC:
                yield key, f"signal {signal.signal_id} on no waitpoint of its execution"
    for key, found in snapshot.suspensions.items():
        ids = {str(signal.signal_id) for signal in snapshot.signals.get(key, [])}
        counted = [
            *json.loads(found.satisfier_signal_ids),
            *([str(found.closer_signal_id)] if found.closer_signal_id else []),
        ]
        if not ids.issuperset(counted):
            yield key, "its condition counts signals that are missing"


SUSPENSION_CHECKS: dict[str, Check] = {
    "I19: who waits": suspensions_match_executions,
    "I19: waitpoints": waitpoints_end_with_their_suspension,
    "I19: once": resolved_at_most_once,
    "I19: signals": signals_are_kept,
}
