"""The series: their names, labels and bounds."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request

import pytest

from flowfabric.model.queue_stats import LaneLoad, QueueStats
from flowfabric.observe import CONTENT_TYPE, Metrics
from flowfabric.observe import metrics as module

from .helpers import names, values

SERIES = {
    "ff_http_requests_total": ("method", "path", "status"),
    "ff_http_request_duration_seconds": ("method", "path", "status"),
    "ff_scanner_cycle_total": ("scanner",),
    "ff_scanner_cycle_duration_seconds": ("scanner",),
    "ff_cancel_backlog_depth": (),
    "ff_claim_from_grant_duration_seconds": ("lane",),
    "ff_lease_renewal_total": ("outcome",),
    "ff_attempt_outcome_total": ("lane", "outcome"),
    "ff_worker_at_capacity_total": (),
    "ff_budget_hit_total": ("dimension",),
    "ff_quota_hit_total": ("reason",),
    "ff_edge_group_policy_total": ("policy",),
    "ff_sibling_cancel_dispatched_total": ("reason",),
    "ff_sibling_cancel_disposition_total": ("disposition",),
    "ff_sibling_cancel_reconcile_total": ("action",),
    "ff_shutdown_timeout_total": (),
    "ff_executions": ("lane", "state"),
    "ff_queue_oldest_age_seconds": ("lane",),
    "ff_execution_latency_seconds": ("lane", "outcome"),
    "ff_attempt_failures_total": ("lane", "category"),
    "ff_timer_overdue_seconds": (),
    "ff_workers": ("namespace",),
    "ff_lease_expired_total": ("lane",),
    "ff_reclaims_total": ("outcome",),
    "ff_signals_total": ("effect",),
    "ff_scanner_errors_total": ("scanner",),
    "ff_build_info": ("version", "backend"),
}


def test_every_series_is_there_with_its_labels(metrics: Metrics) -> None:
    found = [c for c in metrics.registry._collector_to_names if hasattr(c, "_labelnames")]
    made = {c._name: c._labelnames for c in found}
    assert made == {name.removesuffix("_total"): labels for name, labels in SERIES.items()}
    assert {
        "ff_http_requests_total",
        "ff_http_request_duration_seconds_bucket",
        "ff_executions",
    } <= names(metrics)


def test_a_request_is_counted_and_timed_by_its_route(metrics: Metrics) -> None:
    metrics.http_request("/v1/executions/{id}", "GET", 200, 0.003)
    metrics.http_request("", "BREW", 999, 0.2)
    metrics.http_request("", "TRACE", 405, 0.2)
    metrics.http_request("", "CONNECT", 405, 0.2)
    assert values(metrics, "ff_http_requests_total") == {
        ("GET", "/v1/executions/{id}", "200"): 1,
        ("OTHER", "unknown", "other"): 1,
        ("TRACE", "unknown", "405"): 1,
        ("CONNECT", "unknown", "405"): 1,
    }
    buckets = values(metrics, "ff_http_request_duration_seconds_bucket")
    assert [key[0] for key in buckets if "GET" in key][:2] == ["0.005", "0.01"]


def test_buckets_are_in_seconds(metrics: Metrics) -> None:
    metrics.claimed("default", 0.0)
    metrics.scanner_cycle("lease_expiry", 0.0)
    quick = [
        float(key[-1])
        for key in _bucket_keys(metrics, "ff_claim_from_grant_duration_seconds_bucket", "le")
    ]
    assert quick == [
        0.001,
        0.0025,
        0.005,
        0.01,
        0.025,
        0.05,
        0.1,
        0.25,
        0.5,
        1,
        2.5,
        5,
        10,
        30,
        float("inf"),
    ]
    slow = [
        float(key[-1])
        for key in _bucket_keys(metrics, "ff_scanner_cycle_duration_seconds_bucket", "le")
    ]
    assert slow[-4:] == [60, 120, 300, float("inf")]


def _bucket_keys(metrics: Metrics, name: str, label: str) -> list[tuple[str, ...]]:
    found = []
    for family in metrics.registry.collect():
        found += [(sample.labels[label],) for sample in family.samples if sample.name == name]
    return found


def test_labels_have_a_maximum_and_then_are_others(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(module.MAX_VALUES, "lane", 2)
    monkeypatch.setitem(module.MAX_VALUES, "path", 1)
    for lane in ("a", "b", "c", "d", "a"):
        metrics.lease_expired(lane)
    assert values(metrics, "ff_lease_expired_total") == {("a",): 2, ("b",): 1, ("other",): 2}
    metrics.http_request("/one", "GET", 200, 0.1)
    metrics.http_request("/two", "GET", 200, 0.1)
    assert set(values(metrics, "ff_http_requests_total")) == {
        ("GET", "/one", "200"),
        ("GET", "other", "200"),
    }


def test_failures_are_of_known_categories_or_others(metrics: Metrics) -> None:
    metrics.attempt_failed("default", "timeout")
    metrics.attempt_failed("default", "whatever somebody wrote")
    assert values(metrics, "ff_attempt_failures_total") == {
        ("timeout", "default"): 1,
        ("other", "default"): 1,
    }


def test_a_sample_replaces_the_previous_one(metrics: Metrics) -> None:
    lanes = (LaneLoad("a", {"waiting": 3, "active": 1}, 2_500), LaneLoad("b", {"waiting": 1}))
    metrics.set_queue_stats(QueueStats(lanes, {"default": 2}, 4))
    assert values(metrics, "ff_executions") == {
        ("a", "waiting"): 3,
        ("a", "active"): 1,
        ("b", "waiting"): 1,
    }
    assert values(metrics, "ff_queue_oldest_age_seconds") == {("a",): 2.5}
    assert values(metrics, "ff_workers") == {("default",): 2}
    assert values(metrics, "ff_cancel_backlog_depth") == {(): 4}
    metrics.set_queue_stats(QueueStats((LaneLoad("b", {"waiting": 1}),), {}, 1))
    assert values(metrics, "ff_executions") == {("b", "waiting"): 1}
    metrics.clear_queue_stats()
    assert values(metrics, "ff_executions") == values(metrics, "ff_cancel_backlog_depth") == {}


def test_lanes_beyond_the_maximum_are_added_up(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(module.MAX_VALUES, "lane", 1)
    metrics.set_queue_stats(
        QueueStats(
            tuple(LaneLoad(lane, {"waiting": 2}, 1_000 * n) for n, lane in enumerate("abc")), {}, 0
        )
    )
    assert values(metrics, "ff_executions") == {("a", "waiting"): 2, ("other", "waiting"): 4}
    assert values(metrics, "ff_queue_oldest_age_seconds") == {("other",): 2}


def test_two_registries_do_not_meet() -> None:
    one, two = Metrics(), Metrics()
    one.worker_at_capacity()
    assert (
        values(one, "ff_worker_at_capacity_total") == {(): 1}
        and values(two, "ff_worker_at_capacity_total") == {}
    )
    assert CONTENT_TYPE.startswith("text/plain")


@pytest.mark.parametrize(
    ("hidden", "code", "said"),
    [
        ("prometheus_client", "flowfabric.observe.Metrics()", "flowfabric[server]"),
        ("opentelemetry", "import flowfabric.observe.tracing", "flowfabric[otel]"),
        ("opentelemetry", "assert flowfabric.observe.tracing_from_environment() is None", ""),
    ],
)
def test_missing_extras_fail_only_on_use(hidden: str, code: str, said: str) -> None:
    script = f"import sys; sys.modules[{hidden!r}] = None\nimport flowfabric.observe\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={},
    )
    assert (done.returncode == 0) is (not said) and said in done.stderr, done.stderr


@pytest.mark.parametrize("package", ["flowfabric", "flowfabric.observe"])
def test_unused_extras_are_not_imported(package: str) -> None:
    code = (
        f"import sys, {package}; print({{'prometheus_client', 'opentelemetry'}} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "set()", done.stderr


def test_a_worker_can_serve_metrics(metrics: Metrics) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    end = metrics.serve(port)
    try:
        metrics.worker_at_capacity()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
            assert b"ff_worker_at_capacity_total 1.0" in page.read()
    finally:
        end()
