"""Routes of bulk actions: start, follow and stop a job."""

from __future__ import annotations

from msgspec import Struct, structs

from flowfabric.errors import NotFound
from flowfabric.model.bulk import BulkAction, BulkArgs, BulkJob
from flowfabric.model.execution import Page
from flowfabric.model.search import ExecutionFilter
from flowfabric.server import route
from flowfabric.server.policies import I32, PageLimit
from flowfabric.server.route import ApiRequest, Reply, RouteGroup
from flowfabric.server.routes.executions import LaneName
from flowfabric.wire.operations import Bound, Role

routes = RouteGroup(tag="bulk", role=Role.OPERATE, bound=Bound.BULK, answers={200: BulkJob})


class NewBulk(Struct, frozen=True, kw_only=True):
    """`where` is empty for all executions. The token is the requester."""

    action: BulkAction
    where: ExecutionFilter = ExecutionFilter()
    reason: str = ""
    priority: I32 | None = None
    lane: LaneName | None = None
    dry_run: bool = False


class Listing(Struct, frozen=True):
    namespace: str | None = None
    limit: PageLimit = 50
    cursor: str = ""


@routes("POST", "/v1/bulk", bound=Bound.OWN, subject="where", answers={201: BulkJob})
async def start(request: ApiRequest, body: NewBulk) -> Reply:
    """Starts an action on every execution that matches; the answer is the job."""
    own = request.caller.namespace
    where = body.where if own is None else structs.replace(body.where, namespace=own)
    args = BulkArgs(
        action=body.action,
        where=where,
        requested_by=request.caller.name,
        reason=body.reason,
        priority=body.priority,
        lane=body.lane,
        dry_run=body.dry_run,
    )
    return Reply(201, await request.engine.start_bulk(args))


@routes("GET", "/v1/bulk", bound=Bound.OWN, answers={200: Page[BulkJob]})
async def listed(request: ApiRequest, query: Listing) -> object:
    """Lists jobs, the newest first."""
    namespace = request.caller.namespace or query.namespace
    return await request.engine.list_bulk(namespace, query.limit, query.cursor or None)


@routes("GET", "/v1/bulk/{id}")
async def read(request: ApiRequest) -> object:
    """A job with its progress."""
    job_id = request.uuid(shown="job_id")
    found = await request.engine.read_bulk(job_id)
    return route.existing(found, NotFound("bulk_job", job_id))


@routes("POST", "/v1/bulk/{id}/stop")
async def stop(request: ApiRequest) -> object:
    """Stops a job behind the page that is being committed."""
    return await request.engine.stop_bulk(request.uuid(shown="job_id"))
