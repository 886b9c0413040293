"""Finds an execution by what people type: its id, its uuid, or the first digits of its uuid."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import starmap
from uuid import UUID

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.errors import NotFound, ValidationError, ValidationKind, invalid
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, ExecutionIdError, parse_uuid, uuid_of
from flowfabric.store.port import GetAll, Read, Row, Scan

MIN_DIGITS = 8
UUID_DIGITS = 32
MAX_TEXT = 80
MAX_CANDIDATES = 5
PARTITIONS_AT_ONCE = 64
COLUMNS = ("partition_key", "execution_id", "namespace")
ACCEPTED = (
    f"a uuid, its first {MIN_DIGITS} or more hexadecimal digits, "
    "or an id of the form {fp:N}:<uuid>"
)
_PREFIX = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]*){0,4}\Z")


class Resolve:
    def __init__(self, core: Core) -> None:
        self._store = core.store

    async def resolve_execution(self, text: str, namespace: str | None = None) -> ExecutionId:
        """The execution that an id, a uuid or a unique prefix of a uuid names. With a namespace,
        executions of others are not found.
        """
        rows = await self._matching(validation.text(text, "text", MAX_TEXT).strip())
        found = [row for row in rows if namespace is None or row[2] == namespace]
        if not found:
            raise NotFound("execution", text)
        if len(found) > 1:
            raise ValidationError(ValidationKind.AMBIGUOUS_ID, _ambiguous(text, found))
        return ExecutionId.of(found[0][0], found[0][1])

    async def _matching(self, text: str) -> list[Row]:
        if text.startswith("{"):
            return await self._load([GetAll("ff_exec_core", [_long_form(text).key], COLUMNS)])
        ident = _whole_uuid(text)
        if ident is not None:
            keys = [(partition, ident) for partition in range(FLOW_PARTITIONS)]
            return await self._load([GetAll("ff_exec_core", keys, COLUMNS)])
        low, high = _range_of(text)
        found: list[Row] = []
        for first in range(0, FLOW_PARTITIONS, PARTITIONS_AT_ONCE):
            partitions = range(first, first + PARTITIONS_AT_ONCE)
            found += await self._load([_scan(partition, low, high) for partition in partitions])
        return found

    async def _load(self, reads: Iterable[Read]) -> list[Row]:
        return [row for rows in (await self._store.load(tuple(reads))).rows for row in rows]


def _scan(partition: int, low: UUID, high: UUID) -> Scan:
    group = {"partition_key": partition}
    before = None if low.int == 0 else (uuid_of(low.int - 1),)
    return Scan("executions", group, before, high, MAX_CANDIDATES + 1, COLUMNS)


def _long_form(text: str) -> ExecutionId:
    try:
        return ExecutionId(text)
    except ExecutionIdError:
        raise invalid("execution", ACCEPTED, text) from None


def _whole_uuid(text: str) -> UUID | None:
    try:
        return parse_uuid(text)
    except ValueError:
        return None


def _range_of(text: str) -> tuple[UUID, UUID]:
    """The lowest and the highest uuid with this prefix."""
    prefix = text.lower()
    digits = prefix.replace("-", "")
    if not _PREFIX.match(prefix) or len(digits) > UUID_DIGITS or not _hyphenated_like_uuid(prefix):
        raise invalid("execution", ACCEPTED, text)
    low, high = (int(digits.ljust(UUID_DIGITS, fill), 16) for fill in "0f")
    return uuid_of(low), uuid_of(high)


def _hyphenated_like_uuid(prefix: str) -> bool:
    return "-" not in prefix or all(
        at in (8, 13, 18, 23) for at, char in enumerate(prefix) if char == "-"
    )


def _ambiguous(text: str, found: list[Row]) -> str:
    ids = sorted(str(each.uuid) for each in starmap(ExecutionId.of, (row[:2] for row in found)))
    listed = ", ".join(ids[:MAX_CANDIDATES])
    more = " and more" if len(ids) > MAX_CANDIDATES else ""
    return f"{text} is the beginning of several executions: {listed}{more}; give more digits"
