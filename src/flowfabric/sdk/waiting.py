"""A wait for signals: suspends the run until they arrive, and returns the same on every run."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from flowfabric.errors import StateError, StateKind
from flowfabric.model.waitpoint import (
    APPROVED,
    REJECTED,
    Binding,
    Condition,
    ConditionMet,
    Count,
    CountKind,
    FreshWaitpoint,
    PendingWaitpoint,
    ReasonCode,
    ResumeSignal,
    UsePending,
)
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.exceptions import Rejected, StepError
from flowfabric.sdk.invoke import call_user_code
from flowfabric.sdk.session import Session
from flowfabric.sdk.waitpoints import (
    Decision,
    Notify,
    OpenWaitpoint,
    Signal,
    Wait,
    decided,
    decoded,
    schema_of,
    storable,
)

RESUMED = ("resumed", "timed_out_auto_resume")
NOT_OPEN = (
    StateKind.WAITPOINT_CLOSED,
    StateKind.WAITPOINT_NOT_PENDING,
    StateKind.PENDING_WAITPOINT_EXPIRED,
)
"""The waitpoint belongs to an earlier run that was cancelled or timed out: a new one is made."""


def new_wait(
    session: Session,
    name: str,
    condition: Condition,
    *,
    timeout: Span | None,
    reason: ReasonCode,
    notify: Notify | None,
    payload: object,
    names: tuple[str, ...] = (),
    approvers: tuple[str, ...] = (),
) -> Wait:
    """Takes the wait's positions in the order of steps when it is asked for, not when awaited."""
    wait_ms = None if timeout is None else millis(timeout, "timeout")
    session.check(f"wait {name!r}")
    schema = schema_of(payload, f"task {session.task}: wait {name!r}")
    order = session.order
    notice = None if notify is None else order.number(f"{name}: opened", f"{name}: told")
    return Wait(
        order.reach(name, "wait"),
        name,
        condition,
        wait_ms,
        reason,
        notify,
        notice,
        payload,
        names,
        schema,
        approvers,
    )


def wait_for_decision(
    session: Session,
    name: str,
    *,
    need: int,
    distinct: bool,
    timeout: Span | None,
    notify: Notify | None,
    payload: object,
    on_reject: str,
    approvers: Sequence[str],
) -> Coroutine[Any, Any, Decision]:
    where = f"task {session.task}: approval {name!r}"
    if on_reject not in ("raise", "return"):
        raise StepError(f'{where}: on_reject: "raise" or "return", got {on_reject!r:.80}')
    if approvers and need > len(approvers):
        raise StepError(f"{where}: need: at most {len(approvers)}, one per approver, got {need}")
    unnamed = tuple(str(at) for at in range(1, need + 1)) if distinct and need > 1 else ()
    kind = CountKind.DISTINCT_SOURCES if distinct else CountKind.DISTINCT_SIGNALS
    wait = new_wait(
        session,
        name,
        Count(need, kind, (name,), APPROVED, REJECTED),
        timeout=timeout,
        reason=ReasonCode.WAITING_FOR_APPROVAL,
        notify=notify,
        payload=payload,
        names=(APPROVED, REJECTED),
        approvers=tuple(approvers) or unnamed,
    )
    return _decision(session, wait, on_reject, approvers)


async def _decision(
    session: Session, wait: Wait, on_reject: str, approvers: Sequence[str]
) -> Decision:
    decision = decided(await wait_for(session, wait), approvers)
    if not decision.approved and on_reject == "raise":
        raise Rejected(wait.name, decision)
    return decision


async def wait_for(session: Session, wait: Wait) -> list[Signal]:
    try:
        record = await session.found(wait.position, wait.name, "wait")
        if record is None:
            signals = await _already_resumed(session, wait)
            if signals is None:
                signals = await _suspended(session, wait)
            record = await session.record(
                wait.position, wait.name, [storable(signal) for signal in signals], "wait"
            )
        return decoded(session.value_of(record), wait.payload, session.task, wait.name)
    finally:
        session.order.left(wait.position)


