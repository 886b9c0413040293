"""The checks of suspensions: who waits, on which waitpoints, and what became of the signals sent there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from flowfabric.model.event import is_end
from flowfabric.model.waitpoint import OPEN_STATES, Suspension, Waitpoint
from flowfabric.verify.snapshot import Key, Snapshot
from flowfabric.verify.violation import Check, Violation, about

STATES = (*OPEN_STATES, "closed", "expired")
SATISFIED = "resume_condition_satisfied"
SYNTHETIC = "timed_out_auto_resume"


def who_waits_is_suspended(world: Snapshot) -> Iterator[Violation]:
    """I19: there is an open suspension exactly while the execution is suspended, and it is the one the execution names."""
    for key, execution in world.executions.items():
        found = world.suspensions.get(key)
        is_open = found is not None and found.is_open
        if is_open != (execution.lifecycle_phase == "suspended"):
            says = "open" if is_open else "none open"
            yield Violation("I19", about(key), f"{execution.public_state}, its suspension: {says}")
        named = execution.current_suspension_id
        if named != (found.suspension_id if found is not None and is_open else None):
            yield Violation(
                "I19", about(key), f"names suspension {named}, which is not the open one"
            )
        if found is not None and (found.closed_at_ms is None) != (found.close_reason is None):
            yield Violation(
                "I19",
                about(key),
                f"closed at {found.closed_at_ms}, for reason {found.close_reason!r}",
            )


def waitpoints_end_with_their_suspension(world: Snapshot) -> Iterator[Violation]:
    """I19: an active waitpoint belongs to an open suspension; what is closed says when and why, what is open does not."""
    for key, several in world.waitpoints.items():
        found = world.suspensions.get(key)
        for waitpoint in several:
            yield from _waitpoint(key, waitpoint, found)


def _waitpoint(key: Key, waitpoint: Waitpoint, found: Suspension | None) -> Iterator[Violation]:
    ident = waitpoint.waitpoint_id
    if waitpoint.state not in STATES:
        yield Violation(
            "I19", about(key), f"waitpoint {ident} in no such state: {waitpoint.state!r}"
        )
    if waitpoint.state == "active":
        bound = (
            found is not None and found.is_open and found.suspension_id == waitpoint.suspension_id
        )
        if not bound:
            yield Violation(
                "I19", about(key), f"waitpoint {ident} is active, but its suspension is not open"
            )
    if waitpoint.state == "pending" and waitpoint.suspension_id is not None:
        yield Violation(
            "I19", about(key), f"waitpoint {ident} is pending, but bound to a suspension"
        )
    said = (waitpoint.closed_at_ms, waitpoint.close_reason)
    if (None in said) if not waitpoint.is_open else said != (None, None):
        yield Violation(
            "I19",
            about(key),
            f"waitpoint {ident} is {waitpoint.state}, closed at {said[0]} for {said[1]!r}",
        )
    if waitpoint.satisfied_at_ms is not None and waitpoint.close_reason != "resumed":
        yield Violation(
            "I19",
            about(key),
            f"waitpoint {ident} satisfied, but closed for {waitpoint.close_reason!r}",
        )
    if waitpoint.matched_signal_count > waitpoint.signal_count:
        yield Violation("I19", about(key), f"waitpoint {ident} matched more signals than it got")


def resolved_at_most_once(world: Snapshot) -> Iterator[Violation]:
    """I19: one signal ends a suspension, and each end by a signal was told once."""
    for key, several in world.signals.items():
        ended: dict[object, list[object]] = {}
        for signal in several:
            if signal.observed_effect in (SATISFIED, SYNTHETIC):
                ended.setdefault(signal.suspension_id, []).append(signal.signal_id)
        for suspension, by in ended.items():
            if len(by) > 1:
                yield Violation(
                    "I19", about(key), f"suspension {suspension} was ended by {len(by)} signals"
                )
        told = sum(not is_end(event["outcome"]) for event in world.completions.get(key, []))
        heard = sum(event["event_type"] == SATISFIED for event in world.heard.get(key, []))
        if told != heard:
            yield Violation(
                "I19", about(key), f"{heard} signals ended a suspension, {told} were told to have"
            )


def signals_are_kept(world: Snapshot) -> Iterator[Violation]:
    """I19: every signal that was told of is stored, on a waitpoint of its execution, and those that count are among them."""
    for key in world.heard.keys() | world.signals.keys():
        stored = {signal.signal_id: signal for signal in world.signals.get(key, [])}
        mailboxes = {w.waitpoint_id: w for w in world.waitpoints.get(key, [])}
        told = {(event["waitpoint_id"], event["signal_id"]) for event in world.heard.get(key, [])}
        gone = Counter(waitpoint for waitpoint, signal in told if signal not in stored)
        for waitpoint, count in gone.items():
            trimmed = mailboxes[waitpoint].signals_trimmed if waitpoint in mailboxes else 0
            if count > trimmed:
                detail = f"waitpoint {waitpoint}: {count} accepted signals are gone, {trimmed} of them trimmed"
                yield Violation("I19", about(key), detail)
        for signal in stored.values():
            if signal.waitpoint_id not in mailboxes and signal.observed_effect != SYNTHETIC:
                yield Violation(
                    "I19", about(key), f"signal {signal.signal_id} on no waitpoint of its execution"
                )
    for key, found in world.suspensions.items():
        ids = {str(signal.signal_id) for signal in world.signals.get(key, [])}
        counted = [
            *json.loads(found.satisfier_signal_ids),
            *([str(found.closer_signal_id)] if found.closer_signal_id else []),
        ]
        if not ids.issuperset(counted):
            yield Violation("I19", about(key), "counts signals that are gone")


SUSPENSION_CHECKS: dict[str, Check] = {
    "I19: who waits": who_waits_is_suspended,
    "I19: waitpoints": waitpoints_end_with_their_suspension,
    "I19: once": resolved_at_most_once,
    "I19: signals": signals_are_kept,
}
