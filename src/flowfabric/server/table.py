"""All routes there are."""

from __future__ import annotations

from flowfabric.server.route import Route
from flowfabric.server.routes import approvals, engine, executions, flows, health, limits, streams, waitpoints, workers

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
