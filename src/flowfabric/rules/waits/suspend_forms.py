"""Forms that suspend an execution, and that store the outcome of a suspend under its key."""

from __future__ import annotations

from flowfabric.plan import Add, After, Arg, Form, Insert, Update, Upsert, Wake
from flowfabric.rules import fragments as f
from flowfabric.rules.columns import by_args, from_args, from_row
from flowfabric.rules.states import entering
from flowfabric.rules.waits.waitpoints import BOUND

SUSPEND_DEDUP = "ff_suspend_dedup"

_SUSPENSION = {
    "suspended_at_ms": Arg("now"),
    **from_args(
        "suspension_id",
        "timeout_at_ms",
        "reason_code",
        "condition",
        "satisfied_set",
        "timeout_behavior",
        "attempt_index",
        "requested_by",
        "resume_policy",
        "continuation_metadata_pointer",
        "primary_waitpoint_id",
        "satisfier_signal_ids",
    ),
    "last_signal_at_ms": None,
    "closer_signal_id": None,
    "closed_at_ms": None,
    "close_reason": None,
}
_OWNER = from_row("partition_key", "execution_id")
_SUSPENDED = (
    f.interrupt(
        f.HELD,
        {**entering("SUSPENDED", detail=Arg("blocking_detail")), **from_args("blocking_reason")},
        {
            "interrupt_cause": "suspended",
            "lease_epoch": Add(1),
            **f.TIME_KEPT,
            "current_suspension_id": Arg("suspension_id"),
            "current_waitpoint_id": Arg("primary_waitpoint_id"),
        },
    ),
    f.suspend_attempt(
        {"suspension_id": Arg("suspension_text")}, at=Arg("now"), lease_epoch=After("lease_epoch")
    ),
    Upsert(
        f.SUSPENSION, {**_OWNER, **_SUSPENSION, "version": 0}, {**_SUSPENSION, "version": Add(1)}
    ),
    f.drop_grant(),
    f.held_event("revoked", "suspended"),
    Wake("suspension_timeout", at=Arg("timeout_at_ms")),
)
SUSPEND = Form("suspend", *_SUSPENDED)
SUSPEND_ON_NEW = Form("suspend_on_new_waitpoint", *_SUSPENDED, BOUND)

_DEDUP_KEY = ("partition_key", "idempotency_key")
REMEMBER_SUSPEND = Form(
    "remember_suspend",
    Insert(
        SUSPEND_DEDUP,
        {
            **from_args(*_DEDUP_KEY, "execution_id", "outcome_json", "expires_at_ms"),
            "created_at_ms": Arg("now"),
        },
    ),
)
REMEMBER_SUSPEND_AGAIN = Form(
    "remember_suspend_again",
    Update(
        SUSPEND_DEDUP,
        by_args(*_DEDUP_KEY),
        {**from_args("outcome_json"), "created_at_ms": Arg("now"), **from_args("expires_at_ms")},
    ),
)
