"""The signals of a suspension, as its attempt sees them after it resumed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import starmap
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model.waitpoint import ResumeSignal, Signal, Suspension
from flowfabric.store.port import Get, Scan, Store

SIGNAL_PAGE = 10_000


def as_resume_signal(signal: Signal) -> ResumeSignal:
    return ResumeSignal(
        signal.signal_id,
        signal.signal_name,
        signal.signal_category,
        signal.source_type,
        signal.source_identity,
        signal.correlation_id,
        signal.accepted_at_ms,
        signal.payload,
        signal.comment,
        signal.link,
    )


def resumed_by(suspension: Suspension, signals: Sequence[Signal]) -> list[ResumeSignal]:
    """The signals that satisfied the condition, or those the engine wrote at the timeout."""
    if suspension.close_reason == "timed_out_auto_resume":
        return [as_resume_signal(signal) for signal in signals if signal.source_type == "engine"]
    if suspension.close_reason != "resumed":
        return []
    satisfiers = {UUID(text) for text in json.loads(suspension.satisfier_signal_ids)}
    return [as_resume_signal(signal) for signal in signals if signal.signal_id in satisfiers]


async def load_last_suspension(
    store: Store, ident: ExecutionId
) -> tuple[Suspension | None, list[Signal]]:
    """The latest suspension of an execution, with its signals."""
    owner = ident.owner
    reads = (
        Get("ff_suspension_current", ident.key),
        Scan("signals_of", owner, limit=SIGNAL_PAGE),
    )
    suspensions, signals = (await store.load(reads)).rows
    suspension = next(starmap(Suspension, suspensions), None)
    if suspension is None:
        return None, []
    found = starmap(Signal, signals)
    return suspension, [each for each in found if each.suspension_id == suspension.suspension_id]
