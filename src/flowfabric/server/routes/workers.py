"""Workers that are admitted by the server, and what an operator sees of workers, lanes and schedules."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from flowfabric.errors import NotFound
from flowfabric.ids import lane_id
from flowfabric.model.execution import Lane
from flowfabric.model.lease import ClaimGrant, IssueGrantArgs, NotReclaimable, ReclaimCapExceeded
from flowfabric.model.schedule import ScheduleMarks
from flowfabric.server.route import Ask, Reply, Route, bad_request
from flowfabric.server.routes.executions import LaneName
from flowfabric.wire.operations import Bound, Role

MAX_IDENTIFIER = 256
MAX_GRANT_MS = 60_000


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


async def claim(ask: Ask) -> Reply:
    """Picks the best execution of a namespace for a worker and reserves it, if its budgets, quotas and capabilities allow."""
    body: Claim = ask.body
    worker = identifier(ask.path["worker_id"], "worker_id")
    instance = identifier(body.worker_instance_id, "worker_instance_id")
    lane = str(lane_id(body.lane_id))
    granted = await ask.engine.claim_for_worker(
        lane, worker, instance, body.capabilities, grant_ttl(body.grant_ttl_ms), body.namespace
    )
    if not isinstance(granted, ClaimGrant):
        return Reply(204)
    return Reply(200, {name: getattr(granted, name) for name in ClaimGrant.__struct_fields__})


class CallOff(Struct, frozen=True):
    worker_instance_id: str


async def call_off(ask: Ask) -> Reply:
    """Answers the claims of a worker that wait for work: it stops, and wants none."""
    return Reply(
        200,
        {"called_off": ask.server.waits.call_off((ask.caller.name, ask.body.worker_instance_id))},
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


async def reclaim(ask: Ask) -> Reply:
    """Reserves an execution whose lease was lost for the worker that goes on with it."""
    body: Reclaim = ask.body
    args = IssueGrantArgs(
        execution_id=ask.execution(),
        worker_id=identifier(body.worker_id, "worker_id"),
        worker_instance_id=identifier(body.worker_instance_id, "worker_instance_id"),
        lane_id=body.lane_id,
        grant_ttl_ms=grant_ttl(body.grant_ttl_ms),
        worker_capabilities=frozenset(body.worker_capabilities),
        capability_hash=body.capability_hash,
        route_snapshot_json=body.route_snapshot_json,
        admission_summary=body.admission_summary,
    )
    made = await ask.engine.issue_reclaim_grant(args)
    word = {NotReclaimable: "not_reclaimable", ReclaimCapExceeded: "reclaim_cap_exceeded"}.get(
        type(made), "granted"
    )
    return Reply(
        200,
        {"status": word, **{name: getattr(made, name) for name in type(made).__struct_fields__}},
    )


class WorkersQuery(Struct, frozen=True):
    namespace: str = "default"
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


async def workers(ask: Ask) -> Reply:
    """The workers of a namespace that say they are alive."""
    return Reply(200, await ask.engine.list_workers(ask.query.namespace, limit=ask.query.limit))


class LanesQuery(Struct, frozen=True):
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


async def lanes(ask: Ask) -> Reply:
    """The lanes there are."""
    return Reply(200, await ask.engine.list_lanes(ask.query.cursor or None, ask.query.limit))


async def lane(ask: Ask) -> Reply:
    """How a lane stands."""
    found = await ask.engine.read_lane(str(lane_id(ask.path["lane"])))
    if found is None:
        raise NotFound("lane", ask.path["lane"])
    return Reply(200, found)


async def pause(ask: Ask) -> Reply:
    """Nothing of the lane is handed out until it is resumed."""
    await ask.engine.pause_lane(str(lane_id(ask.path["lane"])))
    return await lane(ask)


async def resume(ask: Ask) -> Reply:
    """The lane works again."""
    await ask.engine.resume_lane(str(lane_id(ask.path["lane"])))
    return await lane(ask)


async def drain(ask: Ask) -> Reply:
    """The lane takes nothing new, and works off what it has."""
    await ask.engine.drain_lane(str(lane_id(ask.path["lane"])))
    return await lane(ask)


class Namespaced(Struct, frozen=True):
    namespace: str = "default"


async def schedules(ask: Ask) -> Reply:
    """How far each schedule of a namespace has got."""
    return Reply(200, await ask.engine.read_schedules(ask.query.namespace))


async def pause_schedule(ask: Ask) -> Reply:
    """Its ticks are left out until it is resumed."""
    return Reply(
        200, {"changed": await ask.engine.pause_schedule(ask.query.namespace, ask.path["name"])}
    )


async def resume_schedule(ask: Ask) -> Reply:
    """It goes on with the ticks that are still to come."""
    return Reply(
        200, {"changed": await ask.engine.resume_schedule(ask.query.namespace, ask.path["name"])}
    )


class Rotation(Struct, frozen=True):
    new_kid: str
    new_secret_hex: str


async def rotate(ask: Ask) -> Reply:
    """A new key signs from now on; tokens of the former one stay good for the grace."""
    from flowfabric.server.key_rotation import rotated

    return await rotated(ask, ask.body.new_kid, ask.body.new_secret_hex)


_LANE: dict[str, Any] = {"role": Role.OPERATE, "tag": "operators", "answers": {200: Lane}}
_SCHEDULE: dict[str, Any] = {
    "role": Role.OPERATE,
    "bound": Bound.NAMESPACE,
    "query": Namespaced,
    "answers": {200: dict[str, bool]},
    "tag": "operators",
}
_CLAIMED = {200: dict[str, Any], 204: None}

ROUTES = (
    Route(
        "POST",
        "/v1/workers/{worker_id}/claim",
        claim,
        role=Role.WORK,
        bound=Bound.LANE,
        body=Claim,
        answers=_CLAIMED,
        tag="workers",
    ),
    Route(
        "POST",
        "/v1/claims/call-off",
        call_off,
        role=Role.WORK,
        bound=Bound.FREE,
        body=CallOff,
        answers={200: dict[str, int]},
        tag="workers",
    ),
    Route(
        "POST",
        "/v1/executions/{id}/reclaim",
        reclaim,
        role=Role.WORK,
        bound=Bound.EXECUTION,
        body=Reclaim,
        answers={200: dict[str, Any]},
        tag="workers",
    ),
    Route(
        "GET",
        "/v1/workers",
        workers,
        bound=Bound.NAMESPACE,
        query=WorkersQuery,
        answers={200: dict[str, Any]},
        tag="workers",
    ),
    Route(
        "GET", "/v1/lanes", lanes, query=LanesQuery, answers={200: dict[str, Any]}, tag="operators"
    ),
    Route("GET", "/v1/lanes/{lane}", lane, answers={200: Lane}, tag="operators"),
    Route("POST", "/v1/lanes/{lane}/pause", pause, **_LANE),
    Route("POST", "/v1/lanes/{lane}/resume", resume, **_LANE),
    Route("POST", "/v1/lanes/{lane}/drain", drain, **_LANE),
    Route(
        "GET",
        "/v1/schedules",
        schedules,
        bound=Bound.NAMESPACE,
        query=Namespaced,
        answers={200: ScheduleMarks},
        tag="operators",
    ),
    Route("POST", "/v1/schedules/{name}/pause", pause_schedule, **_SCHEDULE),
    Route("POST", "/v1/schedules/{name}/resume", resume_schedule, **_SCHEDULE),
    Route(
        "POST",
        "/v1/admin/rotate-waitpoint-secret",
        rotate,
        role=Role.ADMIN,
        body=Rotation,
        answers={200: dict[str, Any]},
        tag="operators",
    ),
)
