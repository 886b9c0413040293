"""A handle to a submitted run: its result, state, output and operations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Generic, TypeVar, cast
from uuid import UUID, uuid4

from flowfabric.errors import ConfigError, NotFound, ValidationError, ValidationKind, invalid
from flowfabric.ids import ExecutionId, parse_uuid
from flowfabric.model.execution import CancelExecutionArgs, ExecutionOutcome, ReplayExecutionArgs
from flowfabric.model.explanation import Explanation
from flowfabric.model.history import HistoryEntry
from flowfabric.model.stream import StreamFrame, Visibility
from flowfabric.model.waitpoint import DeliverSignalArgs, WaitpointListed
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.exceptions import RunCancelled, RunError, RunExpired, RunFailed, RunSkipped
from flowfabric.sdk.run_info import Progress, RunInfo, progress_of
from flowfabric.sdk.serialization import to_json, unsealed

if TYPE_CHECKING:
    from flowfabric.model.search import ExecutionSummary
    from flowfabric.sdk.app import App
    from flowfabric.sdk.result_waiter import Seen
    from flowfabric.sdk.task import Task

R = TypeVar("R")
_ENDS: dict[str, type[RunError]] = {
    "failed": RunFailed,
    "cancelled": RunCancelled,
    "expired": RunExpired,
    "skipped": RunSkipped,
}


class Run(Generic[R]):
    """A handle to a submitted run. `app.run(id)` returns one for an existing run, in any process.

    `str(run)` is the uuid of the run, for logs, links and people; `app.run` accepts it, and the
    command line does. `run.id` is its full id, which needs no lookup.
    """

    def __init__(
        self,
        app: App,
        ident: ExecutionId | UUID,
        task: Task[..., R] | None = None,
        created_at: Seen | None = None,
    ) -> None:
        self.app, self.task = app, task
        self._ident = ident
        self._created_at = created_at

    @property
    def id(self) -> ExecutionId:
        """The full id. A handle made from a uuid knows it after the first awaited call."""
        if isinstance(self._ident, UUID):
            raise ConfigError(f"run {self}: its full id is not known yet; await run.resolve()")
        return self._ident

    def __str__(self) -> str:
        return str(self._ident if isinstance(self._ident, UUID) else self._ident.uuid)

    def __repr__(self) -> str:
        return f"Run({str(self)!r})"

    async def resolve(self) -> ExecutionId:
        """The full id of the run. A handle made from a uuid looks it up once.

        Raises NotFound if there is no such run.
        """
        if isinstance(self._ident, UUID):
            self._ident = await (await self.app.engine()).resolve_execution(str(self._ident))
        return self._ident

    async def info(self) -> RunInfo:
        """The run as a listing shows it: its task, state, times, error, progress and tags."""
        return RunInfo.read(self, await self._summary())

    async def progress(self) -> Progress | None:
        """What the task reported last with `ctx.progress(...)`; None if it has reported nothing."""
        return progress_of(await self._summary())

    async def _summary(self) -> ExecutionSummary:
        ident = await self.resolve()
        found = await (await self.app.engine()).read_execution_summary(ident)
        if found is None:
            raise NotFound("execution", ident)
        return found

    async def result(self, timeout: Span | None = None) -> R:
        """Waits until the run has ended and returns its result.

        Raises RunFailed, RunCancelled, RunExpired or RunSkipped if it ended in another way, and
        TimeoutError if it has not ended after `timeout` (default: no limit).
        """
        ident = await self.resolve()
        created_at, self._created_at = self._created_at, None
        wait_s = None if timeout is None else millis(timeout, "timeout") / 1_000
        try:
            outcome = await self.app.results.outcome(ident, wait_s, created_at)
        except TimeoutError:
            if wait_s is None:
                raise
            raise TimeoutError(
                f"run {self} has not ended within {wait_s:g} s; run.why() returns the reason"
            ) from None
        if outcome.terminal_outcome == "success":
            data = (
                None
                if outcome.result is None
                else unsealed(self.app.codec, outcome.result, f"the result of run {self}")
            )
            return cast(R, data if self.task is None else self.task.signature.decode_result(data))
        raise _ENDS.get(outcome.terminal_outcome, RunFailed)(str(ident), outcome.reason)

    async def outcome(self) -> ExecutionOutcome:
        """Its state and, after its end, its stored result or failure. Does not wait."""
        ident = await self.resolve()
        found = await (await self.app.engine()).read_outcome(ident)
        if found is None:
            raise NotFound("execution", ident)
        return found

    async def state(self) -> str:
        """Its public state, such as `"waiting"`, `"active"`, `"suspended"` or `"completed"`."""
        return (await self.outcome()).public_state

    async def cancel(self, reason: str = "") -> None:
        """Cancels the run in any state. A running task is cancelled within a second.

        Raises an EngineError if the run has ended already.
        """
        await (await self.app.engine()).cancel_execution(
            CancelExecutionArgs(execution_id=await self.resolve(), reason=reason)
        )

    async def replay(self) -> None:
        """Runs it again after its end. Completed steps keep their recorded results."""
        await (await self.app.engine()).replay_execution(
            ReplayExecutionArgs(execution_id=await self.resolve())
        )

    async def restart(self, from_step: str | int, reason: str = "") -> None:
        """Runs an ended run again without the results of one step and of those after it.

        `from_step` is the name of the step, or its position from 0.
        """
        await (await self.app.engine()).restart_from_step(
            await self.resolve(), from_step, self.app.name, reason
        )

    async def move(self, lane: str, reason: str = "") -> None:
        """Moves a run that waits to another lane, where it has the limits of that lane."""
        await (await self.app.engine()).move_execution(
            await self.resolve(), lane, self.app.name, reason
        )

    async def release(self, reason: str = "") -> None:
        """Ends the delay of a run, or the hold of an operator, now."""
        await (await self.app.engine()).release_execution(
            await self.resolve(), self.app.name, reason
        )

    async def delete(self, reason: str = "") -> None:
        """Deletes an ended run with its history. Refused while something unfinished may read it."""
        await (await self.app.engine()).delete_execution(
            await self.resolve(), self.app.name, reason
        )

    async def why(self) -> Explanation:
        """Explains why the run is not running, or how it ended."""
        return await (await self.app.engine()).explain_execution(await self.resolve())

    async def history(self, *, page: int = 100) -> AsyncIterator[HistoryEntry]:
        """What has happened to the run until now, in order: `async for entry in run.history()`.

        Each entry has `at_ms`, the time; `what`, such as created, claimed, retried or ended;
        `attempt_index`; and `details`, a dict. `page` entries are read at a time.
        """
        engine, ident = await self.app.engine(), await self.resolve()
        after: str | None = None
        while True:
            found = await engine.history(ident, page, after)
            for entry in found.items:
                yield entry
            after = found.next_cursor
            if after is None:
                return

    async def stream(
        self, attempt: int = 0, after: str = "0-0", *, live: bool = True
    ) -> AsyncIterator[StreamFrame]:
        """The frames the run writes, until it has ended.

        Starts with attempt `attempt` (default 0) behind the frame id `after` (default: the
        beginning). `live=False` leaves out frames that were emitted with `live=`.
        """
        visibility = Visibility.All if live else Visibility.ExcludeBestEffort
        async for _, frame in (await self.app.engine()).follow_stream(
            await self.resolve(), attempt, after, visibility
        ):
            yield frame

    async def waitpoints(self) -> list[WaitpointListed]:
        """The open waitpoints of the run, at most one page of them."""
        return list(
            (await (await self.app.engine()).list_pending_waitpoints(await self.resolve())).items
        )

    async def signal(
        self,
        name: str,
        payload: object = None,
        *,
        source: str = "",
        waitpoint: UUID | None = None,
        token: str | None = None,
        key: str | None = None,
        comment: str = "",
    ) -> None:
        """Sends a signal to a waiting run.

        - `name`, `payload`, `source`, `comment`: what the task receives as a `Signal`.
        - `waitpoint`: the waitpoint's id; required if the run has several open ones.
        - `token`: the token of a link. Without it the signal is sent as an operator.
        - `key`: the same key delivers the signal once.
        """
        engine, ident = await self.app.engine(), await self.resolve()
        target = waitpoint or await self._only_waitpoint()
        shown = token or await engine.read_waitpoint_token(ident.partition_index, target)
        if shown is None:
            raise NotFound("waitpoint", target)
        await engine.deliver_signal(
            DeliverSignalArgs(
                execution_id=ident,
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
            detail = f"waitpoint: this run has {len(found)} open ones, give the id of one: {names}"
            raise ValidationError(ValidationKind.INVALID_INPUT, detail)
        return found[0].waitpoint_id


def run_id(given: object, field: str = "id") -> ExecutionId | UUID:
    """The full id of a run, or its uuid, which is looked up on first use."""
    try:
        if isinstance(given, UUID):
            return given
        if isinstance(given, str):
            return ExecutionId(given) if given.startswith("{") else parse_uuid(given.strip())
    except ValueError:
        pass
    raise invalid(field, "the uuid of a run, or its full id as str(run.id) gives it", given)
