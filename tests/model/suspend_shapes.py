"""The types of suspension, and the evaluation of a condition over signals, in plain Python."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model.waitpoint import (
    AllOf,
    Condition,
    Count,
    CountKind,
    OperatorOnly,
    Single,
    TimeoutOnly,
)

BLOCKED_BY = {
    "waiting_for_approval": "waiting_for_approval",
    "paused_by_budget": "waiting_for_budget",
    "manual_pause": "paused_by_operator",
    "step_boundary": "waiting_for_signal",
    "waiting_for_signal": "waiting_for_signal",
    "a reason of our own": "waiting_for_signal",
}
BUFFERED = "buffered_for_pending_waitpoint"
MET = "resume_condition_satisfied"
Fact = tuple[tuple[int, ...], Any]


@dataclass
class Key:
    secret: str
    active: bool
    rotated: int
    until: int | None = None


@dataclass
class Box:
    """A waitpoint."""

    ident: ExecutionId
    name: UUID
    key: str
    token: str
    index: int
    created: int
    expires: int | None
    state: str = "pending"
    wait: UUID | None = None
    names: tuple[str, ...] = ()
    activated: int | None = None
    heard: int = 0
    matched: int = 0
    last: int | None = None
    satisfied: int | None = None
    closed: int | None = None
    why: str | None = None


@dataclass(frozen=True)
class Sent:
    """A signal as it was sent; `source` is its type and identity."""

    name: UUID
    word: str = "go"
    source: tuple[str, str] = ("test", "x")
    once: str | None = None
    ttl: int = 5_000
    delay: int | None = None
    payload: bytes | None = None


@dataclass
class Heard:
    """A stored signal."""

    sent: Sent
    box: UUID
    key: str
    index: int
    at: int
    effect: str
    matched: bool
    wait: UUID | None


@dataclass(frozen=True)
class Asked:
    """The arguments of a suspend. `fresh` are (id, key) of new waitpoints, `ahead` the one that was
    created before.
    """

    name: UUID
    until: Condition
    fresh: tuple[tuple[UUID, str], ...] = ()
    ahead: UUID | None = None
    timeout: int | None = None
    behavior: str = "fail"
    reason: str = "waiting_for_signal"
    delay: int | None = None
    once: str | None = None


@dataclass
class Wait:
    """A suspension. `have` are the satisfiers so far, `by` the signals that added one."""

    asked: Asked
    index: int
    at: int
    timeout: int | None
    behavior: str | None
    reason: str
    primary: UUID
    have: set[Fact] = field(default_factory=set)
    by: list[UUID] = field(default_factory=list)
    last: int | None = None
    closer: UUID | None = None
    closed: int | None = None
    why: str | None = None


class Learned:
    """Equal to an answer that it accepts; it takes values that only the engine knows, such as a
    random id, from the answer.
    """

    def __init__(self, says: str, right: Callable[[Any], bool]) -> None:
        self._says, self._right = says, right

    def __eq__(self, other: object) -> bool:
        return self._right(other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return self._says


def token(kid: str, secret: str, ident: ExecutionId, box: UUID) -> str:
    signed = hmac.new(bytes.fromhex(secret), f"{kid}:{ident}:{box}".encode(), hashlib.sha256)
    return f"{kid}:{signed.hexdigest()}"


# ---- conditions


def listens(until: Condition, key: str) -> bool:
    match until:
        case Single(waitpoint_key=wanted):
            return wanted == key
        case Count(waitpoints=several):
            return key in several
        case AllOf(members=members):
            return any(listens(member, key) for member in members)
    return False


def facts(
    until: Condition, key: str, box: UUID, sent: Sent, path: tuple[int, ...] = ()
) -> set[Fact]:
    """The satisfiers of one signal, each with the part of the condition that it satisfies."""
    match until:
        case Single(waitpoint_key=wanted, name=name) if wanted == key and name in (None, sent.word):
            return {(path, "heard")}
        case Count(count_kind=kind, waitpoints=several, name=name) if key in several and name in (
            None,
            sent.word,
        ):
            different = {CountKind.DISTINCT_WAITPOINTS: box, CountKind.DISTINCT_SIGNALS: sent.name}
            return {(path, different.get(kind, sent.source))}
        case AllOf(members=members):
            return {
                fact
                for at, member in enumerate(members)
                for fact in facts(member, key, box, sent, (*path, at))
            }
    return set()


def holds(until: Condition, have: set[Fact], path: tuple[int, ...] = ()) -> bool:
    match until:
        case Single():
            return (path, "heard") in have
        case Count(n=n):
            return len([fact for fact in have if fact[0] == path]) >= n
        case AllOf(members=members):
            return all(holds(member, have, (*path, at)) for at, member in enumerate(members))
    return False


def names_for(until: Condition, key: str) -> list[str]:
    """The signal names that a waitpoint of this key accepts."""
    match until:
        case OperatorOnly():
            return ["__operator_only__"]
        case TimeoutOnly():
            return ["__timeout_only__"]
        case AllOf(members=members):
            return list(
                dict.fromkeys(name for member in members for name in names_for(member, key))
            )
        case Single(name=str(name)) | Count(name=str(name)) if listens(until, key):
            return [name]
    return []


def effect_of(until: Condition, have: set[Fact], new: set[Fact], key: str) -> str:
    if new - have:
        return MET if holds(until, have | new) else "appended_to_waitpoint"
    if not isinstance(until, AllOf | Count):
        return "appended_to_waitpoint"
    if not listens(until, key):
        return "signal_ignored_not_in_condition"
    return "appended_to_waitpoint_duplicate" if new else "signal_ignored_matcher_failed"
