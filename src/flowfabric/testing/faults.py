"""Faults on demand: lost leases, crashed workers, lost answers, failing operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from flowfabric.engine.engine import Engine
from flowfabric.errors import TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.sdk.run import Run
from flowfabric.sdk.worker import Worker


class Faults:
    """Injects faults into an engine and the workers that use it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def revoke_lease(self, run: Run[Any] | ExecutionId) -> None:
        """Revokes the lease of a run, as an operator would."""
        ident = run.id if isinstance(run, Run) else run
        await self._engine.revoke_lease(
            RevokeLeaseArgs(execution_id=ident, reason="fault injection")
        )

    async def crash_worker(self, worker: Worker) -> None:
        """Stops the worker as if its process had died: nothing is finished or given back."""
        await worker.crash()

    def drop_reply(self, operation: str, times: int = 1) -> None:
        """The next `times` calls of the operation are carried out, but raise a TransportError."""
        self._intercept(operation, times, before=None)

    def fail_backend(self, operation: str, error: Exception | None = None, times: int = 1) -> None:
        """The next `times` calls of the operation raise the error and do nothing else.

        The default is a TransportError.
        """
        failure = error or TransportError("test", f"{operation} was made to fail")
        self._intercept(operation, times, before=failure)

    def _intercept(self, operation: str, times: int, before: Exception | None) -> None:
        real: Callable[..., Awaitable[object]] | None = getattr(self._engine, operation, None)
        if real is None:
            raise ValueError(f"operation: the engine has no operation {operation!r}")
        left = times

        async def faulty(*args: object, **kwargs: object) -> object:
            nonlocal left
            if left <= 0:
                return await real(*args, **kwargs)
            left -= 1
            if before is not None:
                raise before
            await real(*args, **kwargs)
            raise TransportError("test", f"the answer to {operation} was dropped", doubtful=True)

        setattr(self._engine, operation, faulty)
