"""Cancelling the members of a flow, so many at a time; what fails stays owed, and the loops see to it."""

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

AT_ONCE = 16


async def cancel_members(
    engine: LocalEngineProtocol, flow: UUID, members: Sequence[ExecutionId], reason: str
) -> list[ExecutionId]:
    """Those that could not be cancelled."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(member: ExecutionId) -> ExecutionId | None:
        async with gate:
            try:
                await _cancelled(engine, member, reason)
            except EngineError as error:
                log.warning("flow %s: member %s is not cancelled yet: %s", flow, member, error)
                return member
        try:
            await engine.ack_cancel_member(flow, member)
        except EngineError as error:
            log.warning("flow %s: the cancel of %s could not be noted: %s", flow, member, error)
        return None

    return [
        failed
        for failed in await asyncio.gather(*(one(member) for member in members))
        if failed is not None
    ]


async def _cancelled(engine: LocalEngineProtocol, member: ExecutionId, reason: str) -> None:
    """Gone or over is as good."""
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
