"""Events inside an engine, its loops and its workers, for metrics."""

from __future__ import annotations

import re

from flowfabric.errors import Contention, ContentionKind, EngineError, StateError, StateKind
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailOutcome, RetryScheduled

_DIMENSION = re.compile(r"budget \S+: (.+) \d+/\d+\Z")


class Telemetry:
    """Receives events that the public calls do not show. Override some methods; none may raise.

    Calls come from several threads.
    """

    def scanner_cycle(self, name: str, seconds: float) -> None:
        """A pass of a background loop ended."""

    def scanner_errors(self, name: str, n: int = 1) -> None:
        """A pass failed, or `n` items of a pass did."""

    def claimed(self, lane: str, seconds: float) -> None:
        """A claim returned, with or without work. A claim that waits is not timed."""

    def lease_renewed(self, outcome: str) -> None:
        """A renewal returned: `ok` or `error`."""

    def lease_expired(self, lane: str, n: int = 1) -> None: ...

    def attempt_ended(self, lane: str, outcome: str, execution: ExecutionId | None = None) -> None:
        """An attempt ended: `ok`, `error`, `timeout`, `cancelled` or `retry`.

        `execution` is given if the execution ended with it.
        """

    def attempt_failed(self, lane: str, category: str) -> None: ...

    def signalled(self, effect: str) -> None:
        """A signal was delivered."""

    def edge_policy_set(self, policy: str) -> None: ...

    def reclaimed(self, outcome: str) -> None:
        """A reclaim returned: `claimed`, `cap_exceeded` (lost too often) or `not_reclaimable`."""

    def siblings_cancelled(self, reason: str, cancelled: int, ended: int) -> None:
        """A group that fired cancelled some of its listed members; the others had ended."""

    def siblings_reconciled(self, action: str) -> None:
        """A queued group was reconciled."""

    def budget_hit(self, dimension: str) -> None:
        """A spent budget blocked an execution, or refused a report."""

    def quota_hit(self, reason: str) -> None:
        """A quota was full: `rate` or `concurrency`."""

    def worker_at_capacity(self) -> None:
        """A worker with work available has every slot in use."""

    def shutdown_timeout(self) -> None:
        """Running work did not end within the grace period."""


NO_TELEMETRY = Telemetry()


class TelemetrySlot:
    """The listener of one engine. Parts hold the slot, so a listener set later reaches them all."""

    def __init__(self) -> None:
        self.listener: Telemetry = NO_TELEMETRY


def report_refusal(listener: Telemetry, error: EngineError) -> None:
    """Reports the limit that refused a start, if any."""
    match error:
        case Contention(kind=ContentionKind.RATE_LIMIT_EXCEEDED):
            listener.quota_hit("rate")
        case Contention(kind=ContentionKind.CONCURRENCY_LIMIT_EXCEEDED):
            listener.quota_hit("concurrency")
        case StateError(kind=StateKind.BUDGET_EXCEEDED, detail=detail):
            found = _DIMENSION.match(detail)
            listener.budget_hit(found[1] if found else "unknown")


def report_failure(
    listener: Telemetry,
    lane: str,
    execution: ExecutionId,
    outcome: FailOutcome,
    category: str,
    *,
    is_late: bool,
) -> None:
    listener.attempt_failed(lane, category)
    if isinstance(outcome, RetryScheduled):
        listener.attempt_ended(lane, "retry")
    else:
        listener.attempt_ended(lane, "timeout" if is_late else "error", execution)
