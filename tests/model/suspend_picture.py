"""The rows of suspensions by the specification, and their differences from a dump."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from flowfabric.codec.token import sealed
from flowfabric.model.waitpoint import Signal, Suspension, Waitpoint
from flowfabric.store.port import Row
from flowfabric.verify.snapshot import Snapshot

from .suspend_shapes import Box, Heard, Wait
from .suspend_spec import Suspends


def _wait(wait: Wait) -> tuple[Any, ...]:
    return (
        wait.asked.name,
        wait.index,
        wait.at,
        wait.timeout,
        wait.behavior,
        wait.reason,
        wait.primary,
        len(wait.have),
        [str(one) for one in wait.by],
        wait.last,
        wait.closer,
        wait.closed,
        wait.why,
    )


def _stored_wait(row: Suspension) -> tuple[Any, ...]:
    return (
        row.suspension_id,
        row.attempt_index,
        row.suspended_at_ms,
        row.timeout_at_ms,
        row.timeout_behavior,
        row.reason_code,
        row.primary_waitpoint_id,
        len(json.loads(row.satisfied_set)),
        json.loads(row.satisfier_signal_ids),
        row.last_signal_at_ms,
        row.closer_signal_id,
        row.closed_at_ms,
        row.close_reason,
    )


def _box(box: Box) -> tuple[Any, ...]:
    told = (
        box.key,
        sealed(box.token),
        box.index,
        box.created,
        box.expires,
        box.state,
        box.wait,
        box.names,
        box.activated,
    )
    return (
        box.ident.uuid,
        *told,
        box.heard,
        box.matched,
        box.last,
        box.satisfied,
        box.closed,
        box.why,
    )


def _stored_box(row: Waitpoint) -> tuple[Any, ...]:
    return (
        row.execution_id,
        row.waitpoint_key,
        row.token_digest,
        row.attempt_index,
        row.created_at_ms,
        row.expires_at_ms,
        row.state,
        row.suspension_id,
        tuple(json.loads(row.required_signal_names)),
        row.activated_at_ms,
        row.signal_count,
        row.matched_signal_count,
        row.last_signal_at_ms,
        row.satisfied_at_ms,
        row.closed_at_ms,
        row.close_reason,
    )


def _heard(heard: Heard) -> tuple[Any, ...]:
    sent = heard.sent
    told = (
        heard.box,
        heard.key,
        heard.index,
        heard.at,
        heard.effect,
        int(heard.matched),
        heard.wait,
    )
    return (*told, sent.word, sent.source, sent.once, sent.payload)


def _stored_signal(row: Signal) -> tuple[Any, ...]:
    return (
        row.waitpoint_id,
        row.waitpoint_key,
        row.attempt_index,
        row.accepted_at_ms,
        row.observed_effect,
        row.matched,
        row.suspension_id,
        row.signal_name,
        (row.source_type, row.source_identity),
        row.idempotency_key,
        row.payload,
    )


def _pairs(
    spec: Suspends, world: Snapshot, tables: Mapping[str, list[Row]]
) -> Iterator[tuple[str, Any, Any]]:
    uuids = {ident.uuid: ident for ident in spec.execs}
    waits = {key[1]: _stored_wait(row) for key, row in world.suspensions.items()}
    yield "suspensions", {ident.uuid: _wait(wait) for ident, wait in spec.waits.items()}, waits
    rows = [row for several in world.waitpoints.values() for row in several]
    yield (
        "waitpoints",
        {name: _box(box) for name, box in spec.boxes.items()},
        {r.waitpoint_id: _stored_box(r) for r in rows},
    )
    signals = [row for several in world.signals.values() for row in several]
    real = {
        (uuids[s.execution_id], s.signal_id): _stored_signal(s)
        for s in signals
        if s.signal_category != "system"
    }
    yield "signals", {key: _heard(heard) for key, heard in spec.signals.items()}, real
    made = sorted(
        ((s.execution_id, _stored_signal(s)) for s in signals if s.signal_category == "system"),
        key=repr,
    )
    yield (
        "signals of timeouts",
        sorted(((i.uuid, _heard(heard)) for i, heard in spec.synthetic), key=repr),
        made,
    )
    told = {
        uuids[key[1]]: [
            (x["signal_id"], x["waitpoint_id"], x["event_type"], x["occurred_at_ms"])
            for x in events
        ]
        for key, events in world.signal_events.items()
    }
    yield "signal events", spec.events, told
    stamps = {
        uuids[key[1]]: e.last_hmac_validation_failed_at for key, e in world.executions.items()
    }
    yield (
        "refused tokens",
        spec.stamps,
        {ident: at for ident, at in stamps.items() if at is not None},
    )
    yield (
        "signals by key",
        spec.once,
        {(row[1], row[2]): (row[4], row[5]) for row in tables["ff_signal_dedup"]},
    )
    asked = {(row[0], row[1]): row[5] for row in tables["ff_suspend_dedup"]}
    wanted = {
        (ident.partition_index, f"{ident.uuid}:{key}"): until
        for (ident, key), (_, until) in spec.asked.items()
    }
    yield "suspends by key", wanted, asked
    keys = {
        row[0]: (row[4].hex(), bool(row[2]), row[1], row[3]) for row in tables["ff_waitpoint_hmac"]
    }
    yield (
        "keys",
        {kid: (key.secret, key.active, key.rotated, key.until) for kid, key in spec.hmac.items()},
        keys,
    )


def suspend_differences(
    spec: Suspends, world: Snapshot, tables: Mapping[str, list[Row]]
) -> list[str]:
    pairs = _pairs(spec, world, tables)
    return [
        f"{what}: specified {wanted!r}, stored {is_!r}"
        for what, wanted, is_ in pairs
        if wanted != is_
    ]
