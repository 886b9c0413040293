"""Everything that happened to an execution or a flow, a page at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from typing import Any
from uuid import UUID

from flowfabric.codec.history_cursor import decode_history_cursor, encode_history_cursor
from flowfabric.engine import validation
from flowfabric.engine.workers.retention import Retention
from flowfabric.errors import NotFound
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, execution_id, partition_of
from flowfabric.model.execution import Page
from flowfabric.model.flow import Flow
from flowfabric.model.history import (
    MAX_HISTORY,
    Awaited,
    Charged,
    Core,
    HistoryEntry,
    Life,
    Parked,
    Tried,
)
from flowfabric.rules.executions import history
from flowfabric.rules.executions.history import OPERATIONS, Chosen, Line, Place, Teller
from flowfabric.store.port import Get, GetAll, Read, Row, Scan, ScanAll

AT_ONCE = 500
MEMBERS_LISTED = 1_000
MEMBERS_AT_ONCE = 20
FEW = 64
MAX_EXPLAINING = 500
"""Attempts, waitpoints and charges of one execution that are looked at to explain its events."""

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
_CORE, _TRIED, _CHARGED = Core.__struct_fields__, Tried.__struct_fields__, Charged.__struct_fields__
_AWAITED, _PARKED = Awaited.__struct_fields__, Parked.__struct_fields__
_OWNER = ("execution_id",)
_EXPLAINING = (("attempts", _TRIED), ("waitpoints_of", _AWAITED), ("ledger_of", _CHARGED))
_MEMBER = ("execution_id", "created_at_ms", "terminal_at_ms")


class History(Retention):
    async def history(
        self, subject: ExecutionId | UUID | str, limit: int = 100, after: str | None = None
    ) -> Page[HistoryEntry]:
        """What happened to an execution, or to a flow and all its members, as `HistoryEntry`s in order.

        `after` is the `next_cursor` of the page before. A live one may still grow behind the last page.
        """
        size = validation.limit(limit, MAX_HISTORY)
        if isinstance(subject, str) and subject.startswith("{"):
            return await self._history_of(execution_id(subject), size, after)
        return await self._history_of_flow(validation.flow_id(subject, "subject"), size, after)

    # ---- one execution

    async def _history_of(
        self, ident: ExecutionId, size: int, after: str | None
    ) -> Page[HistoryEntry]:
        place = None if after is None else Place(*decode_history_cursor(str(ident), after))
        lives = await self._lives([(ident.partition_index, ident.uuid)], MAX_EXPLAINING)
        if not lives:
            raise NotFound("execution", ident)
        chosen = Chosen(size + 1, None if place is None else place.key)
        for line in history.row_lines(lives[0]):
            chosen.add(line)
        for source in range(len(_OUTBOXES)):
            await self._tell(lives[0], source, chosen, place, ())
        lines = chosen.lines()
        page = lines[:size]
        if not page:
            return Page([], None)
        ran = history.last_attempt(page, None if place is None else place.attempt)
        end = history.place_of(page, place, ran)
        cursor = (
            encode_history_cursor(str(ident), end.key, end.told, end.attempt)
            if len(lines) > size
            else None
        )
        return await self._named(history.once(page, None if place is None else place.key), cursor)

    async def _tell(
        self, life: Life, source: int, chosen: Chosen, place: Place | None, first: Sequence[Row]
    ) -> None:
        """One outbox of one execution, as far as it can matter. `first` is what was read of it already."""
        teller, told = Teller(life, source), 0
        if place is not None:
            teller, told = Teller(life, source, place.key[:2], place.attempt), place.told[source]
        index, columns = _OUTBOXES[source]
        rows, full = first, len(first) == FEW
        if not first:
            rows = await self._scan(index, life.core.execution_id, told, columns)
            full = len(rows) == AT_ONCE
        while rows:
            for row in rows:
                for line in teller.tell(row):
                    if chosen.is_beyond(line.key):
                        return
                    chosen.add(line, new=place is not None)
            if not full:
                break
            rows = await self._scan(index, life.core.execution_id, rows[-1][0], columns)
            full = len(rows) == AT_ONCE
        for line in teller.rest():
            chosen.add(line, new=place is not None)

    async def _scan(
        self, index: str, owner: UUID, after: int, columns: tuple[str, ...]
    ) -> list[Row]:
        scan = Scan(index, {"execution_id": owner}, (after,), limit=AT_ONCE, columns=columns)
        return (await self.store.load((scan,))).rows[0]

    # ---- a flow

    async def _history_of_flow(
        self, ident: UUID, size: int, after: str | None
    ) -> Page[HistoryEntry]:
        key = None if after is None else decode_history_cursor(str(ident), after)[0]
        partition = partition_of(ident, FLOW_PARTITIONS)
        found = (await self.store.load((Get("ff_flow_core", (partition, ident)),))).rows[0]
        if not found:
            raise NotFound("flow", ident)
        chosen = Chosen(size + 1, key)
        await self._tell_flow(Flow(*found[0]), chosen)
        since = 0 if key is None else key[0]
        last = None
        while True:
            group = {"partition_key": partition, "flow_id": ident}
            scan = Scan("members", group, last, limit=MEMBERS_LISTED, columns=_MEMBER)
            members = (await self.store.load((scan,))).rows[0]
            near = [row for row in members if _overlaps(row, since)]
            for at in range(0, len(near), MEMBERS_AT_ONCE):
                some = near[at : at + MEMBERS_AT_ONCE]
                keys = [
                    (partition, row[0])
                    for row in some
                    if not chosen.is_beyond(_earliest(partition, row))
                ]
                if keys:
                    await self._tell_members(keys, chosen)
            if len(members) < MEMBERS_LISTED:
                break
            last = (members[-1][0],)
        lines = chosen.lines()
        page = lines[:size]
        cursor = (
            encode_history_cursor(str(ident), page[-1].key, (0, 0, 0, 0), None)
            if page and len(lines) > size
            else None
        )
        return await self._named(history.once(page, key), cursor)

    async def _tell_flow(self, flow: Flow, chosen: Chosen) -> None:
        for line in history.flow_lines(flow):
            chosen.add(line)
        index, columns = _OUTBOXES[OPERATIONS]
        after, full = 0, True
        while full:
            rows = await self._scan(index, flow.flow_id, after, columns)
            for row in rows:
                asked = history.flow_operation(flow, row)
                if asked is not None:
                    chosen.add(asked)
            full = len(rows) == AT_ONCE
            after = rows[-1][0] if rows else after

    async def _tell_members(self, keys: list[tuple[int, UUID]], chosen: Chosen) -> None:
        lives = await self._lives(keys, FEW)
        owners = [(key[1],) for key in keys]
        reads = tuple(ScanAll(index, owners, FEW, columns) for index, columns in _OUTBOXES)
        by_owner = [_grouped(rows, 1) for rows in (await self.store.load(reads)).rows]
        for life in lives:
            for line in history.row_lines(life):
                chosen.add(line)
            for source, rows in enumerate(by_owner):
                if life.core.execution_id in rows:
                    await self._tell(
                        life,
                        source,
                        chosen,
                        None,
                        sorted(rows[life.core.execution_id], key=itemgetter(0)),
                    )

    # ---- what both need

    async def _lives(self, keys: list[tuple[int, UUID]], few: int) -> list[Life]:
        """Those that exist, with what explains their events."""
        reads: tuple[Read, ...] = (
            GetAll("ff_exec_core", keys, _CORE),
            GetAll("ff_suspension_current", keys, _OWNER + _PARKED),
            *(ScanAll(index, keys, few, _OWNER + columns) for index, columns in _EXPLAINING),
        )
        cores, parked, *explaining = (await self.store.load(reads)).rows
        waiting = {row[0]: Parked(*row[1:]) for row in parked}
        tries, waits, charges = (_grouped(rows, 0) for rows in explaining)
        found = []
        for core in (Core(*row) for row in cores):
            who = core.execution_id
            tried = sorted((Tried(*row[1:]) for row in tries[who]), key=lambda t: t.attempt_index)
            awaited = tuple(Awaited(*row[1:]) for row in waits[who])
            charged = tuple(Charged(*row[1:]) for row in sorted(charges[who], key=repr))
            found.append(Life(core, tuple(tried), awaited, waiting.get(who), charged))
        return found

    async def _named(self, page: list[Line], cursor: str | None) -> Page[HistoryEntry]:
        """The page, with the names of its signals."""
        wanted = [(who.partition_index, who.uuid, signal) for who, signal in history.about(page)]
        names: dict[UUID, str] = {}
        if wanted:
            asked = GetAll("ff_signal", wanted, ("signal_id", "signal_name"))
            names = dict((await self.store.load((asked,))).rows[0])
        entries = [
            history.named(line, names[line.signal_id]) if line.signal_id in names else line.entry
            for line in page
        ]
        return Page(entries, cursor)


def _overlaps(member: Row, since: int) -> bool:
    """One that ended before the page begins has nothing to tell there."""
    ended = member[2]
    return ended is None or ended >= since


def _earliest(partition: int, member: Row) -> history.Key:
    """The key of its creation, before which there is nothing."""
    return history.creation_key(ExecutionId.of(partition, member[0]), member[1])


def _grouped(rows: Sequence[Row], at: int) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[at]].append(row)
    return found
