"""Suspensions, waitpoints, signals and the keys that sign tokens."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from uuid import UUID

from flowfabric.codec.token import sealed
from flowfabric.errors import Corruption
from flowfabric.model.event import RESUMABLE, SIGNAL_EVENTS
from flowfabric.model.waitpoint import OPEN_STATES
from flowfabric.rules.imports.original import (
    Imported,
    Key,
    Original,
    Row,
    copied,
    grouped,
    json_of,
    key_of,
    known,
    uuid_of,
    whole,
)
from flowfabric.rules.states import entering
from flowfabric.rules.waits import conditions

SUSPENSION, WAITPOINT, SIGNAL = "ff_suspension_current", "ff_waitpoint_pending", "ff_signal"
SATISFIED, APPENDED = "resume_condition_satisfied", "appended_to_waitpoint"
_KEY_PREFIX = "wpk:"
_SHARED = ("waitpoint_key", "created_at_ms", "expires_at_ms", "activated_at_ms", "token_kid")


def import_waits(original: Original, made: Imported) -> None:
    for row in known(original.rows(SUSPENSION), SUSPENSION, made):
        _suspension(row, made)
    _check_suspended(made)
    for row in known(original.rows(WAITPOINT), WAITPOINT, made):
        _waitpoint(row, made)
    satisfying = _satisfying(original, made)
    _signals(original, made, satisfying)
    _signal_events(original, made, satisfying)
    _keys(original, made)
    for row in original.rows("ff_suspend_dedup"):
        made.left_out(
            "ff_suspend_dedup", row["idempotency_key"], "the original does not name its execution"
        )


def _keys(original: Original, made: Imported) -> None:
    """One key signs: the newest of the active ones."""
    table = "ff_waitpoint_hmac"
    ages = [(row["rotated_at_ms"], row["kid"]) for row in original.rows(table) if row["active"]]
    for row in original.rows(table):
        signs = (row["rotated_at_ms"], row["kid"]) == max(ages, default=None)
        made.add(table, {**row, "active": int(signs)})
        if not signs:
            fact = "a rotated key: the end of its grace is not recorded, so its tokens are refused"
            made.changed(table, row["kid"], fact)


def _suspension(row: Row, made: Imported) -> None:
    execution = made.executions[key_of(row)]
    ident = uuid_of(row["suspension_id"])
    is_open = execution["lifecycle_phase"] == "suspended"
    try:
        conditions.decode(row["condition"])
    except Corruption as error:
        if is_open:
            made.left_out(SUSPENSION, ident, f"{error}: its execution is held for an operator")
            return
    if is_open:
        execution["current_suspension_id"] = ident
    found = {
        **copied(execution, "partition_key", "execution_id", "attempt_index"),
        **copied(row, "suspended_at_ms", "timeout_at_ms", "condition", "satisfied_set"),
        "suspension_id": ident,
        "reason_code": row["reason_code"] or "waiting_for_signal",
        "timeout_behavior": row["timeout_behavior"] or "fail",
        "closed_at_ms": None if is_open else _closed_at(execution, row),
        "close_reason": None if is_open else "resumed",
    }
    made.add(SUSPENSION, found)


def _closed_at(execution: Row, row: Row) -> int:
    """The original keeps the row and no time of its end."""
    return int(
        execution["terminal_at_ms"] or max(execution["last_transition_at"], row["suspended_at_ms"])
    )


def _check_suspended(made: Imported) -> None:
    """An execution that no suspension explains would wait for ever."""
    for key, execution in made.executions.items():
        if execution["lifecycle_phase"] != "suspended" or execution.get("current_suspension_id"):
            continue
        execution |= entering("OPBLOCK")
        made.changed("ff_exec_core", key[1], "suspended without a condition: held for an operator")


def _waitpoint(row: Row, made: Imported) -> None:
    execution, ident = made.executions[key_of(row)], uuid_of(row["waitpoint_id"])
    suspension = execution.get("current_suspension_id")
    state = row["state"]
    if state == "active" and suspension is None:
        state = "closed"
        made.changed(WAITPOINT, ident, "active without a suspension: imported as closed")
    elif state not in (*OPEN_STATES, "closed", "expired"):
        made.changed(WAITPOINT, ident, f"in state {state}: imported as closed")
        state = "closed"
    is_open = state in OPEN_STATES
    names = row["required_signal_names"] or "[]"
    made.add(
        WAITPOINT,
        {
            **_blank(execution, ident),
            **copied(row, *_SHARED),
            "token_digest": sealed(row["token"] or ""),
            "required_signal_names": names,
            "state": state,
            "suspension_id": suspension if state == "active" else None,
            "closed_at_ms": None if is_open else row["activated_at_ms"] or row["created_at_ms"],
            "close_reason": None if is_open else "cancelled",
        },
    )


def _blank(execution: Row, ident: UUID) -> Row:
    subject = copied(execution, "partition_key", "execution_id", "attempt_index")
    return {**subject, "waitpoint_id": ident, "signal_count": 0, "matched_signal_count": 0}


def _satisfying(original: Original, made: Imported) -> dict[UUID, int]:
    """The signals that ended a suspension, with the time: the last one before each such end."""
    events, found = grouped(original.rows(SIGNAL_EVENTS)), dict[UUID, int]()
    kept = []
    for event in made.rows["ff_completion_event"]:
        if event["outcome"] == RESUMABLE:
            at = event["occurred_at_ms"]
            before = [
                (row["delivered_at_ms"], row["event_id"], uuid_of(row["signal_id"]))
                for row in events.get(key_of(event), [])
                if row["delivered_at_ms"] <= at
                and row["waitpoint_id"] is not None
                and uuid_of(row["signal_id"]) not in found
            ]
            if not before:
                fact = "no signal of its execution explains it"
                made.left_out("ff_completion_event", event["event_id"], fact)
                continue
            found[max(before)[2]] = at
        kept.append(event)
    made.rows["ff_completion_event"] = kept
    return found


def _signals(original: Original, made: Imported, satisfying: dict[UUID, int]) -> None:
    """The original keeps signals in the suspension, and removes waitpoints when it ends."""
    suspensions = {key_of(row): row for row in made.rows[SUSPENSION]}
    waitpoints = {row["waitpoint_id"]: row for row in made.rows[WAITPOINT]}
    for row in original.rows(SUSPENSION):
        key = key_of(row)
        suspension, execution = suspensions.get(key), made.executions.get(key)
        if suspension is None or execution is None:
            continue
        for waitpoint_key, blobs in json_of(row["member_map"]).items():
            ident = _waitpoint_id(waitpoint_key, waitpoints)
            if ident is None:
                made.left_out(
                    SIGNAL, waitpoint_key, f"{len(blobs)} signals of an unknown waitpoint"
                )
                continue
            waitpoint = waitpoints.get(ident)
            if waitpoint is None:
                waitpoint = made.add(WAITPOINT, _ended_waitpoint(execution, suspension, ident))
                waitpoint["waitpoint_key"] = waitpoint_key
                waitpoints[ident] = waitpoint
                made.added(WAITPOINT, ident, "removed by the original at the end of its suspension")
            for blob in blobs:
                _signal(execution, suspension, waitpoint, blob, satisfying, made)


def _waitpoint_id(key: str, waitpoints: dict[UUID, Row]) -> UUID | None:
    named = [ident for ident, row in waitpoints.items() if row["waitpoint_key"] == key]
    if named:
        return named[0]
    try:
        return uuid_of(key.removeprefix(_KEY_PREFIX))
    except ValueError:
        return None


def _ended_waitpoint(execution: Row, suspension: Row, ident: UUID) -> Row:
    return {
        **_blank(execution, ident),
        "token_kid": "",
        "token_digest": "",
        "waitpoint_key": "",
        "created_at_ms": suspension["suspended_at_ms"],
        "activated_at_ms": suspension["suspended_at_ms"],
        "state": "closed",
        "closed_at_ms": suspension["closed_at_ms"] or suspension["suspended_at_ms"],
        "close_reason": "resumed",
    }


def _signal(
    execution: Row,
    suspension: Row,
    waitpoint: Row,
    blob: dict[str, Any],
    satisfying: dict[UUID, int],
    made: Imported,
) -> None:
    ident, at = uuid_of(blob["signal_id"]), whole(blob.get("accepted_at"))
    ended_at = satisfying.get(ident)
    payload = blob.get("payload_hex")
    names = ("signal_name", "signal_category", "source_type", "source_identity", "correlation_id")
    made.add(
        SIGNAL,
        {
            **copied(execution, "partition_key", "execution_id", "attempt_index"),
            **{name: str(blob.get(name) or "") for name in names},
            "signal_id": ident,
            "waitpoint_id": waitpoint["waitpoint_id"],
            "waitpoint_key": waitpoint["waitpoint_key"],
            "suspension_id": suspension["suspension_id"],
            "created_at_ms": at,
            "accepted_at_ms": at,
            "observed_effect": APPENDED if ended_at is None else SATISFIED,
            "matched": int(ended_at is not None),
            "payload": None if payload is None else bytes.fromhex(payload),
        },
    )
    waitpoint["signal_count"] += 1
    waitpoint["last_signal_at_ms"] = max(waitpoint.get("last_signal_at_ms") or 0, at)
    if ended_at is None:
        return
    waitpoint["matched_signal_count"] += 1
    suspension |= {"closer_signal_id": ident, "last_signal_at_ms": at}
    if suspension["closed_at_ms"] is not None:
        suspension["closed_at_ms"] = waitpoint["closed_at_ms"] = ended_at
        waitpoint["satisfied_at_ms"] = ended_at


def _signal_events(original: Original, made: Imported, satisfying: dict[UUID, int]) -> None:
    executions = made.executions
    stored = {row["signal_id"] for row in made.rows[SIGNAL]}
    waitpoints = {row["waitpoint_id"]: row for row in made.rows[WAITPOINT]}
    gone: dict[tuple[Key, UUID], list[Row]] = defaultdict(list)
    for row in known(original.rows(SIGNAL_EVENTS), SIGNAL_EVENTS, made):
        if row["waitpoint_id"] is None:
            made.left_out(SIGNAL_EVENTS, row["event_id"], "it names no waitpoint")
            continue
        key, ident = key_of(row), uuid_of(row["signal_id"])
        waitpoint = uuid_of(row["waitpoint_id"])
        made.add(
            SIGNAL_EVENTS,
            {
                **copied(row, "event_id", "source_identity", "instance_tag"),
                **copied(executions[key], "partition_key", "execution_id", "namespace"),
                "signal_id": ident,
                "waitpoint_id": waitpoint,
                "event_type": SATISFIED if ident in satisfying else APPENDED,
                "occurred_at_ms": row["delivered_at_ms"],
            },
        )
        if ident not in stored:
            gone[key, waitpoint].append(row)
    for (key, waitpoint), rows in gone.items():
        if waitpoint not in waitpoints:
            at = rows[-1]["delivered_at_ms"]
            blank = {"suspended_at_ms": rows[0]["delivered_at_ms"], "closed_at_ms": at}
            ended = _ended_waitpoint(executions[key], blank, waitpoint)
            waitpoints[waitpoint] = made.add(WAITPOINT, ended)
            made.added(WAITPOINT, waitpoint, "removed by the original at the end of its suspension")
        waitpoints[waitpoint]["signals_trimmed"] = len(rows)
        waitpoints[waitpoint]["signal_count"] += len(rows)
