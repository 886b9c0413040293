"""What a task can ask for while it runs: steps that are done once, waiting without a slot, output, budgets."""

from __future__ import annotations

import asyncio
import base64
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints
from uuid import UUID, uuid4

import msgspec
from msgspec import Struct

from flowfabric.model.budget import HardBreach, UsageDimensions
from flowfabric.model.lease import HandleKind, Work
from flowfabric.model.step import StepRecord
from flowfabric.model.stream import BestEffortLive, Durable, DurableSummary, Frame, FrameKind
from flowfabric.model.waitpoint import (
    Binding,
    Condition,
    ConditionMet,
    Count,
    CountKind,
    FreshWaitpoint,
    ReasonCode,
    ResumeSignal,
    Single,
    SuspendArgs,
    TimeoutBehavior,
    UsePending,
)
from flowfabric.sdk.budgets import budget_id
from flowfabric.sdk.failures import BudgetExceeded, Parked, PayloadError, StepError
from flowfabric.sdk.payloads import from_json, to_json
from flowfabric.sdk.times import Span, millis

if TYPE_CHECKING:
    from flowfabric.engine.engine import Engine
    from flowfabric.sdk.app import App

T = TypeVar("T")
log = logging.getLogger("flowfabric.task")
TIMED_OUT = ("timeout", "suspension_timeout")
"""How the engine signs when nobody else does."""


class Signal(Struct, frozen=True):
    """Somebody answered."""

    name: str
    source: str = ""
    payload: Any = None
    at_ms: int = 0


class OpenWaitpoint(Struct, frozen=True):
    """Where a signal can be sent, with the token that allows it: for whoever is to answer."""

    run: str
    waitpoint_id: UUID
    token: str

    def __repr__(self) -> str:
        return f"OpenWaitpoint({self.run}, {self.waitpoint_id})"


Notify = Callable[[OpenWaitpoint], Awaitable[None] | None]


