"""Receivers of metrics, spans and errors on loopback."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from tests.patience import patience

PATIENCE_S = 60.0
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Post(Struct, frozen=True):
    path: str
    body: bytes


class Receiver:
    def __init__(self) -> None:
        self.posts: list[Post] = []
        self._came = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                packed = self.headers.get("content-encoding") == "gzip"
                receiver._take(Post(self.path, gzip.decompress(body) if packed else body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        return Handler

    def _take(self, post: Post) -> None:
        with self._came:
            self.posts.append(post)
            self._came.notify_all()

    def until(self, there: Callable[[], bool]) -> None:
        """Asked again with everything that comes."""
        until = time.monotonic() + patience(PATIENCE_S)
        with self._came:
            while not there():
                assert self._came.wait(until - time.monotonic()), (
                    f"it has not come; {[post.path for post in self.posts]} have"
                )

    def end(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    # ---- what has come

    @property
    def pushes(self) -> list[ExportMetricsServiceRequest]:
        return [
            ExportMetricsServiceRequest.FromString(post.body)
            for post in self.posts
            if post.path == "/v1/metrics"
        ]

    @property
    def spans(self) -> list[str]:
        sent = [
            ExportTraceServiceRequest.FromString(post.body)
            for post in self.posts
            if post.path == "/v1/traces"
        ]
        return [
            span.name
            for each in sent
            for of in each.resource_spans
            for scope in of.scope_spans
            for span in scope.spans
        ]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events sent to Sentry: the JSON after the two headers of each envelope."""
        found = []
        for post in self.posts:
            if post.path.endswith("/envelope/"):
                _, head, item, *_ = post.body.split(b"\n")
                if json.loads(head)["type"] == "event":
                    found.append(json.loads(item))
        return found


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.end()


def pushed(request: ExportMetricsServiceRequest) -> Series:
    """As the page has it: histograms by their buckets, counted upwards."""
    found: Series = {}
    for metric in metrics_of(request):
        for point in getattr(metric, metric.WhichOneof("data")).data_points:
            labels = {(each.key, each.value.string_value) for each in point.attributes}
            if metric.WhichOneof("data") != "histogram":
                found[metric.name, frozenset(labels)] = point.as_double
                continue
            upto = 0
            for bound, count in zip(
                [*point.explicit_bounds, float("inf")], point.bucket_counts, strict=True
            ):
                upto += count
                found[f"{metric.name}_bucket", frozenset({*labels, ("le", str(float(bound)))})] = (
                    upto
                )
            found[f"{metric.name}_count", frozenset(labels)] = point.count
            found[f"{metric.name}_sum", frozenset(labels)] = point.sum
    return found


def metrics_of(request: ExportMetricsServiceRequest) -> list[Any]:
    return [
        metric
        for of in request.resource_metrics
        for scope in of.scope_metrics
        for metric in scope.metrics
    ]


def on_page(text: str) -> Series:
    """What a scraper gets; without when it was created, and without what is not known."""
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if not sample.name.endswith("_created") and sample.value == sample.value:
                labels = {
                    (name, str(float(value)) if name == "le" else value)
                    for name, value in sample.labels.items()
                }
                found[sample.name, frozenset(labels)] = sample.value
    return found
