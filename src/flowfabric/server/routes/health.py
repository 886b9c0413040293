"""Health, readiness, capabilities, configuration, metrics and the API description."""

from __future__ import annotations

from typing import Any

from flowfabric.errors import EngineError
from flowfabric.ids import BUDGET_PARTITIONS, FLOW_PARTITIONS, QUOTA_PARTITIONS
from flowfabric.model.execution import MAX_BULK_CREATE, MAX_PAYLOAD_BYTES
from flowfabric.model.lease import MAX_CLAIM_BATCH, Capabilities
from flowfabric.model.queue_stats import LongWriter
from flowfabric.server.route import ApiRequest, Reply, RouteGroup
from flowfabric.wire.operations import Bound, Role

MAX_OVERDUE_MS = 30_000


routes = RouteGroup(tag="server", role=None, bound=Bound.FREE)


@routes("GET", "/healthz", answers={200: dict[str, str]})
async def healthz(request: ApiRequest) -> dict[str, str]:
    """Whether the server and its store answer."""
    await request.engine.ping()
    return {"status": "ok"}


@routes("GET", "/readyz", answers={200: dict[str, Any], 503: dict[str, Any]})
async def readyz(request: ApiRequest) -> Reply:
    """Whether the server is ready: the store answers, a signing key exists, loops act on timers."""
    checks: dict[str, str] = {
        "draining": "yes" if request.server.is_draining else "no",
        "durability": request.engine.durability,
    }
    overdue_ms = 0
    try:
        await request.engine.ping()
        checks["store"] = "ok"
        kids = await request.engine.list_waitpoint_hmac_kids()
        checks["waitpoint_keys"] = "ok" if kids.current_kid else "missing"
        overdue_ms = await request.engine.oldest_overdue_ms()
        writer = await request.engine.events_held_back_by()
        checks["events"] = _events(writer)
    except EngineError as error:
        checks["store"] = f"failed: {error.code}"
    checks["loops"] = "ok" if request.engine.loops_are_running else "not running"
    checks["timers"] = (
        "ok"
        if overdue_ms <= MAX_OVERDUE_MS
        else f"overdue: no loop acts on them, the oldest is {overdue_ms // 1000} s late"
    )
    fine = all(checks.get(name) == "ok" for name in ("store", "waitpoint_keys", "loops", "timers"))
    ready = fine and not request.server.is_draining
    body = {
        "status": "ready" if ready else "not ready",
        "checks": checks,
        "oldest_overdue_timer_s": overdue_ms / 1000,
    }
    return Reply(200 if ready else 503, body)


def _events(writer: LongWriter | None) -> str:
    """Names the transaction that delays events by its backend only, because this route is open."""
    if writer is None:
        return "ok"
    return (
        f"delayed: backend {writer.pid} has had a transaction open for "
        f"{writer.for_ms // 1_000} s; events are delivered when it ends"
    )


@routes("GET", "/v1/capabilities", role=Role.READ, answers={200: Capabilities})
async def capabilities(request: ApiRequest) -> Capabilities:
    """The capabilities of the engine."""
    found = request.engine.capabilities()
    identity = {**found.identity, "stage": found.identity["rfc017_stage"]}
    del identity["rfc017_stage"]
    return Capabilities(identity, found.supports)


@routes("GET", "/v1/config", role=Role.READ)
async def config(request: ApiRequest) -> object:
    """Partitions, lanes and limits that clients need."""
    return {
        "num_flow_partitions": FLOW_PARTITIONS,
        "num_budget_partitions": BUDGET_PARTITIONS,
        "num_quota_partitions": QUOTA_PARTITIONS,
        "lanes": request.server.settings.lanes,
        "limits": {
            "payload_bytes": MAX_PAYLOAD_BYTES,
            "executions_per_batch": MAX_BULK_CREATE,
            "claims_per_batch": MAX_CLAIM_BATCH,
            "concurrent_stream_ops": request.server.settings.max_concurrent_stream_ops,
        },
    }


@routes(
    "GET", "/metrics", role=Role.READ, bound=Bound.NEVER, answers={200: None}, media="text/plain"
)
async def metrics(request: ApiRequest) -> Reply:
    """Metrics in the Prometheus text format; needs no token with `FF_METRICS_OPEN=1`."""
    return await request.server.telemetry.page()


@routes("GET", "/openapi.json")
async def openapi(request: ApiRequest) -> Reply:
    """This API as an OpenAPI 3.1 document."""
    from flowfabric.server.openapi import document  # imports the routes, this module included

    return Reply(raw=document())


@routes("GET", "/docs", answers={200: None}, media="text/html")
async def docs(request: ApiRequest) -> Reply:
    """This API as an HTML page without external resources."""
    from flowfabric.server.openapi import page

    return Reply(raw=page(), media="text/html; charset=utf-8")
