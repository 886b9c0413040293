"""One claimed execution: engine calls on behalf of its task, the lease, and the recorded steps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Work
from flowfabric.model.step import StepRecord
from flowfabric.sdk.exceptions import Parked, PayloadError, StepError
from flowfabric.sdk.retry import is_away, is_lost, persist
from flowfabric.sdk.serialization import from_json, sealed, to_json, unsealed
from flowfabric.sdk.step_order import StepOrder

if TYPE_CHECKING:
    from flowfabric.engine.protocol import EngineProtocol
    from flowfabric.sdk.app import App

T = TypeVar("T")
log = logging.getLogger("flowfabric.task")


class Session:
    """The worker, the task's context and its waits share one session per claim."""

    def __init__(self, app: App, engine: EngineProtocol, work: Work, lane: str) -> None:
        self.app, self.engine, self.work, self.lane = app, engine, work, lane
        self.task = work.execution_kind
        self.is_parked = self._is_over = False
        self.outage: EngineError | None = None
        """The error after which the store counts as unreachable; the run is given back for it."""
        self.on_lost: Callable[[], None] | None = None
        self.is_first_run = not work.attempt_index and work.lease_epoch <= 1
        self._records: dict[int, StepRecord] | None = {} if self.is_first_run else None
        self.order = StepOrder(self.task, asyncio.get_running_loop())
        self.lost = asyncio.Event()

    @property
    def id(self) -> ExecutionId:
        return self.work.execution_id

    @property
    def is_lost(self) -> bool:
        return self.lost.is_set()

    # ---- lifecycle

    def end(self) -> None:
        self._is_over = True
        self.order.end()

    def lose(self) -> None:
        self.lost.set()
        if self.on_lost is not None:
            self.on_lost()

    def park(self) -> Parked:
        """The exception that unwinds a task whose wait is recorded."""
        self.is_parked = True
        return Parked()

    def check_active(self, what: str) -> None:
        """Stops code in a thread, which a cancellation does not reach."""
        if self.is_lost:
            raise asyncio.CancelledError(f"task {self.task}: {what}: the lease is lost")
        if self._is_over:
            raise asyncio.CancelledError(f"task {self.task}: {what}: this run has been stopped")

    def check(self, what: str) -> None:
        if self.is_parked:
            raise Parked
        self.order.check_here(what)

    # ---- engine calls

    async def ask(self, what: str, call: Callable[[], Awaitable[T]], *, twice: bool = True) -> T:
        """Retries while the store is away. A lost lease cancels the task at this point.

        `twice` states that the call may be repeated after an unknown outcome.
        """
        self.check(what)
        try:
            return await persist(call, twice=twice)
        except EngineError as error:
            if is_lost(error):
                self.lose()
                raise asyncio.CancelledError(
                    f"task {self.task}: {what}: the lease is lost: {error}"
                ) from error
            if is_away(error):
                self.outage = error
            raise

    async def now_ms(self) -> int:
        return await self.ask("server time", self.engine.server_time_ms)

    # ---- recorded steps

    async def found(self, position: int, name: str, kind: str) -> StepRecord | None:
        """The record at this position. Raises if an earlier run recorded something else there."""
        if self._records is None:
            steps = await self.ask(f"{kind} {name!r}", lambda: self.engine.read_steps(self.id))
            self._records = {step.position: step for step in steps}
        record = self._records.get(position)
        if record is not None and (record.name, record.kind) != (name, kind):
            raise StepError(
                f"task {self.task}: position {position} was {record.kind} {record.name!r} in an "
                f"earlier run and is {kind} {name!r} now; a task reaches its steps in the same "
                "order on every run. Restore the order, or submit a new run"
            )
        return record

    async def record(self, position: int, name: str, value: object, kind: str) -> StepRecord:
        """Safe to repeat: a lost answer records the same result again and runs nothing again."""
        where = f"task {self.task}: {kind} {name!r}"
        try:
            data = to_json(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(f"{where}: its result cannot be stored: {error}") from None
        kept = sealed(self.app.codec, data, where)
        return await self.ask(
            where, lambda: self.engine.record_step(self.work.handle, position, name, kept, kind)
        )

    def value_of(self, record: StepRecord, kind: object = Any) -> Any:
        """Decodes the record also on the run that made it, so that a lossy type shows at once."""
        if record.value is None:
            return None
        where = f"task {self.task}: {record.kind} {record.name!r}"
        try:
            return from_json(unsealed(self.app.codec, record.value, where), kind)
        except (msgspec.MsgspecError, ValueError) as error:
            detail = " ".join(str(error).split())[:500]
            raise PayloadError(
                f"{where}: the result does not fit the function's return annotation: {detail}"
            ) from None

    async def once(self, name: str, find: Callable[[], Awaitable[T]], kind: type[T]) -> T:
        """A step of the SDK itself, before the task begins."""
        position = self.order.number(name)
        record = await self.found(position, name, name)
        if record is None:
            record = await self.record(position, name, await find(), name)
        found: T = self.value_of(record, kind)
        return found


class RunInfo:
    """What a task can read about its own run. Both kinds of context have these attributes."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def execution_id(self) -> ExecutionId:
        """The id of the run; `str(ctx.execution_id)` is accepted by `app.run(...)`."""
        return self._session.work.execution_id

    @property
    def attempt(self) -> int:
        """The number of the attempt: 0 for the first one, 1 after the first retry."""
        return self._session.work.attempt_index

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the run."""
        return self._session.work.tags

    @property
    def raw_input(self) -> bytes:
        """The stored arguments, before the codec and the decoding."""
        return self._session.work.input_payload

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._session.work.execution_kind

    @property
    def lane(self) -> str:
        """The lane the run was claimed from."""
        return self._session.lane

    @property
    def is_lost(self) -> bool:
        """Whether the lease is lost: the run was cancelled or revoked, or another worker has it."""
        return self._session.is_lost

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """The logger `flowfabric.task`, with execution_id, task and attempt as fields."""
        extra = {"execution_id": str(self.execution_id), "task": self.task, "attempt": self.attempt}
        return logging.LoggerAdapter(log, extra)
