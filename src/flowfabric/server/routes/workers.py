"""Routes of workers, lanes, schedules and the signing key."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from flowfabric.errors import NotFound
from flowfabric.ids import lane_id
from flowfabric.model.execution import Lane
from flowfabric.model.lease import ClaimGrant, IssueGrantArgs, NotReclaimable, ReclaimCapExceeded
from flowfabric.model.schedule import ScheduleMarks
from flowfabric.server.route import ApiRequest, Reply, RouteGroup, bad_request
from flowfabric.server.routes.executions import LaneName
from flowfabric.wire.operations import Bound, Role

MAX_IDENTIFIER = 256
MAX_GRANT_MS = 60_000


routes = RouteGroup(tag="operators", role=Role.OPERATE, bound=Bound.NEVER)


def identifier(value: str, field: str) -> str:
    if not value:
        raise bad_request(f"{field}: must not be empty")
    if len(value.encode()) > MAX_IDENTIFIER:
        raise bad_request(f"{field}: exceeds {MAX_IDENTIFIER} bytes (got {len(value.encode())})")
    if any(c.isspace() or ord(c) < 32 or ord(c) == 127 for c in value):
        raise bad_request(f"{field}: must not contain whitespace or control characters")
    return value


def grant_ttl(value: int) -> int:
    if not 1 <= value <= MAX_GRANT_MS:
        raise bad_request(f"grant_ttl_ms must be in 1..={MAX_GRANT_MS}")
    return value


class Claim(Struct, frozen=True, kw_only=True):
    lane_id: str
    worker_instance_id: str
    grant_ttl_ms: int
    capabilities: list[str] = []
    namespace: str | None = "default"


@routes(
    "POST",
    "/v1/workers/{worker_id}/claim",
    role=Role.WORK,
    bound=Bound.LANE,
    body=Claim,
    answers={200: dict[str, Any], 204: None},
    tag="workers",
)
async def claim(request: ApiRequest) -> Reply:
    """Reserves the next execution of a lane for a worker, within budgets and quotas."""
    body: Claim = request.body
    worker = identifier(request.path["worker_id"], "worker_id")
    instance = identifier(body.worker_instance_id, "worker_instance_id")
    lane = str(lane_id(body.lane_id))
    granted = await request.engine.claim_for_worker(
        lane, worker, instance, body.capabilities, grant_ttl(body.grant_ttl_ms), body.namespace
    )
    if not isinstance(granted, ClaimGrant):
        return Reply(204)
    return Reply(200, structs.asdict(granted))


class CallOff(Struct, frozen=True):
    worker_instance_id: str


@routes(
    "POST",
    "/v1/claims/call-off",
    role=Role.WORK,
    bound=Bound.FREE,
    body=CallOff,
    answers={200: dict[str, int]},
    tag="workers",
)
async def call_off(request: ApiRequest) -> Reply:
    """Cancels the waiting claims of a worker that is stopping."""
    return Reply(
        200,
        {
            "called_off": request.server.pending_claims.cancel(
                (request.caller.name, request.body.worker_instance_id)
            )
        },
    )


class Reclaim(Struct, frozen=True, kw_only=True):
    worker_id: str
    worker_instance_id: str
    lane_id: LaneName
    grant_ttl_ms: int
    capability_hash: str | None = None
    route_snapshot_json: str | None = None
    admission_summary: str | None = None
    worker_capabilities: list[str] = []


@routes(
    "POST",
    "/v1/executions/{id}/reclaim",
    role=Role.WORK,
    bound=Bound.EXECUTION,
    body=Reclaim,
    tag="workers",
)
async def reclaim(request: ApiRequest) -> Reply:
    """Reserves an execution with a lost lease for the worker that continues it."""
    body: Reclaim = request.body
    args = IssueGrantArgs(
        execution_id=request.execution(),
        worker_id=identifier(body.worker_id, "worker_id"),
        worker_instance_id=identifier(body.worker_instance_id, "worker_instance_id"),
        lane_id=body.lane_id,
        grant_ttl_ms=grant_ttl(body.grant_ttl_ms),
        worker_capabilities=frozenset(body.worker_capabilities),
        capability_hash=body.capability_hash,
        route_snapshot_json=body.route_snapshot_json,
        admission_summary=body.admission_summary,
    )
    made = await request.engine.issue_reclaim_grant(args)
    word = {NotReclaimable: "not_reclaimable", ReclaimCapExceeded: "reclaim_cap_exceeded"}.get(
        type(made), "granted"
    )
    return Reply(200, {"status": word, **structs.asdict(made)})


class WorkersQuery(Struct, frozen=True):
    namespace: str = "default"
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


@routes(
    "GET", "/v1/workers", role=Role.READ, bound=Bound.NAMESPACE, query=WorkersQuery, tag="workers"
)
async def workers(request: ApiRequest) -> Reply:
    """The live workers of a namespace."""
    return Reply(
        200, await request.engine.list_workers(request.query.namespace, limit=request.query.limit)
    )


class LanesQuery(Struct, frozen=True):
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


@routes("GET", "/v1/lanes", role=Role.READ, query=LanesQuery)
async def lanes(request: ApiRequest) -> Reply:
    """Lists the lanes."""
    return Reply(
        200, await request.engine.list_lanes(request.query.cursor or None, request.query.limit)
    )


@routes("GET", "/v1/lanes/{lane}", role=Role.READ, answers={200: Lane})
async def lane(request: ApiRequest) -> Reply:
    """The state of a lane."""
    found = await request.engine.read_lane(str(lane_id(request.path["lane"])))
    if found is None:
        raise NotFound("lane", request.path["lane"])
    return Reply(200, found)


@routes("POST", "/v1/lanes/{lane}/pause", answers={200: Lane})
async def pause(request: ApiRequest) -> Reply:
    """Pauses a lane: nothing is claimed from it until it is resumed."""
    await request.engine.pause_lane(str(lane_id(request.path["lane"])))
    return await lane(request)


@routes("POST", "/v1/lanes/{lane}/resume", answers={200: Lane})
async def resume(request: ApiRequest) -> Reply:
    """Resumes a lane."""
    await request.engine.resume_lane(str(lane_id(request.path["lane"])))
    return await lane(request)


@routes("POST", "/v1/lanes/{lane}/drain", answers={200: Lane})
async def drain(request: ApiRequest) -> Reply:
    """Drains a lane: it accepts no new executions and finishes those it has."""
    await request.engine.drain_lane(str(lane_id(request.path["lane"])))
    return await lane(request)


class Namespaced(Struct, frozen=True):
    namespace: str = "default"


@routes(
    "GET",
    "/v1/schedules",
    role=Role.READ,
    bound=Bound.NAMESPACE,
    query=Namespaced,
    answers={200: ScheduleMarks},
)
async def schedules(request: ApiRequest) -> Reply:
    """The last tick of each schedule of a namespace."""
    return Reply(200, await request.engine.read_schedules(request.query.namespace))


@routes(
    "POST",
    "/v1/schedules/{name}/pause",
    bound=Bound.NAMESPACE,
    query=Namespaced,
    answers={200: dict[str, bool]},
)
async def pause_schedule(request: ApiRequest) -> Reply:
    """Pauses a schedule: its ticks are skipped until it is resumed."""
    return Reply(
        200,
        {
            "changed": await request.engine.pause_schedule(
                request.query.namespace, request.path["name"]
            )
        },
    )


@routes(
    "POST",
    "/v1/schedules/{name}/resume",
    bound=Bound.NAMESPACE,
    query=Namespaced,
    answers={200: dict[str, bool]},
)
async def resume_schedule(request: ApiRequest) -> Reply:
    """Resumes a schedule with its next tick."""
    return Reply(
        200,
        {
            "changed": await request.engine.resume_schedule(
                request.query.namespace, request.path["name"]
            )
        },
    )


class Rotation(Struct, frozen=True):
    new_kid: str
    new_secret_hex: str


@routes("POST", "/v1/admin/rotate-waitpoint-secret", role=Role.ADMIN, body=Rotation)
async def rotate(request: ApiRequest) -> Reply:
    """Rotates the signing key; tokens of the previous key stay valid for the grace period."""
    from flowfabric.server.key_rotation import rotate_key

    return await rotate_key(request, request.body.new_kid, request.body.new_secret_hex)
