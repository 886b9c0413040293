"""The checks of executions, and the table of all checks. Each yields violations of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from flowfabric.ids import ExecutionId
from flowfabric.model.event import is_end
from flowfabric.model.execution import Execution
from flowfabric.rules.states import is_ended, name_of, public_state, vector_of
from flowfabric.verify.flows import FLOW_CHECKS
from flowfabric.verify.limits import LIMIT_CHECKS
from flowfabric.verify.namespaces import NAMESPACE_CHECKS
from flowfabric.verify.snapshot import Event, Key, Snapshot
from flowfabric.verify.streams import STREAM_CHECKS
from flowfabric.verify.suspensions import SUSPENSION_CHECKS
from flowfabric.verify.violation import Check, Finding, Violation, invariant

__all__ = ["CHECKS", "Violation", "check"]

OPEN_PHASES = ("created", "started", "suspended")
_FINAL = ("terminal_outcome", "lifecycle_phase", "result", "terminal_at_ms", "failure_reason")
RAISING = ("lease_revoked", "waiting_children", "suspended", "budget")
"""Reasons of a revocation that raises the epoch, so that the next grant raises it by two."""


@invariant("I2")
def one_end_per_replay(snapshot: Snapshot) -> Iterator[Finding]:
    """I2: each end of an execution has one completion event, and the last has its outcome."""
    for key, execution in snapshot.executions.items():
        events = [event for event in snapshot.completions.get(key, []) if is_end(event["outcome"])]
        expected = execution.replay_count + is_ended(execution)
        if len(events) != expected:
            yield key, f"{len(events)} completion events, expected {expected}"
        elif is_ended(execution) and events[-1]["outcome"] != execution.terminal_outcome:
            yield key, f"ended {execution.terminal_outcome}, the event says {events[-1]['outcome']}"


@invariant("I4")
def epochs_rise(snapshot: Snapshot) -> Iterator[Finding]:
    """I4: every grant raises the epoch, and recorded events account for its value.

    An execution without any lease event ran while lease events were switched off.
    """
    for key, events in snapshot.leases.items():
        execution = snapshot.executions.get(key)
        if execution is None:
            continue
        granted = [e["lease_epoch"] for e in events if e["event_type"] in ("acquired", "reclaimed")]
        if any(b <= a for a, b in pairwise(granted)):
            yield key, f"grants do not raise the epoch: {granted}"
        revoked = sum(e["event_type"] == "revoked" and e["reason"] in RAISING for e in events)
        least = len(granted) + revoked + execution.replay_count
        most = least + sum(e["outcome"] == "cancelled" for e in snapshot.completions.get(key, []))
        if not least <= execution.lease_epoch <= most:
            yield key, f"epoch {execution.lease_epoch}, recorded changes give {least} to {most}"


@invariant("I5")
def writes_carry_the_epoch(snapshot: Snapshot) -> Iterator[Finding]:
    """I5 and I6: lease events belong to the last lease, and a lease ends before the next begins."""
    for key, events in snapshot.leases.items():
        held: Event | None = None
        for event in events:
            kind, epoch = event["event_type"], event["lease_epoch"]
            if kind in ("acquired", "reclaimed"):
                if kind == "acquired" and held is not None:
                    yield key, f"lease {epoch} granted while {held['lease_epoch']} was open", "I6"
                held = event
                continue
            if kind == "revoked" and event["reason"] == "max_reclaims_exceeded":
                held = None
                continue
            if held is None and kind == "revoked" and event["reason"] == "cancelled":
                continue  # cancel_flow writes this event for every member, also without a lease
            if held is None:
                yield key, f"{kind} at epoch {epoch} without an open lease"
                continue
            own = held["lease_epoch"]
            allowed = (own, own + 1) if kind == "revoked" else (own,)
            if epoch not in allowed or event["lease_id"] != held["lease_id"]:
                yield key, f"{kind} at epoch {epoch}, the open lease is {own}"
            if kind in ("revoked", "expired"):
                held = None


@invariant("I7")
def attempts_are_dense_and_bounded(snapshot: Snapshot) -> Iterator[Finding]:
    """I7: attempts are numbered 0, 1, 2 and so on, within the limits, and at most one is open."""
    for key, execution in snapshot.executions.items():
        rows, total = snapshot.attempts.get(key, []), execution.total_attempt_count
        numbers = [attempt.attempt_index for attempt in rows]
        if numbers != list(range(total)):
            yield key, f"attempts {numbers} of {total}"
        most = 1 + execution.retry_count + execution.lease_reclaim_count
        if total > most:
            yield key, f"{total} attempts, {most} explained"
        # a member skipped while it waited for its replay keeps its created attempt
        skipped = execution.terminal_outcome == "skipped"
        phases = OPEN_PHASES[1:] if skipped else OPEN_PHASES
        still_open = [a.attempt_index for a in rows if a.attempt_state in phases]
        if len(still_open) > 1 or (still_open and is_ended(execution)):
            yield key, f"open attempts {still_open} while {execution.public_state}"


@invariant("I8")
def vectors_are_legal(snapshot: Snapshot) -> Iterator[Finding]:
    """I8: the state vector is valid, and the public state is derived from it."""
    for key, execution in snapshot.executions.items():
        vector = vector_of(execution)
        name = name_of(vector)
        if name is None:
            yield key, f"no such state: {vector}"
            continue
        shown = public_state(
            vector.lifecycle_phase, vector.eligibility_state, vector.terminal_outcome
        )
        if execution.public_state != shown:
            yield key, f"shows {execution.public_state}, means {shown}"
        yield from _consistent(key, execution, name, snapshot)


def _consistent(key: Key, execution: Execution, name: str, snapshot: Snapshot) -> Iterator[Finding]:
    lease = (
        execution.current_lease_id,
        execution.current_worker_instance_id,
        execution.lease_expires_at_ms,
    )
    if name == "RUNNING":
        if None in lease:
            yield key, "running without a complete lease"
        current = ("started", execution.lease_epoch, execution.attempt_index)
        rows = snapshot.attempts.get(key, [])
        if current not in ((a.attempt_state, a.lease_epoch, a.attempt_index) for a in rows):
            yield key, "running, but its attempt is not started"
    elif name != "LOST" and any(part is not None for part in lease):
        yield key, f"{name} still names a lease"
    if (execution.terminal_at_ms is not None) != is_ended(execution):
        yield key, f"{name} with terminal_at_ms={execution.terminal_at_ms}"
    if name == "DELAYED" and execution.delay_until_ms is None:
        yield key, "delayed without a time: no loop would promote it"


@invariant("I11")
def events_match_the_state(snapshot: Snapshot) -> Iterator[Finding]:
    """I11 and I12: lease events match the owner, and events have their execution's namespace."""
    executions = snapshot.executions.items()
    for key, execution in executions:
        events = snapshot.leases.get(key, [])
        kind = events[-1]["event_type"] if events else "nothing"
        is_open = kind in ("acquired", "reclaimed", "renewed")
        if is_open != (execution.ownership_state == "leased"):
            yield key, f"{execution.ownership_state}, but the last lease event is {kind}"
    for channel in snapshot.event_channels:
        for key, execution in executions:
            for event in channel.get(key, []):
                ident, namespace = event["event_id"], event["namespace"]
                if namespace != execution.namespace:
                    yield key, f"event {ident} has namespace {namespace!r}", "I12"


