"""Every operation of the engine by its own name, for clients and workers that speak the engine's language."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import structs

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.server.limit_tenancy import filled
from flowfabric.server.pending_claims import give_back
from flowfabric.server.route import BULK, Ask, Handler, Reply, Route
from flowfabric.server.tenancy import narrowed
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


async def _claim(ask: Ask) -> Reply:
    body: Any = ask.body
    claiming = ask.engine.claim_many(body.lane, body.capabilities, body.policy, body.n)
    who = ask.caller.name, body.policy.worker_instance_id
    works = await ask.server.waits.claimed(who, claiming, waits=bool(body.policy.max_wait_ms))
    return Reply(value=works, undo=partial(give_back, ask.engine, works) if works else None)


async def _turn(ask: Ask) -> Reply:
    body: Any = ask.body
    turning = ask.engine.complete_and_claim(
        body.many, body.lane, body.capabilities, body.policy, body.n
    )
    answers, works = await ask.server.waits.turned(turning)
    return Reply(
        value=(answers, works), undo=partial(give_back, ask.engine, works) if works else None
    )


def _handler(operation: Operation) -> Handler:
    name = operation.name
    fields = request_type(name).__struct_fields__

    async def call(ask: Ask) -> Reply:
        body: Any = filled(operation, ask.body, ask.caller)
        if name == "read_events":
            body = structs.replace(body, wanted=narrowed(body.wanted, ask.caller.namespace))
        method = getattr(ask.engine, name)
        return Reply(value=await method(**{field: getattr(body, field) for field in fields}))

    call.__name__ = name
    return call


_OWN: dict[str, Handler] = {"claim_many": _claim, "complete_and_claim": _turn}


def _route(operation: Operation) -> Route:
    handler = _OWN.get(operation.name) or _handler(operation)
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
