"""The values of the state vector. Every literal is public: it is stored, sent and shown."""

from __future__ import annotations

from enum import StrEnum


class PublicState(StrEnum):
    WAITING = "waiting"
    DELAYED = "delayed"
    RATE_LIMITED = "rate_limited"
    WAITING_CHILDREN = "waiting_children"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    RESUMABLE = "resumable"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"


class LaneState(StrEnum):
    """active: accepts and runs work; paused: accepts; draining: runs; disabled: neither."""

    ACTIVE = "active"
    PAUSED = "paused"
    DRAINING = "draining"
    DISABLED = "disabled"


class TimeoutBehavior(StrEnum):
    """What happens to an execution whose suspension has timed out."""

    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"
    AUTO_RESUME = "auto_resume_with_timeout_signal"
    ESCALATE = "escalate"


class ExpirePhase(StrEnum):
    ATTEMPT_TIMEOUT = "attempt_timeout"
    EXECUTION_DEADLINE = "execution_deadline"


OPERATOR_OVERRIDE = "operator_override"
ENDED_PHASES = ("terminal", "cancelled")
"""The phase column of an ended execution; the API returns `terminal` for both."""
FAILED_OUTCOMES = ("failed", "expired")
"""Outcomes that may need investigation, so their executions are kept longer."""
