"""What an engine, its loops and its workers tell whoever looks on."""

from __future__ import annotations

import re

from flowfabric.errors import Contention, ContentionKind, EngineError, StateError, StateKind

_DIMENSION = re.compile(r"budget \S+: (.+) \d+/\d+\Z")


class Telemetry:
    """Told of what nobody outside could see. This one does not listen; override what is wanted, and never raise.

    Calls may come from several threads.
    """

    def scanner_cycle(self, name: str, seconds: float) -> None:
        """A background loop finished a pass."""

    def scanner_errors(self, name: str, n: int = 1) -> None:
        """A pass failed, or so many of the things it saw to."""

    def lease_expired(self, lane: str, n: int = 1) -> None: ...

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