class Context:
    """Given to a task whose first parameter is annotated with it."""

    def __init__(self, app: App, engine: Engine, work: Work, task: str, lane: str) -> None:
        self._app, self._engine, self._work = app, engine, work
        self.execution_id, self.attempt, self.tags = work.execution_id, work.attempt_index, work.tags
        self.raw_input, self.task, self.lane = work.input_payload, task, lane
        self.lost = asyncio.Event()
        self.log = logging.LoggerAdapter(
            log, {"execution_id": str(work.execution_id), "task": task, "attempt": work.attempt_index}
        )
        self._position = 0
        self._names: dict[str, int] = {}
        self._records: dict[int, StepRecord] | None = None if work.lease_epoch > 1 or work.attempt_index else {}

    # ---- steps

    async def step(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Runs it once: when the task is run again, after a crash or a wait, what it came to is returned instead."""
        position, record = await self._reached(name, "step")
        if record is not None:
            return self._stored(record, _result_of(function))
        value = await _called(function, args, kwargs)
        await self._record(position, name, value, "step")
        return value

    async def _reached(self, name: str, kind: str) -> tuple[int, StepRecord | None]:
        """The next position, and what is there already. Steps are reached in the order in which they were reached before."""
        position, self._position = self._position, self._position + 1
        if self._names.setdefault(name, position) != position:
            raise StepError(f"task {self.task}: {name!r} names two steps; each needs a name of its own")
        if self._records is None:
            self._records = {step.position: step for step in await self._engine.read_steps(self.execution_id)}
        record = self._records.get(position)
        if record is not None and (record.name, record.kind) != (name, kind):
            raise StepError(
                f"task {self.task}: at position {position} there was {record.kind} {record.name!r} before, and now it is {kind} "
                f"{name!r}; steps must be reached in the same order each time. Submit it anew, or bring the old order back"
            )
        return position, record

    async def _record(self, position: int, name: str, value: Any, kind: str) -> None:
        try:
            data = self._app.codec.encode(to_json(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(f"task {self.task}: step {name!r}: its result cannot be kept: {error}") from None
        await self._engine.record_step(self._work.handle, position, name, data, kind)

    def _stored(self, record: StepRecord, kind: Any = Any) -> Any:
        return None if record.value is None else from_json(self._app.codec.decode(record.value), kind)

    # ---- waiting

    async def sleep(self, span: Span, *, name: str | None = None) -> None:
        """Goes on after this long. The worker does something else meanwhile, and may even be another one then."""
        wait_ms = millis(span, "sleep")
        label = name or f"sleep at {self._position}"
        position, record = await self._reached(label, "sleep")
        now = await self._engine.server_time_ms()
        until = int(self._stored(record)) if record is not None else now + wait_ms
        if record is None:
            await self._record(position, label, until, "sleep")
        if until > now:
            await self._engine.delay(self._work.handle, until)
            raise Parked

    async def delay(self, span: Span) -> None:
        """Stops here and runs the task again after this long, from the top, past its finished steps."""
        until = await self._engine.server_time_ms() + millis(span, "delay")
        await self._engine.delay(self._work.handle, until)
        raise Parked

    async def suspend(
        self,
        name: str,
        condition: Condition | None = None,
        *,
        timeout: Span | None = None,
        reason: ReasonCode = ReasonCode.WAITING_FOR_SIGNAL,
        notify: Notify | None = None,
        payload: Any = Any,
    ) -> list[Signal]:
        """Waits for a signal, or for a condition over the waitpoint `name`; without a slot. What arrived is returned.

        `notify` is called with the link's token, once unless the worker dies in between. With a `timeout`, TimeoutError is
        raised when it is over.
        """
        asked = None if notify is None else await self._reached(f"{name}: asked", "waitpoint")
        position, record = await self._reached(name, "wait")
        if record is not None:
            return _answered(self._stored(record), payload, self.task, name)
        pointer = f"wait:{position}"
        if self._work.handle.kind is HandleKind.RESUMED:
            last = await self._engine.read_last_suspension(self.execution_id)
            if last is not None and last.pointer == pointer and last.close_reason is not None:
                return await self._met(position, name, await self._engine.observe_signals(self._work.handle), payload)
        binding = FreshWaitpoint(uuid4(), name) if notify is None or asked is None else await self._opened(name, notify, *asked)
        until = None if timeout is None else await self._engine.server_time_ms() + millis(timeout, "timeout")
        answer = await self._engine.suspend(
            self._work.handle,
            SuspendArgs(
                suspension_id=uuid4(),
                waitpoints=[binding],
                resume_condition=condition or Single(name),
                reason_code=reason,
                timeout_at=until,
                timeout_behavior=TimeoutBehavior.AUTO_RESUME,
                continuation_metadata_pointer=pointer,
            ),
        )
        if isinstance(answer, ConditionMet):
            return await self._met(position, name, answer.details.signals, payload)
        raise Parked

    async def _opened(self, name: str, notify: Notify, position: int, record: StepRecord | None) -> Binding:
        """With somebody to be told, the mailbox is there before he is: what he answers at once is not lost."""
        if record is not None:
            return UsePending(UUID(self._stored(record)))
        made = await self._engine.create_waitpoint(self._work.handle, name)
        await _called(notify, (OpenWaitpoint(str(self.execution_id), made.waitpoint_id, made.hmac_token),), {})
        await self._record(position, f"{name}: asked", str(made.waitpoint_id), "waitpoint")
        return UsePending(made.waitpoint_id)

    async def _met(self, position: int, name: str, signals: Sequence[ResumeSignal], payload: Any) -> list[Signal]:
        found = [_kept(signal) for signal in signals]
        await self._record(position, name, found, "wait")
        return _answered(found, payload, self.task, name)

    async def approval(
        self,
        name: str,
        *,
        need: int = 1,
        distinct: bool = True,
        timeout: Span | None = None,
        notify: Notify | None = None,
        payload: Any = Any,
    ) -> list[Signal]:
        """Waits for so many people, different ones if `distinct`, to say yes or no; their signals are returned."""
        kind = CountKind.DISTINCT_SOURCES if distinct else CountKind.DISTINCT_SIGNALS
        condition = Count(need, kind, (name,))
        reason = ReasonCode.WAITING_FOR_APPROVAL
        return await self.suspend(name, condition, timeout=timeout, reason=reason, notify=notify, payload=payload)

    # ---- output

    async def emit(self, data: Any, *, type: str = "", live: Span | None = None) -> None:
        """Adds to the run's stream: text, bytes, or anything that has a JSON form. With `live`, only for those who watch now."""
        raw, kind = (data, FrameKind.Blob) if isinstance(data, bytes) else (None, FrameKind.Stdout)
        if raw is None:
            raw, kind = (data.encode(), kind) if isinstance(data, str) else (to_json(data), FrameKind.Event)
        mode = Durable() if live is None else BestEffortLive(millis(live, "live"))
        await self._engine.append_frame(self._work.handle, Frame(raw, kind, type, mode=mode))

    async def patch(self, changes: Mapping[str, Any]) -> int:
        """Merges this into the run's summary document (null removes); its version."""
        frame = Frame(to_json(changes), FrameKind.Event, mode=DurableSummary())
        version = (await self._engine.append_frame(self._work.handle, frame)).summary_version
        assert version is not None
        return version

    async def progress(self, percent: int | None = None, message: str | None = None) -> None:
        await self._engine.progress(self._work.handle, percent, message)

    async def spend(self, budget: str | UUID, *, key: str | None = None, **dimensions: int) -> None:
        """Counts against a budget; over a hard limit, nothing is counted and BudgetExceeded raised. Once per `key`."""
        usage = UsageDimensions(custom=dimensions, dedup_key=key)
        answer = await self._engine.report_usage(self._work.handle, budget_id(self._app.namespace, budget), usage)
        if isinstance(answer, HardBreach):
            said = f"budget {budget}: {answer.dimension} is at {answer.current_usage} of {answer.hard_limit}"
            raise BudgetExceeded(f"{said}; {dimensions[answer.dimension]} more would go over it")


def _kept(signal: ResumeSignal) -> dict[str, Any]:
    data = None if signal.payload is None else base64.b64encode(signal.payload).decode()
    return {"name": signal.signal_name, "source": signal.source_identity, "at_ms": signal.accepted_at, "payload": data}


def _answered(kept: Sequence[Mapping[str, Any]], payload: Any, task: str, name: str) -> list[Signal]:
    if any((signal["name"], signal["source"]) == TIMED_OUT for signal in kept):
        raise TimeoutError(f"task {task}: nobody answered {name!r} in time")
    return [Signal(s["name"], s["source"], _payload(s["payload"], payload, task, name), s["at_ms"]) for s in kept]


def _payload(data: str | None, kind: Any, task: str, name: str) -> Any:
    if data is None:
        return None
    raw = base64.b64decode(data)
    if kind is bytes:
        return raw
    try:
        return from_json(raw, kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise PayloadError(f"task {task}: the answer to {name!r} is not what was asked for: {error}") from None


async def _called(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """An async function here, any other in a thread: it may block."""
    if inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    found = await asyncio.to_thread(function, *args, **kwargs)
    return await found if inspect.isawaitable(found) else found


def _result_of(function: Callable[..., Any]) -> Any:
    """What a step says it returns, so that what was stored comes back as that."""
    try:
        return get_type_hints(inspect.unwrap(function)).get("return", Any)
    except (NameError, TypeError, AttributeError):
        return Any
