"""What a task can ask for while it runs: steps that are done once, waiting without a slot, output, budgets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from uuid import UUID

import msgspec

from flowfabric.errors import EngineError
from flowfabric.model.budget import HardBreach, HardLimitAction, UsageDimensions
from flowfabric.model.lease import Work
from flowfabric.model.step import StepRecord
from flowfabric.model.stream import BestEffortLive, Durable, DurableSummary, Frame, FrameKind
from flowfabric.model.waitpoint import (
    APPROVED,
    REJECTED,
    Condition,
    Count,
    CountKind,
    ReasonCode,
    Single,
)
from flowfabric.sdk.budgets import budget_id, told_of_unknown
from flowfabric.sdk.call_user_code import called
from flowfabric.sdk.children import CHILDREN, MAX_CHILDREN, Call, Family, family, results
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.exceptions import BudgetExceeded, Parked, PayloadError, Rejected, StepError
from flowfabric.sdk.retry import is_away, is_lost, persist
from flowfabric.sdk.serialization import from_json, result_of, sealed, to_json, unsealed
from flowfabric.sdk.step_order import STEP, StepOrder
from flowfabric.sdk.waiting import wait_for
from flowfabric.sdk.waitpoints import Decision, Notify, Signal, Wait, decided, schema_of

if TYPE_CHECKING:
    from flowfabric.engine.protocol import EngineProtocol
    from flowfabric.sdk.app import App

T = TypeVar("T")
log = logging.getLogger("flowfabric.task")


class Context:
    """Given to a task whose first parameter is annotated with it."""

    def __init__(self, app: App, engine: EngineProtocol, work: Work, lane: str) -> None:
        self._app, self._engine, self._work = app, engine, work
        self.execution_id, self.attempt, self.tags = (
            work.execution_id,
            work.attempt_index,
            work.tags,
        )
        self.raw_input, self.task, self.lane = work.input_payload, work.execution_kind, lane
        self._loop, self._ended = asyncio.get_running_loop(), False
        self.parked = self.is_lost = False
        self.broken: EngineError | None = None
        self.when_lost: Callable[[], None] | None = None
        self._first = not work.attempt_index and work.lease_epoch <= 1
        self._records: dict[int, StepRecord] | None = {} if self._first else None

    @cached_property
    def order(self) -> StepOrder:
        """Made when the first step is reached: many tasks have none."""
        found = StepOrder(self.task, self._loop)
        if self._ended:
            found.end()
        return found

    def check_finished(self) -> None:
        if "order" in self.__dict__:
            self.order.check_finished()

    def end(self) -> None:
        self._ended = True
        if "order" in self.__dict__:
            self.order.end()

    @cached_property
    def lost(self) -> asyncio.Event:
        """Set when somebody else has the run now, or nobody may have it any more."""
        found = asyncio.Event()
        if self.is_lost:
            found.set()
        return found

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        extra = {"execution_id": str(self.execution_id), "task": self.task, "attempt": self.attempt}
        return logging.LoggerAdapter(log, extra)

    def check_goes_on(self, what: str) -> None:
        """For what runs in a thread, and is not stopped by being cancelled."""
        if self.is_lost:
            raise asyncio.CancelledError(f"task {self.task}: {what}: the lease is lost")
        if self._ended:
            raise asyncio.CancelledError(f"task {self.task}: {what}: this run of it was given up")

    def lose(self) -> None:
        self.is_lost = True
        self.lost.set()
        if self.when_lost is not None:
            self.when_lost()

    # ---- asking the engine

    async def ask(self, what: str, call: Callable[[], Awaitable[T]], *, twice: bool = True) -> T:
        """The engine, again when it was away for a moment. A lease that is gone ends the task here, as a cancellation."""
        self._check(what)
        try:
            return await persist(call, twice=twice)
        except EngineError as error:
            if is_lost(error):
                self.lose()
                raise asyncio.CancelledError(
                    f"task {self.task}: {what}: the lease is lost: {error}"
                ) from error
            if is_away(error):
                self.broken = error
            raise

    def _check(self, what: str) -> None:
        if self.parked:
            raise Parked
        self.order.check_here(what)

    def _parking(self) -> Parked:
        self.parked = True
        return Parked()

    async def _now(self) -> int:
        return await self.ask("the time", self._engine.server_time_ms)

    # ---- steps

    def step(
        self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        """Runs it once: when the task is run again, after a crash or a wait, what it came to is returned instead.

        Steps may run together: `await asyncio.gather(ctx.step(...), ctx.step(...))`. They are numbered as they are called.
        """
        self._check(f"step {name!r}")
        return self._step(self.order.reach(name, STEP), name, function, args, kwargs)

    async def _step(
        self,
        position: int,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        try:
            record = await self._found(position, name, STEP)
            if record is None:
                with self.order.inside(f"step {name!r}"):
                    value = await called(function, args, kwargs)
                record = await self._record(position, name, value, STEP)
            return self._stored(record, result_of(function))
        finally:
            self.order.left(position)

    async def _found(self, position: int, name: str, kind: str) -> StepRecord | None:
        """What is there already, if it is the same: steps are reached in the order in which they were reached before."""
        if self._records is None:
            steps = await self.ask(
                f"{kind} {name!r}", lambda: self._engine.read_steps(self.execution_id)
            )
            self._records = {step.position: step for step in steps}
        record = self._records.get(position)
        if record is not None and (record.name, record.kind) != (name, kind):
            raise StepError(
                f"task {self.task}: at position {position} there was {record.kind} {record.name!r} before, and now it is {kind} "
                f"{name!r}; steps must be reached in the same order each time. Submit it anew, or bring the old order back"
            )
        return record

    async def _record(self, position: int, name: str, value: Any, kind: str) -> StepRecord:
        """What ran is not run again because the answer to this got lost: it is recorded again."""
        where = f"task {self.task}: {kind} {name!r}"
        try:
            data = to_json(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(f"{where}: its result cannot be kept: {error}") from None
        kept = sealed(self._app.codec, data, where)
        return await self.ask(
            where, lambda: self._engine.record_step(self._work.handle, position, name, kept, kind)
        )

    async def once(self, name: str, find: Callable[[], Awaitable[Any]], kind: Any) -> Any:
        """For ourselves, before the task begins: what was found the first time, however often the task is run."""
        position = self.order.number(name)
        record = await self._found(position, name, name)
        if record is None:
            record = await self._record(position, name, await find(), name)
        return self._stored(record, kind)

    def _stored(self, record: StepRecord, kind: Any = Any) -> Any:
        """Also after the first run: what a crash would make of it shows at once."""
        where = f"task {self.task}: {record.kind} {record.name!r}"
        try:
            return (
                None
                if record.value is None
                else from_json(unsealed(self._app.codec, record.value, where), kind)
            )
        except (msgspec.MsgspecError, ValueError) as error:
            said = " ".join(str(error).split())[:500]
            raise PayloadError(
                f"{where}: what it came to is not what its function says it returns: {said}"
            ) from None

    # ---- waiting

    def sleep(self, span: Span, *, name: str | None = None) -> Coroutine[Any, Any, None]:
        """Goes on after this long. The worker does something else meanwhile, and may even be another one then."""
        wait_ms = millis(span, "sleep")
        label = name or f"sleep at {self.order.next}"
        self._check(f"sleep {label!r}")
        return self._sleep(self.order.reach(label, "sleep"), label, wait_ms)

    async def _sleep(self, position: int, label: str, wait_ms: int) -> None:
        try:
            record = await self._found(position, label, "sleep")
            now = await self._now()
            if record is None:
                record = await self._record(position, label, now + wait_ms, "sleep")
            until = int(self._stored(record))
            if until > now:
                await self.ask(label, lambda: self._engine.delay(self._work.handle, until))
                raise self._parking()
        finally:
            self.order.left(position)

    async def delay(self, span: Span) -> None:
        """Stops here and runs the task again after this long, from the top, past its finished steps."""
        wait_ms = millis(span, "delay")
        self.check_finished()
        until = await self._now() + wait_ms
        await self.ask("delay", lambda: self._engine.delay(self._work.handle, until))
        raise self._parking()

    def suspend(
        self,
        name: str,
        condition: Condition | None = None,
        *,
        timeout: Span | None = None,
        reason: ReasonCode = ReasonCode.WAITING_FOR_SIGNAL,
        notify: Notify | None = None,
        payload: Any = Any,
    ) -> Coroutine[Any, Any, list[Signal]]:
        """Waits for a signal, or for a condition over the waitpoint `name`; without a slot. What arrived is returned.

        `notify` is called with the link's token, once unless the worker dies in between. With a `timeout`, TimeoutError is
        raised when it is over.
        """
        return self._asking(name, condition or Single(name), timeout, reason, notify, payload)

    def _asking(
        self,
        name: str,
        condition: Condition,
        timeout: Span | None,
        reason: ReasonCode,
        notify: Notify | None,
        payload: Any,
        names: tuple[str, ...] = (),
        approvers: tuple[str, ...] = (),
    ) -> Coroutine[Any, Any, list[Signal]]:
        wait_ms = None if timeout is None else millis(timeout, "timeout")
        self._check(f"wait {name!r}")
        schema = schema_of(payload, f"task {self.task}: wait {name!r}")
        asked = None if notify is None else self.order.number(f"{name}: opened", f"{name}: told")
        position = self.order.reach(name, "wait")
        return wait_for(
            self,
            Wait(
                position,
                name,
                condition,
                wait_ms,
                reason,
                notify,
                asked,
                payload,
                names,
                schema,
                approvers,
            ),
        )

    def approval(
        self,
        name: str,
        *,
        need: int = 1,
        distinct: bool = True,
        timeout: Span | None = None,
        notify: Notify | None = None,
        payload: Any = Any,
        on_reject: Literal["raise", "return"] = "raise",
        approvers: Sequence[str] = (),
    ) -> Coroutine[Any, Any, Decision]:
        """Waits for so many approvals, of different people if `distinct`, or for one rejection.

        `notify` is called once for each of `approvers`, or `need` times without them, each time with another link. A link
        counts once.

        A rejection raises Rejected; with `on_reject="return"` the decision has `approved=False`.
        """
        if on_reject not in ("raise", "return"):
            raise StepError(
                f'task {self.task}: approval {name!r}: on_reject: "raise" or "return", got {on_reject!r:.80}'
            )
        if approvers and need > len(approvers):
            raise StepError(
                f"task {self.task}: approval {name!r}: need: at most {len(approvers)}, one per approver, got {need}"
            )
        unnamed = tuple(str(at) for at in range(1, need + 1)) if distinct and need > 1 else ()
        links = tuple(approvers) or unnamed
        kind = CountKind.DISTINCT_SOURCES if distinct else CountKind.DISTINCT_SIGNALS
        condition = Count(need, kind, (name,), APPROVED, REJECTED)
        waiting = self._asking(
            name,
            condition,
            timeout,
            ReasonCode.WAITING_FOR_APPROVAL,
            notify,
            payload,
            (APPROVED, REJECTED),
            links,
        )
        return self._decided(name, waiting, on_reject, approvers)

    async def _decided(
        self,
        name: str,
        waiting: Coroutine[Any, Any, list[Signal]],
        on_reject: str,
        approvers: Sequence[str],
    ) -> Decision:
        decision = decided(await waiting, approvers)
        if not decision.approved and on_reject == "raise":
            raise Rejected(name, decision)
        return decision

    # ---- other tasks

    def children(
        self, *calls: Call, name: str | None = None, return_exceptions: bool = False
    ) -> Coroutine[Any, Any, list[Any]]:
        """Runs other tasks and waits for all of them, without a slot: `await ctx.children(resize.call(1), resize.call(2))`.

        Their results come in order. Each is submitted once, however often this task is run. One that did not succeed raises
        ChildFailed when all have ended; with `return_exceptions` it is a ChildFailed among the results.
        """
        label = name or f"{CHILDREN} at {self.order.next}"
        self._check(f"{CHILDREN} {label!r}")
        for call in calls:
            if not isinstance(call, Call) or call.task.app is not self._app:
                raise StepError(
                    f"task {self.task}: {CHILDREN} {label!r}: calls of this app's tasks, task.call(...), got {call!r:.80}"
                )
        if len(calls) > MAX_CHILDREN:
            raise StepError(
                f"task {self.task}: {CHILDREN} {label!r}: at most {MAX_CHILDREN} at once, got {len(calls)}"
            )
        return self._children(
            family(self.execution_id, self.order.reach(label, CHILDREN), label, calls),
            return_exceptions,
        )

    async def _children(self, wanted: Family, return_exceptions: bool) -> list[Any]:
        try:
            return await results(self, wanted, return_exceptions)
        finally:
            self.order.left(wanted.position)

    # ---- output

    async def emit(self, data: Any, *, type: str = "", live: Span | None = None) -> None:
        """Adds to the run's stream: text, bytes, or anything that has a JSON form. With `live`, only for those who watch now."""
        raw, kind = (data, FrameKind.Blob) if isinstance(data, bytes) else (None, FrameKind.Stdout)
        if raw is None:
            raw, kind = (
                (data.encode(), kind) if isinstance(data, str) else (to_json(data), FrameKind.Event)
            )
        mode = Durable() if live is None else BestEffortLive(millis(live, "live"))
        frame = Frame(raw, kind, type, mode=mode)
        await self.ask(
            "emit", lambda: self._engine.append_frame(self._work.handle, frame), twice=False
        )

    async def patch(self, changes: Mapping[str, Any]) -> int:
        """Merges this into the run's summary document (null removes); its version."""
        frame = Frame(to_json(changes), FrameKind.Event, mode=DurableSummary())
        made = await self.ask(
            "patch", lambda: self._engine.append_frame(self._work.handle, frame), twice=False
        )
        assert made.summary_version is not None
        return made.summary_version

    async def progress(self, percent: int | None = None, message: str | None = None) -> None:
        await self.ask(
            "progress", lambda: self._engine.progress(self._work.handle, percent, message)
        )

    async def spend(self, budget: str | UUID, *, key: str | None = None, **dimensions: int) -> None:
        """Counts against a budget; over a hard limit, nothing is counted and BudgetExceeded raised. Once per `key`.

        Where the budget holds the run until there is room, the run waits without a slot and goes on from the top.
        """
        usage = UsageDimensions(custom=dimensions, dedup_key=key)
        ident = budget_id(self._app.namespace, budget)
        with told_of_unknown(f"task {self.task}: {budget}", self._app.budgets):
            answer = await self.ask(
                f"spend from {budget}",
                lambda: self._engine.report_usage(self._work.handle, ident, usage),
                twice=key is not None,
            )
        if isinstance(answer, HardBreach):
            if answer.action == HardLimitAction.SUSPEND_EXECUTION:
                raise self._parking()
            said = f"budget {budget}: {answer.dimension} is at {answer.current_usage} of {answer.hard_limit}"
            raise BudgetExceeded(f"{said}; {dimensions[answer.dimension]} more would go over it")
