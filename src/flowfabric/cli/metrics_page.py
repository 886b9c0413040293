"""The metrics page of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flowfabric.errors import ConfigError
from flowfabric.observe import Metrics, push_from_environment, watch
from flowfabric.sdk.app import App


@contextmanager
def metrics_page(app: App, address: str | None) -> Iterator[str | None]:
    """Serve the metrics of an app, and push them if the environment names an OTLP endpoint.

    Enter it before the app is used; yields the URL of the page.
    """
    if address is None:
        yield None
        return
    host, port = _parse_address(address)
    metrics = Metrics()
    watch(app, metrics)
    try:
        end_page = metrics.serve(port, host)
    except OSError as error:
        raise ConfigError(
            f"metrics: cannot listen on {host}:{port} ({error.strerror}); choose another port"
        ) from None
    end_push = push_from_environment(metrics)
    try:
        yield f"http://{host}:{port}/metrics"
    finally:
        end_push()
        end_page()


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65_535:
        raise ConfigError(
            "metrics: expected a port from 1 to 65535, or host:port to serve other machines, "
            f"got {text!r:.60}"
        )
    return host.strip("[]") or "127.0.0.1", int(port)
