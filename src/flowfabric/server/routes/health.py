"""Whether the server lives, whether it is ready, what it can do, and its own description."""

from __future__ import annotations

from typing import Any

from flowfabric.errors import EngineError
from flowfabric.ids import BUDGET_PARTITIONS, FLOW_PARTITIONS, QUOTA_PARTITIONS
from flowfabric.model.execution import MAX_BULK_CREATE, MAX_PAYLOAD_BYTES
from flowfabric.model.lease import MAX_CLAIM_BATCH, Capabilities
from flowfabric.model.queue_stats import LongWriter
from flowfabric.server.route import Ask, Reply, Route
from flowfabric.wire.operations import Bound

MAX_OVERDUE_MS = 30_000


async def healthz(ask: Ask) -> Reply:
    """Whether the server and its store answer."""
    await ask.engine.ping()
    return Reply(200, {"status": "ok"})


async def readyz(ask: Ask) -> Reply:
    """Whether it may be sent work: the store answers, the keys are there, timers are acted on, and it is not stopping."""
    checks: dict[str, str] = {
        "draining": "yes" if ask.server.is_draining else "no",
        "durability": ask.engine.durability,
    }
    overdue_ms = 0
    try:
        await ask.engine.ping()
        checks["store"] = "ok"
        kids = await ask.engine.list_waitpoint_hmac_kids()
        checks["waitpoint_keys"] = "ok" if kids.current_kid else "missing"
        overdue_ms = await ask.engine.oldest_overdue_ms()
        writer = await ask.engine.events_held_back_by()
        checks["events"] = _events(writer)
    except EngineError as error:
        checks["store"] = f"failed: {error.code}"
    checks["loops"] = "ok" if ask.server.loops_are_running else "not running"
    checks["timers"] = (
        "ok"
        if overdue_ms <= MAX_OVERDUE_MS
        else f"overdue: no loop acts on them, the oldest for {overdue_ms // 1000} s"
    )
    fine = all(checks.get(name) == "ok" for name in ("store", "waitpoint_keys", "loops", "timers"))
    ready = fine and not ask.server.is_draining
    said = {
        "status": "ready" if ready else "not ready",
        "checks": checks,
        "oldest_overdue_timer_s": overdue_ms / 1000,
    }
    return Reply(200 if ready else 503, said)


def _events(writer: LongWriter | None) -> str:
    """It says no more than whom to look for: anybody may ask."""
    if writer is None:
        return "ok"
    return f"held back: backend {writer.pid} has been writing for {writer.for_ms // 1_000} s; they are told when it ends"


async def capabilities(ask: Ask) -> Reply:
    """What this server's engine can do."""
    found = ask.engine.capabilities()
    identity = {name: said for name, said in found.identity.items() if name != "rfc017_stage"}
    return Reply(
        200, Capabilities({**identity, "stage": found.identity["rfc017_stage"]}, found.supports)
    )


async def config(ask: Ask) -> Reply:
    """What clients need to know: partitions, lanes, limits."""
    said: dict[str, Any] = {
        "num_flow_partitions": FLOW_PARTITIONS,
        "num_budget_partitions": BUDGET_PARTITIONS,
        "num_quota_partitions": QUOTA_PARTITIONS,
        "lanes": ask.server.settings.lanes,
        "limits": {
            "payload_bytes": MAX_PAYLOAD_BYTES,
            "executions_per_batch": MAX_BULK_CREATE,
            "claims_per_batch": MAX_CLAIM_BATCH,
            "concurrent_stream_ops": ask.server.settings.max_concurrent_stream_ops,
        },
    }
    return Reply(200, said)


async def metrics(ask: Ask) -> Reply:
    """Prometheus text; open to everybody with `FF_METRICS_OPEN=1`."""
    return await ask.server.metrics_page()


async def openapi(ask: Ask) -> Reply:
    """This API as an OpenAPI 3.1 document."""
    from flowfabric.server.openapi import (
        document,  # which is made from all routes, this one among them
    )

    return Reply(200, raw=document())


async def docs(ask: Ask) -> Reply:
    """The same as a page to read; it needs no network."""
    from flowfabric.server.openapi import page

    return Reply(200, raw=page(), media="text/html; charset=utf-8")


_OPEN: dict[str, Any] = {"role": None, "bound": Bound.FREE, "tag": "server"}

ROUTES = (
    Route("GET", "/healthz", healthz, answers={200: dict[str, str]}, **_OPEN),
    Route("GET", "/readyz", readyz, answers={200: dict[str, Any], 503: dict[str, Any]}, **_OPEN),
    Route("GET", "/metrics", metrics, answers={200: None}, media="text/plain", tag="server"),
    Route("GET", "/openapi.json", openapi, answers={200: dict[str, Any]}, **_OPEN),
    Route("GET", "/docs", docs, answers={200: None}, media="text/html", **_OPEN),
    Route(
        "GET",
        "/v1/capabilities",
        capabilities,
        bound=Bound.FREE,
        answers={200: Capabilities},
        tag="server",
    ),
    Route(
        "GET", "/v1/config", config, bound=Bound.FREE, answers={200: dict[str, Any]}, tag="server"
    ),
)
