"""The history of an execution or a flow, in pages."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
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
from flowfabric.rules.executions.history import (
    OPERATIONS,
    EventReader,
    FirstLines,
    Key,
    Line,
    PageEnd,
)
from flowfabric.store.port import Get, GetAll, Read, Row, Scan, ScanAll

AT_ONCE = 500
MEMBERS_LISTED = 20_000
MEMBERS_AT_ONCE = 100
MAX_LISTINGS = 8
SETTLED_MS = 5_000
"""Entries as old as this are complete: the commits that write them have ended."""
FEW = 64
MANY = 1_000
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
FIRST_READ = (FEW, MANY, MANY, MANY)
"""How many events of each outbox are read with a member. Only renewals are often more than few."""
_EVENT_ID, _EVENT_OWNER = 0, 1
"""The positions of the number and the execution in the rows of every outbox."""
_OWNER, _OWNER_AT = ("execution_id",), 0
_EXPLAINING = (
    ("attempts", Tried.__struct_fields__),
    ("waitpoints_of", Awaited.__struct_fields__),
    ("ledger_of", Charged.__struct_fields__),
)


class _Member(Struct, frozen=True, gc=False):
    execution_id: UUID
    created_at_ms: int
    started_at_ms: int | None
    terminal_at_ms: int | None

    def overlaps(self, since: int) -> bool:
        """Whether it may have entries from this time on."""
        return self.terminal_at_ms is None or self.terminal_at_ms >= since

    def is_behind(self, after: Key | None, partition: int) -> bool:
        """Whether its creation, its first entry, is on no page up to this key."""
        if after is None or self.created_at_ms != after[0]:
            return after is None or self.created_at_ms > after[0]
        ident = ExecutionId.of(partition, self.execution_id)
        return history.creation_key(ident, self.created_at_ms) > after


class _Listing(Struct, frozen=True):
    """A page of the members of a flow, in the order of their creations and of their lives.

    A life begins with the first entry behind the creation.
    """

    read_ms: int
    graph_revision: int
    created: list[_Member]
    lives: list[tuple[int, _Member]]
    is_whole: bool

    def covers(self, lines: Sequence[Line], size: int) -> bool:
        """Whether the page is full and ends before all that may have changed since."""
        return len(lines) > size > 0 and lines[size - 1].key[0] < self.read_ms - SETTLED_MS


_MEMBER, _CORE = _Member.__struct_fields__, CoreRow.__struct_fields__


class History:
    """The history of an execution or a flow."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store
        self._listings: dict[UUID, _Listing] = {}

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
        found = await self._executions(keys)
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
        rows, is_full = first, len(first) >= FIRST_READ[source]
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
        listing = self._listings.get(ident)
        if listing is not None and listing.graph_revision != flow.graph_revision:
            listing = None
        lines = [] if listing is None else await self._lines_of(flow, size, key, listing)
        if listing is None or not listing.covers(lines, size):
            lines = await self._lines_of(flow, size, key)
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

    async def _lines_of(
        self, flow: Flow, size: int, after: Key | None, listing: _Listing | None = None
    ) -> list[Line]:
        """The lines of a page and the one behind it. Without a listing, the members are listed."""
        chosen = FirstLines(size + 1, after)
        await self._add_flow(flow, chosen)
        last: UUID | None = None
        while True:
            page = listing or await self._list(flow, last)
            await self._add_creations(flow.partition_key, page, chosen, after)
            await self._add_lives(flow.partition_key, page, chosen, after)
            if listing is not None or len(page.created) < MEMBERS_LISTED:
                break
            last = max(member.execution_id for member in page.created)
        if page.is_whole:
            self._listings.pop(flow.flow_id, None)
            while len(self._listings) >= MAX_LISTINGS:
                del self._listings[next(iter(self._listings))]
            self._listings[flow.flow_id] = page
        return chosen.lines()

    async def _list(self, flow: Flow, last: UUID | None) -> _Listing:
        """The members behind one. A life begins with the first claim, or with the end.

        Before that, only operators write entries; then the life begins with the creation.
        """
        after = None if last is None else (last,)
        owner = {"partition_key": flow.partition_key, "flow_id": flow.flow_id}
        scan = Scan("members", owner, after, limit=MEMBERS_LISTED, columns=_MEMBER)
        loaded = await self._store.load((scan,))
        members = [_Member(*row) for row in loaded.rows[0]]
        index, _ = _OUTBOXES[OPERATIONS]
        owners = [(member.execution_id,) for member in members]
        (rows,) = (await self._store.load((ScanAll(index, owners, MANY, _OWNER),))).rows
        touched = {uid for (uid,) in rows}
        lives = []
        for member in members:
            begins = member.terminal_at_ms if member.started_at_ms is None else member.started_at_ms
            if member.execution_id in touched:
                begins = member.created_at_ms
            if begins is not None:
                lives.append((begins, member))
        lives.sort(key=itemgetter(0))
        members.sort(key=lambda member: (member.created_at_ms, member.execution_id))
        is_whole = last is None and len(members) < MEMBERS_LISTED
        return _Listing(loaded.now_ms, flow.graph_revision, members, lives, is_whole)

    async def _add_creations(
        self, partition: int, listing: _Listing, chosen: FirstLines, after: Key | None
    ) -> None:
        created, since = listing.created, 0 if after is None else after[0]
        start = bisect_left(created, since, key=lambda member: member.created_at_ms)
        behind = (m for m in islice(created, start, None) if m.is_behind(after, partition))
        keys = [(partition, member.execution_id) for member in islice(behind, chosen.limit)]
        for at in range(0, len(keys), AT_ONCE):
            read = GetAll("ff_exec_core", keys[at : at + AT_ONCE], _CORE)
            for core in await load_all(self._store, read, CoreRow):
                claimed = core.attempt_state != "pending_first_attempt"
                chosen.add(history.creation_line(core, claimed=claimed))

    async def _add_lives(
        self, partition: int, listing: _Listing, chosen: FirstLines, after: Key | None
    ) -> None:
        since = 0 if after is None else after[0]
        near = ((at, member) for at, member in listing.lives if member.overlaps(since))
        while True:
            keys = [
                (partition, member.execution_id)
                for at, member in islice(near, MEMBERS_AT_ONCE)
                if not chosen.is_beyond((at, 0, "", 0, 0))
            ]
            if not keys:
                break
            await self._add_members(keys, chosen)

    async def _add_members(self, keys: list[tuple[int, UUID]], chosen: FirstLines) -> None:
        executions = await self._executions(keys)
        owners = [(ident,) for _, ident in keys]
        reads = tuple(
            ScanAll(index, owners, limit, columns)
            for (index, columns), limit in zip(_OUTBOXES, FIRST_READ, strict=True)
        )
        by_owner = [_grouped(rows, _EVENT_OWNER) for rows in (await self._store.load(reads)).rows]
        for execution in executions:
            for line in history.later_lines(execution):
                chosen.add(line)
            for source, found in enumerate(by_owner):
                rows = found.get(execution.core.execution_id)
                if rows:
                    rows.sort(key=itemgetter(_EVENT_ID))
                    await self._add_events(execution, source, chosen, None, rows)

    # ---- both

    async def _executions(self, keys: list[tuple[int, UUID]]) -> list[Life]:
        """The executions that exist, with the rows that explain their events."""
        reads: tuple[Read, ...] = (
            GetAll("ff_exec_core", keys, _CORE),
            GetAll("ff_suspension_current", keys, _OWNER + Parked.__struct_fields__),
            *(ScanAll(index, keys, MANY, _OWNER + columns) for index, columns in _EXPLAINING),
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
