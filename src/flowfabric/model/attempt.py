"""Attempts of an execution."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from msgspec import Struct


class Attempt(Struct, frozen=True):
    """A row of `ff_attempt`, column by column."""

    partition_key: int
    execution_id: UUID
    attempt_index: int
    attempt_id: UUID | None
    attempt_type: str
    attempt_state: str
    worker_id: str | None
    worker_instance_id: str | None
    lease_id: UUID | None
    lease_epoch: int
    lease_expires_at_ms: int | None
    created_at_ms: int
    started_at_ms: int | None
    resumed_at_ms: int | None
    suspended_at_ms: int | None
    suspension_id: str | None
    terminal_at_ms: int | None
    outcome: str | None
    failure_reason: str | None
    failure_category: str | None
    retry_reason: str | None
    replay_reason: str | None
    replay_requested_by: str | None
    reclaim_reason: str | None
    previous_attempt_index: int | None
    replayed_from_attempt_index: int | None
    attempt_timeout_at_ms: int | None
    attempt_timeout_remaining_ms: int | None
    usage: str
    policy: str | None
    raw_fields: str


ATTEMPT_TIMEOUT = "attempt_timeout"
"""The failure category of an attempt that ran into its timeout; the retry policy applies to it."""


class FailureClass(StrEnum):
    TRANSIENT = "transient"
    PERMANENT = "permanent"
    INFRA_CRASH = "infra_crash"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class FailureReason(Struct, frozen=True):
    """A message, and an optional detail whose text replaces the category."""

    message: str
    detail: bytes | None = None


class RetryScheduled(Struct, frozen=True, tag=True):
    delay_until: int
    next_attempt_index: int


class TerminalFailed(Struct, frozen=True, tag=True):
    pass


FailOutcome = RetryScheduled | TerminalFailed


class Delayed(Struct, frozen=True):
    execution_id: str
    public_state: str = "delayed"
