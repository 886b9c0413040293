"""Forms that record signals, and that resume a suspended execution."""

from __future__ import annotations

from collections.abc import Mapping

from flowfabric import plan as p
from flowfabric.model.event import COMPLETION_EVENTS, RESUMABLE, SIGNAL_EVENTS
from flowfabric.model.waitpoint import BOUND_STATES, OPEN_STATES
from flowfabric.rules import fragments as f
from flowfabric.rules.columns import by_args, from_args, from_row
from flowfabric.rules.states import entering
from flowfabric.rules.waits.suspend_forms import SUSPEND_DEDUP
from flowfabric.rules.waits.waitpoints import SATISFIED

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
    "accepted_at_ms": p.Arg("now"),
}
_RECORD = p.Upsert(
    f.SIGNAL, {**from_args("partition_key", "execution_id", "signal_id"), **_SIGNAL}, _SIGNAL
)
_DUPLICATE_OF = {**from_args("execution_id", "signal_id"), "expires_at_ms": p.Arg("dedup_until_ms")}
_REMEMBER_KEY = p.Upsert(
    DEDUP,
    {**from_args("partition_key", "waitpoint_id", "idempotency_key"), **_DUPLICATE_OF},
    _DUPLICATE_OF,
)
_DELIVERED = p.Emit(
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
        "event_type": p.Arg("observed_effect"),
    },
    p.Arg("now"),
)
_WAITPOINT_KEY = by_args("partition_key", "waitpoint_id")
_SIGNALLED = {
    "signal_count": p.Add(1),
    "signals_trimmed": p.Arg("signals_trimmed"),
    "last_signal_at_ms": p.Arg("now"),
    "version": p.Add(1),
}
_MATCHED_TOO = {**_SIGNALLED, "matched_signal_count": p.Add(1)}
_SATISFIERS = {
    **from_args("satisfied_set", "satisfier_signal_ids"),
    "last_signal_at_ms": p.Arg("now"),
    "version": p.Add(1),
}
_STILL_SUSPENDED = (*f.UNCHANGED, p.Cond("lifecycle_phase", "=", "suspended"))


def _pair(name: str, *steps: p.Step | p.Wake) -> tuple[p.Form, p.Form]:
    """The form for a signal without an idempotency key, and the form for one with."""
    return p.Form(name, *steps), p.Form(f"{name}_once", *steps, _REMEMBER_KEY)


BUFFER = _pair(
    "buffer_signal",
    p.Update(
        f.WAITPOINT,
        (*_WAITPOINT_KEY, p.Cond("version", "=", p.Arg("waitpoint_version"))),
        _SIGNALLED,
    ),
    _RECORD,
    _DELIVERED,
)


def _append(name: str, changes: Mapping[str, object]) -> tuple[p.Form, p.Form]:
    """A change of a suspension changes its execution too, whose version guards both rows."""
    return _pair(
        name,
        p.Update(f.EXEC, _STILL_SUSPENDED, {"version": p.Add(1), "last_mutation_at": p.Arg("now")}),
        p.UpdateMany(f.SUSPENSION, f.THIS_ROW, _SATISFIERS),
        p.UpdateMany(f.WAITPOINT, _WAITPOINT_KEY, changes),
        _RECORD,
        _DELIVERED,
    )


APPEND = _append("append_signal", _SIGNALLED)
APPEND_MATCHED = _append("append_matched_signal", _MATCHED_TOO)

_RESUMED = p.Update(
    f.EXEC,
    _STILL_SUSPENDED,
    {
        **f.MOVED_AT_ARG,
        **entering("READY", detail=p.Arg("blocking_detail")),
        **f.NOT_WAITING,
        **from_args("eligibility_state", "blocking_reason", "public_state", "delay_until_ms"),
    },
)
_CLAIMABLE = (p.Wake("ready", p.After("lane_id")), p.Wake("delayed", at=p.Arg("delay_until_ms")))
_RESUMABLE = p.Emit(
    COMPLETION_EVENTS,
    RESUMABLE,
    {
        **from_row("execution_id", "partition_key", "namespace", "instance_tag"),
        "committed_at_ms": p.Arg("now"),
    },
    p.Arg("now"),
)

# The signalled waitpoint and the others are changed apart: one statement changes a row once.
RESUME_BY_SIGNAL = _pair(
    "resume_by_signal",
    _RESUMED,
    p.UpdateMany(
        f.SUSPENSION,
        f.THIS_ROW,
        {
            **_SATISFIERS,
            "closed_at_ms": p.Arg("now"),
            "close_reason": "resumed",
            "closer_signal_id": p.Arg("signal_id"),
        },
    ),
    p.UpdateMany(f.WAITPOINT, _WAITPOINT_KEY, {**_MATCHED_TOO, **SATISFIED}),
    p.UpdateMany(
        f.WAITPOINT,
        (
            *f.THIS_ROW,
            p.Cond("state", "in", OPEN_STATES),
            p.Cond("suspension_id", "=", p.Arg("suspension_id")),
            p.Cond("waitpoint_id", "!=", p.Arg("waitpoint_id")),
        ),
        SATISFIED,
    ),
    _RECORD,
    _DELIVERED,
    _RESUMABLE,
    *_CLAIMABLE,
)
RESUME = p.Form(
    "resume_execution",
    _RESUMED,
    *f.close_waits("resumed", p.Arg("now"), BOUND_STATES, satisfied_at_ms=p.Arg("now")),
    *_CLAIMABLE,
)
TRIM = p.Form(
    "trim_signal", p.Delete(f.SIGNAL, by_args("partition_key", "execution_id", "signal_id"))
)
STAMP_FAILURE = p.Form(
    "stamp_token_failure", p.Update(f.EXEC, f.KEY, {"last_hmac_validation_failed_at": p.Arg("now")})
)

_EXPIRED = p.Cond("expires_at_ms", "<=", p.Arg("now"))
FORGET_KEY = p.Form(
    "forget_signal_key",
    p.Delete(DEDUP, (*by_args("partition_key", "waitpoint_id", "idempotency_key"), _EXPIRED)),
)
FORGET_SUSPEND = p.Form(
    "forget_suspend_key",
    p.Delete(SUSPEND_DEDUP, (*by_args("partition_key", "idempotency_key"), _EXPIRED)),
)
