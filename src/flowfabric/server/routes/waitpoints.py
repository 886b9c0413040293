"""Routes of waitpoints: list the open ones, read a token, deliver a signal."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.validation import MAX_TIMESTAMP_MS
from flowfabric.errors import NotFound, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId, execution_id, parse_uuid
from flowfabric.model.waitpoint import (
    DeliverSignalArgs,
    SignalAccepted,
    SignalDuplicate,
    WaitpointListed,
)
from flowfabric.server import route
from flowfabric.server.policies import U16, U64, PageLimit, Time, clamp, clamp_time
from flowfabric.server.route import ApiRequest, Reply, RouteGroup
from flowfabric.server.routes.executions import Byte, Paging, payload_of
from flowfabric.wire.errors import MEDIA_TYPE
from flowfabric.wire.operations import Bound, Role

NO_STORE = {"cache-control": "no-store"}


routes = RouteGroup(tag="waitpoints", role=Role.READ, bound=Bound.EXECUTION)


@routes("GET", "/v1/executions/{id}/pending-waitpoints", answers={200: list[dict[str, Any]]})
async def pending(request: ApiRequest, query: Paging) -> Reply:
    """The open waitpoints of an execution, with a fingerprint of each token."""
    ident = request.execution()
    try:
        after = parse_uuid(query.after) if query.after else None
    except ValueError:
        raise route.bad_request("after: expected the id of a waitpoint") from None
    route.existing(await request.engine.read_execution_state(ident), NotFound("execution", ident))
    page = await request.engine.list_pending_waitpoints(ident, after, query.limit)
    headers = {} if page.next_cursor is None else {"x-next-cursor": str(page.next_cursor)}
    return Reply(value=[_shown(each) for each in page.items], headers=headers)


def _shown(waitpoint: WaitpointListed) -> dict[str, object]:
    return {
        name: value
        for name, value in structs.asdict(waitpoint).items()
        if value is not None or name not in ("activated_at", "expires_at", "payload_schema")
    }


async def _open_token(
    engine: LocalEngineProtocol, execution: ExecutionId, waitpoint: UUID
) -> str | None:
    """The token of a waitpoint that is open and belongs to this execution."""
    just_before = UUID(int=waitpoint.int - 1) if waitpoint.int else None
    try:
        page = await engine.list_pending_waitpoints(execution, just_before, 1)
    except NotFound:
        return None
    if not any(each.waitpoint_id == waitpoint for each in page.items):
        return None
    return await engine.read_waitpoint_token(execution.partition_index, waitpoint)


@routes(
    "GET",
    "/v1/executions/{id}/waitpoints/{waitpoint_id}/token",
    role=Role.OPERATE,
    answers={200: dict[str, str]},
)
async def token(request: ApiRequest) -> Reply:
    """The token of a waitpoint: a credential, for operators."""
    ident, waitpoint = request.execution(), request.uuid("waitpoint_id", "waitpoint_id")
    found = await _open_token(request.engine, ident, waitpoint)
    if found is None:
        problem = {
            "type": "about:blank",
            "title": "Not Found",
            "status": 404,
            "error": "waitpoint token not found (consumed, expired, or unknown id)",
            "code": "waitpoint_not_found",
        }
        return Reply(404, problem, media=MEDIA_TYPE, headers=NO_STORE)
    return Reply(value={"token": found}, headers=NO_STORE)


class NewSignal(Struct, frozen=True, kw_only=True):
    execution_id: ExecutionId
    waitpoint_id: UUID
    signal_id: UUID
    signal_name: str
    waitpoint_token: str
    signal_category: str = ""
    source_type: str = ""
    source_identity: str = ""
    target_scope: str = "waitpoint"
    payload: list[Byte] | None = None
    payload_b64: bytes | None = None
    payload_encoding: str | None = None
    comment: str = ""
    correlation_id: str | None = None
    idempotency_key: str | None = None
    created_at: Time | None = None
    dedup_ttl_ms: U64 | None = None
    resume_delay_ms: U64 | None = None
    max_signals_per_execution: U64 | None = None
    signal_maxlen: U64 | None = None
    now: Time | None = None


_CLAMPED = ("dedup_ttl_ms", "resume_delay_ms", "max_signals_per_execution", "signal_maxlen")


def signal_args(body: NewSignal) -> DeliverSignalArgs:
    numbers = {name: getattr(body, name) for name in _CLAMPED}
    return route.args_from(
        DeliverSignalArgs,
        body,
        payload=payload_of(body.payload, body.payload_b64, "payload"),
        created_at=clamp_time(body.created_at),
        **{name: clamp(n, MAX_TIMESTAMP_MS) for name, n in numbers.items() if n is not None},
    )


async def deliver(request: ApiRequest, args: DeliverSignalArgs) -> SignalAccepted | SignalDuplicate:
    try:
        return await request.engine.deliver_signal(args)
    except NotFound:  # indistinguishable from a wrong token
        raise ValidationError(ValidationKind.INVALID_TOKEN, "invalid_token") from None


@routes("POST", "/v1/executions/{id}/signal", role=Role.SUBMIT, limit=route.MEDIUM)
async def signal(request: ApiRequest, body: NewSignal) -> object:
    """Delivers a signal. The answer to a wrong token does not reveal whether a waitpoint exists."""
    route.require_match(request.execution(), body.execution_id, "execution_id")
    result = await deliver(request, signal_args(body))
    return route.tagged(result, type(result).__name__.removeprefix("Signal"))


class SuspendedQuery(Struct, frozen=True):
    partition: U16
    cursor: str = ""
    limit: PageLimit = 100


@routes("GET", "/v1/suspended", bound=Bound.NEVER)
async def suspended(request: ApiRequest, query: SuspendedQuery) -> object:
    """The suspended executions of a partition, oldest first."""
    cursor = execution_id(query.cursor, "cursor") if query.cursor else None
    return await request.engine.list_suspended(query.partition, cursor, query.limit)
