"""The documented protocol, the part about steps of a task and waiting for results."""

from __future__ import annotations

from typing import Protocol

from flowfabric.ids import ExecutionId
from flowfabric.model.execution import ExecutionOutcome
from flowfabric.model.lease import Handle
from flowfabric.model.step import LastSuspension, StepRecord
from flowfabric.store.wakeups import Waiter


class StepBackend(Protocol):
    async def record_step(
        self,
        handle: Handle,
        position: int,
        name: str,
        value: bytes | None = None,
        kind: str = "step",
    ) -> StepRecord:
        """Keeps what a step came to, under the lease. Recorded before, the stored one is the answer, if it is the same step."""

    async def read_steps(self, execution: ExecutionId) -> list[StepRecord]:
        """What an execution has finished so far, in order."""

    async def read_last_suspension(self, execution: ExecutionId) -> LastSuspension | None:
        """What the latest suspension was for, and whether it is over."""

    async def read_outcome(self, execution: ExecutionId) -> ExecutionOutcome | None:
        """How an execution stands and, once it is over, what it came to."""

    async def work_bell(self, *lanes: str, namespace: str | None = "default") -> Waiter:
        """Rings when there may be work in one of the lanes. Enter it, arm it, ask for work, then wait.

        Where something of the namespace waits under a limit, every lease that ends may have made room.
        """
