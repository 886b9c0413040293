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
    *health.routes.all,
    *executions.routes.all,
    *waitpoints.routes.all,
    *streams.routes.all,
    *flows.routes.all,
    *limits.routes.all,
    *workers.routes.all,
    *approvals.routes.all,
    *engine.ROUTES,
)


def with_open_metrics(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """The routes with `/metrics` open to scrapers that send no token."""
    return tuple(
        structs.replace(route, role=None, bound=Bound.FREE) if route.path == "/metrics" else route
        for route in routes
    )
