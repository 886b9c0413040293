"""Reads the metrics page."""

from __future__ import annotations

import math

from prometheus_client.parser import text_string_to_metric_families

from flowfabric.observe import Metrics


def values(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one series by the values of their labels, in the order of the labels' names;
    zeros left out.
    """
    found = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            if sample.name == name and sample.value and not math.isnan(sample.value):
                found[tuple(sample.labels[label] for label in sorted(sample.labels))] = sample.value
    return found


def names(metrics: Metrics) -> set[str]:
    """Every name a query may use."""
    found = set()
    for family in metrics.registry.collect():
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(
            family.type, ("",)
        )
        found |= {family.name + suffix for suffix in suffixes}
    return found