@invariant("I15")
def keys_name_one_execution(snapshot: Snapshot) -> Iterator[Finding]:
    """I15: an idempotency key names the execution that was created with it."""
    entries = {(row[0], row[1]): (row[2], row[3]) for row in snapshot.idempotency}
    for key, execution in snapshot.executions.items():
        named = entries.get((execution.namespace, execution.idempotency_key or ""))
        other = None if named is None or named == key else snapshot.executions.get(named)
        if not execution.idempotency_key or other is None:
            continue
        if other.created_at_ms <= execution.created_at_ms:
            yield key, f"shares its key with {other.id}"


@invariant("I16")
def nothing_is_orphaned(snapshot: Snapshot) -> Iterator[Finding]:
    """I16: no attempt, grant, suspension, waitpoint, signal or event without its execution."""
    owners: Iterable[tuple[str, Iterable[Key]]] = (
        ("attempt", snapshot.attempts),
        ("grant", [(g.partition_key, g.execution_id) for g in snapshot.grants]),
        ("lease event", snapshot.leases),
        ("completion event", snapshot.completions),
        ("suspension", snapshot.suspensions),
        ("waitpoint", snapshot.waitpoints),
        ("signal", snapshot.signals),
        ("signal event", snapshot.signal_events),
    )
    for what, keys in owners:
        for key in keys:
            if key not in snapshot.executions:
                yield key, f"{what} without an execution"


