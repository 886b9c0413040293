"""One claimed execution: engine calls on behalf of its task, the lease, and the recorded steps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Work
from flowfabric.model.step import MAX_STEP_NAME_BYTES, MAX_STEPS, StepRecord
from flowfabric.sdk.exceptions import Parked, PayloadError, StepError
from flowfabric.sdk.retry import is_away, is_lost, persist
from flowfabric.sdk.serialization import from_json, sealed, to_json, unsealed

if TYPE_CHECKING:
    from flowfabric.engine.protocol import EngineProtocol
    from flowfabric.sdk.app import App


STEP = "step"


class _Open(Struct):
    what: str
    is_step: bool
    by: asyncio.Task[object] | None


class StepOrder:
    """Numbers steps when they are called, not when awaited: gathered steps keep their order.

    Steps that two asyncio tasks call at the same time have no order and are refused.
    """

    def __init__(self, task: str, loop: asyncio.AbstractEventLoop) -> None:
        self._task, self.next, self._ended = task, 0, False
        self._names: set[str] = set()
        self._open: dict[int, _Open] = {}
        self._inside: set[asyncio.Task[object]] = set()
        self._loop = loop

    def check_here(self, what: str) -> None:
        """Raises unless the task still runs, and in its own event loop."""
        if self._ended:
            raise StepError(
                f"task {self._task}: {what}: the task has ended; await everything before it returns"
            )
        if asyncio._get_running_loop() is not self._loop:
            raise StepError(
                f"task {self._task}: {what}: call it in the task itself, not in a thread or "
                "another event loop"
            )

    def number(self, *names: str) -> int:
        """Takes one position per name. Returns the first."""
        first = self.next
        for name in names:
            self._number(name)
        return first

    def _number(self, name: str) -> None:
        if (
            not isinstance(name, str)
            or not 0 < len(name.encode(errors="replace")) <= MAX_STEP_NAME_BYTES
        ):
            raise StepError(
                f"task {self._task}: a step's name is text of 1 to {MAX_STEP_NAME_BYTES} bytes, "
                f"got {name!r:.80}"
            )
        if name in self._names:
            raise StepError(
                f"task {self._task}: {name!r} names two steps; each needs a name of its own"
            )
        if self.next >= MAX_STEPS:
            raise StepError(
                f"task {self._task}: {name!r}: one run has at most {MAX_STEPS} steps; submit "
                "further runs for the rest"
            )
        self._names.add(name)
        self.next += 1

    def reach(self, name: str, kind: str) -> int:
        """Takes a position, which is open until `left`."""
        what = f"{kind} {name!r}"
        self.check_here(what)
        me = asyncio.current_task()
        if me in self._inside:
            raise StepError(
                f"task {self._task}: {what} is inside of another step; steps do not nest, call one "
                "after the other"
            )
        for other in self._open.values():
            self._check_beside(what, kind == STEP, me, other)
        position = self.number(name)
        self._open[position] = _Open(what, kind == STEP, me)
        return position

    def _check_beside(
        self, what: str, is_step: bool, me: asyncio.Task[object] | None, other: _Open
    ) -> None:
        if not is_step or not other.is_step:
            reason = f"{what} cannot begin before {other.what} is finished; await that one first"
        elif me is not other.by:
            reason = (
                f"{what} and {other.what} are called by two asyncio tasks at once, so their order "
                "may differ on the next run. Call both in the task itself: "
                "await asyncio.gather(ctx.step(...), ctx.step(...))"
            )
        else:
            return
        raise StepError(f"task {self._task}: {reason}")

    def left(self, position: int) -> None:
        self._open.pop(position, None)

    @contextmanager
    def inside(self, what: str) -> Iterator[None]:
        """While a step's function runs."""
        self.check_here(what)
        me = asyncio.current_task()
        assert me is not None
        self._inside.add(me)
        try:
            yield
        finally:
            self._inside.discard(me)

    def check_finished(self) -> None:
        for other in self._open.values():
            raise StepError(
                f"task {self._task}: it returned before {other.what} was finished; await it first"
            )

    def end(self) -> None:
        """Refuses further calls, and cancels steps that still run in their own asyncio tasks."""
        self._ended = True
        for running in self._inside - {asyncio.current_task()}:
            running.cancel()


T = TypeVar("T")
log = logging.getLogger("flowfabric.task")


class Session:
    """The worker, the task's context and its waits share one session per claim."""

    def __init__(self, app: App, engine: EngineProtocol, work: Work, lane: str) -> None:
        self.app, self.engine, self.work, self.lane = app, engine, work, lane
        self.task = work.execution_kind
        self.is_parked = self.is_lost = self._is_over = False
        self.outage: EngineError | None = None
        """The error after which the store counts as unreachable; the run is given back for it."""
        self.on_lost: Callable[[], None] | None = None
        self.is_first_run = not work.attempt_index and work.lease_epoch <= 1
        self._records: dict[int, StepRecord] | None = {} if self.is_first_run else None
        self._loop = asyncio.get_running_loop()

    @cached_property
    def order(self) -> StepOrder:
        """Made for the first step: most tasks have none."""
        order = StepOrder(self.task, self._loop)
        if self._is_over:
            order.end()
        return order

    @cached_property
    def lost(self) -> asyncio.Event:
        """Made for the first caller that waits for the loss of the lease."""
        lost = asyncio.Event()
        if self.is_lost:
            lost.set()
        return lost

    @property
    def id(self) -> ExecutionId:
        return self.work.execution_id

    # ---- lifecycle

    def check_finished(self) -> None:
        if "order" in self.__dict__:
            self.order.check_finished()

    def end(self) -> None:
        self._is_over = True
        if "order" in self.__dict__:
            self.order.end()

    def lose(self) -> None:
        self.is_lost = True
        if "lost" in self.__dict__:
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


class TaskInfo:
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
