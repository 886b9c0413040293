"""The dashboard and the alerts refer to existing series."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from flowfabric.observe import Metrics

from .helpers import names
from .test_metrics import SERIES

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "flowfabric-ops.json").read_text(encoding="utf-8"))
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))[
    "groups"
][0]["rules"]
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel.get("targets", ())]
FIRST = [
    ("Claim-from-grant latency (per lane)", "s", (0, 0, 12)),
    ("Claim-from-grant rate (per lane)", "ops", (12, 0, 12)),
    ("Lease renewals (by outcome)", "ops", (0, 8, 12)),
    ("Worker-at-capacity rejections", "ops", (12, 8, 12)),
    ("Admission control — quota blocks & budget breaches", "ops", (0, 16, 24)),
    ("Scanner cycle duration P95 (per scanner)", "s", (0, 24, 12)),
    ("Scanner cycle cadence (per scanner)", "cps", (12, 24, 12)),
    ("Cancel-reconciler backlog depth", "short", (0, 32, 24)),
    ("HTTP request rate (by status class)", "reqps", (0, 40, 12)),
    ("HTTP request P95 latency (by path)", "s", (12, 40, 12)),
    ("Attempt outcomes (per lane)", "ops", (0, 48, 24)),
]


def test_the_dashboard_has_required_grafana_fields() -> None:
    assert (
        DASHBOARD["uid"] == "flowfabric-ops"
        and DASHBOARD["title"] == "FlowFabric — Operator Observability"
    )
    assert DASHBOARD["schemaVersion"] >= 36 and DASHBOARD["refresh"] == "30s" and PANELS
    assert DASHBOARD["tags"] == ["flowfabric", "operations", "observability"]
    assert DASHBOARD["time"] == {"from": "now-1h", "to": "now"}
    assert [(each["name"], each["type"]) for each in DASHBOARD["templating"]["list"]] == [
        ("datasource", "datasource")
    ]
    for panel in PANELS:
        assert {"id", "title", "type", "gridPos"} <= panel.keys()
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


def test_the_first_panels_are_those_of_the_specification() -> None:
    shown = [
        (
            p["title"],
            p["fieldConfig"]["defaults"]["unit"],
            tuple(p["gridPos"][side] for side in "xyw"),
        )
        for p in PANELS[: len(FIRST)]
    ]
    assert shown == FIRST
    assert all(
        panel["gridPos"]["h"] == 8 and panel["type"] == "timeseries"
        for panel in PANELS[: len(FIRST)]
    )
    assert [panel["title"] for panel in PANELS if panel["type"] == "row"] == ["Queues and workers"]


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        grid = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken and max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells


@pytest.mark.parametrize("query", [*QUERIES, *(rule["expr"] for rule in ALERTS)])
def test_every_series_in_a_query_exists(query: str, metrics: Metrics) -> None:
    named = set(re.findall(r"\bff_\w+", query))
    assert named and named <= names(metrics)
    assert query.count("(") == query.count(")")


@pytest.mark.parametrize("query", [*QUERIES, *(rule["expr"] for rule in ALERTS)])
def test_every_label_in_a_query_is_one_of_its_series(query: str) -> None:
    series = {re.sub(r"_(bucket|count|sum)\Z", "", name) for name in re.findall(r"\bff_\w+", query)}
    known = {label for name in series for label in SERIES[name]} | {"le", "class"}
    used = {
        label.strip()
        for group in re.findall(r"by \(([^)]*)\)", query)
        for label in group.split(",")
    }
    used |= set(re.findall(r"(\w+)=~?\"", query))
    assert used <= known


def test_a_query_about_nothing_would_be_noticed(metrics: Metrics) -> None:
    assert "ff_no_such_thing_total" not in names(metrics)


def test_alerts_have_descriptions() -> None:
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS) == 10
    assert all(
        rule["annotations"]["summary"] and rule["labels"]["severity"] in ("warning", "critical")
        for rule in ALERTS
    )