CHECKS: dict[str, Check] = {
    "I2": one_end_per_replay,
    "I4": epochs_rise,
    "I5, I6": writes_carry_the_epoch,
    "I7": attempts_are_dense_and_bounded,
    "I8": vectors_are_legal,
    "I11, I12": events_match_the_state,
    "I15": keys_name_one_execution,
    "I16": nothing_is_orphaned,
    **FLOW_CHECKS,
    **SUSPENSION_CHECKS,
    **LIMIT_CHECKS,
    **STREAM_CHECKS,
    **NAMESPACE_CHECKS,
}


def check(snapshot: Snapshot) -> list[Violation]:
    """The violations of all checks of one snapshot."""
    return [violation for each in CHECKS.values() for violation in each(snapshot)]


@invariant("I1")
def acknowledged_exist(snapshot: Snapshot, created: Iterable[ExecutionId]) -> Iterator[Finding]:
    """I1: acknowledged executions exist."""
    for ident in created:
        if (ident.partition_index, ident.uuid) not in snapshot.executions:
            yield str(ident), "its creation was acknowledged, but it is gone"


@invariant("I1")
def acknowledged_ends_stand(
    snapshot: Snapshot, completed: Mapping[ExecutionId, bytes | None]
) -> Iterator[Finding]:
    """I1 and I3: an acknowledged completion is the outcome, with its acknowledged result."""
    for ident, result in completed.items():
        execution = snapshot.executions.get((ident.partition_index, ident.uuid))
        if execution is None or execution.terminal_outcome != "success":
            yield str(ident), "its completion was acknowledged, but it is not completed"
        elif execution.result != result:
            yield str(ident), "its result is not the one that was acknowledged", "I3"


@invariant("I3")
def ends_do_not_change(before: Snapshot, after: Snapshot) -> Iterator[Finding]:
    """I3 and I4: an ended execution keeps its outcome, and its epoch never falls."""
    for key, old in before.executions.items():
        new = after.executions.get(key)
        if new is None:
            continue
        if new.lease_epoch < old.lease_epoch:
            yield key, f"epoch fell from {old.lease_epoch} to {new.lease_epoch}", "I4"
        if is_ended(old) and new.replay_count == old.replay_count:
            changed = [f for f in _FINAL if getattr(old, f) != getattr(new, f)]
            if changed:
                yield key, f"changed after its end: {', '.join(changed)}"


@invariant("I9")
def timers_are_kept(snapshot: Snapshot, now_ms: int, slack_ms: int) -> Iterator[Finding]:
    """I9: no timer is overdue by more than the slack."""
    for key, execution in snapshot.executions.items():
        due = None
        if execution.ownership_state == "leased":
            due = execution.lease_expires_at_ms
        elif execution.eligibility_state == "not_eligible_until_time":
            due = execution.delay_until_ms
        if due is not None and due + slack_ms < now_ms:
            yield key, f"{execution.public_state}, overdue by {now_ms - due} ms"
