"""Waiting for somebody outside: how it is asked for, and how the answers are kept and read back."""

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
"""How the engine signs when nobody else does."""


class Signal(Struct, frozen=True):
    """Somebody answered: `source`, on the way `source_type`. By a `link`, that is the name that whoever had the link wrote."""

    name: str
    source: str = ""
    payload: Any = None
    at_ms: int = 0
    source_type: str = ""
    comment: str = ""
    link: str = ""


class Answer(Struct, frozen=True):
    """One answer to an approval. `by` is the named approver whose link it was, else the source, on a `link` as it was typed."""

    approved: bool
    by: str = ""
    comment: str = ""
    payload: Any = None
    at_ms: int = 0
    source_type: str = ""


class Decision(Struct, frozen=True):
    """What an approval came to: one rejection is a no. `by` and `comment` are those of the answers that decided it."""

    approved: bool
    by: str
    comment: str
    answers: tuple[Answer, ...]


def decided(signals: Sequence[Signal], approvers: Sequence[str] = ()) -> Decision:
    """Read from the stored signals alone, so that every run of the task comes to the same."""
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


def schema_of(kind: Any, where: str) -> dict[str, Any] | None:
    """What the engine checks a payload against before it takes the signal."""
    if kind is Any or kind is bytes:
        return None
    if hasattr(kind, "model_json_schema"):
        return dict(kind.model_json_schema())
    try:
        return msgspec.json.schema(kind, schema_hook=lambda _: {})
    except (TypeError, ValueError, NameError) as error:
        raise PayloadError(f"{where}: payload: {error}") from None


class OpenWaitpoint(Struct, frozen=True):
    """Where a signal can be sent, with the token that allows it: for whoever is to answer."""

    run: str
    waitpoint_id: UUID
    token: str
    approver: str = ""

    def url(self, server: str) -> str:
        """The approval page on a server, as people reach it: https://jobs.example.org"""
        return f"{server.rstrip('/')}/approve/{quote(self.run, safe='')}/{self.waitpoint_id}?t={quote(self.token, safe='')}"

    def __repr__(self) -> str:
        return f"OpenWaitpoint({self.run}, {self.waitpoint_id})"


Notify = Callable[[OpenWaitpoint], Awaitable[None] | None]


class Wait(Struct, frozen=True):
    """One suspension, as it was asked for."""

    position: int
    name: str
    condition: Condition
    timeout_ms: int | None
    reason: ReasonCode
    notify: Notify | None
    asked: int | None
    payload: Any
    names: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None
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


def kept(signal: ResumeSignal) -> dict[str, Any]:
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


def answered(kept: Sequence[Mapping[str, Any]], payload: Any, task: str, name: str) -> list[Signal]:
    if any(
        (signal["name"], signal.get("source_type"), signal["source"]) == TIMED_OUT
        for signal in kept
    ):
        raise TimeoutError(f"task {task}: nobody answered {name!r} in time")
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
        for s in kept
    ]


def _payload(data: str | None, kind: Any, task: str, name: str) -> Any:
    if data is None:
        return None
    raw = base64.b64decode(data)
    if kind is bytes:
        return raw
    try:
        return from_json(raw, kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise PayloadError(
            f"task {task}: the answer to {name!r} is not what was asked for: {error}"
        ) from None
