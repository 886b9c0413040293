"""Every operation of the engine under its own name, for remote engines."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.model.lease import Work
from flowfabric.server.pending_claims import release_claims
from flowfabric.server.route import BULK, ApiRequest, Handler, Reply, Route
from flowfabric.server.tenancy import narrow_filter, with_defaults
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

TOKEN_CHANGES = frozenset({"create_token", "rotate_token", "revoke_token"})
"""Operations that take effect at once on the server that carries them out."""


def _handler(operation: Operation) -> Handler:
    name = operation.name
    fields = request_type(name).__struct_fields__

    async def call(request: ApiRequest, body: Struct) -> object:
        filled = with_defaults(operation, body, request.caller)
        given: dict[str, Any] = {field: getattr(filled, field) for field in fields}
        if name == "read_events":
            given["wanted"] = narrow_filter(given["wanted"], request.caller.namespace)
        calling, pending = getattr(request.engine, name)(**given), request.server.pending_claims
        if name == "claim_many":
            owner = request.caller.name, given["policy"].worker_instance_id
            works = await pending.claim(owner, calling, waits=bool(given["policy"].max_wait_ms))
            return _undoable(request, works, works)
        if name == "complete_and_claim":
            answers, works = await pending.complete_and_claim(calling)
            return _undoable(request, (answers, works), works)
        if name in TOKEN_CHANGES:
            answer = await calling
            request.server.stored_tokens.forget()
            return answer
        return await calling

    call.__name__ = name
    return call


def _undoable(request: ApiRequest, value: object, works: list[Work]) -> Reply:
    """A reply whose claims are released if the client has disconnected."""
    return Reply(
        value=value, undo=partial(release_claims, request.engine, works) if works else None
    )


def _route(operation: Operation) -> Route:
    handler = _handler(operation)
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
