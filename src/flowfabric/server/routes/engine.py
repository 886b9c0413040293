"""Every operation of the engine under its own name, for remote engines."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import structs

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.server.limit_tenancy import with_defaults
from flowfabric.server.pending_claims import release_claims
from flowfabric.server.route import BULK, ApiRequest, Handler, Reply, Route
from flowfabric.server.tenancy import narrow_filter
from flowfabric.wire.operations import OPERATIONS, Operation, answer_type, request_type

WAITING = frozenset(
    {
        "claim_many",
        "wait_for_work",
        "wait_for_outcome",
        "read_events",
        "read_followed",
        "tail_stream",
    }
)


async def _claim(request: ApiRequest) -> Reply:
    body: Any = request.body
    claiming = request.engine.claim_many(body.lane, body.capabilities, body.policy, body.n)
    owner = request.caller.name, body.policy.worker_instance_id
    waits = bool(body.policy.max_wait_ms)
    works = await request.server.pending_claims.claim(owner, claiming, waits=waits)
    return Reply(
        value=works, undo=partial(release_claims, request.engine, works) if works else None
    )


async def _complete_and_claim(request: ApiRequest) -> Reply:
    body: Any = request.body
    call = request.engine.complete_and_claim(
        body.many, body.lane, body.capabilities, body.policy, body.n
    )
    answers, works = await request.server.pending_claims.complete_and_claim(call)
    return Reply(
        value=(answers, works),
        undo=partial(release_claims, request.engine, works) if works else None,
    )


def _handler(operation: Operation) -> Handler:
    name = operation.name
    fields = request_type(name).__struct_fields__

    async def call(request: ApiRequest) -> Reply:
        body: Any = with_defaults(operation, request.body, request.caller)
        if name == "read_events":
            body = structs.replace(
                body, wanted=narrow_filter(body.wanted, request.caller.namespace)
            )
        method = getattr(request.engine, name)
        return Reply(value=await method(**{field: getattr(body, field) for field in fields}))

    call.__name__ = name
    return call


_HANDLERS: dict[str, Handler] = {"claim_many": _claim, "complete_and_claim": _complete_and_claim}


def _route(operation: Operation) -> Route:
    handler = _HANDLERS.get(operation.name) or _handler(operation)
    handler.__doc__ = getattr(EngineProtocol, operation.name).__doc__
    return Route(
        "POST",
        f"/v1/engine/{operation.name}",
        handler,
        role=operation.role,
        bound=operation.bound,
        subject=operation.subject,
        body=request_type(operation.name),
        limit=BULK,
        answers={200: answer_type(operation.name)},
        tag="engine",
        waits=operation.name in WAITING,
    )


ROUTES = tuple(_route(operation) for operation in OPERATIONS.values())
