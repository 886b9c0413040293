"""Signals, approvals and links: how a wait is described, and how its signals are stored."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote
from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.model.waitpoint import (
    APPROVED,
    Binding,
    Condition,
    ReasonCode,
    ResumeSignal,
    SuspendArgs,
    TimeoutBehavior,
)
from flowfabric.sdk.exceptions import PayloadError
from flowfabric.sdk.serialization import from_json

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


def schema_of(kind: object, where: str) -> JsonSchema | None:
    """The JSON schema by which the engine checks payloads before it accepts a signal."""
    if kind is Any or kind is bytes:
        return None
    if hasattr(kind, "model_json_schema"):
        return dict(kind.model_json_schema())
    try:
        return msgspec.json.schema(kind, schema_hook=lambda _: {})
    except (TypeError, ValueError, NameError) as error:
        raise PayloadError(f"{where}: payload: {error}") from None


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


JsonSchema = dict[str, Any]
Notify = Callable[[OpenWaitpoint], Awaitable[None] | None]


class Wait(Struct, frozen=True):
    """The arguments of one suspension."""

    position: int
    name: str
    condition: Condition
    timeout_ms: int | None
    reason: ReasonCode
    notify: Notify | None
    notice: int | None
    """Position of the two records around the call of `notify`."""
    payload: Any
    names: tuple[str, ...] = ()
    schema: JsonSchema | None = None
    approvers: tuple[str, ...] = ()

    @property
    def pointer(self) -> str:
        return f"wait:{self.position}"

    def suspension(self, ident: UUID, binding: Binding, until: int | None, key: str) -> SuspendArgs:
        return SuspendArgs(
            suspension_id=ident,
            waitpoints=[binding],
            resume_condition=self.condition,
            reason_code=self.reason,
            timeout_at=until,
            timeout_behavior=TimeoutBehavior.AUTO_RESUME,
            continuation_metadata_pointer=self.pointer,
            idempotency_key=key,
        )


def storable(signal: ResumeSignal) -> dict[str, str | int | None]:
    data = None if signal.payload is None else base64.b64encode(signal.payload).decode()
    return {
        "name": signal.signal_name,
        "source": signal.source_identity,
        "source_type": signal.source_type,
        "at_ms": signal.accepted_at,
        "payload": data,
        "comment": signal.comment,
        "link": signal.link,
    }


def decoded(
    records: Sequence[Mapping[str, Any]], payload: object, task: str, name: str
) -> list[Signal]:
    if any((r["name"], r.get("source_type"), r["source"]) == TIMED_OUT for r in records):
        raise TimeoutError(f"task {task}: no answer to {name!r} within its timeout")
    return [
        Signal(
            s["name"],
            s["source"],
            _payload(s["payload"], payload, task, name),
            s["at_ms"],
            s.get("source_type", ""),
            s.get("comment", ""),
            s.get("link", ""),
        )
        for s in records
    ]


def _payload(data: str | None, kind: object, task: str, name: str) -> object:
    if data is None:
        return None
    raw = base64.b64decode(data)
    if kind is bytes:
        return raw
    try:
        return from_json(raw, kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise PayloadError(
            f"task {task}: the payload of a signal to {name!r} does not fit its type: {error}"
        ) from None
