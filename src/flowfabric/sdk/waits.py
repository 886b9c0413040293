"""Waits: signals, approvals and links, and how a run is suspended until they arrive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import msgspec
from msgspec import Struct, structs

from flowfabric.errors import StateError, StateKind
from flowfabric.model import waitpoint as wp
from flowfabric.model.waitpoint import APPROVED, ResumeSignal
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.exceptions import PayloadError, Rejected
from flowfabric.sdk.invoke import call_user_code
from flowfabric.sdk.json_schema import JsonSchema, schema_of
from flowfabric.sdk.serialization import from_json
from flowfabric.sdk.session import Session

TIMED_OUT = ("timeout", "engine", "suspension_timeout")
"""Name, source type and source of the signal by which the engine ends a wait at its timeout."""


class Signal(Struct, frozen=True):
    """A signal that arrived at a waitpoint."""

    name: str
    source: str = ""
    """The sender. On a link it is the name that was typed on the page."""
    payload: Any = None
    at_ms: int = 0
    """When the engine accepted it, in milliseconds since the epoch."""
    source_type: str = ""
    """How it was sent."""
    comment: str = ""
    link: str = ""
    """The approver whose link was used; empty without one."""


class Answer(Struct, frozen=True):
    """One answer to an approval."""

    approved: bool
    by: str = ""
    """The approver whose link was used; without named approvers, the signal's source."""
    comment: str = ""
    payload: Any = None
    at_ms: int = 0
    """When the engine accepted it, in milliseconds since the epoch."""
    source_type: str = ""


class Decision(Struct, frozen=True):
    """The outcome of `ctx.approval(...)`. One rejection decides against the request."""

    approved: bool
    by: str
    """The people behind the deciding answers, separated by commas."""
    comment: str
    """The comments of the deciding answers, one per line."""
    answers: tuple[Answer, ...]
    """All answers, in the order of their arrival."""


def decided(signals: Sequence[Signal], approvers: Sequence[str] = ()) -> Decision:
    """Depends on the stored signals only, so that every run of the task decides the same."""
    answers = tuple(
        Answer(
            s.name == APPROVED,
            s.link if s.link in approvers else s.source or s.source_type,
            s.comment,
            s.payload,
            s.at_ms,
            s.source_type,
        )
        for s in signals
    )
    against = [each for each in answers if not each.approved]
    counted = against or answers
    names = dict.fromkeys(each.by for each in counted if each.by)
    comments = [each.comment for each in counted if each.comment]
    return Decision(bool(answers) and not against, ", ".join(names), "\n".join(comments), answers)


class OpenWaitpoint(Struct, frozen=True):
    """An open waitpoint and the token that allows a signal to it. `notify` receives it.

    Send one with `app.run(link.run).signal(name, waitpoint=link.waitpoint_id, token=link.token)`.
    """

    run: str
    """The id of the waiting run."""
    waitpoint_id: UUID
    token: str
    """A credential: it allows an answer to everyone who has it. It is not part of the repr."""
    approver: str = ""
    """The approver this link belongs to; empty without named approvers."""

    def url(self, server: str) -> str:
        """The link's approval page on a FlowFabric server, such as `https://jobs.example.org`."""
        run, token = quote(self.run, safe=""), quote(self.token, safe="")
        return f"{server.rstrip('/')}/approve/{run}/{self.waitpoint_id}?t={token}"

    def __repr__(self) -> str:
        return f"OpenWaitpoint({self.run}, {self.waitpoint_id})"


Notify = Callable[[OpenWaitpoint], Awaitable[None] | None]


class Received(Struct, frozen=True):
    """A signal as a wait records it. The names are those of stored records."""

    name: str
    source: str
    payload: bytes | None
    at_ms: int
    source_type: str = ""
    comment: str = ""
    link: str = ""


def received(signal: ResumeSignal) -> Received:
    return Received(
        signal.signal_name,
        signal.source_identity,
        signal.payload,
        signal.accepted_at,
        signal.source_type,
        signal.comment,
        signal.link,
    )


def decoded(records: Sequence[Received], payload: object, task: str, name: str) -> list[Signal]:
    if any((each.name, each.source_type, each.source) == TIMED_OUT for each in records):
        raise TimeoutError(f"task {task}: no answer to {name!r} within its timeout")
    return [
        Signal(**{**structs.asdict(each), "payload": _payload(each.payload, payload, task, name)})
        for each in records
    ]


