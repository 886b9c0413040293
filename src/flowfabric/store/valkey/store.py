"""The store on Valkey: one cell, whose keys share a slot, so that a commit is one atomic call."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

from flowfabric.errors import TransportError, Unavailable
from flowfabric.model.lease import BackendTag
from flowfabric.plan import Answer, Plan, Refused
from flowfabric.store.clock import Clock, Ratchet
from flowfabric.store.port import Count, Find, Loaded, Read, Row, Store, Tally
from flowfabric.store.schema import INDEXES, TABLES
from flowfabric.store.single_flight import seen
from flowfabric.store.valkey.cells import Link
from flowfabric.store.valkey.coalescer import MAX_PLANS, Coalescer
from flowfabric.store.valkey.connection import Connection, promised
from flowfabric.store.valkey.encoding import decoded, decoders, part_of_key
from flowfabric.store.valkey.lua_schema import TABLE_CODES
from flowfabric.store.valkey.options import Options
from flowfabric.store.valkey.packing import joined, packed, unpacked
from flowfabric.store.valkey.requests import Request, Simple, read_request
from flowfabric.store.valkey.search import find_all
from flowfabric.store.valkey.server_checks import check_policy, check_version
from flowfabric.store.valkey.unfinished import check_whole
from flowfabric.store.valkey.units import (
    ALL,
    EACH,
    Done,
    Outcome,
    Sweep,
    Unit,
    outcome,
    outcomes,
    raised,
    sources,
    swept_rows,
    unit_of,
)
from flowfabric.store.wakeups import Topic, Wakeups

PAGE, PAGE_BYTES = 500, 1_048_576
"""A part of a table ends at whichever comes first."""
SNAPSHOT = 50_000
"""Rows of a cell that are dumped in one call, for which the others wait about a second."""
_SIZE = (
    "local rows = 0 for _, code in ipairs(ARGV) do "
    "rows = rows + redis.call('ZCARD', KEYS[1] .. ':' .. code) end return rows"
)
COUNTED = 1_000
"""Rows that a call counts: it keeps every other caller of the server waiting."""
_SEED_BYTES = 32


class ValkeyStore:
    label = "valkey"
    tag = BackendTag.VALKEY

    def __init__(
        self,
        options: Options,
        *,
        clock: Clock | None = None,
        hub: Wakeups | None = None,
        link: Link | None = None,
    ) -> None:
        self.options, self.hub, self._link = options, hub or Wakeups(), link
        self.clock = None if clock is None else Ratchet(clock)
        self._token = uuid4().bytes
        self._opened: Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._commits = Coalescer(self._call)
        self._reading: set[asyncio.Future[int]] = set()
        self.durability = "unknown"

    # ---- opening

    async def open(self, *, is_whole: bool = True) -> ValkeyStore:
        """Checks the server, and learns what it promises. A copy into the cell has ended, if it is
        to be whole.
        """
        connection = await self._connection()
        check_version(await connection.command("INFO", "server"))
        settings = await connection.settings()
        check_policy(settings)
        await connection.check_rights()
        self.durability = await promised(connection, self.options, settings, self._try)
        if is_whole:
            await check_whole(connection, self.options)
        return self

    async def _try(self) -> None:
        """A commit of nothing, which waits as any other does."""
        await self._submit(unit_of(EACH, (), ()))

    async def _connection(self) -> Connection:
        if self._closed:
            raise TransportError("valkey", "the store was closed", backend_kind="protocol")
        self._settle_in()
        if self._opened is None:
            if self._link is not None:
                self._opened = await self._link.connection(self.options, self.hear)
            else:
                self._opened = await Connection.open(self.options, self.hear)
        return self._opened

    def _settle_in(self) -> None:
        """What an event loop that was closed has left behind waits for nothing any more."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None:
            self._commits, self._reading = Coalescer(self._call), set()
            left, self._opened = self._opened, None
            if left is not None:
                left.abandon()
        self._loop = loop

    def hear(self, message: bytes) -> None:
        """A commit in this cell. Called on a thread of the driver."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._told, message)

    async def prepare(self) -> str | None:
        await self.open()
        return None

    async def close(self) -> None:
        await self.release()
        self._closed = True
        self.hub.ring_all()

    async def release(self) -> None:
        """Closes the connection; the next call opens another, on the event loop of that call."""
        await self._commits.finish()
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    def inside(self, connection: object) -> Store:
        raise Unavailable("connection: only Postgres takes work into your own transaction")

    async def now_ms(self) -> int:
        if self.clock is not None:
            return self.clock()
        now, _ = await self._load(())
        return now

    # ---- commits

    def _submit(self, unit: Unit) -> asyncio.Future[Done]:
        self._settle_in()
        return self._commits.submit(unit)

    async def commit(self, plan: Plan) -> Answer:
        (found,) = await self._each((plan,))
        return raised(found)

    async def commit_together(self, plans: Sequence[Plan]) -> Answer:
        done = await self._submit(unit_of(ALL, plans, ()))
        return raised(outcome(done.answers[0], done.now, plans[-1].form if plans else None))

    async def commit_many(self, plans: Sequence[Plan]) -> list[Answer]:
        chunks = [plans[at : at + MAX_PLANS] for at in range(0, len(plans), MAX_PLANS)]
        answers = await asyncio.gather(*map(self._each, chunks), return_exceptions=True)
        found: list[Any] = []
        for chunk, each in zip(chunks, answers, strict=True):
            if isinstance(each, TransportError):
                found += [each] * len(chunk)
            elif isinstance(each, BaseException):
                raise each
            else:
                found += each
        return found

    async def _each(self, plans: Sequence[Plan]) -> list[Outcome]:
        unit = unit_of(EACH, plans, ())
        return outcomes(plans, unit, await self._submit(unit))

    async def sweep(self, plan: Plan, limit: int) -> list[Row]:
        swept = await self.sweeps((), ((plan, limit),))
        assert not isinstance(swept, Refused)
        return swept[0]

    async def sweeps(
        self, first: Sequence[Plan], wanted: Sequence[Sweep]
    ) -> list[list[Row]] | Refused:
        done = await self._submit(unit_of(ALL, first, wanted))
        found = raised(outcome(done.answers[0], done.now))
        if isinstance(found, Refused):
            return found
        return [swept_rows(plan, rows) for (plan, _), rows in zip(wanted, done.swept, strict=True)]

    async def commit_and_sweep(
        self, plans: Sequence[Plan], plan: Plan, limit: int
    ) -> tuple[list[Answer], list[Row]]:
        unit = unit_of(EACH, plans, ((plan, limit),))
        done = await self._submit(unit)
        found: list[Any] = outcomes(plans, unit, done)
        return found, swept_rows(plan, done.swept[0])

    async def _call(self, units: Sequence[Unit]) -> list[Done]:
        """One call of the server at a time: the driver does not keep their order."""
        forms = {form.number: form for unit in units for form in unit.forms}
        request = [
            packed(self._time()),
            packed(os.urandom(_SEED_BYTES)),
            packed(self._token),
            packed({number: form.name for number, form in forms.items()}),
            joined([unit.packed for unit in units]),
        ]
        if self._reading:
            await asyncio.wait(self._reading)
        connection = await self._connection()
        frees = bool(forms) and all(form.frees for form in forms.values())
        answer = await connection.commit(joined(request), frees=frees)
        if answer == b"NOFORM":
            request.append(packed(sources(forms.values())))
            answer = await connection.commit(joined(request), frees=frees)
        now, found, told = answer
        self._ring(told)
        return [Done(int(now), answers, swept) for answers, swept in found]

    def _time(self) -> str | None:
        return None if self.clock is None else str(self.clock())

    # ---- wake-ups

    def _told(self, message: bytes) -> None:
        token, told = unpacked(message)
        if token != self._token:
            self._ring(told)

    def _ring(self, told: Iterable[Sequence[bytes]]) -> None:
        topics: dict[Topic, None] = {}
        for topic, kind, key, at in told:
            name = topic.decode()
            if at:
                self.hub.due(name, int(at))
            else:
                topics[name, _topic_key(kind, key)] = None
        self.hub.ring(topics)

    # ---- reads

    async def load(self, reads: Sequence[Read]) -> Loaded:
        finds = [read for read in reads if isinstance(read, Find)]
        found = await find_all(self._ask, finds)
        counted = [await self._count(read) for read in reads if isinstance(read, Count)]
        simple = [read for read in reads if not isinstance(read, Find | Count)]
        now, loaded = await self._load([read_request(read) for read in simple])
        decoded_rows = [_decoded(read, rows) for read, rows in zip(simple, loaded, strict=True)]
        answers = {"find": iter(found), "count": iter(counted), "simple": iter(decoded_rows)}
        return Loaded(now, [next(answers[_kind(read)]) for read in reads])

    async def _load(self, requests: Sequence[Request]) -> tuple[int, list[Any]]:
        request = packed([self._time(), requests])
        now, found = await (await self._connection()).load(request)
        return int(now), found

    async def _ask(self, requests: Sequence[Request]) -> list[Any]:
        _, found = await self._load(requests)
        return found

    async def _count(self, read: Count) -> list[Row]:
        counts: Counter[Row] = Counter()
        readers = decoders(TABLES[read.table], read.columns)
        last: Any = False
        while last is not None:
            request: Request = ["count", read.table, last, COUNTED, list(read.columns)]
            _, ((last, *groups),) = await self._load([request])
            for *values, n in groups:
                counts[decoded(values, readers)] += int(n)
        return [(*values, n) for values, n in counts.items()]

    async def rows_of(
        self, table: str, columns: Sequence[str], after: bytes | None = None
    ) -> AsyncIterator[list[Row]]:
        """The rows behind a key, in parts of bounded size."""
        readers, last = decoders(TABLES[table], columns), after or False
        while True:
            request: Request = ["part", table, last, PAGE, list(columns), PAGE_BYTES]
            _, (rows,) = await self._load([request])
            if not rows:
                return
            yield [decoded(row[:-1], readers) for row in rows]
            last = rows[-1][-1]

    async def read_events(self, channel: str, after: int, limit: int) -> list[Row]:
        table = TABLES[channel]
        request = ["page", channel, part_of_key("int", after), max(limit, 1), list(table.names)]
        _, (rows,) = await self._load([request])
        read = decoders(table, table.names)
        return [_event(row[:-1], read) for row in rows]

    def last_event(self, channel: str) -> Awaitable[int]:
        """Commits wait until the number is read: work submitted later gets a higher number."""
        reading = asyncio.ensure_future(self._last_event(channel))
        self._reading.add(reading)
        reading.add_done_callback(self._reading.discard)
        reading.add_done_callback(seen)
        return reading

    async def _last_event(self, channel: str) -> int:
        _, (((number,),),) = await self._load([["last", channel]])
        return int(number)

    async def next_due(self, index: str) -> int | None:
        declared = INDEXES[index]
        _, (rows,) = await self._load([["first", index, declared.order[0]]])
        return int(rows[0][0]) if rows else None

    async def longest_writer(self) -> None:
        return None

    async def maintain(self) -> int:
        return 0

    async def dump(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        """In one call, and so of one moment; in parts from a cell with more rows than that."""
        found: dict[str, list[Row]] = {}
        wanted = list(tables)
        if await self._size(wanted) <= SNAPSHOT:
            asked = [["page", name, False, SNAPSHOT, list(TABLES[name].names)] for name in wanted]
            for name, rows in zip(wanted, await self._ask(asked), strict=True):
                readers = decoders(TABLES[name], TABLES[name].names)
                found[name] = [decoded(row[:-1], readers) for row in rows]
            return found
        for table in wanted:
            found[table] = []
            async for part in self.rows_of(table, TABLES[table].names):
                found[table] += part
        return found

    async def _size(self, tables: Iterable[str]) -> int:
        codes = [TABLE_CODES[name] for name in tables]
        connection = await self._connection()
        return int(await connection.command("EVAL", _SIZE, "1", self.options.prefix, *codes))


def _kind(read: Read) -> str:
    if isinstance(read, Find):
        return "find"
    return "count" if isinstance(read, Count) else "simple"


def _decoded(read: Simple, rows: Sequence[Any]) -> list[Row]:
    table = read.table if hasattr(read, "table") else INDEXES[read.index].table
    readers = decoders(TABLES[table], read.columns or TABLES[table].names)
    if isinstance(read, Tally):
        readers = [*readers, int]
    return [decoded(row, readers) for row in rows]


def _event(row: Sequence[Any], readers: Any) -> Row:
    """An unreadable row is returned as it is stored, so that it does not hold up the others."""
    try:
        return decoded(row, readers)
    except (ValueError, TypeError):
        return tuple(row)


def _topic_key(kind: bytes, key: bytes) -> object:
    if not kind:
        return None
    return UUID(bytes=key) if kind == b"u" else key.decode()