async def _already_resumed(session: Session, wait: Wait) -> Sequence[ResumeSignal] | None:
    """The signals that ended this wait, if it ended before this run or before a crash."""
    if session.is_first_run:
        return None
    engine = session.engine
    last = await session.ask(wait.name, lambda: engine.read_last_suspension(session.id))
    if last is None or last.pointer != wait.pointer or last.close_reason not in RESUMED:
        return None
    return await session.ask(wait.name, lambda: engine.read_resume_signals(session.id))


async def _suspended(session: Session, wait: Wait) -> Sequence[ResumeSignal]:
    """Parks the task, unless the condition is met already."""
    if wait.notify is None:
        return await _suspend(session, wait, FreshWaitpoint(uuid4(), wait.name, wait.schema))
    try:
        return await _suspend(session, wait, UsePending(await _announced(session, wait)))
    except StateError as error:
        if error.kind not in NOT_OPEN:
            raise
    made = await _open(session, wait)
    await _announce(session, wait, made.waitpoint_id, made.links or (("", made.hmac_token),))
    return await _suspend(session, wait, UsePending(made.waitpoint_id))


async def _suspend(session: Session, wait: Wait, binding: Binding) -> Sequence[ResumeSignal]:
    for key in (wait.pointer, f"{wait.pointer}:{session.work.lease_epoch}"):
        until = None if wait.timeout_ms is None else await session.now_ms() + wait.timeout_ms
        made = wait.suspension(uuid4(), binding, until, key)
        answer = await session.ask(
            wait.name, partial(session.engine.suspend, session.work.handle, made)
        )
        if isinstance(answer, ConditionMet):
            return answer.details.signals
        if answer.details.suspension_id == made.suspension_id:
            break  # otherwise it is the answer to an earlier run, and the second key is tried
    raise session.park()


async def _announced(session: Session, wait: Wait) -> UUID:
    """The waitpoint is stored and recorded before `notify` is called.

    An answer that comes at once is not lost, nor is one to a link of a run that died right after
    the call.
    """
    assert wait.notice is not None
    opened, told = f"{wait.name}: opened", f"{wait.name}: told"
    record = await session.found(wait.notice, opened, "waitpoint")
    if record is not None and await session.found(wait.notice + 1, told, "told") is not None:
        return UUID(session.value_of(record))
    if record is None:
        made = await _open(session, wait)
        ident, links = made.waitpoint_id, list(made.links) or [("", str(made.hmac_token))]
        await session.record(wait.notice, opened, str(ident), "waitpoint")
    else:
        ident = UUID(session.value_of(record))
        links = await _links_of(session, wait, ident)
    await _announce(session, wait, ident, links)
    await session.record(wait.notice + 1, told, None, "told")
    return ident


async def _links_of(session: Session, wait: Wait, ident: UUID) -> list[tuple[str, str]]:
    links = []
    for approver in wait.approvers or ("",):
        read = partial(
            session.engine.read_held_waitpoint_token, session.work.handle, ident, approver
        )
        token = await session.ask(f"{wait.name}: opened", read)
        if token is None:
            raise StateError(StateKind.WAITPOINT_CLOSED)
        links.append((approver, token))
    return links


async def _open(session: Session, wait: Wait) -> PendingWaitpoint:
    create = partial(
        session.engine.create_waitpoint,
        session.work.handle,
        wait.name,
        signal_names=wait.names,
        payload_schema=wait.schema,
        approvers=wait.approvers,
    )
    return await session.ask(wait.name, create)


async def _announce(
    session: Session, wait: Wait, ident: UUID, links: Sequence[tuple[str, str]]
) -> None:
    assert wait.notify is not None
    with session.order.inside(f"wait {wait.name!r}"):
        for approver, token in links:
            link = OpenWaitpoint(str(session.id), ident, token, approver)
            await call_user_code(wait.notify, (link,), {})
