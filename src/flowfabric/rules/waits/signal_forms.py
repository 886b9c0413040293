"""Forms that record signals, and that resume a suspended execution."""

from __future__ import annotations

from flowfabric.model.event import COMPLETION_EVENTS, RESUMABLE, SIGNAL_EVENTS
from flowfabric.model.waitpoint import BOUND_STATES, OPEN_STATES
from flowfabric.plan import (
    Add,
    After,
    Arg,
    Cond,
    Delete,
    Emit,
    Form,
    Step,
    Update,
    UpdateMany,
    Upsert,
    Wake,
)
from flowfabric.rules.columns import by_args, from_args, from_row
from flowfabric.rules.fragments import (
    EXEC,
    KEY,
    MOVED_AT_ARG,
    NOT_WAITING,
    SIGNAL,
    SUSPENSION,
    THIS_ROW,
    UNCHANGED,
    WAITPOINT,
    close_waits,
)
from flowfabric.rules.states import entering
from flowfabric.rules.waits.suspend_forms import SUSPEND_DEDUP

DEDUP = "ff_signal_dedup"

_SIGNAL = {
    **from_args(
        "waitpoint_id",
        "waitpoint_key",
        "suspension_id",
        "attempt_index",
        "signal_name",
        "signal_category",
        "source_type",
        "source_identity",
        "correlation_id",
        "payload_encoding",
        "target_scope",
        "idempotency_key",
        "created_at_ms",
        "observed_effect",
        "matched",
        "payload",
        "comment",
        "link",
    ),
    "accepted_at_ms": Arg("now"),
}
_RECORD = Upsert(
    SIGNAL, {**from_args("partition_key", "execution_id", "signal_id"), **_SIGNAL}, _SIGNAL
)
_DUPLICATE_OF = {**from_args("execution_id", "signal_id"), "expires_at_ms": Arg("dedup_until_ms")}
_REMEMBER_KEY = Upsert(
    DEDUP,
    {**from_args("partition_key", "waitpoint_id", "idempotency_key"), **_DUPLICATE_OF},
    _DUPLICATE_OF,
)
_DELIVERED = Emit(
    SIGNAL_EVENTS,
    "delivered",
    {
        **from_args(
            "execution_id",
            "signal_id",
            "waitpoint_id",
            "source_identity",
            "partition_key",
            "namespace",
            "instance_tag",
        ),
        "event_type": Arg("observed_effect"),
    },
    Arg("now"),
)
_WAITPOINT_KEY = by_args("partition_key", "waitpoint_id")
_SIGNALLED = {
    "signal_count": Add(1),
    "signals_trimmed": Arg("signals_trimmed"),
    "last_signal_at_ms": Arg("now"),
    "version": Add(1),
}
_MATCHED_TOO = {**_SIGNALLED, "matched_signal_count": Add(1)}
_SATISFIERS = {
    **from_args("satisfied_set", "satisfier_signal_ids"),
    "last_signal_at_ms": Arg("now"),
    "version": Add(1),
}
_STILL_SUSPENDED = (*UNCHANGED, Cond("lifecycle_phase", "=", "suspended"))


def _pair(name: str, *steps: Step | Wake) -> tuple[Form, Form]:
    """The form for a signal without an idempotency key, and the form for one with."""
    return Form(name, *steps), Form(f"{name}_once", *steps, _REMEMBER_KEY)


BUFFER = _pair(
    "buffer_signal",
    Update(
        WAITPOINT, (*_WAITPOINT_KEY, Cond("version", "=", Arg("waitpoint_version"))), _SIGNALLED
    ),
    _RECORD,
    _DELIVERED,
)
# A change of a suspension changes its execution too, whose version guards both rows.
_APPENDED = (
    Update(EXEC, _STILL_SUSPENDED, {"version": Add(1), "last_mutation_at": Arg("now")}),
    UpdateMany(SUSPENSION, THIS_ROW, _SATISFIERS),
)
APPEND = _pair(
    "append_signal",
    *_APPENDED,
    UpdateMany(WAITPOINT, _WAITPOINT_KEY, _SIGNALLED),
    _RECORD,
    _DELIVERED,
)
APPEND_MATCHED = _pair(
    "append_matched_signal",
    *_APPENDED,
    UpdateMany(WAITPOINT, _WAITPOINT_KEY, _MATCHED_TOO),
    _RECORD,
    _DELIVERED,
)

_RESUMED = Update(
    EXEC,
    _STILL_SUSPENDED,
    {
        **MOVED_AT_ARG,
        **entering("READY", detail=Arg("blocking_detail")),
        **NOT_WAITING,
        **from_args("eligibility_state", "blocking_reason", "public_state", "delay_until_ms"),
    },
)
_CLAIMABLE = (Wake("ready", After("lane_id")), Wake("delayed", at=Arg("delay_until_ms")))
_RESUMABLE = Emit(
    COMPLETION_EVENTS,
    RESUMABLE,
    {
        **from_row("execution_id", "partition_key", "namespace", "instance_tag"),
        "committed_at_ms": Arg("now"),
    },
    Arg("now"),
)
SATISFIED = {
    "state": "closed",
    "close_reason": "resumed",
    "satisfied_at_ms": Arg("now"),
    "closed_at_ms": Arg("now"),
    "version": Add(1),
}
# The signalled waitpoint and the others are changed apart: one statement changes a row once.
RESUME_BY_SIGNAL = _pair(
    "resume_by_signal",
    _RESUMED,
    UpdateMany(
        SUSPENSION,
        THIS_ROW,
        {
            **_SATISFIERS,
            "closed_at_ms": Arg("now"),
            "close_reason": "resumed",
            "closer_signal_id": Arg("signal_id"),
        },
    ),
    UpdateMany(WAITPOINT, _WAITPOINT_KEY, {**_MATCHED_TOO, **SATISFIED}),
    UpdateMany(
        WAITPOINT,
        (
            *THIS_ROW,
            Cond("state", "in", OPEN_STATES),
            Cond("suspension_id", "=", Arg("suspension_id")),
            Cond("waitpoint_id", "!=", Arg("waitpoint_id")),
        ),
        SATISFIED,
    ),
    _RECORD,
    _DELIVERED,
    _RESUMABLE,
    *_CLAIMABLE,
)
RESUME = Form(
    "resume_execution",
    _RESUMED,
    *close_waits("resumed", Arg("now"), BOUND_STATES, satisfied_at_ms=Arg("now")),
    *_CLAIMABLE,
)
TRIM = Form("trim_signal", Delete(SIGNAL, by_args("partition_key", "execution_id", "signal_id")))
STAMP_FAILURE = Form(
    "stamp_token_failure", Update(EXEC, KEY, {"last_hmac_validation_failed_at": Arg("now")})
)

_EXPIRED = Cond("expires_at_ms", "<=", Arg("now"))
FORGET_KEY = Form(
    "forget_signal_key",
    Delete(DEDUP, (*by_args("partition_key", "waitpoint_id", "idempotency_key"), _EXPIRED)),
)
FORGET_SUSPEND = Form(
    "forget_suspend_key",
    Delete(SUSPEND_DEDUP, (*by_args("partition_key", "idempotency_key"), _EXPIRED)),
)
