"""Events: those of the original under their numbers, and ends that the original does not report."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS, OPERATOR_EVENTS, is_end
from flowfabric.rules.imports.original import (
    Imported,
    Key,
    Original,
    Row,
    copied,
    json_of,
    key_of,
    known,
    optional_uuid,
)

_GRANTS = ("acquired", "reclaimed")
_OUTCOMES = {"failure": "failed"}


def import_events(original: Original, made: Imported) -> None:
    _completions(original, made)
    _leases(original, made)
    spaces = _namespaces(made)
    for row in original.rows(OPERATOR_EVENTS):
        key = key_of(row)
        space = spaces.get(key, row["namespace"])
        event = copied(row, "event_id", "event_type", "details", "occurred_at_ms", "instance_tag")
        made.add(
            OPERATOR_EVENTS,
            {**event, "partition_key": key[0], "execution_id": key[1], "namespace": space},
        )
    table = "ff_worker_registry_event"
    events = sorted(original.rows(table), key=lambda row: (row["event_at_ms"], str(row)))
    for number, row in enumerate(events, 1):
        made.add(table, {**row, "event_id": number})


def _namespaces(made: Imported) -> dict[Key, str | None]:
    spaces: dict[Key, str | None] = {key: row["namespace"] for key, row in made.executions.items()}
    for row in made.rows["ff_flow_core"]:
        spaces[row["partition_key"], row["flow_id"]] = json_of(row["raw_fields"]).get("namespace")
    return spaces


def next_number(original: Original, made: Imported, table: str) -> Callable[[], int]:
    """Numbers above every number that the original has drawn."""
    drawn = [row["seq"] for row in original.rows("sqlite_sequence") if row["name"] == table]
    used = [row["event_id"] for row in made.rows[table]]
    numbers = count(max([0, *drawn, *used]) + 1)
    return lambda: next(numbers)


def _completions(original: Original, made: Imported) -> None:
    executions, ends = made.executions, dict.fromkeys(made.executions, 0)
    columns = ("event_id", "occurred_at_ms", "committed_at_ms", "instance_tag", "dispatched_at_ms")
    for row in known(original.rows(COMPLETION_EVENTS), COMPLETION_EVENTS, made):
        key = key_of(row)
        outcome = str(_OUTCOMES.get(row["outcome"], row["outcome"]))
        ends[key] += is_end(outcome)
        event = {**copied(row, *columns), "outcome": outcome, **_subject(executions[key])}
        made.add(COMPLETION_EVENTS, {**event, "flow_id": optional_uuid(row["flow_id"])})
    number = next_number(original, made, COMPLETION_EVENTS)
    for key, execution in executions.items():
        ended_at = execution["terminal_at_ms"]
        if ended_at is None or ends[key] > execution["replay_count"]:
            continue
        event = {
            "event_id": number(),
            "outcome": execution["terminal_outcome"],
            "occurred_at_ms": ended_at,
            "committed_at_ms": ended_at,
            "instance_tag": execution["instance_tag"],
            "flow_id": execution["flow_id"],
            **_subject(execution),
        }
        made.add(COMPLETION_EVENTS, event)
        made.added(COMPLETION_EVENTS, key[1], "the event of its end, which the original omits")


def _leases(original: Original, made: Imported) -> None:
    """Epochs are counted, because the original's events have none."""
    executions = made.executions
    opened: dict[Key, int] = {}
    epochs: dict[Key, int] = dict.fromkeys(executions, 0)
    raised: dict[Key, int] = dict.fromkeys(executions, 0)
    seen: set[Key] = set()
    for row in known(original.rows(LEASE_EVENTS), LEASE_EVENTS, made):
        key = key_of(row)
        seen.add(key)
        kind, reason = row["event_type"], None
        if kind in _GRANTS:
            if key in opened and kind == "acquired":
                kind, reason = "reclaimed", "acquired"
                made.changed(
                    LEASE_EVENTS, row["event_id"], "acquired before the last lease had an end"
                )
            epochs[key] += 1
            opened[key] = epochs[key]
        elif key not in opened:
            reason = "cancelled"
            if kind != "revoked":
                made.left_out(LEASE_EVENTS, row["event_id"], f"{kind} without a lease")
                continue
        epoch = opened.get(key, epochs[key])
        if kind in ("revoked", "expired"):
            opened.pop(key, None)
        made.add(LEASE_EVENTS, _lease_event(row, executions[key], kind, epoch, reason))
    number = next_number(original, made, LEASE_EVENTS)
    for key, epoch in opened.items():
        execution = executions[key]
        at = max(execution["started_at_ms"] or 0, execution["last_transition_at"])
        closing = {"event_id": number(), "occurred_at_ms": at, "instance_tag": None}
        ended = execution["terminal_at_ms"] is not None
        reason = "cancelled" if ended else "suspended"
        made.add(LEASE_EVENTS, _lease_event(closing, execution, "revoked", epoch, reason))
        made.added(LEASE_EVENTS, key[1], "the end of its last lease, which the original omits")
        raised[key] = 0 if ended else 1
    for key in seen:
        least = epochs[key] + raised[key] + executions[key]["replay_count"]
        cancelled = executions[key]["terminal_outcome"] == "cancelled"
        executions[key]["lease_epoch"] = min(
            max(executions[key]["lease_epoch"], least), least + cancelled
        )


def _lease_event(row: Row, execution: Row, kind: str, epoch: int, reason: str | None) -> Row:
    return {
        **copied(row, "event_id", "occurred_at_ms", "instance_tag"),
        **_subject(execution),
        "lease_id": optional_uuid(row.get("lease_id")),
        "event_type": kind,
        "lease_epoch": epoch,
        "reason": reason,
    }


def _subject(execution: Row) -> Row:
    return copied(execution, "partition_key", "execution_id", "namespace")
