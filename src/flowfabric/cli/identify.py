"""From the ids that people type to those of the engine."""

from __future__ import annotations

from uuid import UUID

from flowfabric.cli.exits import CommandError, Exit
from flowfabric.cli.text import clean
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId, parse_uuid


def not_found(kind: str, ident: object) -> CommandError:
    return CommandError(
        Exit.NOT_FOUND,
        f"{clean(str(ident))}: no such {kind} in this database; retention may have removed it",
    )


async def execution_of(engine: EngineProtocol, text: str) -> ExecutionId:
    """The execution that a uuid, a unique prefix or a long id names."""
    try:
        return await engine.resolve_execution(text)
    except NotFound:
        raise not_found("execution", text) from None


async def execution_or_flow(engine: EngineProtocol, text: str) -> ExecutionId | UUID:
    try:
        return await engine.resolve_execution(text)
    except NotFound:
        flow = _flow_id(text)
        if flow is None or await engine.describe_flow(flow) is None:
            raise not_found("execution or flow", text) from None
        return flow


def _flow_id(text: str) -> UUID | None:
    try:
        return parse_uuid(text)
    except ValueError:
        return None
