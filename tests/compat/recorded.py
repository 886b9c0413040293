"""What the servers of the original answered, one backend each, and what of an answer is the same in
every run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec import Struct

from flowfabric.errors import ConflictKind, ContentionKind, StateKind, ValidationKind

VECTORS = Path(__file__).parent / "vectors"
BACKENDS = ("valkey", "postgres", "sqlite")
REPLAYED = "valkey"
"""The run whose requests are sent again. The others contribute their answers; they differ in ids
and times only.
"""
FIRST_TIME_MS, LAST_TIME_MS = 10**12, 10**14
_FORMS = (
    (re.compile(r"\b\d{13}-\d+\b"), "<frame>"),
    (re.compile(r"\{fp:\d+\}"), "{fp:N}"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "<uuid>"),
    (re.compile(r"\b\d{13}\b"), "<ms>"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "<fingerprint>"),
    (re.compile(r"\b(pg|sqlite|postgres|valkey|memory):<uuid>"), "<store>:<uuid>"),
    (re.compile(r"\bl-[0-9a-f]{6}\b"), "<lane>"),
)
_SAID = ("kind", "retryable", "limit_bytes", "route")
"""The members of an error of the original besides its text. Ours are problem documents, which have
more.
"""
_CODES = {
    word.value
    for kinds in (ValidationKind, ContentionKind, ConflictKind, StateKind)
    for word in kinds
} | {*("conflict", "contention", "state_conflict", "payload_too_large")}


class Exchange(Struct, frozen=True):
    step: str
    method: str
    path: str
    request: Any
    status: int
    body: Any


class Answered(Struct, frozen=True):
    """The part of an answer that a client acts on."""

    status: int
    body: Any


def recorded(backend: str) -> list[Exchange]:
    """In order; a step that occurs twice is numbered."""
    seen: Counter[str] = Counter()
    found = []
    for line in (VECTORS / f"http-original-{backend}.jsonl").read_text().splitlines():
        one = json.loads(line)
        seen[one["step"]] += 1
        name = one["step"] if seen[one["step"]] == 1 else f"{one['step']} ({seen[one['step']]})"
        found.append(
            Exchange(name, one["method"], one["path"], one["request"], one["status"], one["body"])
        )
    return found


def form(value: Any) -> Any:
    """Ids and times by their kind, everything else as it is."""
    if isinstance(value, dict):
        return {form(name): form(held) for name, held in value.items()}
    if isinstance(value, list):
        return [form(each) for each in value]
    if isinstance(value, int) and FIRST_TIME_MS <= value < LAST_TIME_MS:
        return "<ms as a number>"
    if isinstance(value, str):
        for pattern, word in _FORMS:
            value = pattern.sub(word, value)
    return value


def answered(status: int, body: Any) -> Answered:
    """Texts that are not JSON do not count: the original answers some errors in plain text, which
    are JSON here.
    """
    if status < 400:
        return Answered(status, None if _is_text(body) else form(body))
    if _is_text(body):
        return Answered(status, {})
    said = {name: body[name] for name in _SAID if body.get(name) is not None}
    text = form(body["error"])
    return Answered(status, {"error": text if status == 404 else _code(text), **said})


def _code(text: str) -> str:
    """The first word, which programs read. The rest of the message is worded differently here."""
    word = text.partition(":")[0]
    return word if word in _CODES else ""


def _is_text(body: Any) -> bool:
    return isinstance(body, dict) and set(body) == {"_text"}


def alike(ours: Answered, theirs: Answered) -> bool:
    """An error of the original that has no JSON, or no code, has that much less to compare."""
    if ours.status != theirs.status or theirs.status < 400:
        return ours == theirs
    wanted = {name: held for name, held in theirs.body.items() if held}
    return wanted.items() <= ours.body.items()
