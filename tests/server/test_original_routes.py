"""Every route of the original exists with its limit and status, and is described."""

from __future__ import annotations

import msgspec
import pytest

from flowfabric.server.openapi import document, page
from flowfabric.server.route import Route
from flowfabric.server.routes import ROUTES

CONTROL, MEDIUM, LARGE, NO = 65_536, 262_144, 1_048_576, None
ORIGINAL: list[tuple[str, str, int | None, set[int]]] = [
    ("GET", "/healthz", NO, {200}),
    ("GET", "/metrics", NO, {200}),
    ("POST", "/v1/executions", LARGE, {200, 201}),
    ("GET", "/v1/executions", NO, {200}),
    ("GET", "/v1/executions/{id}", NO, {200}),
    ("GET", "/v1/executions/{id}/state", NO, {200}),
    ("GET", "/v1/executions/{id}/result", NO, {200}),
    ("GET", "/v1/executions/{id}/pending-waitpoints", NO, {200}),
    ("GET", "/v1/executions/{id}/waitpoints/{waitpoint_id}/token", NO, {200}),
    ("POST", "/v1/executions/{id}/cancel", CONTROL, {200}),
    ("POST", "/v1/executions/{id}/signal", MEDIUM, {200}),
    ("PUT", "/v1/executions/{id}/priority", CONTROL, {200}),
    ("POST", "/v1/executions/{id}/replay", CONTROL, {200}),
    ("POST", "/v1/executions/{id}/revoke-lease", CONTROL, {200}),
    ("POST", "/v1/executions/{id}/reclaim", CONTROL, {200}),
    ("POST", "/v1/workers/{worker_id}/claim", CONTROL, {200, 204}),
    ("GET", "/v1/executions/{id}/attempts/{idx}/stream", NO, {200}),
    ("GET", "/v1/executions/{id}/attempts/{idx}/stream/tail", NO, {200}),
    ("POST", "/v1/flows", CONTROL, {200, 201}),
    ("POST", "/v1/flows/{id}/members", CONTROL, {200, 201}),
    ("POST", "/v1/flows/{id}/edges", CONTROL, {201}),
    ("POST", "/v1/flows/{id}/edges/apply", CONTROL, {200}),
    ("POST", "/v1/flows/{id}/cancel", CONTROL, {200}),
    ("POST", "/v1/budgets", CONTROL, {200, 201}),
    ("GET", "/v1/budgets/{id}", NO, {200}),
    ("POST", "/v1/budgets/{id}/usage", CONTROL, {200}),
    ("POST", "/v1/budgets/{id}/reset", CONTROL, {200}),
    ("POST", "/v1/quotas", CONTROL, {200, 201}),
    ("POST", "/v1/admin/rotate-waitpoint-secret", CONTROL, {200}),
]
QUERIES = {
    "/v1/executions": {"partition", "cursor", "limit"},
    "/v1/executions/{id}/attempts/{idx}/stream": {"from", "to", "limit"},
    "/v1/executions/{id}/attempts/{idx}/stream/tail": {"after", "block_ms", "limit"},
    "/v1/flows/{id}/cancel": {"wait"},
}
BY_NAME = {(route.method, route.path): route for route in ROUTES}
DOCUMENT = msgspec.json.decode(document())
names = [f"{method} {path}" for method, path, _, _ in ORIGINAL]


def test_there_are_29_original_routes() -> None:
    assert len(ORIGINAL) == len(set(names)) == 29


@pytest.mark.parametrize(("method", "path", "limit", "success"), ORIGINAL, ids=names)
def test_a_route_of_the_original(
    method: str, path: str, limit: int | None, success: set[int]
) -> None:
    route = BY_NAME[method, path]
    assert limit is None or route.limit == limit
    assert {status for status in route.answers if status < 300} == success
    said = DOCUMENT["paths"][path][method.lower()]
    assert {str(status) for status in success} <= set(said["responses"])
    queried = {each["name"] for each in said["parameters"] if each["in"] == "query"}
    assert (
        QUERIES.get(path, set()) <= queried if method != "POST" or path.endswith("cancel") else True
    )


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_is_described(route: Route) -> None:
    said = DOCUMENT["paths"][route.path][route.method.lower()]
    assert said["summary"] and said["tags"] == [route.tag]
    assert said["security"] == ([] if route.role is None else [{"bearer": []}])
    assert ("requestBody" in said) == (route.body is not None)
    assert {str(status) for status in route.answers} <= set(said["responses"])
    assert route.path in page().decode().replace("&#x27;", "'")


def test_names_are_not_used_twice() -> None:
    assert len(BY_NAME) == len(ROUTES)
    operations = [
        each["operationId"] for path in DOCUMENT["paths"].values() for each in path.values()
    ]
    assert len(operations) == len(set(operations))
    assert b"<script" not in page()
