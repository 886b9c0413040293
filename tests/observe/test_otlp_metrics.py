"""OTLP metrics: the numbers of the page, pushed at an interval and at exit."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.model.queue_stats import LaneLoad, QueueStats
from flowfabric.observe import Metrics, Scrape, push_from_environment, tracing_from_environment
from flowfabric.observe.instrument import is_enabled
from flowfabric.observe.otlp_metrics import SHUTDOWN_S, Push, to_otlp
from tests.cli.processes import running
from tests.engine.helpers import create
from tests.patience import patience

from .receivers import Receiver, metrics_of, on_page, pushed, receiving

pytestmark = pytest.mark.xdist_group("processes")

SELDOM = "3600000"
VARIABLES = (
    "OTEL_SDK_DISABLED",
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_METRICS_EXPORTER",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{found.address}")
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", SELDOM)
        yield found


def some_of_everything(metrics: Metrics) -> None:
    for seconds in (0.0005, 0.003, 0.003, 0.7, 1_000):
        metrics.http_request("/v1/executions/{id}", "GET", 200, seconds)
    metrics.http_request("", "POST", 404, 0.02)
    metrics.attempt_ended("mail", "ok", ExecutionId.solo("mail"))
    metrics.worker_at_capacity()
    metrics.running_on("memory")
    metrics.set_queue_stats(
        QueueStats((LaneLoad("mail", {"waiting": 3}, 2_500),), {"default": 2}, 4)
    )


def test_what_is_pushed_is_what_the_page_shows(metrics: Metrics, receiver: Receiver) -> None:
    some_of_everything(metrics)
    push_from_environment(metrics)()
    (push,) = receiver.pushes
    series = pushed(push)
    assert series == on_page(metrics.render().decode())
    request = {("method", "GET"), ("path", "/v1/executions/{id}"), ("status", "200")}
    assert series["ff_http_requests_total", frozenset(request)] == 5
    assert (
        series["ff_http_request_duration_seconds_bucket", frozenset({*request, ("le", "0.005")})]
        == 3
    )
    assert (
        series["ff_http_request_duration_seconds_bucket", frozenset({*request, ("le", "30.0")})]
        == 4
    )
    assert series["ff_executions", frozenset({("lane", "mail"), ("state", "waiting")})] == 3


def test_metric_types_are_converted(metrics: Metrics, receiver: Receiver) -> None:
    before = time.time_ns()
    some_of_everything(metrics)
    push_from_environment(metrics)()
    (push,) = receiver.pushes
    assert [scope.scope.name for of in push.resource_metrics for scope in of.scope_metrics] == [
        "ff"
    ]
    found = {metric.name: metric for metric in metrics_of(push)}
    requests, latency = found["ff_http_requests_total"], found["ff_execution_latency_seconds"]
    cumulative = 2
    assert requests.sum.is_monotonic and requests.sum.aggregation_temporality == cumulative
    assert (
        latency.histogram.aggregation_temporality == cumulative
        and latency.unit == "s"
        and not requests.unit
    )
    assert (
        requests.description == "HTTP responses sent"
        and found["ff_workers"].WhichOneof("data") == "gauge"
    )
    (point,) = latency.histogram.data_points
    assert (
        sum(point.bucket_counts) == point.count == 1
        and len(point.bucket_counts) == len(point.explicit_bounds) + 1
    )
    assert not point.HasField("min") and not point.HasField("max"), "nobody has noted them"
    assert before - 1e9 < point.start_time_unix_nano <= point.time_unix_nano


def test_unknown_values_are_not_sent(metrics: Metrics) -> None:
    names = {metric.name for metric in to_otlp(metrics.registry.collect(), 0)}
    assert "ff_cancel_backlog_depth" not in names and "ff_executions" not in names
    assert "ff_worker_at_capacity_total" in names, "nought is known"
    metrics.set_queue_stats(QueueStats((), {}, 0))
    assert "ff_cancel_backlog_depth" in {
        metric.name for metric in to_otlp(metrics.registry.collect(), 0)
    }


async def test_each_push_samples_the_queues(
    memory: Engine, metrics: Metrics, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
    clock = iter(range(0, 1_000_000, 100))
    waiting = "ff_executions", frozenset({("lane", "default"), ("state", "waiting")})
    end = push_from_environment(metrics, Scrape(metrics, memory, lambda: float(next(clock))))
    try:
        for n in (1, 2):
            await create(memory)
            await asyncio.to_thread(
                receiver.until,
                lambda n=n: (
                    pushed(receiver.pushes[-1]).get(waiting) == n if receiver.pushes else False
                ),
            )
    finally:
        end()


async def test_the_end_waits_for_no_loop(
    memory: Engine, metrics: Metrics, receiver: Receiver
) -> None:
    """It may be called in the very loop that would have to count the queues."""
    end = push_from_environment(metrics, Scrape(metrics, memory))
    metrics.worker_at_capacity()
    end()
    end()
    (push,) = receiver.pushes
    assert pushed(push)["ff_worker_at_capacity_total", frozenset()] == 1


async def test_the_end_does_not_wait_for_queues_that_are_being_counted(
    memory: Engine, metrics: Metrics, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "OTEL_METRIC_EXPORT_INTERVAL", "500"
    )  # which is also the time the last collection is given
    begun = asyncio.Event()

    async def census() -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(memory, "census", census)
    end = push_from_environment(metrics, Scrape(metrics, memory))
    await asyncio.wait_for(begun.wait(), patience(60))
    metrics.worker_at_capacity()
    before = time.monotonic()
    end()
    assert time.monotonic() - before < SHUTDOWN_S
    assert pushed(receiver.pushes[-1])["ff_worker_at_capacity_total", frozenset()] == 1


async def test_a_closed_event_loop_is_not_used(
    memory: Engine, metrics: Metrics, receiver: Receiver
) -> None:
    def elsewhere() -> Push:
        async def begun() -> Push:
            return Push(metrics, Scrape(metrics, memory))

        return asyncio.run(begun())

    push = await asyncio.to_thread(elsewhere)
    assert {"ff_worker_at_capacity_total"} <= {metric.name for metric in push.series()}
    push.end()


def test_an_invalid_interval_is_an_error(
    metrics: Metrics, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "0")
    with pytest.raises(ConfigError, match=r"^OTEL_\* variables: invalid settings for metrics: "):
        push_from_environment(metrics)


def test_process_exit_pushes_the_last_values(receiver: Receiver) -> None:
    script = (
        "from flowfabric.observe import *\nm = "
        "Metrics()\npush_from_environment(m)\nm.worker_at_capacity()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    (push,) = receiver.pushes
    assert pushed(push)["ff_worker_at_capacity_total", frozenset()] == 1


def test_an_unreachable_endpoint_does_not_disturb_the_process(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as taken:  # bound but not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv(
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
            f"http://127.0.0.1:{taken.getsockname()[1]}/v1/metrics",
        )
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", SELDOM)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
        end = push_from_environment(metrics)
        began = time.monotonic()
        end()
    assert time.monotonic() - began < SHUTDOWN_S + 5
    assert len([each for each in caplog.records if each.levelno >= logging.WARNING]) < 5
    metrics.worker_at_capacity()


TASKS = """
from flowfabric import App
from flowfabric.observe import Metrics, push_from_environment, watch

