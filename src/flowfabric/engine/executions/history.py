"""The history of an execution or a flow, in pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from uuid import UUID

from msgspec import Struct

from flowfabric.codec.history_cursor import decode_history_cursor, encode_history_cursor
from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import load_all, load_one
from flowfabric.errors import NotFound
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, execution_id, partition_of
from flowfabric.model.execution import Page
from flowfabric.model.flow import Flow
from flowfabric.model.history import (
    MAX_HISTORY,
    Awaited,
    Charged,
    HistoryEntry,
    Life,
    Parked,
    Tried,
)
from flowfabric.model.history import (
    Core as CoreRow,
)
from flowfabric.rules.executions import history
from flowfabric.rules.executions.history import OPERATIONS, EventReader, FirstLines, Line, PageEnd
from flowfabric.store.port import Get, GetAll, Read, Row, Scan, ScanAll

AT_ONCE = 500
MEMBERS_LISTED = 1_000
MEMBERS_AT_ONCE = 20
FEW = 64
MAX_EXPLAINING = 500
"""Attempts, waitpoints and charges of one execution that are read to explain its events."""

_OUTBOXES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "lease_events_of",
        (
            "event_id",
            "execution_id",
            "lease_id",
            "lease_epoch",
            "worker_instance_id",
            "event_type",
            "reason",
            "occurred_at_ms",
        ),
    ),
    ("completion_events_of", ("event_id", "execution_id", "outcome", "occurred_at_ms")),
    (
        "signal_events_of",
        (
            "event_id",
            "execution_id",
            "signal_id",
            "waitpoint_id",
            "source_identity",
            "event_type",
            "occurred_at_ms",
        ),
    ),
    ("operator_events_of", ("event_id", "execution_id", "event_type", "details", "occurred_at_ms")),
)
_EVENT_ID, _EVENT_OWNER = 0, 1
"""The positions of the number and the execution in the rows of every outbox."""
_OWNER, _OWNER_AT = ("execution_id",), 0
_EXPLAINING = (
    ("attempts", Tried.__struct_fields__),
    ("waitpoints_of", Awaited.__struct_fields__),
    ("ledger_of", Charged.__struct_fields__),
)


class _Member(Struct, frozen=True):
    execution_id: UUID
    created_at_ms: int
    terminal_at_ms: int | None

    def overlaps(self, since: int) -> bool:
        """Whether it may have entries from this time on."""
        return self.terminal_at_ms is None or self.terminal_at_ms >= since

    def first_key(self, partition: int) -> history.Key:
        """The key of its creation, its first entry."""
        ident = ExecutionId.of(partition, self.execution_id)
        return history.creation_key(ident, self.created_at_ms)


_MEMBER = _Member.__struct_fields__


class History:
    """The history of an execution or a flow."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def history(
        self, subject: ExecutionId | UUID | str, limit: int = 100, after: str | None = None
    ) -> Page[HistoryEntry]:
        """The entries of an execution, or of a flow and all its members, in order.

        `after` is the `next_cursor` of the page before. A live subject gains entries later.
        """
        size = validation.limit(limit, MAX_HISTORY)
        if isinstance(subject, str) and subject.startswith("{"):
            return await self._history_of(execution_id(subject), size, after)
        return await self._history_of_flow(validation.flow_id(subject, "subject"), size, after)

    # ---- one execution

    async def _history_of(
        self, ident: ExecutionId, size: int, after: str | None
    ) -> Page[HistoryEntry]:
        before = None if after is None else PageEnd(*decode_history_cursor(str(ident), after))
        before_key = None if before is None else before.key
        keys = [(ident.partition_index, ident.uuid)]
        found = await self._executions(keys, MAX_EXPLAINING)
        if not found:
            raise NotFound("execution", ident)
        (execution,) = found
        chosen = FirstLines(size + 1, before_key)
        for line in history.row_lines(execution):
            chosen.add(line)
        for source in range(len(_OUTBOXES)):
            await self._add_events(execution, source, chosen, before, ())
        lines = chosen.lines()
        page = lines[:size]
        if not page:
            return Page([], None)
        attempt = history.last_attempt(page, None if before is None else before.attempt)
        end = history.page_end(page, before, attempt)
        cursor = None
        if len(lines) > size:
            cursor = encode_history_cursor(str(ident), end.key, end.numbers, end.attempt)
        return await self._with_signal_names(history.without_repeats(page, before_key), cursor)

    async def _add_events(
        self,
        execution: Life,
        source: int,
        chosen: FirstLines,
        before: PageEnd | None,
        first: Sequence[Row],
    ) -> None:
        """Adds the events of an outbox up to the end of the page. `first` are rows already read."""
        reader, number = EventReader(execution, source), 0
        if before is not None:
            reader = EventReader(execution, source, before.key[:2], before.attempt)
            number = before.numbers[source]
        owner = execution.core.execution_id
        rows, is_full = first, len(first) == FEW
        if not first:
            rows = await self._events(source, owner, number)
            is_full = len(rows) == AT_ONCE
        while rows:
            for row in rows:
                for line in reader.read(row):
                    if chosen.is_beyond(line.key):
                        return
                    chosen.add(line, new=before is not None)
            if not is_full:
                break
            rows = await self._events(source, owner, rows[-1][_EVENT_ID])
            is_full = len(rows) == AT_ONCE
        for line in reader.flush():
            chosen.add(line, new=before is not None)

    async def _events(self, source: int, owner: UUID, after: int) -> list[Row]:
        index, columns = _OUTBOXES[source]
        scan = Scan(index, {"execution_id": owner}, (after,), limit=AT_ONCE, columns=columns)
        return (await self._store.load((scan,))).rows[0]

    # ---- a flow

    async def _history_of_flow(
        self, ident: UUID, size: int, after: str | None
    ) -> Page[HistoryEntry]:
        key = None if after is None else decode_history_cursor(str(ident), after)[0]
        partition = partition_of(ident, FLOW_PARTITIONS)
        flow = await load_one(self._store, Get("ff_flow_core", (partition, ident)), Flow)
        if flow is None:
            raise NotFound("flow", ident)
        chosen = FirstLines(size + 1, key)
        await self._add_flow(flow, chosen)
        since, *_ = (0,) if key is None else key
        last: tuple[UUID] | None = None
        while True:
            group = {"partition_key": partition, "flow_id": ident}
            scan = Scan("members", group, last, limit=MEMBERS_LISTED, columns=_MEMBER)
            members = await load_all(self._store, scan, _Member)
            near = [member for member in members if member.overlaps(since)]
            for at in range(0, len(near), MEMBERS_AT_ONCE):
                keys = [
                    (partition, member.execution_id)
                    for member in near[at : at + MEMBERS_AT_ONCE]
                    if not chosen.is_beyond(member.first_key(partition))
                ]
                if keys:
                    await self._add_members(keys, chosen)
            if len(members) < MEMBERS_LISTED:
                break
            last = (members[-1].execution_id,)
        lines = chosen.lines()
        page = lines[:size]
        cursor = None
        if page and len(lines) > size:
            cursor = encode_history_cursor(str(ident), page[-1].key, (0, 0, 0, 0), None)
        return await self._with_signal_names(history.without_repeats(page, key), cursor)

    async def _add_flow(self, flow: Flow, chosen: FirstLines) -> None:
        for line in history.flow_lines(flow):
            chosen.add(line)
        after, is_full = 0, True
        while is_full:
            rows = await self._events(OPERATIONS, flow.flow_id, after)
            for row in rows:
                operation = history.flow_operation(flow, row)
                if operation is not None:
                    chosen.add(operation)
                after = row[_EVENT_ID]
            is_full = len(rows) == AT_ONCE

    async def _add_members(self, keys: list[tuple[int, UUID]], chosen: FirstLines) -> None:
        executions = await self._executions(keys, FEW)
        owners = [(ident,) for _, ident in keys]
        reads = tuple(ScanAll(index, owners, FEW, columns) for index, columns in _OUTBOXES)
        by_owner = [_grouped(rows, _EVENT_OWNER) for rows in (await self._store.load(reads)).rows]
        for execution in executions:
            for line in history.row_lines(execution):
                chosen.add(line)
            for source, found in enumerate(by_owner):
                rows = found.get(execution.core.execution_id)
                if rows:
                    rows.sort(key=itemgetter(_EVENT_ID))
                    await self._add_events(execution, source, chosen, None, rows)

    # ---- both

    async def _executions(self, keys: list[tuple[int, UUID]], few: int) -> list[Life]:
        """The executions that exist, with the rows that explain their events."""
        reads: tuple[Read, ...] = (
            GetAll("ff_exec_core", keys, CoreRow.__struct_fields__),
            GetAll("ff_suspension_current", keys, _OWNER + Parked.__struct_fields__),
            *(ScanAll(index, keys, few, _OWNER + columns) for index, columns in _EXPLAINING),
        )
        cores, parked, *explaining = (await self._store.load(reads)).rows
        suspensions = {owner: Parked(*columns) for owner, *columns in parked}
        attempts, waits, charges = (_grouped(rows, _OWNER_AT) for rows in explaining)
        found = []
        for core in (CoreRow(*row) for row in cores):
            ident = core.execution_id
            tries = [Tried(*columns) for _, *columns in attempts.get(ident, ())]
            tries.sort(key=lambda tried: tried.attempt_index)
            awaited = [Awaited(*columns) for _, *columns in waits.get(ident, ())]
            charged = [Charged(*row) for _, *row in sorted(charges.get(ident, ()), key=repr)]
            suspension = suspensions.get(ident)
            found.append(Life(core, tuple(tries), tuple(awaited), suspension, tuple(charged)))
        return found

    async def _with_signal_names(self, page: list[Line], cursor: str | None) -> Page[HistoryEntry]:
        wanted = [
            (ident.partition_index, ident.uuid, signal)
            for ident, signal in history.signals_of(page)
        ]
        names: dict[UUID, str] = {}
        if wanted:
            read = GetAll("ff_signal", wanted, ("signal_id", "signal_name"))
            names = dict((await self._store.load((read,))).rows[0])
        entries = [
            history.with_signal_name(line, names[line.signal_id])
            if line.signal_id in names
            else line.entry
            for line in page
        ]
        return Page(entries, cursor)


def _grouped(rows: Sequence[Row], at: int) -> dict[UUID, list[Row]]:
    found: dict[UUID, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[at]].append(row)
    return found
