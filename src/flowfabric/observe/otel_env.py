"""OpenTelemetry's environment variables: whether a signal is exported, and the resource."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

SERVICE = "flowfabric"


def is_enabled(signal: Literal["traces", "metrics"]) -> bool:
    """Whether the signal has an endpoint and is not disabled."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    word = signal.upper()
    exporters = [
        name
        for each in os.environ.get(f"OTEL_{word}_EXPORTER", "").split(",")
        if (name := each.strip().lower())
    ]
    if exporters and not any(name.startswith("otlp") for name in exporters):
        return False
    return any(
        os.environ.get(name)
        for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{word}_ENDPOINT")
    )


def resource() -> Resource:
    """The resource of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, by default `flowfabric`."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    return Resource.create({"service.name": SERVICE}).merge(OTELResourceDetector().detect())
