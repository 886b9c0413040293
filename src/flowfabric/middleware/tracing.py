"""A log record for each call, with the fields of a span."""

from __future__ import annotations

import logging

from flowfabric.errors import ConfigError
from flowfabric.middleware.layer import Layer

log = logging.getLogger("flowfabric.middleware")

SPAN, EVENT = "ff_sdk.backend", "engine_backend.call"
LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
}


class TracingLayer(Layer):
    """Logs to `flowfabric.middleware` with `span`, `event`, `method`, `elapsed_us` and `ok`."""

    def __init__(self, level: str = "info") -> None:
        if level not in LEVELS:
            raise ConfigError(
                f"TracingLayer: level: expected one of {', '.join(LEVELS)}, got {level!r:.80}"
            )
        self._level = LEVELS[level]

    def after(self, method: str, elapsed: float, error: BaseException | None) -> None:
        if not log.isEnabledFor(self._level):
            return
        took, ok = round(elapsed * 1_000_000), error is None
        said = {"span": SPAN, "event": EVENT, "method": method, "elapsed_us": took, "ok": ok}
        log.log(
            self._level,
            "%s method=%s elapsed_us=%d ok=%s",
            EVENT,
            method,
            took,
            str(ok).lower(),
            extra=said,
        )
