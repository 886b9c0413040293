"""Compares the logs of the processes with the stored rows. Each check yields contradictions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from flowfabric.codec.event_cursor import encode_cursor
from flowfabric.ids import ExecutionId
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS
from flowfabric.rules.states import is_ended
from flowfabric.store.port import Row
from flowfabric.store.schema import TABLES
from flowfabric.verify import invariants
from flowfabric.verify.flows import drained
from flowfabric.verify.invariants import Violation

from .evidence import Evidence, key_of, stream_of
from .fences import (
    acknowledged_writes_are_recorded,
    grants_are_recorded,
    is_borrowed,
    nothing_accepted_too_late,
    nothing_accepted_twice,
    nothing_stale_accepted,
    refusals_changed_nothing,
    refusals_left_no_event,
    sent_result,
    starts_are_bounded,
    was_store_clock_set,
)
from .frames import FRAME_CHECKS
from .progress import PROGRESS_CHECKS
from .removals import REMOVAL_CHECKS
from .survivors import nobody_is_stuck
from .task_ends import HOME, TASK_CHECKS
from .waits import WAIT_CHECKS

BY_TIME = "claimed at"
"""A check that compares times of the store, which mean nothing once its clock was set back."""
OUTCOME_WORDS = {"success": "Success", "failed": "Failure", "cancelled": "Cancelled"}


def invariants_hold(seen: Evidence) -> Iterator[Violation]:
    yield from invariants.check(seen.world)


def flows_are_settled(seen: Evidence) -> Iterator[Violation]:
    for violation in drained(seen.world):
        if not (was_store_clock_set(seen) and violation.says.startswith(BY_TIME)):
            yield violation


def everything_ended(seen: Evidence) -> Iterator[Violation]:
    for execution in seen.world.executions.values():
        if not is_ended(execution):
            yield Violation(
                "drained",
                execution.id,
                f"still {execution.public_state} ({execution.ownership_state})",
            )


def creations_stand(seen: Evidence) -> Iterator[Violation]:
    """Every acknowledged create exists, and was new to one caller only."""
    made = [tuple(one) for call in seen.history.of("create") for one in call.reply["made"]]
    yield from invariants.acknowledged_exist(seen.world, (ExecutionId(ident) for ident, _ in made))
    for ident, times in Counter(ident for ident, new in made if new).items():
        if times > 1:
            yield Violation("created twice", ident, f"{times} callers were told they created it")


def creations_were_asked_for(seen: Evidence) -> Iterator[Violation]:
    """Every stored execution was created by an acknowledged call or by one without an answer."""
    makers = {
        ident for call in seen.history.of("create") for ident, new in call.reply["made"] if new
    }
    makers |= {
        ident
        for call in seen.history.of("create", verdict="unknown")
        for ident, _ in call.facts["asked"]
    }
    for execution in seen.world.executions.values():
        if execution.id not in makers:
            yield Violation(
                "I17",
                execution.id,
                "everybody was told that it was there before or that it was not made",
            )


def keys_are_unique(seen: Evidence) -> Iterator[Violation]:
    """One execution per idempotency key of a namespace, and the same one in every answer."""
    told: dict[tuple[str, str], set[str]] = defaultdict(set)
    for call in seen.history.of("create"):
        homes = [run[0] for run in call.facts.get("runs", ())] or [HOME] * len(call.facts["asked"])
        for home, (_, key), (ident, _) in zip(
            homes, call.facts["asked"], call.reply["made"], strict=True
        ):
            if key:
                told[home, key].add(ident)
    stored: dict[tuple[str, str], set[str]] = defaultdict(set)
    for execution in seen.world.executions.values():
        if execution.idempotency_key:
            stored[execution.namespace, execution.idempotency_key].add(execution.id)
    for key in told.keys() | stored.keys():
        if len(stored[key]) != 1 or not told[key] <= stored[key]:
            yield Violation(
                "keys",
                f"{key[0]}: {key[1]}",
                f"stored {sorted(stored[key])}, told {sorted(told[key])}",
            )


def ends_stand(seen: Evidence) -> Iterator[Violation]:
    """An acknowledged end is the outcome, unless the execution was replayed and continued under a
    higher epoch.
    """
    final: dict[ExecutionId, bytes | None] = {}
    for call in seen.history.of("complete", "fail", "give_up"):
        if call.op == "fail" and call.reply["outcome"] != "failed":
            continue
        execution = seen.execution(call.execution)
        if (
            execution is not None
            and execution.replay_count
            and execution.lease_epoch > call.epoch + (call.op == "give_up")
        ):
            continue
        if call.op == "complete":
            final[ExecutionId(call.execution)] = sent_result(call) or None
        else:
            wanted = "failed" if call.op == "fail" else "cancelled"
            if (execution is None or execution.terminal_outcome != wanted) and not is_borrowed(
                seen, call
            ):
                yield Violation(
                    "I1", call.execution, f"its {call.op} was acknowledged, but it is not {wanted}"
                )
    yield from invariants.acknowledged_ends_stand(seen.world, final)
    for call in seen.history.of("cancel"):
        told = [
            event["outcome"] for event in seen.world.completions.get(key_of(call.execution), [])
        ]
        events = [outcome for outcome in told if outcome != "resumable"]
        execution = seen.execution(call.execution)
        if "cancelled" not in events or (
            execution and not execution.replay_count and events != ["cancelled"]
        ):
            yield Violation(
                "I1", call.execution, f"its cancel was acknowledged, its ends are {events}"
            )


def replays_count(seen: Evidence) -> Iterator[Violation]:
    """At least as many generations as acknowledged replays, and at most as many as requested."""
    asked = Counter(
        call.execution
        for call in seen.history.calls
        if call.op == "replay" and call.verdict != "refused"
    )
    acked = Counter(call.execution for call in seen.history.of("replay"))
    for execution in seen.world.executions.values():
        if not acked[execution.id] <= execution.replay_count <= asked[execution.id]:
            says = (
                f"{execution.replay_count} replays, {acked[execution.id]} acknowledged, "
                f"{asked[execution.id]} asked"
            )
            yield Violation("replays", execution.id, says)


def streams_are_whole(seen: Evidence) -> Iterator[Violation]:
    """The events that the subscriber received between saved cursors are exactly the outbox in its
    order. Events are removed with their execution; for removed ones only the subscriber has a
    record.
    """
    for channel in (COMPLETION_EVENTS, LEASE_EVENTS):
        stored = [_line(channel, row) for row in sorted(seen.tables[channel])]
        received, gap = stream_of(seen.history, channel)
        if gap is not None:
            yield Violation(
                "stream",
                channel,
                f"{gap.instance} resumed from {gap.resumed}, which nobody had reached",
            )
        stream = [line for line in received if seen.execution(line["execution"]) is not None]
        if stream != stored:
            at = next(
                (at for at, (a, b) in enumerate(zip(stream, stored, strict=False)) if a != b),
                min(len(stream), len(stored)),
            )
            got, want = stream[at : at + 1], stored[at : at + 1]
            yield Violation(
                "stream",
                channel,
                (
                    f"event {at + 1} of {len(stored)}: received {got or 'nothing'}, stored "
                    f"{want or 'nothing'}"
                ),
            )


def _line(channel: str, row: Row) -> dict[str, Any]:
    event = dict(zip(TABLES[channel].names, row, strict=True))
    ident = ExecutionId.of(event["partition_key"], event["execution_id"])
    line = {
        "cursor": encode_cursor(event["event_id"]).hex(),
        "execution": ident,
        "at": event["occurred_at_ms"],
    }
    if channel == COMPLETION_EVENTS:
        return {**line, "outcome": OUTCOME_WORDS.get(event["outcome"], event["outcome"])}
    return {
        **line,
        "type": event["event_type"],
        "epoch": event["lease_epoch"],
        "worker": event["worker_instance_id"],
    }


def no_surprises(seen: Evidence) -> Iterator[Violation]:
    """Every error of a worker is a refusal, and no refusal reports damaged data."""
    for note in seen.history.notes:
        if note["op"] == "surprise":
            yield Violation("surprise", note["instance"], note["says"])
    for call in seen.history.calls:
        if (
            call.verdict == "refused"
            and call.reply["code"] in ("bug", "corruption", "invalid_input")
            and call.op != "cancel"
        ):
            yield Violation(
                "surprise", call.execution, f"{call.op} by {call.instance}: {call.reply['says']}"
            )


CHECKS: tuple[Callable[[Evidence], Iterator[Violation]], ...] = (
    invariants_hold,
    flows_are_settled,
    everything_ended,
    creations_stand,
    creations_were_asked_for,
    keys_are_unique,
    ends_stand,
    replays_count,
    nothing_accepted_too_late,
    nothing_accepted_twice,
    nothing_stale_accepted,
    grants_are_recorded,
    acknowledged_writes_are_recorded,
    refusals_changed_nothing,
    refusals_left_no_event,
    starts_are_bounded,
    streams_are_whole,
    no_surprises,
    nobody_is_stuck,
    *WAIT_CHECKS,
    *FRAME_CHECKS,
    *TASK_CHECKS,
    *PROGRESS_CHECKS,
    *REMOVAL_CHECKS,
)


def check(seen: Evidence) -> list[Violation]:
    return [violation for each in CHECKS for violation in each(seen)]
