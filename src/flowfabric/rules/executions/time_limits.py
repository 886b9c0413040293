"""The time limits: an attempt that ran for too long is tried again or expires, a missed deadline ends the execution."""

from __future__ import annotations

from flowfabric.model.attempt import ATTEMPT_TIMEOUT, FailureClass
from flowfabric.model.execution import AlreadyTerminal, Execution, Expired
from flowfabric.model.policy import RetryPolicy, stored_policy
from flowfabric.model.state import ExpirePhase
from flowfabric.plan import Cond
from flowfabric.rules.decision import Commit, Decision, Return, Snapshot
from flowfabric.rules.executions.termination import endings
from flowfabric.rules.fragments import UNCHANGED, lease_of, named
from flowfabric.rules.leases.attempts import retry_forms, retry_plan
from flowfabric.rules.retries import delay_after
from flowfabric.rules.states import is_ended

EXPIRE = endings("expire", "expired")
TIMEOUT_RETRY_LATER, TIMEOUT_RETRY_NOW = retry_forms(
    "timeout_retry", (*UNCHANGED, Cond("ownership_state", "=", "leased"))
)


def expire(
    snapshot: Snapshot, phase: ExpirePhase, now_ms: int | None, default: RetryPolicy, roll: float
) -> Decision:
    """A timed-out attempt is a failure the retry policy decides about; a missed deadline is final."""
    execution = snapshot.execution
    now = snapshot.now_ms if now_ms is None else now_ms
    if execution is None:
        return Return(None)
    if is_ended(execution):
        return Return(AlreadyTerminal())
    due = (
        _attempt_limit(execution)
        if phase is ExpirePhase.ATTEMPT_TIMEOUT
        else execution.deadline_at_ms
    )
    if due is None or due > now:
        return Return(None)
    if phase is ExpirePhase.ATTEMPT_TIMEOUT:
        policy = stored_policy(execution.policy, execution.id)
        wanted = policy.retry_policy if policy else None
        delay_ms = delay_after(
            FailureClass.TRANSIENT, ATTEMPT_TIMEOUT, wanted, default, execution.retry_count, roll
        )
        if delay_ms is not None:
            return _retry(execution, delay_ms)
    return Commit(EXPIRE.plan(execution, phase.value, now), Expired(execution.id))


def _attempt_limit(execution: Execution) -> int | None:
    """None without a lease: the time of an attempt counts only while it is run, and a lost lease resets it."""
    limit, lease_end = execution.attempt_timeout_at_ms, execution.lease_expires_at_ms
    if execution.ownership_state != "leased" or limit is None:
        return None
    return None if lease_end is not None and lease_end < limit else limit


def _retry(execution: Execution, delay_ms: int) -> Commit:
    values = {
        **named(execution),
        **lease_of(execution),
        "attempt_index": execution.attempt_index,
        "reason": ATTEMPT_TIMEOUT,
        "category": ATTEMPT_TIMEOUT,
        "next_policy": None,
    }
    return retry_plan(TIMEOUT_RETRY_LATER, TIMEOUT_RETRY_NOW, values, delay_ms)
