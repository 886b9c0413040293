"""The table of routes: every route of the server, one module per subject."""

from __future__ import annotations

from msgspec import structs

from flowfabric.server.route import Route
from flowfabric.server.routes import (
    approvals,
    engine,
    executions,
    flows,
    health,
    limits,
    streams,
    waitpoints,
    workers,
)
from flowfabric.wire.operations import Bound

ROUTES: tuple[Route, ...] = (
    *health.ROUTES,
    *executions.ROUTES,
    *waitpoints.ROUTES,
    *streams.ROUTES,
    *flows.ROUTES,
    *limits.ROUTES,
    *workers.ROUTES,
    *approvals.ROUTES,
    *engine.ROUTES,
)


def with_open_metrics(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """The routes with `/metrics` open to scrapers that send no token."""
    return tuple(
        structs.replace(route, role=None, bound=Bound.FREE) if route.path == "/metrics" else route
        for route in routes
    )
