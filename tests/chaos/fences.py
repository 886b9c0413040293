"""The checks of leases: holders, accepted writes and numbers of starts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from flowfabric.model.attempt import ATTEMPT_TIMEOUT
from flowfabric.model.policy import stored_policy
from flowfabric.rules.leases.expiry import reclaim_limit
from flowfabric.verify.invariants import Violation
from flowfabric.verify.snapshot import Event

from .evidence import ENDS, FENCED, GRANTS, RAISING, Evidence, key_of
from .logs import Call
from .plan import SETTINGS, result

REASONS = {
    "complete": ("completed",),
    "fail": ("retry", "failed"),
    "delay": ("delayed",),
    "suspend": ("suspended",),
    "give_up": ("cancelled",),
}


def nothing_accepted_twice(seen: Evidence) -> Iterator[Violation]:
    """Completions acknowledged to different leases: at most one per generation, each with its own
    event.
    """
    epochs: dict[str, set[int]] = defaultdict(set)
    for call in seen.history.of("complete"):
        epochs[call.execution].add(call.epoch)
    for ident, accepted in epochs.items():
        execution = seen.execution(ident)
        events = seen.world.completions.get(key_of(ident), [])
        allowed = min(
            1 + (execution.replay_count if execution else 0),
            sum(e["outcome"] == "success" for e in events),
        )
        if len(accepted) > allowed:
            yield Violation(
                "accepted twice",
                ident,
                f"completed by epochs {sorted(accepted)}, {allowed} allowed",
            )


def nothing_stale_accepted(seen: Evidence) -> Iterator[Violation]:
    """No write was accepted that was sent after a higher epoch was granted, by the logs or by the
    lease events. A repeated end is answered as the first one was, also when the execution was
    resumed and granted meanwhile.
    """
    raised: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for call in seen.history.of("claim"):
        for ident, epoch, _ in call.reply["granted"]:
            raised[ident].append((epoch, call.answered_ns))
    for call in seen.history.of("revoke"):
        if "epoch" in call.reply:
            raised[call.execution].append((call.reply["epoch"], call.answered_ns))
    for call, sent_ms in _in_turn(seen):
        by_logs = [
            epoch
            for epoch, at_ns in raised[call.execution]
            if sent_ms is not None and epoch > call.epoch and at_ns < call.asked_ns
        ]
        granted = (e for e in _comparable(seen, call) if sent_ms is not None)
        by_events = [
            e["lease_epoch"]
            for e in granted
            if e["lease_epoch"] > call.epoch and e["occurred_at_ms"] < (sent_ms or 0)
        ]
        if by_logs or by_events:
            says = (
                f"{call.op} of epoch {call.epoch} by {call.instance} accepted after "
                f"{max(by_logs + by_events)} was granted"
            )
            yield Violation("stale accepted", call.execution, says)


def _comparable(seen: Evidence, call: Call) -> list[Event]:
    """Grants whose times can be compared with the call's: the clock of the store was not set before
    either of them.
    """
    first = min(_clock_steps(seen), key=lambda note: note["t"], default=None)
    if first is not None and call.asked_ns >= first["t"]:
        return []
    grants = [e for e in seen.leases(call.execution) if e["event_type"] in GRANTS]
    return [e for e in grants if first is None or e["event_id"] <= first["event"]]


def was_store_clock_set(seen: Evidence) -> bool:
    return bool(_clock_steps(seen))


def _clock_steps(seen: Evidence) -> list[Event]:
    return [
        note for note in seen.history.notes if note["op"] == "clock" and note["event"] is not None
    ]


def _in_turn(seen: Evidence) -> Iterator[tuple[Call, int | None]]:
    """Acknowledged writes with the time each was sent; None for a repetition of an acknowledged
    end, which is answered from a read. A grant dates from the start of its transaction, so such a
    read may precede its commit, and neither the time of the event nor the end of the lease says
    when. After an unknown outcome the first try may be the accepted one; then the event has the
    time.
    """
    ended: dict[tuple[str, str, int], str] = {}
    for call in seen.history.calls:
        if call.op not in FENCED or call.verdict == "refused" or call.reply.get("repeats"):
            continue
        said = (call.op, call.execution, call.epoch)
        before = ended.get(said)
        if call.acknowledged:
            yield (
                call,
                None
                if before == "acknowledged"
                else _made_ms(seen, call)
                if before
                else call.asked_ms,
            )
        if call.op in ENDS and before != "acknowledged":
            ended[said] = call.verdict


def _made_ms(seen: Evidence, call: Call) -> int:
    kind, reason, epoch = _trace(call)
    told = (
        e
        for e in seen.leases(call.execution)
        if (e["event_type"], e["lease_epoch"], e["reason"]) == (kind, epoch, reason)
    )
    return next((int(e["occurred_at_ms"]) for e in told), call.asked_ms)


def nothing_accepted_too_late(seen: Evidence) -> Iterator[Violation]:
    """No write was accepted that was sent after the last known expiry of its lease."""
    until: dict[tuple[str, int], float] = {}
    for call in seen.history.of("claim"):
        until |= {(ident, epoch): expires for ident, epoch, expires in call.reply["granted"]}
    for call in seen.history.calls:
        if call.op == "renew" and call.verdict != "refused":
            told = call.reply["until"] if call.acknowledged else float("inf")
            until[call.execution, call.epoch] = max(
                told, until.get((call.execution, call.epoch), 0)
            )
    for call, sent_ms in _in_turn(seen):
        late = (sent_ms or 0) - until.get((call.execution, call.epoch), float("inf"))
        if late > 0 and not is_borrowed(seen, call):
            says = (
                f"{call.op} of epoch {call.epoch} by {call.instance} accepted, sent {late} ms "
                f"after its lease ran out"
            )
            yield Violation("late accepted", call.execution, says)


def grants_are_recorded(seen: Evidence) -> Iterator[Violation]:
    """Every lease granted to a worker has an event for that worker only."""
    for call in seen.history.of("claim"):
        for ident, epoch, _ in call.reply["granted"]:
            holders = [
                e["worker_instance_id"]
                for e in seen.leases(ident)
                if e["event_type"] in GRANTS and e["lease_epoch"] == epoch
            ]
            holder = call.facts.get("as", call.instance)
            if holders != [holder]:
                yield Violation(
                    "I6", ident, f"epoch {epoch} was granted to {holder}, the events say {holders}"
                )


def acknowledged_writes_are_recorded(seen: Evidence) -> Iterator[Violation]:
    """Every acknowledged write of a holder left its lease event, under its epoch."""
    for call in seen.history.of(*FENCED):
        if call.reply.get("repeats"):
            continue
        if not _left_its_event(seen, call) and not is_borrowed(seen, call):
            yield Violation(
                "lost write",
                call.execution,
                f"{call.op} of epoch {call.epoch} was acknowledged, no event tells of it",
            )
    asked = Counter(
        (c.execution, c.epoch)
        for c in seen.history.calls
        if c.op == "renew" and c.verdict != "refused"
    )
    acked = Counter((c.execution, c.epoch) for c in seen.history.of("renew"))
    for ident, epoch in asked:
        renewed = sum(
            e["event_type"] == "renewed" and e["lease_epoch"] == epoch for e in seen.leases(ident)
        )
        if not acked[ident, epoch] <= renewed <= asked[ident, epoch]:
            says = (
                f"epoch {epoch}: {renewed} renewals, {acked[ident, epoch]} acknowledged, "
                f"{asked[ident, epoch]} asked"
            )
            yield Violation("lost write", ident, says)


def is_borrowed(seen: Evidence, call: Call) -> bool:
    """The closing pair is acknowledged for a late holder that requests an end which the execution
    already has. An operator's cancel, a timeout or too many losses close the execution in the name
    of the last lease.
    """
    if call.op == "fail" and call.reply.get("outcome") == "retry" and _was_timed_out(seen, call):
        return True
    wanted = {"give_up": ("cancelled",), "fail": ("failed", "expired")}.get(call.op, ())
    execution = seen.execution(call.execution)
    ends = [event["outcome"] for event in seen.world.completions.get(key_of(call.execution), [])]
    if execution is None or not set(wanted) & set(ends):
        return False
    if _left_its_event(
        seen, call
    ):  # a cancel by an operator leaves the same event as one by the holder
        return call.op == "give_up" and execution.cancelled_by not in ("worker", None)
    return execution.closing_epoch == call.epoch or execution.replay_count > 0


def _was_timed_out(seen: Evidence, call: Call) -> bool:
    """The engine ended the attempt at its time limit, with the same event; the answer to its holder
    is that retry.
    """
    tried = seen.world.attempts.get(key_of(call.execution), [])
    return any(
        a.attempt_index == call.facts["attempt"] and a.failure_category == ATTEMPT_TIMEOUT
        for a in tried
    )


def _left_its_event(seen: Evidence, call: Call) -> bool:
    kind, reason, epoch = _trace(call)
    return not kind or any(
        (e["event_type"], e["lease_epoch"], e["reason"]) == (kind, epoch, reason)
        for e in seen.leases(call.execution)
    )


def _trace(call: Call) -> tuple[str, str | None, int]:
    """The event of a write: type, reason and epoch; none for progress and steps."""
    match call.op:
        case "renew":
            return "renewed", None, call.epoch
        case "progress" | "step":
            return "", None, 0
        case "give_up":
            return "revoked", "cancelled", call.epoch + 1
        case "suspend":
            return (
                "revoked" if call.reply.get("outcome") != "met" else "",
                "suspended",
                call.epoch + 1,
            )
        case "fail":
            return "revoked", call.reply["outcome"], call.epoch
    return "revoked", {"complete": "completed", "delay": "delayed"}[call.op], call.epoch


def sent_result(call: Call) -> bytes:
    """The result in a completion."""
    return (
        call.facts["data"].encode()
        if "data" in call.facts
        else result(call.facts["digest"], call.facts["size"])
    )


def refusals_changed_nothing(seen: Evidence) -> Iterator[Violation]:
    """A stored result was sent by the lease that closed the execution, and that call was not
    refused.
    """
    sent: dict[tuple[str, int], list[Call]] = defaultdict(list)
    for call in seen.history.calls:
        if call.op == "complete":
            sent[call.execution, call.epoch].append(call)
    for execution in seen.world.executions.values():
        if execution.terminal_outcome == "success":
            calls = sent[execution.id, execution.closing_epoch or 0]
            tried = {
                call.verdict for call in calls if sent_result(call) == (execution.result or b"")
            }
            if not tried - {"refused"}:
                says = f"its result was {'refused' if tried else 'never sent'}, yet it is stored"
                yield Violation("I17", execution.id, says)


def refusals_left_no_event(seen: Evidence) -> Iterator[Violation]:
    """No event reports an end for which every request was refused."""
    said: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for call in seen.history.calls:
        if call.op in ENDS:
            said[call.op, call.execution, call.epoch].add(call.verdict)
    cancelled = {call.execution for call in seen.history.calls if call.op == "cancel"}
    for (op, ident, epoch), verdicts in said.items():
        if verdicts != {"refused"} or (
            op == "give_up" and ident in cancelled
        ):  # that leaves the same event
            continue
        left = [
            e["reason"]
            for e in seen.leases(ident)
            if e["event_type"] == "revoked" and e["lease_epoch"] == epoch + (op in RAISING)
        ]
        reasons = set(REASONS[op]) - (
            {"retry"} if _has_timeout(seen, ident) else set()
        )  # a timeout leaves the same event
        if set(left) & reasons:
            yield Violation(
                "I17",
                ident,
                f"{op} of epoch {epoch} was refused, yet the events tell of it: {left}",
            )


def _has_timeout(seen: Evidence, ident: str) -> bool:
    execution = seen.execution(ident)
    return execution is not None and execution.attempt_timeout_ms is not None


def starts_are_bounded(seen: Evidence) -> Iterator[Violation]:
    """Retries and losses stay within the policy, and each lease is explained by one of them."""
    for key, execution in seen.world.executions.items():
        policy = stored_policy(execution.policy)
        retry = (policy.retry_policy if policy else None) or SETTINGS.default_retry_policy
        if execution.retry_count > retry.max_retries:
            yield Violation(
                "I7", execution.id, f"{execution.retry_count} retries, {retry.max_retries} allowed"
            )
        if execution.lease_reclaim_count > reclaim_limit(execution):
            yield Violation(
                "I7",
                execution.id,
                f"{execution.lease_reclaim_count} losses, {reclaim_limit(execution)} allowed",
            )
        events = seen.world.leases.get(key, [])
        given_back = sum(
            e["event_type"] == "revoked"
            and e["reason"] in ("delayed", "suspended", "lease_revoked")
            for e in events
        )
        most = (
            1
            + execution.retry_count
            + execution.lease_reclaim_count
            + execution.replay_count
            + given_back
        )
        granted = sum(e["event_type"] in GRANTS for e in events)
        if granted > most:
            yield Violation("I7", execution.id, f"leased {granted} times, {most} explained")