def _payload(data: bytes | None, kind: object, task: str, name: str) -> object:
    if data is None or kind is bytes:
        return data
    try:
        return from_json(data, kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise PayloadError(
            f"task {task}: the payload of a signal to {name!r} does not fit its type: {error}"
        ) from None


RESUMED = ("resumed", "timed_out_auto_resume")
NOT_OPEN = (
    StateKind.WAITPOINT_CLOSED,
    StateKind.WAITPOINT_NOT_PENDING,
    StateKind.PENDING_WAITPOINT_EXPIRED,
)
"""The waitpoint belongs to an earlier run that was cancelled or timed out: a new one is made."""


class Wait(Struct, frozen=True):
    """The arguments of one suspension."""

    position: int
    name: str
    condition: wp.Condition
    reason: wp.ReasonCode
    timeout_ms: int | None
    notify: Notify | None
    notice: int | None
    """Position of the two records around the call of `notify`."""
    payload: object
    schema: JsonSchema | None
    names: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()

    @property
    def pointer(self) -> str:
        return f"wait:{self.position}"


def new_wait(
    session: Session,
    name: str,
    condition: wp.Condition,
    reason: wp.ReasonCode,
    *,
    timeout: Span | None,
    notify: Notify | None,
    payload: object,
    names: tuple[str, ...] = (),
    approvers: tuple[str, ...] = (),
) -> Wait:
    """Takes the wait's positions in the order of steps when it is asked for, not when awaited."""
    limit = None if timeout is None else millis(timeout, "timeout")
    session.check(f"wait {name!r}")
    schema = schema_of(payload, f"task {session.task}: wait {name!r}: payload")
    order = session.order
    notice = None if notify is None else order.number(f"{name}: opened", f"{name}: told")
    position = order.reach(name, "wait")
    return Wait(
        position,
        name,
        condition,
        reason,
        limit,
        notify,
        notice,
        payload,
        schema,
        names,
        approvers,
    )


async def decision(
    session: Session, wait: Wait, on_reject: str, approvers: Sequence[str]
) -> Decision:
    made = decided(await wait_for(session, wait), approvers)
    if not made.approved and on_reject == "raise":
        raise Rejected(wait.name, made)
    return made


async def wait_for(session: Session, wait: Wait) -> list[Signal]:
    try:
        record = await session.found(wait.position, wait.name, "wait")
        if record is None:
            signals = await _already_resumed(session, wait)
            if signals is None:
                signals = await _suspended(session, wait)
            record = await session.record(
                wait.position, wait.name, [received(signal) for signal in signals], "wait"
            )
        records = session.value_of(record, list[Received])
        return decoded(records, wait.payload, session.task, wait.name)
    finally:
        session.order.left(wait.position)


async def _already_resumed(session: Session, wait: Wait) -> Sequence[wp.ResumeSignal] | None:
    """The signals that ended this wait, if it ended before this run or before a crash."""
    if session.is_first_run:
        return None
    engine = session.engine
    last = await session.ask(wait.name, lambda: engine.read_last_suspension(session.id))
    if last is None or last.pointer != wait.pointer or last.close_reason not in RESUMED:
        return None
    return await session.ask(wait.name, lambda: engine.read_resume_signals(session.id))


async def _suspended(session: Session, wait: Wait) -> Sequence[wp.ResumeSignal]:
    """Parks the task, unless the condition is met already."""
    if wait.notify is None:
        return await _suspend(session, wait, wp.FreshWaitpoint(uuid4(), wait.name, wait.schema))
    try:
        return await _suspend(session, wait, wp.UsePending(await _announced(session, wait)))
    except StateError as error:
        if error.kind not in NOT_OPEN:
            raise
    made = await _open(session, wait)
    await _announce(session, wait, made.waitpoint_id, made.links or (("", made.hmac_token),))
    return await _suspend(session, wait, wp.UsePending(made.waitpoint_id))


async def _suspend(session: Session, wait: Wait, binding: wp.Binding) -> Sequence[wp.ResumeSignal]:
    for key in (wait.pointer, f"{wait.pointer}:{session.work.lease_epoch}"):
        until = None if wait.timeout_ms is None else await session.now_ms() + wait.timeout_ms
        made = wp.SuspendArgs(
            suspension_id=uuid4(),
            waitpoints=[binding],
            resume_condition=wait.condition,
            reason_code=wait.reason,
            timeout_at=until,
            timeout_behavior=wp.TimeoutBehavior.AUTO_RESUME,
            continuation_metadata_pointer=wait.pointer,
            idempotency_key=key,
        )
        answer = await session.ask(
            wait.name, partial(session.engine.suspend, session.work.handle, made)
        )
        if isinstance(answer, wp.ConditionMet):
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


async def _open(session: Session, wait: Wait) -> wp.PendingWaitpoint:
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
