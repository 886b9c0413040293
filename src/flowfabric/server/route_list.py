"""All routes there are."""

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


def opened(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """The same with `/metrics` for everybody, for a scraper that sends no token."""
    return tuple(
        structs.replace(route, role=None, bound=Bound.FREE) if route.path == "/metrics" else route
        for route in routes
    )
