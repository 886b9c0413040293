"""Routes of executions: create, read and control them."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta, Struct, structs

from flowfabric.engine.events.long_poll import MAX_POLL_MS
from flowfabric.ids import FLOW_PARTITIONS, MAX_LANE_BYTES, ExecutionId
from flowfabric.model import execution as model
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.server import route
from flowfabric.server.policies import (
    I32,
    U16,
    NewPolicy,
    PageLimit,
    Time,
    clamp_time,
    engine_policy,
)
from flowfabric.server.route import ApiRequest, Reply, RouteGroup
from flowfabric.wire.operations import Bound, Role

Byte = Annotated[int, Meta(ge=0, le=255)]
LaneName = Annotated[str, Meta(pattern=f"^[ -~]{{1,{MAX_LANE_BYTES}}}$")]


routes = RouteGroup(tag="executions", role=Role.READ, bound=Bound.EXECUTION)


class NewExecution(Struct, frozen=True, kw_only=True):
    """Only the lane is required; the server generates a missing id.

    The payload is one of `input` (any JSON), `input_payload` (an array of bytes) and
    `input_payload_b64`. `partition_id` and `now` are ignored: the id determines the partition,
    and the store the time.
    """

    lane_id: LaneName
    execution_id: ExecutionId | None = None
    namespace: str = "default"
    execution_kind: str = "default"
    input_payload: list[Byte] | None = None
    input_payload_b64: bytes | None = None
    input: msgspec.Raw = msgspec.Raw()
    payload_encoding: str | None = None
    priority: I32 = 0
    creator_identity: str = ""
    idempotency_key: str | None = None
    tags: dict[str, str] = {}
    policy: NewPolicy | None = None
    delay_until: Time | None = None
    execution_deadline_at: Time | None = None
    partition_id: U16 | None = None
    flow_id: UUID | None = None
    now: Time | None = None


class NewExecutions(Struct, frozen=True):
    executions: list[NewExecution]


def payload_of(listed: list[int] | None, encoded: bytes | None, name: str) -> bytes | None:
    if listed is not None and encoded is not None:
        raise route.bad_request(f"{name}, {name}_b64: only one of the two is accepted")
    return bytes(listed) if listed is not None else encoded


def missing(request: ApiRequest, what: str = "execution") -> route.MissingEntity:
    return route.MissingEntity(what, request.execution())


def _input(new: NewExecution) -> bytes | None:
    other = payload_of(new.input_payload, new.input_payload_b64, "input_payload")
    if not bytes(new.input):
        return other
    if other is not None:
        raise route.bad_request(
            "input, input_payload, input_payload_b64: only one of the three is accepted"
        )
    return bytes(new.input)


def args_of(new: NewExecution) -> model.CreateExecutionArgs:
    if new.execution_id is not None:
        ident = new.execution_id
    elif new.flow_id is not None:
        ident = ExecutionId.for_flow(new.flow_id)
    else:
        ident = ExecutionId.solo(new.lane_id)
    return route.args_from(
        model.CreateExecutionArgs,
        new,
        execution_id=ident,
        input_payload=_input(new) or b"",
        payload_encoding=new.payload_encoding or ("json" if bytes(new.input) else None),
        policy=engine_policy(new.policy),
        delay_until=clamp_time(new.delay_until),
        execution_deadline_at=clamp_time(new.execution_deadline_at),
    )


@routes(
    "POST",
    "/v1/executions",
    role=Role.SUBMIT,
    bound=Bound.NAMESPACE,
    limit=route.LARGE,
    answers=route.CREATED,
)
async def create(request: ApiRequest, body: NewExecution) -> Reply:
    """Creates an execution, or returns the one with the same id or idempotency key."""
    args = args_of(body)
    args = structs.replace(args, tags=request.server.telemetry.stamp(args.tags))
    return route.created(await request.engine.create_execution(args), model.Created)


@routes(
    "POST",
    "/v1/executions/batch",
    role=Role.SUBMIT,
    bound=Bound.NAMESPACE,
    subject="executions",
    limit=route.BULK,
    answers={200: list[dict[str, Any]]},
)
async def create_batch(request: ApiRequest, body: NewExecutions) -> object:
    """Creates many executions, answered in order. One invalid entry refuses the whole batch."""
    if len(body.executions) > model.MAX_BULK_CREATE:
        raise route.bad_request(
            f"executions: at most {model.MAX_BULK_CREATE}, got {len(body.executions)}"
        )
    made = await request.engine.create_executions([args_of(each) for each in body.executions])
    return [route.tagged(each) for each in made]


class Listing(Struct, frozen=True):
    partition: U16
    cursor: str = ""
    limit: Annotated[int, Meta(ge=0)] = 50


class Listed(Struct, frozen=True):
    executions: list[str]
    next_cursor: str | None


@routes("GET", "/v1/executions", bound=Bound.NEVER, limit=route.LARGE, answers={200: Listed})
async def listed(request: ApiRequest, query: Listing) -> Listed:
    """Lists the executions of one partition in the order of their ids."""
    if query.cursor:
        try:
            ExecutionId(query.cursor)
        except ValueError as error:
            raise route.bad_request(f"invalid cursor: {error}") from None
    if query.limit == 0 or query.partition >= FLOW_PARTITIONS:
        return Listed([], None)
    page: model.Page[ExecutionId] = await request.engine.list_executions(
        query.partition, query.cursor or None, min(query.limit, 1_000)
    )
    return Listed(list(page.items), page.next_cursor)


@routes("GET", "/v1/executions/{id}")
async def info(request: ApiRequest) -> object:
    """The state of an execution with its times and counters."""
    found = await request.engine.read_execution_info(request.execution())
    fields = structs.asdict(route.existing(found, missing(request)))
    for name in ("created_at", "started_at", "completed_at"):
        value = fields.pop(name)
        if value is not None:
            fields[name] = str(value)
    return fields


@routes("GET", "/v1/executions/{id}/state", answers={200: str})
async def state(request: ApiRequest) -> str:
    """The public state, as one word."""
    found = await request.engine.read_execution_state(request.execution())
    return route.existing(found, missing(request))


@routes("GET", "/v1/executions/{id}/result", answers={200: None}, media="application/octet-stream")
async def result(request: ApiRequest) -> Reply:
    """The bytes that the execution was completed with."""
    found = await request.engine.get_execution_result(request.execution())
    raw = route.existing(found, missing(request, "execution result"))
    return Reply(raw=raw, media="application/octet-stream")


class Waiting(Struct, frozen=True):
    timeout_ms: Annotated[int, Meta(ge=0, le=MAX_POLL_MS)] = 10_000


class Waited(Struct, frozen=True):
    public_state: str
    terminal: bool


@routes("GET", "/v1/executions/{id}/wait", answers={200: Waited}, waits=True)
async def wait(request: ApiRequest, query: Waiting) -> Waited:
    """Waits until the execution has ended or the timeout has passed, and returns its state."""
    found = await request.engine.wait_for_outcome(request.execution(), query.timeout_ms)
    outcome = route.existing(found, missing(request))
    return Waited(outcome.public_state, outcome.ended)


class Cancel(Struct, frozen=True, kw_only=True):
    execution_id: ExecutionId
    reason: str
    source: str = "operator_override"
    lease_id: UUID | None = None
    lease_epoch: int | None = None
    attempt_id: UUID | None = None
    now: Time | None = None


@routes("POST", "/v1/executions/{id}/cancel", role=Role.SUBMIT)
async def cancel(request: ApiRequest, body: Cancel) -> object:
    """Cancels an execution in any state that has not ended."""
    route.require_match(request.execution(), body.execution_id, "execution_id")
    return route.tagged(
        await request.engine.cancel_execution(route.args_from(model.CancelExecutionArgs, body))
    )


class Priority(Struct, frozen=True):
    new_priority: I32


@routes("PUT", "/v1/executions/{id}/priority", role=Role.OPERATE)
async def priority(request: ApiRequest, body: Priority) -> object:
    """Changes the priority of a waiting execution."""
    args = model.ChangePriorityArgs(
        execution_id=request.execution(), new_priority=body.new_priority
    )
    return route.tagged(await request.engine.change_priority(args))


@routes("POST", "/v1/executions/{id}/replay", role=Role.OPERATE)
async def replay(request: ApiRequest) -> object:
    """Runs an ended execution again."""
    args = model.ReplayExecutionArgs(
        execution_id=request.execution(), requested_by=request.caller.name
    )
    return route.tagged(await request.engine.replay_execution(args))


@routes("POST", "/v1/executions/{id}/revoke-lease", role=Role.OPERATE)
async def revoke(request: ApiRequest) -> object:
    """Revokes the lease of a running execution."""
    args = RevokeLeaseArgs(execution_id=request.execution(), reason="operator_revoke")
    return route.tagged(await request.engine.revoke_lease(args))


@routes("GET", "/v1/executions/{id}/tags", answers={200: dict[str, str]})
async def tags(request: ApiRequest) -> object:
    """The tags of an execution."""
    found = await request.engine.describe_execution(request.execution())
    return route.existing(found, missing(request)).tags


class Tags(Struct, frozen=True):
    tags: dict[str, str]


@routes("PUT", "/v1/executions/{id}/tags", role=Role.OPERATE, answers={200: dict[str, int]})
async def put_tags(request: ApiRequest, body: Tags) -> dict[str, int]:
    """Sets tags; other tags are unchanged."""
    return {"set": await request.engine.set_execution_tags(request.execution(), body.tags)}


@routes("GET", "/v1/executions/{id}/explain")
async def explain(request: ApiRequest) -> object:
    """Why the execution is in its state, and what would change it."""
    return await request.engine.explain_execution(request.execution())


class Paging(Struct, frozen=True):
    after: str = ""
    limit: PageLimit = 100


@routes("GET", "/v1/executions/{id}/history")
async def history(request: ApiRequest, query: Paging) -> object:
    """The events of an execution, in order."""
    return await request.engine.history(request.execution(), query.limit, query.after or None)


@routes("GET", "/v1/executions/{id}/attempts")
async def attempts(request: ApiRequest, query: Paging) -> object:
    """The attempts of an execution, in order."""
    after = query.after
    if after and not (after.isascii() and after.isdigit() and len(after) <= route.MAX_INDEX_DIGITS):
        raise route.bad_request("after: expected the index of an attempt")
    found = await request.engine.list_attempts(
        request.execution(), int(after) if after else None, query.limit
    )
    if not found.items and await request.engine.read_execution_state(request.execution()) is None:
        raise missing(request)
    return found
