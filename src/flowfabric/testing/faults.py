"""What goes wrong, on demand: lost leases, crashed workers, answers that never arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowfabric.engine.engine import Engine
from flowfabric.errors import TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.sdk.run import Run
from flowfabric.sdk.worker import Worker


class Faults:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def revoke_lease(self, run: Run[Any] | ExecutionId) -> None:
        """An operator takes the work away from whoever has it."""
        ident = run.id if isinstance(run, Run) else run
        await self._engine.revoke_lease(
            RevokeLeaseArgs(execution_id=ident, reason="fault injection")
        )

    async def crash_worker(self, worker: Worker) -> None:
        """It is gone from one moment to the next: nothing is finished, given back or told."""
        await worker.crash()

    def drop_reply(self, operation: str, times: int = 1) -> None:
        """The operation is done, and the caller does not hear of it."""
        self._between(operation, times, before=None)

    def fail_backend(self, operation: str, error: Exception | None = None, times: int = 1) -> None:
        """The operation is not done."""
        self._between(
            operation,
            times,
            before=error or TransportError("test", f"{operation} was made to fail"),
        )

    def _between(self, operation: str, times: int, before: Exception | None) -> None:
        real: Callable[..., Any] | None = getattr(self._engine, operation, None)
        if real is None:
            raise ValueError(f"operation: {operation!r} is none of the engine's")
        left = times

        async def faulty(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            if left <= 0:
                return await real(*args, **kwargs)
            left -= 1
            if before is not None:
                raise before
            await real(*args, **kwargs)
            raise TransportError("test", f"the answer to {operation} was dropped", doubtful=True)

        setattr(self._engine, operation, faulty)
