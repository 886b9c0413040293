"""The checks of suspensions: every acknowledged signal is stored, and executions that it resumed
continued.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from uuid import UUID

from flowfabric.rules.waits import conditions
from flowfabric.verify.invariants import Violation

from .evidence import Evidence, key_of
from .task_plan import PARENTS

MET = "resume_condition_satisfied"


def signals_stand(seen: Evidence) -> Iterator[Violation]:
    """Every acknowledged signal is stored and has one event, for any number of repetitions under
    its key.
    """
    for call in seen.history.of("signal"):
        key = key_of(call.execution)
        name = UUID(call.reply.get("known", call.facts["signal"]))
        if name not in {signal.signal_id for signal in seen.world.signals.get(key, [])}:
            yield Violation(
                "lost signal", call.execution, f"signal {name} was acknowledged and is not stored"
            )
        if call.reply["effect"] != "duplicate" and _told(seen, call.execution)[name] != 1:
            says = (
                f"signal {name} was acknowledged and told of "
                f"{_told(seen, call.execution)[name]} times"
            )
            yield Violation("lost signal", call.execution, says)


def _told(seen: Evidence, ident: str) -> Counter[UUID]:
    return Counter(event["signal_id"] for event in seen.world.signal_events.get(key_of(ident), []))


def signals_were_sent(seen: Evidence) -> Iterator[Violation]:
    """Every signal of an event was sent by a call that was not refused."""
    sent: dict[UUID, set[str]] = defaultdict(set)
    for call in seen.history.calls:
        if call.op == "signal":
            sent[UUID(call.facts["signal"])].add(call.verdict)
    for (partition, uuid), events in seen.world.signal_events.items():
        if seen.world.executions[partition, uuid].execution_kind in PARENTS:
            continue  # the engine itself wakes a parent
        for event in events:
            if not sent[event["signal_id"]] - {"refused"}:
                yield Violation(
                    "I17",
                    f"{partition}/{uuid}",
                    f"signal {event['signal_id']} was refused or never sent",
                )


def resumes_stand(seen: Evidence) -> Iterator[Violation]:
    """An execution that a signal is reported to have resumed was resumed by that signal, with one
    event.
    """
    for call in seen.history.of("signal"):
        if call.reply["effect"] != MET:
            continue
        events = seen.world.signal_events.get(key_of(call.execution), [])
        by = [
            event["event_type"]
            for event in events
            if event["signal_id"] == UUID(call.facts["signal"])
        ]
        if by != [MET]:
            yield Violation(
                "lost resume",
                call.execution,
                f"signal {call.facts['signal']} let it go on, the events say {by}",
            )
        boxes = [
            w
            for w in seen.world.waitpoints.get(key_of(call.execution), [])
            if str(w.waitpoint_id) == call.facts["waitpoint"]
        ]
        if [box.close_reason for box in boxes] != ["resumed"]:
            yield Violation(
                "lost resume",
                call.execution,
                f"its waitpoint {call.facts['waitpoint']} was not closed by it",
            )
    for key, events in seen.world.signal_events.items():
        met = sum(event["event_type"] == MET for event in events)
        told = sum(event["outcome"] == "resumable" for event in seen.world.completions.get(key, []))
        if met != told:
            yield Violation(
                "lost resume",
                f"{key[0]}/{key[1]}",
                f"{met} signals let it go on, {told} times it was told",
            )


def nobody_waits_for_what_came(seen: Evidence) -> Iterator[Violation]:
    """No suspended execution has a satisfied condition."""
    for key, suspension in seen.world.suspensions.items():
        satisfied = tuple(json.loads(suspension.satisfied_set))
        if suspension.is_open and conditions.is_met(
            conditions.decode(suspension.condition), satisfied
        ):
            yield Violation(
                "still waits", f"{key[0]}/{key[1]}", "its condition is met, yet it is suspended"
            )


def enough_was_enough(seen: Evidence) -> Iterator[Violation]:
    """A suspend that reported a satisfied condition used its waitpoint, which holds the signals."""
    for call in seen.history.of("suspend"):
        if call.reply["outcome"] == "met":
            boxes = [
                w
                for w in seen.world.waitpoints.get(key_of(call.execution), [])
                if str(w.waitpoint_id) == call.reply["on"]
            ]
            if [(box.close_reason, box.signal_count > 0) for box in boxes] != [("resumed", True)]:
                yield Violation(
                    "lost signal",
                    call.execution,
                    f"waitpoint {call.reply['on']} was said to have heard enough",
                )


def what_was_seen_is_there(seen: Evidence) -> Iterator[Violation]:
    """A resumed execution was given stored signals, or that of a timeout."""
    for call in seen.history.of("observe"):
        stored = {
            str(signal.signal_id) for signal in seen.world.signals.get(key_of(call.execution), [])
        }
        lost = set(call.reply["signals"]) - stored
        if lost:
            yield Violation(
                "lost signal", call.execution, f"was shown {sorted(lost)}, which are not stored"
            )


WAIT_CHECKS = (
    signals_stand,
    signals_were_sent,
    resumes_stand,
    nobody_waits_for_what_came,
    enough_was_enough,
    what_was_seen_is_there,
)
