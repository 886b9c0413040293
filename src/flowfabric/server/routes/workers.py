"""Routes of workers, lanes, schedules and the signing key."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from string import hexdigits
from typing import Any

from msgspec import Struct, structs

from flowfabric.errors import EngineError, NotFound
from flowfabric.ids import lane_id
from flowfabric.model.execution import Lane
from flowfabric.model.lease import ClaimGrant, IssueGrantArgs, NotReclaimable, ReclaimCapExceeded
from flowfabric.model.schedule import ScheduleMarks
from flowfabric.server import route
from flowfabric.server.policies import PageLimit
from flowfabric.server.route import ApiRequest, Reply, RouteGroup
from flowfabric.server.routes.executions import LaneName
from flowfabric.wire.errors import MEDIA_TYPE
from flowfabric.wire.operations import Bound, Role

audit = logging.getLogger("audit")

MAX_IDENTIFIER = 256
MAX_GRANT_MS = 60_000
ROTATION_TIMEOUT_S = 120.0
NOT_ROTATED = "no partition could be rotated"


routes = RouteGroup(tag="operators", role=Role.OPERATE, bound=Bound.NEVER)


def identifier(value: str, field: str) -> str:
    if not value:
        raise route.bad_request(f"{field}: must not be empty")
    if len(value.encode()) > MAX_IDENTIFIER:
        raise route.bad_request(
            f"{field}: exceeds {MAX_IDENTIFIER} bytes (got {len(value.encode())})"
        )
    if any(c.isspace() or ord(c) < 32 or ord(c) == 127 for c in value):
        raise route.bad_request(f"{field}: must not contain whitespace or control characters")
    return value


def grant_ttl(value: int) -> int:
    if not 1 <= value <= MAX_GRANT_MS:
        raise route.bad_request(f"grant_ttl_ms must be in 1..={MAX_GRANT_MS}")
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
    answers={200: dict[str, Any], 204: None},
    tag="workers",
)
async def claim(request: ApiRequest, body: Claim) -> object:
    """Reserves the next execution of a lane for a worker, within budgets and quotas."""
    worker = identifier(request.path["worker_id"], "worker_id")
    instance = identifier(body.worker_instance_id, "worker_instance_id")
    lane = str(lane_id(body.lane_id))
    granted = await request.engine.claim_for_worker(
        lane, worker, instance, body.capabilities, grant_ttl(body.grant_ttl_ms), body.namespace
    )
    return structs.asdict(granted) if isinstance(granted, ClaimGrant) else Reply(204)


class CallOff(Struct, frozen=True):
    worker_instance_id: str


@routes(
    "POST",
    "/v1/claims/call-off",
    role=Role.WORK,
    bound=Bound.FREE,
    answers={200: dict[str, int]},
    tag="workers",
)
async def call_off(request: ApiRequest, body: CallOff) -> dict[str, int]:
    """Cancels the waiting claims of a worker that is stopping."""
    owner = request.caller.name, body.worker_instance_id
    return {"called_off": request.server.pending_claims.cancel(owner)}


class Reclaim(Struct, frozen=True, kw_only=True):
    worker_id: str
    worker_instance_id: str
    lane_id: LaneName
    grant_ttl_ms: int
    capability_hash: str | None = None
    route_snapshot_json: str | None = None
    admission_summary: str | None = None
    worker_capabilities: list[str] = []


@routes("POST", "/v1/executions/{id}/reclaim", role=Role.WORK, bound=Bound.EXECUTION, tag="workers")
async def reclaim(request: ApiRequest, body: Reclaim) -> object:
    """Reserves an execution with a lost lease for the worker that continues it."""
    args = route.args_from(
        IssueGrantArgs,
        body,
        execution_id=request.execution(),
        worker_id=identifier(body.worker_id, "worker_id"),
        worker_instance_id=identifier(body.worker_instance_id, "worker_instance_id"),
        grant_ttl_ms=grant_ttl(body.grant_ttl_ms),
        worker_capabilities=frozenset(body.worker_capabilities),
    )
    made = await request.engine.issue_reclaim_grant(args)
    word = {NotReclaimable: "not_reclaimable", ReclaimCapExceeded: "reclaim_cap_exceeded"}.get(
        type(made), "granted"
    )
    return {"status": word, **structs.asdict(made)}


class Namespaced(Struct, frozen=True):
    namespace: str = "default"


class WorkersQuery(Namespaced, frozen=True):
    limit: PageLimit = 100


@routes("GET", "/v1/workers", role=Role.READ, bound=Bound.NAMESPACE, tag="workers")
async def workers(request: ApiRequest, query: WorkersQuery) -> object:
    """The live workers of a namespace."""
    return await request.engine.list_workers(query.namespace, limit=query.limit)


class LanesQuery(Struct, frozen=True):
    cursor: str = ""
    limit: PageLimit = 100


@routes("GET", "/v1/lanes", role=Role.READ)
async def lanes(request: ApiRequest, query: LanesQuery) -> object:
    """Lists the lanes."""
    return await request.engine.list_lanes(query.cursor or None, query.limit)


@routes("GET", "/v1/lanes/{lane}", role=Role.READ, answers={200: Lane})
async def lane(request: ApiRequest) -> Lane:
    """The state of a lane."""
    name = request.path["lane"]
    return route.existing(
        await request.engine.read_lane(str(lane_id(name))), NotFound("lane", name)
    )


def _lane_action(action: str, summary: str) -> None:
    async def act(request: ApiRequest) -> Lane:
        await getattr(request.engine, f"{action}_lane")(str(lane_id(request.path["lane"])))
        return await lane(request)

    act.__doc__ = summary
    routes("POST", f"/v1/lanes/{{lane}}/{action}", answers={200: Lane})(act)


_lane_action("pause", "Pauses a lane: nothing is claimed from it until it is resumed.")
_lane_action("resume", "Resumes a lane.")
_lane_action("drain", "Drains a lane: it accepts no new executions and finishes those it has.")


@routes(
    "GET",
    "/v1/schedules",
    role=Role.READ,
    bound=Bound.NAMESPACE,
    answers={200: ScheduleMarks},
)
async def schedules(request: ApiRequest, query: Namespaced) -> ScheduleMarks:
    """The last tick of each schedule of a namespace."""
    return await request.engine.read_schedules(query.namespace)


def _schedule_action(action: str, summary: str) -> None:
    async def act(request: ApiRequest, query: Namespaced) -> dict[str, bool]:
        call = getattr(request.engine, f"{action}_schedule")
        return {"changed": await call(query.namespace, request.path["name"])}

    act.__doc__ = summary
    path, answers = f"/v1/schedules/{{name}}/{action}", {200: dict[str, bool]}
    routes("POST", path, bound=Bound.NAMESPACE, answers=answers)(act)


_schedule_action("pause", "Pauses a schedule: its ticks are skipped until it is resumed.")
_schedule_action("resume", "Resumes a schedule with its next tick.")


class Rotation(Struct, frozen=True):
    new_kid: str
    new_secret_hex: str


@routes("POST", "/v1/admin/rotate-waitpoint-secret", role=Role.ADMIN)
async def rotate(request: ApiRequest, body: Rotation) -> object:
    """Rotates the signing key; tokens of the previous key stay valid for the grace period."""
    kid, secret = body.new_kid, body.new_secret_hex
    if not kid or ":" in kid:
        raise route.bad_request("new_kid: must not be empty and must not contain a colon")
    if not secret or len(secret) % 2 or set(secret) - set(hexdigits):
        raise route.bad_request("new_secret_hex: must be an even number of hexadecimal digits")
    grace = request.server.settings.waitpoint_hmac_grace_ms
    with request.server.rotations.slot():
        try:
            async with asyncio.timeout(ROTATION_TIMEOUT_S):
                entries = await request.engine.rotate_waitpoint_hmac_secret_all(kid, secret, grace)
        except TimeoutError:
            facts = {"new_kid": kid, "timeout_s": ROTATION_TIMEOUT_S}
            audit.warning("waitpoint_hmac_rotation_timeout_http_504", extra=facts)
            timed_out = {
                "status": 504,
                "title": HTTPStatus(504).phrase,
                "code": "timeout",
                "error": "the rotation timed out; retrying is safe",
            }
            return Reply(504, timed_out, media=MEDIA_TYPE)
    failed = {each.partition: each.result for each in entries if isinstance(each.result, Exception)}
    for partition, error in failed.items():
        facts = {"partition": partition, "err": str(error)}
        audit.error("waitpoint_hmac_rotation_failed", extra=facts)
    rotated = len(entries) - len(failed)
    facts = {"new_kid": kid, "total_partitions": len(entries)}
    facts |= {"rotated": rotated, "failed_count": len(failed)}
    audit.info("waitpoint_hmac_rotation_complete", extra=facts)
    if not rotated:
        first = next(iter(failed.values()), None)
        raise first if isinstance(first, EngineError) else route.bad_request(NOT_ROTATED)
    return {"rotated": rotated, "failed": list(failed), "new_kid": kid}
