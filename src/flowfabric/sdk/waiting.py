"""A wait of a task for signals: it parks until they are there, and every run of the task finds the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from flowfabric.errors import StateError, StateKind
from flowfabric.model.waitpoint import (
    Binding,
    ConditionMet,
    FreshWaitpoint,
    PendingWaitpoint,
    ResumeSignal,
    UsePending,
)
from flowfabric.sdk.call_user_code import called
from flowfabric.sdk.waitpoints import OpenWaitpoint, Signal, Wait, answered, kept

if TYPE_CHECKING:
    from flowfabric.sdk.context import Context

GONE_ON = ("resumed", "timed_out_auto_resume")
SHUT = (
    StateKind.WAITPOINT_CLOSED,
    StateKind.WAITPOINT_NOT_PENDING,
    StateKind.PENDING_WAITPOINT_EXPIRED,
)
"""The mailbox of an earlier run, which was cancelled or came too late: the question is asked again."""


async def wait_for(ctx: Context, wait: Wait) -> list[Signal]:
    try:
        record = await ctx._found(wait.position, wait.name, "wait")
        if record is None:
            signals = await _gone_on(ctx, wait)
            if signals is None:
                signals = await _suspended(ctx, wait)
            record = await ctx._record(
                wait.position, wait.name, [kept(signal) for signal in signals], "wait"
            )
        return answered(ctx._stored(record), wait.payload, ctx.task, wait.name)
    finally:
        ctx.order.left(wait.position)


async def _gone_on(ctx: Context, wait: Wait) -> Sequence[ResumeSignal] | None:
    """What ended this very wait, if it is over: before now, or before a crash."""
    if ctx._first:
        return None
    last = await ctx.ask(wait.name, lambda: ctx._engine.read_last_suspension(ctx.execution_id))
    if last is None or last.pointer != wait.pointer or last.close_reason not in GONE_ON:
        return None
    return await ctx.ask(wait.name, lambda: ctx._engine.read_resume_signals(ctx.execution_id))


async def _suspended(ctx: Context, wait: Wait) -> Sequence[ResumeSignal]:
    """Parks, unless what it would wait for is there already."""
    if wait.notify is None:
        return await _suspend(ctx, wait, FreshWaitpoint(uuid4(), wait.name, wait.schema))
    try:
        return await _suspend(ctx, wait, UsePending(await _told(ctx, wait)))
    except StateError as error:
        if error.kind not in SHUT:
            raise
    made = await _open(ctx, wait)
    await _tell(ctx, wait, made.waitpoint_id, made.links or (("", made.hmac_token),))
    return await _suspend(ctx, wait, UsePending(made.waitpoint_id))


async def _suspend(ctx: Context, wait: Wait, binding: Binding) -> Sequence[ResumeSignal]:
    for key in (wait.pointer, f"{wait.pointer}:{ctx._work.lease_epoch}"):
        until = None if wait.timeout_ms is None else await ctx._now() + wait.timeout_ms
        made = wait.suspension(uuid4(), binding, until, key)
        answer = await ctx.ask(wait.name, partial(ctx._engine.suspend, ctx._work.handle, made))
        if isinstance(answer, ConditionMet):
            return answer.details.signals
        if answer.details.suspension_id == made.suspension_id:
            break  # else it is the answer to an earlier run, which this one is not bound by
    raise ctx._parking()


async def _told(ctx: Context, wait: Wait) -> UUID:
    """The mailbox is there, and known, before anybody is told of it: an answer at once, or to the link of a run that died
    right after it had told, is not lost."""
    assert wait.asked is not None
    opened, told = f"{wait.name}: opened", f"{wait.name}: told"
    record = await ctx._found(wait.asked, opened, "waitpoint")
    if record is not None and await ctx._found(wait.asked + 1, told, "told") is not None:
        return UUID(ctx._stored(record))
    if record is None:
        made = await _open(ctx, wait)
        ident, links = made.waitpoint_id, list(made.links) or [("", str(made.hmac_token))]
        await ctx._record(wait.asked, opened, str(ident), "waitpoint")
    else:
        ident = UUID(ctx._stored(record))
        links = []
        for approver in wait.approvers or ("",):
            read = partial(ctx._engine.read_held_waitpoint_token, ctx._work.handle, ident, approver)
            found = await ctx.ask(opened, read)
            if found is None:
                raise StateError(StateKind.WAITPOINT_CLOSED)
            links.append((approver, found))
    await _tell(ctx, wait, ident, links)
    await ctx._record(wait.asked + 1, told, None, "told")
    return ident


async def _open(ctx: Context, wait: Wait) -> PendingWaitpoint:
    made = partial(
        ctx._engine.create_waitpoint,
        ctx._work.handle,
        wait.name,
        signal_names=wait.names,
        payload_schema=wait.schema,
        approvers=wait.approvers,
    )
    return await ctx.ask(wait.name, made)


async def _tell(ctx: Context, wait: Wait, ident: UUID, links: Sequence[tuple[str, str]]) -> None:
    assert wait.notify is not None
    with ctx.order.inside(f"wait {wait.name!r}"):
        for approver, token in links:
            await called(
                wait.notify, (OpenWaitpoint(str(ctx.execution_id), ident, token, approver),), {}
            )
