"""Claims that wait for work on the server; the caller that sent one can cancel it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import EngineError
from flowfabric.model.lease import Work

log = logging.getLogger("flowfabric.server")

ClaimOwner = tuple[str, str]
"""A token's name and a worker instance: a caller cancels only its own claims."""
CompleteAndClaimResult = tuple[list[EngineError | None], list[Work]]
T = TypeVar("T")


class PendingClaims:
    def __init__(self, engine: LocalEngineProtocol) -> None:
        self._engine = engine
        self._claims: dict[ClaimOwner, set[asyncio.Task[list[Work]]]] = {}

    async def claim(
        self, owner: ClaimOwner, claiming: Coroutine[object, object, list[Work]], *, waits: bool
    ) -> list[Work]:
        """Run a claim; a cancelled claim returns nothing, and the engine releases its grants.

        A claim that does not wait is never cancelled. If its client disconnects, it completes and
        its grants are released.
        """
        task = asyncio.create_task(claiming)
        if waits:
            self._claims.setdefault(owner, set()).add(task)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or not current.cancelling():
                return []
            if waits:
                task.cancel()
            await self._release_result(task, lambda works: works)
            raise
        finally:
            self._remove(owner, task)

    async def complete_and_claim(
        self, call: Coroutine[object, object, CompleteAndClaimResult]
    ) -> CompleteAndClaimResult:
        """Run to the end even if the client disconnects; its new claims are then released."""
        task = asyncio.create_task(call)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await self._release_result(task, lambda result: result[1])
            raise

    async def _release_result(
        self, task: asyncio.Task[T], works_of: Callable[[T], list[Work]]
    ) -> None:
        await asyncio.wait({task})
        if not task.cancelled() and task.exception() is None:
            await release_claims(self._engine, works_of(task.result()))

    def _remove(self, owner: ClaimOwner, task: asyncio.Task[list[Work]]) -> None:
        claims = self._claims.get(owner, set())
        claims.discard(task)
        if not claims:
            self._claims.pop(owner, None)

    def cancel(self, owner: ClaimOwner) -> int:
        """Cancel the waiting claims of an owner and count them; granted claims are answered."""
        return sum(task.cancel() for task in tuple(self._claims.get(owner, ())))


async def release_claims(engine: LocalEngineProtocol, works: Sequence[Work]) -> None:
    """Make executions claimable again whose claim no client has read, before the leases expire."""
    for work in works:
        try:
            await engine.delay(work.handle, await engine.server_time_ms())
        except EngineError as error:
            log.warning(
                "claim of a disconnected worker could not be released",
                extra={"execution_id": str(work.execution_id), "error": str(error)},
            )
