"""What every new lease writes on its execution and its attempt."""

from __future__ import annotations

import json

from flowfabric.plan import Add, After, Arg, Before, Cond, Fresh, Now, Once, Wake, When
from flowfabric.rules.columns import from_args, from_row
from flowfabric.rules.fragments import MOVED, UNRESERVED, Columns
from flowfabric.rules.states import entering

NEW_ATTEMPT = Cond("current_attempt_id", "is null")
CLAIMED = (
    "partition_key",
    "execution_id",
    "attempt_index",
    "current_attempt_id",
    "current_lease_id",
    "lease_epoch",
    "lease_expires_at_ms",
    "lane_id",
    "retry_count",
    "policy",
    "execution_kind",
    "payload",
    "tags",
    Before("attempt_state"),
    "attempt_timeout_ms",
    "attempt_timeout_at_ms",
)
TIMERS = (
    Wake("leased", at=After("lease_expires_at_ms")),
    Wake("attempt_timeout", at=After("attempt_timeout_at_ms")),
)


def acquired(
    lease_id: Arg | Fresh, attempt_id: Arg | Once, timeout: Arg | Before | When
) -> Columns:
    """The columns of the execution."""
    return {
        **MOVED,
        **UNRESERVED,
        **entering("RUNNING"),
        "attempt_state": "running_attempt",
        "lease_epoch": Add(1),
        "current_lease_id": lease_id,
        "current_attempt_id": attempt_id,
        "attempt_index": When(NEW_ATTEMPT, Before("total_attempt_count"), Before("attempt_index")),
        "total_attempt_count": When(NEW_ATTEMPT, Add(1), Add(0)),
        "current_worker_id": Arg("worker_id"),
        "current_worker_instance_id": Arg("worker_instance_id"),
        "started_at_ms": Once(Now()),
        "lease_acquired_at": Now(),
        "lease_last_renewed_at": Now(),
        "lease_expires_at_ms": Now(Arg("lease_ttl_ms")),
        "lease_renewal_deadline": Now(Arg("renew_within_ms")),
        "attempt_timeout_at_ms": Now(timeout),
        "lease_expired_at": None,
        "attempt_timeout_remaining_ms": None,
        "interrupt_cause": None,
        "delay_until_ms": None,
        "pending_retry_reason": None,
        "pending_replay_reason": None,
        "pending_replay_requested_by": None,
        "pending_previous_attempt_index": None,
        "pending_attempt_policy": None,
        "blocked_on": None,
    }


def leased_attempt() -> Columns:
    """The columns of the attempt."""
    return {
        "attempt_state": "started",
        **from_args("worker_id", "worker_instance_id"),
        "lease_id": After("current_lease_id"),
        **from_row("lease_epoch", "lease_expires_at_ms", "attempt_timeout_at_ms"),
    }


def new_attempt(kind: When | str, more: Columns) -> Columns:
    """The row of an attempt that starts with its lease."""
    return {
        **from_row("partition_key", "execution_id", "attempt_index"),
        "attempt_id": After("current_attempt_id"),
        "attempt_type": kind,
        **leased_attempt(),
        "created_at_ms": Now(),
        "started_at_ms": Now(),
        **more,
    }


def renew_within_ms(ttl_ms: int) -> int:
    return ttl_ms * 2 // 3


def policy_text(text: str) -> str | None:
    """The attempt policy, if it is a JSON object."""
    try:
        return text if text and isinstance(json.loads(text), dict) else None
    except ValueError:
        return None
