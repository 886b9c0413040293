"""The table of routes: every route of the server, one module per subject."""

from __future__ import annotations

from flowfabric.server.route import Route
from flowfabric.server.routes import (
    approvals,
    bulk,
    engine,
    executions,
    flows,
    health,
    limits,
    runs,
    streams,
    tasks,
    waitpoints,
    workers,
)

ROUTES: tuple[Route, ...] = (
    *health.routes.all,
    *executions.routes.all,
    *runs.routes.all,
    *bulk.routes.all,
    *waitpoints.routes.all,
    *streams.routes.all,
    *flows.routes.all,
    *limits.routes.all,
    *workers.routes.all,
    *tasks.routes.all,
    *approvals.routes.all,
    *engine.ROUTES,
)
