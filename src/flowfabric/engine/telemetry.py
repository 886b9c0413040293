"""Events inside an engine, its loops and its workers, for metrics."""

from __future__ import annotations

import re

from flowfabric.errors import Contention, ContentionKind, EngineError, StateError, StateKind
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailOutcome, RetryScheduled

_DIMENSION = re.compile(r"budget \S+: (.+) \d+/\d+\Z")


class Telemetry:
    """Receives events that calls from outside do not show. Does nothing; override what is needed, and never raise.

    Calls may come from several threads.
    """

    def scanner_cycle(self, name: str, seconds: float) -> None:
        """A background loop finished a pass."""

    def scanner_errors(self, name: str, n: int = 1) -> None:
        """A pass failed, or so many of the things it saw to."""

    def claimed(self, lane: str, seconds: float) -> None:
        """A claim was answered, with work or without. A claim that waits for work is not timed."""

    def lease_renewed(self, outcome: str) -> None:
        """A renewal was answered: `ok` or `error`."""

    def lease_expired(self, lane: str, n: int = 1) -> None: ...

    def attempt_ended(self, lane: str, outcome: str, execution: ExecutionId | None = None) -> None:
        """An attempt ended: `ok`, `error`, `timeout`, `cancelled` or `retry`; `execution` when it ended with it."""

    def attempt_failed(self, lane: str, category: str) -> None: ...

    def signalled(self, effect: str) -> None:
        """A signal was delivered."""

    def edge_policy_set(self, policy: str) -> None: ...

    def reclaimed(self, outcome: str) -> None:
        """What came of taking lost work over: `claimed`, `cap_exceeded` (it was lost too often) or `not_reclaimable`."""

    def siblings_cancelled(self, reason: str, cancelled: int, ended: int) -> None:
        """A group that has fired cancelled so many of those it listed; the others had ended by themselves."""

    def siblings_reconciled(self, action: str) -> None:
        """What became of a queued group that was looked at again."""

    def budget_hit(self, dimension: str) -> None:
        """A spent budget held an execution back, or refused a report."""

    def quota_hit(self, reason: str) -> None:
        """A quota had no room: `rate` or `concurrency`."""

    def worker_at_capacity(self) -> None:
        """A worker would take more and has no room."""

    def shutdown_timeout(self) -> None:
        """What was under way did not end within the grace."""


NO_TELEMETRY = Telemetry()


class TelemetrySlot:
    """The listener of one engine. Parts hold the slot, so a listener that is set later reaches all of them."""

    def __init__(self) -> None:
        self.listener: Telemetry = NO_TELEMETRY


def report_refusal(onlooker: Telemetry, error: EngineError) -> None:
    """A start was refused: whether that was a limit, and which."""
    match error:
        case Contention(kind=ContentionKind.RATE_LIMIT_EXCEEDED):
            onlooker.quota_hit("rate")
        case Contention(kind=ContentionKind.CONCURRENCY_LIMIT_EXCEEDED):
            onlooker.quota_hit("concurrency")
        case StateError(kind=StateKind.BUDGET_EXCEEDED, detail=detail):
            found = _DIMENSION.match(detail)
            onlooker.budget_hit(found[1] if found else "unknown")


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