app, metrics = App("sqlite:///tasks.db"), Metrics()
watch(app, metrics)
push_from_environment(metrics)


@app.task
async def nothing() -> None: ...
"""


def test_a_worker_pushes_metrics_of_its_tasks(tmp_path: Path, receiver: Receiver) -> None:
    (tmp_path / "tasks.py").write_text(TASKS, encoding="utf-8")
    with running(tmp_path, "worker", "tasks.py") as worker:
        worker.until("tasks.py: task nothing")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.ended() == 0
    (push,) = receiver.pushes
    assert {"ff_build_info", "ff_worker_at_capacity_total"} <= {
        metric.name for metric in metrics_of(push)
    }


ANY, MINE, OTHER = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)


@pytest.mark.parametrize(
    ("environ", "metrics", "traces"),
    [
        ({}, False, False),
        ({ANY: "http://h"}, True, True),
        ({ANY: ""}, False, False),
        ({MINE: "http://h"}, True, False),
        ({OTHER: "http://h"}, False, True),
        ({ANY: "http://h", "OTEL_SDK_DISABLED": "TRUE"}, False, False),
        ({ANY: "http://h", "OTEL_METRICS_EXPORTER": "none"}, False, True),
        ({ANY: "http://h", "OTEL_TRACES_EXPORTER": "None"}, True, False),
        ({ANY: "http://h", "OTEL_METRICS_EXPORTER": "prometheus, otlp"}, True, True),
        ({ANY: "http://h", "OTEL_METRICS_EXPORTER": ""}, True, True),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, False, False),
    ],
)
def test_otel_variables(
    environ: dict[str, str], metrics: bool, traces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert (is_enabled("metrics"), is_enabled("traces")) == (metrics, traces)
    assert traces or tracing_from_environment() is None


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, "flowfabric"),
        ({"OTEL_SERVICE_NAME": "mailer"}, "mailer"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=posts,team=a"}, "posts"),
    ],
)
def test_the_otel_resource(
    environ: dict[str, str],
    name: str,
    metrics: Metrics,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    push_from_environment(metrics)()
    (sent,) = receiver.pushes[0].resource_metrics
    assert {each.key: each.value.string_value for each in sent.resource.attributes}[
        "service.name"
    ] == name


def test_without_an_endpoint_nothing_is_imported() -> None:
    script = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from flowfabric.observe import *\npush_from_environment(Metrics())()\n"
        "import os; os.environ['OTEL_EXPORTER_OTLP_ENDPOINT'] = "
        "'http://127.0.0.1:1'\npush_from_environment(Metrics())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (
        done.returncode == 1
        and "ConfigError: metrics by OTLP need more libraries" in done.stderr.splitlines()[-1]
    )
