"""Signals, approvals and links: how a wait is described, and how its signals are stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import quote
from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.model.waitpoint import APPROVED, ResumeSignal
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
        Signal(
            each.name,
            each.source,
            _payload(each.payload, payload, task, name),
            each.at_ms,
            each.source_type,
            each.comment,
            each.link,
        )
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
