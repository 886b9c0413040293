"""Counters, gauges and histograms in the Prometheus format, in a registry of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, TypeVar

from flowfabric.engine.telemetry import Telemetry
from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.model.queue_stats import QueueStats

if TYPE_CHECKING:
    from prometheus_client.metrics import MetricWrapperBase

    M = TypeVar("M", bound=MetricWrapperBase)

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
OTHER, UNKNOWN = "other", "unknown"
OTHER_METHOD = "OTHER"
METHODS = frozenset(
    {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
)
CATEGORIES = frozenset(
    {"transient", "permanent", "infra_crash", "timeout", "cancelled"}
    | {"handler_error", "bad_payload", "step_mismatch", "budget_hard_breach"}
)
COUNTERS = {
    "ff_http_requests": ("HTTP responses sent", "method", "path", "status"),
    "ff_scanner_cycle": ("Cycles of a background loop", "scanner"),
    "ff_scanner_errors": ("Failed loop cycles and failed items", "scanner"),
    "ff_lease_renewal": ("Lease renewals by outcome", "outcome"),
    "ff_lease_expired": ("Expired leases", "lane"),
    "ff_attempt_outcome": ("Ended attempts by outcome", "lane", "outcome"),
    "ff_attempt_failures": ("Failed attempts by category", "lane", "category"),
    "ff_reclaims": ("Reclaims of executions with a lost lease", "outcome"),
    "ff_signals": ("Delivered signals by effect", "effect"),
    "ff_budget_hit": ("Claims and usage reports refused by a budget", "dimension"),
    "ff_quota_hit": ("Claims refused by a quota", "reason"),
    "ff_edge_group_policy": ("Policies set on edge groups", "policy"),
    "ff_sibling_cancel_dispatched": ("Sibling cancels dispatched", "reason"),
    "ff_sibling_cancel_disposition": ("Sibling cancels by result", "disposition"),
    "ff_sibling_cancel_reconcile": (
        "Reconciled edge groups with pending sibling cancels",
        "action",
    ),
    "ff_worker_at_capacity": ("Times a worker did not claim because all slots were in use",),
    "ff_shutdown_timeout": ("Shutdowns that exceeded their grace period",),
}
"""The meaning of each counter, then its labels."""
HISTOGRAMS = {
    "ff_http_request_duration_seconds": (
        QUICK_S,
        "Time from the request to its response",
        ("method", "path", "status"),
    ),
    "ff_scanner_cycle_duration_seconds": (SCANNER_S, "Duration of a loop cycle", ("scanner",)),
    "ff_claim_from_grant_duration_seconds": (QUICK_S, "Duration of a claim", ("lane",)),
    "ff_execution_latency_seconds": (LATENCY_S, "Time from creation to end", ("lane", "outcome")),
}
GAUGES = {
    "ff_executions": ("Executions that have not ended, at the last sample", "lane", "state"),
    "ff_queue_oldest_age_seconds": ("Age of the oldest execution that waits for a worker", "lane"),
    "ff_workers": ("Live workers", "namespace"),
    "ff_cancel_backlog_depth": ("Members of cancelled flows that are not cancelled yet",),
    "ff_timer_overdue_seconds": ("Time since the oldest timer that no loop has acted on was due",),
    "ff_build_info": ("Always 1", "version", "backend"),
}


class Metrics(Telemetry):
    """The metrics of a process; `render()` is the page. Safe to use from several threads."""

    def __init__(self) -> None:
        try:
            import prometheus_client as library
        except ModuleNotFoundError:
            raise ConfigError(
                "metrics need one more library: pip install 'flowfabric[server]'"
            ) from None
        self._library = library
        self.registry = to = library.CollectorRegistry()
        self.sampler: Callable[[], None] | None = None
        """Called before each collection, to sample the gauges of queues."""
        to.register(_Sampled(self))
        self._known: dict[str, set[str]] = {label: set() for label in MAX_VALUES}
        self._counters = {
            name: library.Counter(name, text, labels, registry=to)
            for name, (text, *labels) in COUNTERS.items()
        }
        self._gauges = {
            name: library.Gauge(name, text, labels, registry=to)
            for name, (text, *labels) in GAUGES.items()
        }
        self._histograms = {
            name: library.Histogram(name, text, labels, registry=to, buckets=buckets)
            for name, (buckets, text, labels) in HISTOGRAMS.items()
        }
        self.clear_queue_stats()

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

    def _child(self, series: M, labels: Mapping[str, str]) -> M:
        bounded = {label: self._bounded(label, value) for label, value in labels.items()}
        return series.labels(**bounded) if bounded else series

    def _bounded(self, label: str, value: str) -> str:
        known = self._known.get(label)
        if known is not None and value not in known and value != UNKNOWN:
            if len(known) >= MAX_VALUES[label]:
                return OTHER
            known.add(value)
        return value

    def _count(self, name: str, n: int = 1, **labels: str) -> None:
        self._child(self._counters[name], labels).inc(n)

    def _observe(self, name: str, seconds: float, **labels: str) -> None:
        self._child(self._histograms[name], labels).observe(seconds)

    # ---- the server

    def http_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """`route`: the template, such as /v1/executions/{id}; empty if no route matched."""
        labels = {
            "method": method if method in METHODS else OTHER_METHOD,
            "path": route or UNKNOWN,
            "status": str(status) if 100 <= status <= 599 else OTHER,
        }
        self._count("ff_http_requests", 1, **labels)
        self._observe("ff_http_request_duration_seconds", seconds, **labels)

    def running_on(self, backend: str) -> None:
        try:
            number = version("flowfabric")
        except PackageNotFoundError:
            number = UNKNOWN
        self._gauges["ff_build_info"].labels(number, backend).set(1)

    # ---- events of the engine, its loops and its workers

    def claimed(self, lane: str, seconds: float) -> None:
        self._observe("ff_claim_from_grant_duration_seconds", seconds, lane=lane)

    def lease_renewed(self, outcome: str) -> None:
        self._count("ff_lease_renewal", outcome=outcome)

    def lease_expired(self, lane: str, n: int = 1) -> None:
        self._count("ff_lease_expired", n, lane=lane)

    def attempt_ended(self, lane: str, outcome: str, execution: ExecutionId | None = None) -> None:
        self._count("ff_attempt_outcome", lane=lane, outcome=outcome)
        age_s = None if execution is None else age_of(execution)
        if age_s is not None:
            self._observe("ff_execution_latency_seconds", age_s, lane=lane, outcome=outcome)

    def attempt_failed(self, lane: str, category: str) -> None:
        known = category if category in CATEGORIES else OTHER
        self._count("ff_attempt_failures", lane=lane, category=known)

    def edge_policy_set(self, policy: str) -> None:
        self._count("ff_edge_group_policy", policy=policy)

    def reclaimed(self, outcome: str) -> None:
        self._count("ff_reclaims", outcome=outcome)

    def signalled(self, effect: str) -> None:
        self._count("ff_signals", effect=effect)

    def scanner_cycle(self, name: str, seconds: float) -> None:
        self._count("ff_scanner_cycle", scanner=name)
        self._observe("ff_scanner_cycle_duration_seconds", seconds, scanner=name)

    def scanner_errors(self, name: str, n: int = 1) -> None:
        self._count("ff_scanner_errors", n, scanner=name)

    def siblings_cancelled(self, reason: str, cancelled: int, ended: int) -> None:
        self._count("ff_sibling_cancel_dispatched", cancelled + ended, reason=reason)
        self._count("ff_sibling_cancel_disposition", cancelled, disposition="cancelled")
        self._count("ff_sibling_cancel_disposition", ended, disposition="already_terminal")

    def siblings_reconciled(self, action: str) -> None:
        self._count("ff_sibling_cancel_reconcile", action=action)

    def budget_hit(self, dimension: str) -> None:
        self._count("ff_budget_hit", dimension=dimension)

    def quota_hit(self, reason: str) -> None:
        self._count("ff_quota_hit", reason=reason)

    def worker_at_capacity(self) -> None:
        self._count("ff_worker_at_capacity")

    def shutdown_timeout(self) -> None:
        self._count("ff_shutdown_timeout")

    # ---- samples

    def set_queue_stats(self, stats: QueueStats) -> None:
        """Replace the gauges. Lanes above the maximum are summed; the highest age is kept."""
        self.clear_queue_stats()
        executions, workers = self._gauges["ff_executions"], self._gauges["ff_workers"]
        ages: dict[str, float] = {}
        for load in stats.lanes:
            lane = self._bounded("lane", load.lane)
            for state, n in load.states.items():
                executions.labels(lane, state).inc(n)
            ages[lane] = max(ages.get(lane, 0.0), load.oldest_ready_ms / 1_000)
        for lane, age in ages.items():
            self._gauges["ff_queue_oldest_age_seconds"].labels(lane).set(age)
        for namespace, n in stats.workers.items():
            self._child(workers, {"namespace": namespace}).inc(n)
        self._gauges["ff_cancel_backlog_depth"].set(stats.cancel_backlog)
        self._gauges["ff_timer_overdue_seconds"].set(stats.oldest_overdue_ms / 1_000)

    def clear_queue_stats(self) -> None:
        """Clear the gauges, so that no stale value is served."""
        for name in ("ff_executions", "ff_queue_oldest_age_seconds", "ff_workers"):
            self._gauges[name].clear()
        for name in ("ff_cancel_backlog_depth", "ff_timer_overdue_seconds"):
            self._gauges[name].set(float("nan"))


class _Sampled:
    """A collector without metrics of its own, in front of the others."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> tuple[()]:
        if self._metrics.sampler is not None:
            self._metrics.sampler()
        return ()


def age_of(execution: ExecutionId) -> float | None:
    """Seconds since the id was made; None for an id that carries no time."""
    if execution.uuid.version != 7:
        return None
    made_s: float = (execution.uuid.int >> 80) / 1_000
    return max(time.time() - made_s, 0.0)
