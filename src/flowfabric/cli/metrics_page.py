"""A worker's own page of metrics, for as long as it works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flowfabric.errors import ConfigError
from flowfabric.observe import Metrics, push_from_environment, watch
from flowfabric.sdk.app import App


@contextmanager
def counted(app: App, where: str | None) -> Iterator[str | None]:
    """Before the app is used. The address of the page, which also goes out by OTLP where the environment says so."""
    if where is None:
        yield None
        return
    host, port = _address(where)
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


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65_535:
        raise ConfigError(
            f"metrics: a port from 1 to 65535, with host: in front to be seen from elsewhere, got {text!r:.60}"
        )
    return host.strip("[]") or "127.0.0.1", int(port)
