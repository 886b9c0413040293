"""A filter over executions: its checks, its conditions on columns, and its cursor."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from msgspec import structs

from flowfabric.engine import validation
from flowfabric.errors import invalid
from flowfabric.ids import execution_id, lane_id, name
from flowfabric.model.search import ExecutionFilter, ExecutionSummary
from flowfabric.model.state import PublicState
from flowfabric.store.port import AnyMatch, Match

FAILED_STATES = frozenset((PublicState.FAILED, PublicState.EXPIRED))
ENDED_STATES = FAILED_STATES | {
    PublicState.COMPLETED,
    PublicState.CANCELLED,
    PublicState.SKIPPED,
}
MAX_ERROR_BYTES = 512
_TIMES = ("created_from", "created_before", "ended_from", "ended_before")
_SAME = {
    "task": "execution_kind",
    "lane": "lane_id",
    "namespace": "namespace",
    "key": "idempotency_key",
}
Position = tuple[int, UUID]
"""The time of creation and the uuid of an execution."""


def checked(where: ExecutionFilter) -> ExecutionFilter:
    where = validation.instance(where, ExecutionFilter, "where")
    made: dict[str, Any] = {"state": _states(where.state)}
    for field in ("task", "namespace", "worker"):
        if (given := getattr(where, field)) is not None:
            made[field] = name(given, field)
    if where.lane is not None:
        made["lane"] = lane_id(where.lane, "lane")
    if where.tag is not None:
        made["tag"] = validation.text(where.tag, "tag", MAX_ERROR_BYTES)
        if not made["tag"].partition("=")[0]:
            raise invalid("tag", "a key, or key=value", where.tag)
    if where.parent is not None:
        made["parent"] = execution_id(where.parent, "parent")
    if where.flow is not None:
        made["flow"] = validation.flow_id(where.flow)
    for field in _TIMES:
        made[field] = validation.optional_timestamp(getattr(where, field), field)
    if where.error is not None and not validation.text(where.error, "error", MAX_ERROR_BYTES):
        raise invalid("error", "the type of an exception, or the beginning of its message", "")
    if where.key is not None:
        validation.text(where.key, "key", validation.MAX_IDEMPOTENCY_KEY_BYTES)
    return structs.replace(where, **made)


def _states(given: object) -> tuple[PublicState, ...]:
    accepted = f"one or more of {', '.join(PublicState)}"
    if not isinstance(given, tuple | list):
        raise invalid("state", accepted, given)
    try:
        return tuple(dict.fromkeys(PublicState(each) for each in given))
    except ValueError:
        raise invalid("state", accepted, given) from None


def matches_of(where: ExecutionFilter) -> tuple[Match | AnyMatch, ...]:
    """The conditions on columns. Flows and parents are found by their own indexes."""
    found: list[Match | AnyMatch] = []
    if where.state:
        found.append(Match("public_state", "in", tuple(each.value for each in where.state)))
    for field, column in _SAME.items():
        if (value := getattr(where, field)) is not None:
            found.append(Match(column, "=", value))
    if where.tag is not None:
        found.append(Match("tags", "contains", _tag_text(where.tag)))
    if where.worker is not None:
        columns = ("current_worker_instance_id", "current_worker_id")
        found.append(AnyMatch(tuple(Match(column, "=", where.worker) for column in columns)))
    for field, column in (("created", "created_at_ms"), ("ended", "terminal_at_ms")):
        low, high = getattr(where, f"{field}_from"), getattr(where, f"{field}_before")
        if low is not None:
            found.append(Match(column, ">=", low))
        if high is not None:
            found.append(Match(column, "<", high))
    if where.error is not None:
        text = where.error
        starts = Match("failure_reason", "starts", text)
        behind_type = Match("failure_reason", "contains", f": {text}")
        message = Match("last_failure_message", "starts", text)
        found.append(AnyMatch((starts, behind_type, message)))
    return tuple(found)


def _tag_text(tag: str) -> str:
    """How the pair or the key is written in the stored tags."""
    key, equals, value = tag.partition("=")
    pair = json.dumps({key: value}, separators=(",", ":"), ensure_ascii=False)[1:-1]
    return pair if equals else pair[:-1]


def has_error(found: ExecutionSummary, error: str | None) -> bool:
    """Whether it failed with this type of exception, or with a message that begins so."""
    if error is None:
        return True
    reason, message = found.failure_reason or "", found.last_failure_message or ""
    kind, colon, rest = reason.partition(": ")
    return (
        error == kind
        or reason.startswith(error if not colon or ": " in error else "\0")
        or (bool(colon) and rest.startswith(error))
        or message.startswith(error)
    )


def cursor_text(position: Position) -> str:
    return f"{position[0]}.{position[1].hex}"


def parse_cursor(text: str) -> Position:
    try:
        at, _, ident = text.partition(".")
        if not (at.isascii() and at.isdigit() and len(at) <= 16 and len(ident) == 32):
            raise ValueError(text)
        return int(at), UUID(hex=ident)
    except (ValueError, AttributeError):
        raise invalid("cursor", "the cursor of an earlier page", text) from None
