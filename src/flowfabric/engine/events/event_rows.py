"""Decodes outbox rows by position: a subscriber that catches up reads very many of them."""

from __future__ import annotations

import json

from flowfabric.codec.event_cursor import encode_cursor
from flowfabric.ids import ExecutionId, lease_mark
from flowfabric.model import event as model
from flowfabric.store.port import Row

OUTCOMES: dict[str, str] = {
    "success": "Success",
    "failed": "Failure",
    "failure": "Failure",
    "cancelled": "Cancelled",
}


def lease_event(row: Row) -> model.LeaseEvent:
    number, ident, lease, epoch, worker, kind, reason, at, partition, _, _ = row
    if kind not in model.LEASE_KINDS:
        raise ValueError("unknown event_type")
    return model.LeaseEvent(
        encode_cursor(number),
        ExecutionId.of(partition, ident),
        kind,
        lease_mark(lease),
        epoch,
        worker,
        reason,
        at,
    )


def completion_event(row: Row) -> model.CompletionEvent:
    outcome: str
    number, ident, flow, outcome, at, _, _, partition, _, _ = row
    return model.CompletionEvent(
        encode_cursor(number),
        ExecutionId.of(partition, ident),
        OUTCOMES.get(outcome, outcome),
        flow,
        at,
    )


def signal_event(row: Row) -> model.SignalEvent:
    number, ident, signal, waitpoint, source, effect, at, partition, _, _ = row
    return model.SignalEvent(
        encode_cursor(number),
        ExecutionId.of(partition, ident),
        signal,
        waitpoint,
        source,
        effect_of(effect),
        at,
    )


def effect_of(stored: str) -> str:
    if stored == "resume_condition_satisfied":
        return "Satisfied"
    return "Buffered" if stored.startswith("buffered") else stored


def operator_event(row: Row) -> model.OperatorEvent:
    number, ident, kind, details, at, partition, _, _ = row
    decoded = json.loads(details) if details else {}
    if not isinstance(decoded, dict):
        raise TypeError("details: not an object")
    return model.OperatorEvent(
        encode_cursor(number), ident, ExecutionId.of(partition, ident), kind, decoded, at
    )
