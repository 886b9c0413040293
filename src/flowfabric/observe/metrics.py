"""Counters, gauges and histograms in the Prometheus format, in a registry of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from flowfabric.engine.telemetry import Telemetry
from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.model.queue_stats import QueueStats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
QUICK_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SCANNER_S = (*QUICK_S, 60, 120, 300)
LATENCY_S = (0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400)
MAX_VALUES = {
    "lane": 30,
    "path": 100,
    "dimension": 20,
    "namespace": 20,
    "scanner": 40,
    "effect": 20,
}
"""Maximum number of values per label; further values are counted as `other`."""
OTHER = "other"
OTHER_METHOD = "OTHER"
METHODS = frozenset(
    {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
)
CATEGORIES = frozenset(
    {"transient", "permanent", "infra_crash", "timeout", "cancelled"}
    | {"handler_error", "bad_payload", "step_mismatch", "budget_hard_breach"}
)


class Metrics(Telemetry):
    """The metrics of a process; `render()` is the page. Safe to use from several threads."""

    def __init__(self) -> None:
        try:
            import prometheus_client
        except ModuleNotFoundError:
            raise ConfigError(
                "metrics need one more library: pip install 'flowfabric[server]'"
            ) from None
        self._library = prometheus_client
        self.registry = prometheus_client.CollectorRegistry()
        self._known: dict[str, set[str]] = {label: set() for label in MAX_VALUES}
        request = ("method", "path", "status")
        self._http = self._counter("ff_http_requests", "HTTP responses sent", *request)
        self._http_s = self._histogram(
            "ff_http_request_duration_seconds",
            "Time from the request to its response",
            QUICK_S,
            *request,
        )
        self._define_loops()
        self._define_engine()
        self._define_samples()
        self.clear_queue_stats()

    def _define_loops(self) -> None:
        self._cycles = self._counter("ff_scanner_cycle", "Cycles of a background loop", "scanner")
        self._cycle_s = self._histogram(
            "ff_scanner_cycle_duration_seconds", "Duration of a loop cycle", SCANNER_S, "scanner"
        )
        self._scanner_errors = self._counter(
            "ff_scanner_errors", "Failed loop cycles and failed items", "scanner"
        )
        self._backlog = self._gauge(
            "ff_cancel_backlog_depth", "Members of cancelled flows that are not cancelled yet"
        )

    def _define_engine(self) -> None:
        self._claim_s = self._histogram(
            "ff_claim_from_grant_duration_seconds", "Duration of a claim", QUICK_S, "lane"
        )
        self._renewals = self._counter("ff_lease_renewal", "Lease renewals by outcome", "outcome")
        self._outcomes = self._counter(
            "ff_attempt_outcome", "Ended attempts by outcome", "lane", "outcome"
        )
        self._failures = self._counter(
            "ff_attempt_failures", "Failed attempts by category", "lane", "category"
        )
        self._latency = self._histogram(
            "ff_execution_latency_seconds",
            "Time from creation to end",
            LATENCY_S,
            "lane",
            "outcome",
        )
        self._full = self._counter(
            "ff_worker_at_capacity", "Times a worker did not claim because all slots were in use"
        )
        self._budget = self._counter(
            "ff_budget_hit", "Claims and usage reports refused by a budget", "dimension"
        )
        self._quota = self._counter("ff_quota_hit", "Claims refused by a quota", "reason")
        self._policies = self._counter(
            "ff_edge_group_policy", "Policies set on edge groups", "policy"
        )
        self._siblings = self._counter(
            "ff_sibling_cancel_dispatched", "Sibling cancels dispatched", "reason"
        )
        self._dispositions = self._counter(
            "ff_sibling_cancel_disposition", "Sibling cancels by result", "disposition"
        )
        self._reconciled = self._counter(
            "ff_sibling_cancel_reconcile",
            "Reconciled edge groups with pending sibling cancels",
            "action",
        )
        self._late = self._counter(
            "ff_shutdown_timeout", "Shutdowns that exceeded their grace period"
        )
        self._expired = self._counter("ff_lease_expired", "Expired leases", "lane")
        self._reclaims = self._counter(
            "ff_reclaims", "Reclaims of executions with a lost lease", "outcome"
        )
        self._signals = self._counter("ff_signals", "Delivered signals by effect", "effect")

    def _define_samples(self) -> None:
        self._executions = self._gauge(
            "ff_executions", "Executions that have not ended, at the last sample", "lane", "state"
        )
        self._oldest = self._gauge(
            "ff_queue_oldest_age_seconds",
            "Age of the oldest execution that waits for a worker",
            "lane",
        )
        self._overdue = self._gauge(
            "ff_timer_overdue_seconds",
            "Time since the oldest timer that no loop has acted on was due",
        )
        self._workers = self._gauge("ff_workers", "Live workers", "namespace")
        self._build = self._gauge("ff_build_info", "Always 1", "version", "backend")

    def _counter(self, name: str, help: str, *labels: str) -> Any:
        return self._library.Counter(name, help, labels, registry=self.registry)

    def _gauge(self, name: str, help: str, *labels: str) -> Any:
        return self._library.Gauge(name, help, labels, registry=self.registry)

    def _histogram(self, name: str, help: str, buckets: Iterable[float], *labels: str) -> Any:
        return self._library.Histogram(
            name, help, labels, registry=self.registry, buckets=tuple(buckets)
        )

    def render(self) -> bytes:
        """Everything, in the text format of `CONTENT_TYPE`."""
        return self._library.generate_latest(self.registry)

    def serve(self, port: int, host: str = "127.0.0.1") -> Callable[[], None]:
        """Serve the metrics of this process from a thread; call the result to stop."""
        server, thread = self._library.start_http_server(port, host, self.registry)

        def end() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return end

    def _bounded(self, label: str, value: str) -> str:
        known = self._known[label]
        if value not in known:
            if len(known) >= MAX_VALUES[label]:
                return OTHER
            known.add(value)
        return value

    # ---- the server

    def http_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """`route`: the template, such as /v1/executions/{id}; empty if no route matched."""
        labels = (
            method if method in METHODS else OTHER_METHOD,
            self._bounded("path", route) if route else "unknown",
            str(status) if 100 <= status <= 599 else OTHER,
        )
        self._http.labels(*labels).inc()
        self._http_s.labels(*labels).observe(seconds)

    def running_on(self, backend: str) -> None:
        try:
            number = version("flowfabric")
        except PackageNotFoundError:
            number = "unknown"
        self._build.labels(number, backend).set(1)

    # ---- results of engine calls

    def claimed(self, lane: str, seconds: float) -> None:
        """Count an answered claim, with or without work."""
        self._claim_s.labels(self._bounded("lane", lane)).observe(seconds)

    def lease_renewed(self, outcome: str) -> None:
        self._renewals.labels(outcome).inc()

    def attempt_ended(self, lane: str, outcome: str, execution: ExecutionId | None = None) -> None:
        lane = self._bounded("lane", lane)
        self._outcomes.labels(lane, outcome).inc()
        age_s = None if execution is None else age_of(execution)
        if age_s is not None:
            self._latency.labels(lane, outcome).observe(age_s)

    def attempt_failed(self, lane: str, category: str) -> None:
        self._failures.labels(
            self._bounded("lane", lane), category if category in CATEGORIES else OTHER
        ).inc()

    def edge_policy_set(self, policy: str) -> None:
        self._policies.labels(policy).inc()

    def reclaimed(self, outcome: str) -> None:
        self._reclaims.labels(outcome).inc()

    def signalled(self, effect: str) -> None:
        self._signals.labels(self._bounded("effect", effect)).inc()

    # ---- events inside the engine

    def scanner_cycle(self, name: str, seconds: float) -> None:
        scanner = self._bounded("scanner", name)
        self._cycles.labels(scanner).inc()
        self._cycle_s.labels(scanner).observe(seconds)

    def scanner_errors(self, name: str, n: int = 1) -> None:
        self._scanner_errors.labels(self._bounded("scanner", name)).inc(n)

    def lease_expired(self, lane: str, n: int = 1) -> None:
        self._expired.labels(self._bounded("lane", lane)).inc(n)

    def siblings_cancelled(self, reason: str, cancelled: int, ended: int) -> None:
        self._siblings.labels(reason).inc(cancelled + ended)
        self._dispositions.labels("cancelled").inc(cancelled)
        self._dispositions.labels("already_terminal").inc(ended)

    def siblings_reconciled(self, action: str) -> None:
        self._reconciled.labels(action).inc()

    def budget_hit(self, dimension: str) -> None:
        self._budget.labels(self._bounded("dimension", dimension)).inc()

    def quota_hit(self, reason: str) -> None:
        self._quota.labels(reason).inc()

    def worker_at_capacity(self) -> None:
        self._full.inc()

    def shutdown_timeout(self) -> None:
        self._late.inc()

    # ---- samples

    def set_queue_stats(self, stats: QueueStats) -> None:
        """Replace the gauges. Lanes above the maximum are summed; the highest age is kept."""
        self.clear_queue_stats()
        ages: dict[str, float] = {}
        for load in stats.lanes:
            lane = self._bounded("lane", load.lane)
            for state, n in load.states.items():
                self._executions.labels(lane, state).inc(n)
            ages[lane] = max(ages.get(lane, 0.0), load.oldest_ready_ms / 1_000)
        for lane, age in ages.items():
            self._oldest.labels(lane).set(age)
        for namespace, n in stats.workers.items():
            self._workers.labels(self._bounded("namespace", namespace)).inc(n)
        self._backlog.set(stats.cancel_backlog)
        self._overdue.set(stats.oldest_overdue_ms / 1_000)

    def clear_queue_stats(self) -> None:
        """Clear the gauges, so that no stale value is served."""
        for gauge in (self._executions, self._oldest, self._workers):
            gauge.clear()
        self._backlog.set(float("nan"))
        self._overdue.set(float("nan"))


def age_of(execution: ExecutionId) -> float | None:
    """Seconds since the id was made; None for an id that carries no time."""
    if execution.uuid.version != 7:
        return None
    made_s: float = (execution.uuid.int >> 80) / 1_000
    return max(time.time() - made_s, 0.0)
