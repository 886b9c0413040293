"""The context of an async task: steps, waits, children, output and budgets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload
from uuid import UUID

from flowfabric.model.budget import HardBreach, HardLimitAction, UsageDimensions
from flowfabric.model.stream import (
    AppendOutcome,
    BestEffortLive,
    Durable,
    DurableSummary,
    Frame,
    FrameKind,
)
from flowfabric.model.waitpoint import (
    APPROVED,
    REJECTED,
    Condition,
    Count,
    CountKind,
    ReasonCode,
    Single,
)
from flowfabric.sdk.children import CHILDREN, Call, check_calls, family, results
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.exceptions import BudgetExceeded, StepError
from flowfabric.sdk.invoke import call_user_code
from flowfabric.sdk.limits import budget_id, unknown_budget_named
from flowfabric.sdk.serialization import result_of, to_json
from flowfabric.sdk.session import STEP, TaskInfo
from flowfabric.sdk.waits import Decision, Notify, Signal, decision, new_wait, wait_for

P = ParamSpec("P")
T = TypeVar("T")


class Context(TaskInfo):
    """A task whose first parameter is annotated `Context` receives the context of its run.

    A task can run more than once: after a wait, a retry or a crash it runs again from the top, and
    completed steps and waits return their recorded results. They must be reached in the same order
    on every run.
    """

    @property
    def lost(self) -> asyncio.Event:
        """Set when the lease is lost. The task is cancelled at the same time."""
        return self._session.lost

    # ---- steps

    @overload
    def step(
        self, name: str, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[object, object, T]: ...

    @overload
    def step(
        self, name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[object, object, T]: ...

    def step(
        self, name: str, function: Callable[..., object], *args: object, **kwargs: object
    ) -> Coroutine[object, object, object]:
        """Calls `function(*args, **kwargs)` once per run and records its result.

        When the task runs again, the recorded result is returned and the function is not called.
        A worker that dies between the call and the record leaves the step to be called again.
        In an async task, an async function runs on the event loop and any other in a thread. In a
        plain task, a plain function runs in the task's own thread.

        `name` is unique within the task and has 1 to 256 bytes. The result is stored as JSON, at
        most 1 MiB, and decoded by the function's return annotation. One run has at most 10,000
        steps, waits included.

        Async steps may run together, `await asyncio.gather(ctx.step(...), ctx.step(...))`; they
        are numbered in the order of the calls.
        """
        session = self._session
        session.check(f"step {name!r}")
        return self._step(session.order.reach(name, STEP), name, function, args, kwargs)

    async def _step(
        self,
        position: int,
        name: str,
        function: Callable[..., object],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> object:
        session = self._session
        order = session.order
        try:
            record = await session.found(position, name, STEP)
            if record is None:
                with order.inside(f"step {name!r}"):
                    value = await call_user_code(function, args, kwargs)
                record = await session.record(position, name, value, STEP)
            return session.value_of(record, result_of(function))
        finally:
            order.left(position)

    # ---- waits

    def sleep(self, span: Span, *, name: str | None = None) -> Coroutine[object, object, None]:
        """Waits for `span`, such as `"30s"` or `"30d"`, without holding a worker's slot.

        The task stops here. Afterwards any worker runs it again from the top, and this call
        returns. The end of the wait is fixed on the first run. Without a `name` the position of
        the call is the name.
        """
        wait_ms = millis(span, "sleep")
        label = name or f"sleep at {self._session.order.next}"
        self._session.check(f"sleep {label!r}")
        return self._sleep(self._session.order.reach(label, "sleep"), label, wait_ms)

    async def _sleep(self, position: int, label: str, wait_ms: int) -> None:
        session = self._session
        try:
            record = await session.found(position, label, "sleep")
            now = await session.now_ms()
            if record is None:
                record = await session.record(position, label, now + wait_ms, "sleep")
            until = int(session.value_of(record))
            if until > now:
                await session.ask(label, lambda: session.engine.delay(session.work.handle, until))
                raise session.park()
        finally:
            session.order.left(position)

    async def delay(self, span: Span) -> None:
        """Stops the task here and runs it again from the top after `span`, without an own record.

        Unlike `sleep` it never returns: the next run stops here again, unless it takes another
        path. Use it to poll.
        """
        session, wait_ms = self._session, millis(span, "delay")
        session.order.check_finished()
        until = await session.now_ms() + wait_ms
        await session.ask("delay", lambda: session.engine.delay(session.work.handle, until))
        raise session.park()

    def suspend(
        self,
        name: str,
        condition: Condition | None = None,
        *,
        timeout: Span | None = None,
        reason: ReasonCode = ReasonCode.WAITING_FOR_SIGNAL,
        notify: Notify | None = None,
        payload: object = Any,
    ) -> Coroutine[object, object, list[Signal]]:
        """Waits at the waitpoint `name` without holding a worker's slot; returns the signals.

        Without a `condition` one signal of any name is enough. `notify` receives an
        `OpenWaitpoint` with the token that allows a signal; it is called once, or again if the
        worker dies during the call. `payload` is the type of the signals' payloads; others are
        refused when they are sent. After `timeout` (default: no limit) TimeoutError is raised.
        """
        wait = new_wait(
            self._session,
            name,
            condition or Single(name),
            reason,
            timeout=timeout,
            notify=notify,
            payload=payload,
        )
        return wait_for(self._session, wait)

    def approval(
        self,
        name: str,
        *,
        need: int = 1,
        distinct: bool = True,
        timeout: Span | None = None,
        notify: Notify | None = None,
        payload: object = Any,
        on_reject: Literal["raise", "return"] = "raise",
        approvers: Sequence[str] = (),
    ) -> Coroutine[object, object, Decision]:
        """Waits for `need` approvals (default 1) or one rejection, without holding a slot.

        With `distinct` (the default) the approvals must come from different people. The signals
        are named `approved` and `rejected`. `notify` is called with one link per name in
        `approvers`, or `need` links without names; each link counts once.

        A rejection raises Rejected; with `on_reject="return"` the decision has `approved=False`.
        After `timeout` (default: no limit) TimeoutError is raised.
        """
        where = f"task {self.task}: approval {name!r}"
        if on_reject not in ("raise", "return"):
            raise StepError(f'{where}: on_reject: "raise" or "return", got {on_reject!r:.80}')
        if approvers and need > len(approvers):
            at_most = f"at most {len(approvers)}, one per approver"
            raise StepError(f"{where}: need: {at_most}, got {need}")
        unnamed = map(str, range(1, need + 1)) if distinct and need > 1 else ()
        kind = CountKind.DISTINCT_SOURCES if distinct else CountKind.DISTINCT_SIGNALS
        wait = new_wait(
            self._session,
            name,
            Count(need, kind, (name,), APPROVED, REJECTED),
            ReasonCode.WAITING_FOR_APPROVAL,
            timeout=timeout,
            notify=notify,
            payload=payload,
            names=(APPROVED, REJECTED),
            approvers=tuple(approvers or unnamed),
        )
        return decision(self._session, wait, on_reject, approvers)

    def children(
        self, *calls: Call, name: str | None = None, return_exceptions: bool = False
    ) -> Coroutine[object, object, list[Any]]:
        """Runs other tasks and waits for all of them without holding a worker's slot.

        `await ctx.children(resize.call(1), resize.call(2))` returns their results in the order of
        the calls, at most 1,000. Each child is submitted once, however often this task runs.

        If a child has not succeeded, ChildFailed is raised when all have ended. With
        `return_exceptions=True` the ChildFailed is an item of the list instead.
        """
        session = self._session
        label = name or f"{CHILDREN} at {session.order.next}"
        session.check(f"{CHILDREN} {label!r}")
        check_calls(session, label, calls)
        wanted = family(session.id, session.order.reach(label, CHILDREN), label, calls)
        return results(session, wanted, return_exceptions)

    # ---- output

    async def emit(self, data: object, *, type: str = "", live: Span | None = None) -> None:
        """Appends a frame to the run's stream: text, bytes, or a value with a JSON form.

        A frame has at most 65,536 bytes, and `type`, a label of yours, at most 64. Without `live`
        the frame is kept as long as the run. With `live` it is for readers that follow the stream
        now: it is dropped after about that span, and `run.stream(live=False)` leaves it out.
        """
        if isinstance(data, bytes):
            raw, kind = data, FrameKind.Blob
        elif isinstance(data, str):
            raw, kind = data.encode(), FrameKind.Stdout
        else:
            raw, kind = to_json(data), FrameKind.Event
        mode = Durable() if live is None else BestEffortLive(millis(live, "live"))
        await self._append("emit", Frame(raw, kind, type, mode=mode))

    async def patch(self, changes: Mapping[str, object]) -> int:
        """Merges `changes` into the run's summary document; null removes a key.

        Returns the document's new version, 1 for the first.
        """
        frame = Frame(to_json(changes), FrameKind.Event, mode=DurableSummary())
        made = await self._append("patch", frame)
        assert made.summary_version is not None
        return made.summary_version

    async def _append(self, what: str, frame: Frame) -> AppendOutcome:
        session = self._session
        return await session.ask(
            what, lambda: session.engine.append_frame(session.work.handle, frame), twice=False
        )

    async def progress(self, percent: int | None = None, message: str | None = None) -> None:
        """Records how far the run is: `percent` from 0 to 100, and a message."""
        session = self._session
        await session.ask(
            "progress", lambda: session.engine.progress(session.work.handle, percent, message)
        )

    async def spend(
        self, /, budget: str | UUID, *, key: str | None = None, **dimensions: int
    ) -> None:
        """Reports usage to a budget: `await ctx.spend("acme/day", tokens=800)`.

        With a `key` the same report counts once, however often the task runs. A report that would
        exceed a hard limit counts nothing and raises BudgetExceeded. If the budget suspends
        instead, the run waits without a slot until there is room and runs again from the top.
        An unknown budget raises UnknownBudget.
        """
        session, usage = self._session, UsageDimensions(custom=dimensions, dedup_key=key)
        ident = budget_id(session.app.namespace, budget)
        with unknown_budget_named(f"task {self.task}: {budget}", session.app.budgets):
            answer = await session.ask(
                f"spend from {budget}",
                lambda: session.engine.report_usage(session.work.handle, ident, usage),
                twice=key is not None,
            )
        if isinstance(answer, HardBreach):
            if answer.action == HardLimitAction.SUSPEND_EXECUTION:
                raise session.park()
            state = f"{answer.dimension} is at {answer.current_usage} of {answer.hard_limit}"
            more = f"{dimensions[answer.dimension]} more would go over it"
            raise BudgetExceeded(f"budget {budget}: {state}; {more}")
