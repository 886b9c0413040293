"""One submitted task: its state, its result, what it writes, and what can be done to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from uuid import UUID, uuid4

from flowfabric.errors import NotFound, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CancelExecutionArgs, ExecutionOutcome, ReplayExecutionArgs
from flowfabric.model.explanation import Explanation
from flowfabric.model.history import HistoryEntry
from flowfabric.model.stream import StreamFrame, Visibility
from flowfabric.model.waitpoint import DeliverSignalArgs
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.exceptions import RunCancelled, RunError, RunExpired, RunFailed, RunSkipped
from flowfabric.sdk.serialization import to_json, unsealed

if TYPE_CHECKING:
    from flowfabric.sdk.app import App
    from flowfabric.sdk.result_waiter import Heard
    from flowfabric.sdk.task import Task

R = TypeVar("R")
_ENDS: dict[str, type[RunError]] = {
    "failed": RunFailed,
    "cancelled": RunCancelled,
    "expired": RunExpired,
    "skipped": RunSkipped,
}


class Run(Generic[R]):
    """Found again with `app.run(id)`, in any process."""

    def __init__(
        self,
        app: App,
        ident: ExecutionId,
        task: Task[..., R] | None = None,
        born: Heard | None = None,
    ) -> None:
        self.app, self.id, self.task = app, ident, task
        self._born = born

    def __repr__(self) -> str:
        return f"Run({str(self.id)!r})"

    async def result(self, timeout: Span | None = None) -> R:
        """What it came to, once it has. Raises RunFailed, RunCancelled, RunExpired or RunSkipped, and TimeoutError."""
        born, self._born = self._born, None
        wait_s = None if timeout is None else millis(timeout, "timeout") / 1_000
        try:
            outcome = await self.app.results.of(self.id, wait_s, born)
        except TimeoutError:
            if wait_s is None:
                raise
            raise TimeoutError(
                f"{self.id} has not ended within {wait_s:g} s; run.why() tells what it waits for"
            ) from None
        if outcome.terminal_outcome == "success":
            data = (
                None
                if outcome.result is None
                else unsealed(self.app.codec, outcome.result, f"the result of {self.id}")
            )
            return cast(R, self._decoded(data))
        raise _ENDS.get(outcome.terminal_outcome, RunFailed)(str(self.id), outcome.reason)

    def _decoded(self, data: bytes | None) -> Any:
        if self.task is not None:
            return self.task.signature.decode_result(data)
        return data

    async def outcome(self) -> ExecutionOutcome:
        found = await (await self.app.engine()).read_outcome(self.id)
        if found is None:
            raise NotFound("execution", self.id)
        return found

    async def state(self) -> str:
        """waiting, delayed, active, suspended, completed, failed, cancelled, expired, skipped, ..."""
        return (await self.outcome()).public_state

    async def cancel(self, reason: str = "") -> None:
        """Ends it, whatever it is doing. One that has ended already stays as it is, and says so."""
        await (await self.app.engine()).cancel_execution(
            CancelExecutionArgs(execution_id=self.id, reason=reason)
        )

    async def replay(self) -> None:
        """Starts it again after it has ended; steps that were finished stay finished."""
        await (await self.app.engine()).replay_execution(ReplayExecutionArgs(execution_id=self.id))

    async def why(self) -> Explanation:
        """Why it is not running."""
        return await (await self.app.engine()).explain_execution(self.id)

    async def history(self, *, page: int = 100) -> AsyncIterator[HistoryEntry]:
        """What has happened to it until now, in order, read in pages of this many."""
        engine = await self.app.engine()
        after: str | None = None
        while True:
            found = await engine.history(self.id, page, after)
            for entry in found.items:
                yield entry
            after = found.next_cursor
            if after is None:
                return

    async def stream(
        self, attempt: int = 0, after: str = "0-0", *, live: bool = True
    ) -> AsyncIterator[StreamFrame]:
        """What it writes while it runs, from the beginning, until it has ended."""
        visibility = Visibility.All if live else Visibility.ExcludeBestEffort
        async for _, frame in (await self.app.engine()).follow_stream(
            self.id, attempt, after, visibility
        ):
            yield frame

    async def waitpoints(self) -> list[Any]:
        """What it is waiting for, if it waits for people or the outside."""
        return list((await (await self.app.engine()).list_pending_waitpoints(self.id)).items)

    async def signal(
        self,
        name: str,
        payload: Any = None,
        *,
        source: str = "",
        waitpoint: UUID | None = None,
        token: str | None = None,
        key: str | None = None,
        comment: str = "",
    ) -> None:
        """Tells a run that waits. With a token, as somebody outside who was given it; without, as an operator."""
        engine = await self.app.engine()
        target = waitpoint or await self._only_waitpoint()
        shown = token or await engine.read_waitpoint_token(self.id.partition_index, target)
        if shown is None:
            raise NotFound("waitpoint", target)
        await engine.deliver_signal(
            DeliverSignalArgs(
                execution_id=self.id,
                waitpoint_id=target,
                signal_id=uuid4(),
                waitpoint_token=shown,
                signal_name=name,
                source_identity=source,
                idempotency_key=key,
                comment=comment,
                payload=None if payload is None else to_json(payload),
            )
        )

    async def _only_waitpoint(self) -> UUID:
        every = await self.waitpoints()
        found = [each for each in every if each.state == "active"] or every
        if len(found) != 1:
            names = ", ".join(str(each.waitpoint_id) for each in found) or "none"
            detail = f"waitpoint: this run waits at {len(found)}, say which one: {names}"
            raise ValidationError(ValidationKind.INVALID_INPUT, detail)
        return cast(UUID, found[0].waitpoint_id)
