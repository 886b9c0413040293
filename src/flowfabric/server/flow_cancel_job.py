"""Cancels the members of a flow in parallel; the cancel reconciler retries members that failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from uuid import UUID

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import EngineError, NotFound, StateError, StateKind, ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CancelExecutionArgs

log = logging.getLogger("flowfabric.server")

MAX_PARALLEL = 16


async def cancel_members(
    engine: LocalEngineProtocol, flow: UUID, members: Sequence[ExecutionId], reason: str
) -> list[ExecutionId]:
    """Cancel the members and return those that could not be cancelled."""
    gate = asyncio.Semaphore(MAX_PARALLEL)

    async def cancel(member: ExecutionId) -> ExecutionId | None:
        fields = {"flow_id": str(flow), "execution_id": str(member)}
        async with gate:
            try:
                await _cancel_member(engine, member, reason)
            except EngineError as error:
                log.warning("flow member not cancelled", extra={**fields, "error": str(error)})
                return member
        try:
            await engine.ack_cancel_member(flow, member)
        except EngineError as error:
            log.warning("flow cancel not acknowledged", extra={**fields, "error": str(error)})
        return None

    return [
        failed
        for failed in await asyncio.gather(*(cancel(member) for member in members))
        if failed is not None
    ]


async def _cancel_member(engine: LocalEngineProtocol, member: ExecutionId, reason: str) -> None:
    """Cancel one member; a member that is removed or has ended counts as cancelled."""
    try:
        await engine.cancel_execution(CancelExecutionArgs(execution_id=member, reason=reason))
    except NotFound:
        return
    except ValidationError as error:
        if not error.already_terminal:
            raise
    except StateError as error:
        if error.kind is not StateKind.TERMINAL:
            raise
