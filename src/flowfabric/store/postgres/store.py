"""The Postgres store: writes ride together on a few connections, reads have their own, wake-ups a third kind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from typing import Any, TypeVar, cast

import asyncpg

from flowfabric.errors import TransportError
from flowfabric.model.lease import BackendTag
from flowfabric.model.queue_stats import LongWriter
from flowfabric.plan import Answer, Form, Plan, Refused
from flowfabric.store.clock import Clock, Ratchet
from flowfabric.store.fan_out import dealt
from flowfabric.store.port import Loaded, Read, Row, Store
from flowfabric.store.postgres import connections
from flowfabric.store.postgres.coalescer import MAX_BATCH, Coalescer, Key
from flowfabric.store.postgres.connections import Link, Links, Options
from flowfabric.store.postgres.errors import (
    FIRST_PAUSE_S,
    MAX_TRIES,
    as_engine_error,
    concerns_one,
    is_conflict,
    is_gone,
)
from flowfabric.store.postgres.events import GapReader
from flowfabric.store.postgres.executor import (
    MANY,
    Effects,
    Session,
    are_new,
    cut,
    distinct,
    key_of,
    run_many,
    run_plans,
    run_together,
    runs_of,
    text_of,
)
from flowfabric.store.postgres.migrate import Kind, check_schema, migrate
from flowfabric.store.postgres.next_due import Dues
from flowfabric.store.postgres.notify import Notifier, Relay
from flowfabric.store.postgres.reader import decode_rows, run_reads
from flowfabric.store.postgres.sweeps import (
    Turned,
    fits,
    run_sweeps,
    run_sweeps_together,
    run_turns,
)
from flowfabric.store.postgres.user_transaction import BoundStore
from flowfabric.store.schema import OUTBOXES, TABLES
from flowfabric.store.single_flight import SingleFlight
from flowfabric.store.wakeups import Wakeups

CHUNK = 500
CLOCK_CHECK_S = 10.0
_CLOCK = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_LONGEST_WRITER = """SELECT pid, floor(extract(epoch FROM clock_timestamp() - xact_start) * 1000)::bigint, coalesce(datname, ''),
    coalesce(application_name, '') FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND xact_start IS NOT NULL
    AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1"""
Shape = tuple[Any, ...]
T = TypeVar("T")


def _ticks_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class PostgresStore:
    """One per engine and event loop. Nothing is sent before `open`."""

    label = "postgres"
    tag = BackendTag.POSTGRES
    durability = "full"

    def __init__(
        self, options: Options, *, clock: Clock | None = None, beside: PostgresStore | None = None
    ) -> None:
        """`beside` is a store of another thread: both ring one hub, and its bell tells other processes."""
        self.options = options.checked()
        self._beside = beside
        self.hub: Wakeups = Wakeups() if beside is None else beside.hub
        self.channel = "ff_wake" if options.schema == "public" else f"ff_wake_{options.schema}"
        self.clock = None if clock is None else Ratchet(clock)
        self.closed = True
        self._gaps = {channel: GapReader(channel) for channel in OUTBOXES}
        self._together = count()
        self._shared = SingleFlight()
        self._dues = Dues(lambda sql: self._read(lambda session: session.fetch(sql)))
        self._noting: set[asyncio.Future[None]] = set()
        self._offset_ms, self._offset_until, self._latest = (
            time.time_ns() // 1_000_000 - _ticks_ms(),
            float("-inf"),
            0,
        )

    async def open(self, *, check: bool = True) -> PostgresStore:
        """Connects and, unless told otherwise, refuses a database whose schema does not fit."""
        settings = None if self.options.pooler else connections.WRITING
        self._writers = [
            Link(self.options, settings, watched=True) for _ in range(self.options.writers)
        ]
        self._readers = Links(self.options, self.options.readers)
        self._coalescer = Coalescer(self._run, self._writers)
        self._bell: Notifier = (
            self._made_bell() if self._beside is None else cast(Notifier, Relay(self._beside._bell))
        )
        first, link = (
            await connections.connect(self.options, settings, watched=True),
            self._writers[-1],
        )
        link.adopt(first)
        try:
            if check:
                with link.watch:
                    await check_schema(first)
        except BaseException as error:
            link.drop()
            raise as_engine_error(error) from error
        self.closed = False
        if not self.options.pooler:
            self._bell.start()
        return self

    def _made_bell(self) -> Notifier:
        return Notifier(
            lambda: connections.connect(self.options, connections.TELLING), self.hub, self.channel
        )

    async def prepare(self) -> str | None:
        """Applies the migrations that are missing; what was applied, or None."""
        return ", ".join(await self.migrate()) or None

    async def migrate(self, kind: Kind | None = None) -> list[str]:
        connection = await connections.connect(self.options)
        try:
            return await migrate(connection, kind)
        except Exception as error:
            raise as_engine_error(error) from error
        finally:
            await connection.close()

    async def close(self) -> None:
        """Once; what was submitted is finished first."""
        if self.closed:
            return
        self.closed = True
        await self._coalescer.drain()
        await self._bell.stop()
        for link in self._writers:
            await link.close()
        await self._readers.close()
        if self._beside is None:
            self.hub.ring_all()

    async def now_ms(self) -> int:
        """The server's clock: asked now and then, carried forward by the monotonic clock in between, and never running back.

        Rather behind than ahead: who looks before the server's time has come finds nothing due, and sleeps on.
        """
        if self.clock is not None:
            return self.clock()
        if time.monotonic() > self._offset_until:
            await self._shared.once("clock", self._set_clock)
        self._latest = max(self._latest, _ticks_ms() + self._offset_ms)
        return self._latest

    async def _set_clock(self) -> None:
        said = (await self._read(lambda session: session.fetch(_CLOCK)))[0][0]
        self._offset_ms = said - _ticks_ms() - 1
        self._offset_until = time.monotonic() + CLOCK_CHECK_S

    def inside(self, connection: Any) -> Store:
        return cast(Store, BoundStore(self, connection))

    # ---- commits

    async def commit(self, plan: Plan) -> Answer:
        answer: Any = (await self._submit(plan.form, [plan]))[0]
        if isinstance(answer, BaseException):
            raise answer
        return cast(Answer, answer)

    async def commit_many(self, plans: Sequence[Plan]) -> list[Answer]:
        """Runs of one form, none of which holds a row twice. New rows of different keys are written side by side."""
        if len(plans) > CHUNK and are_new(plans):
            chunks = cut(plans, CHUNK)
            done = await asyncio.gather(
                *(self._submit(chunk[0].form, chunk) for chunk in chunks), return_exceptions=True
            )
        else:
            chunks = runs_of(plans, CHUNK)
            done = [await _settled(self._submit(chunk[0].form, chunk)) for chunk in chunks]
        answers: list[Any] = []
        for chunk, said in zip(chunks, done, strict=True):
            answers += said if isinstance(said, list) else [said] * len(chunk)
        return answers

    async def commit_together(self, plans: Sequence[Plan]) -> Answer:
        if len(plans) == 1:
            return await self.commit(plans[0])
        keys = [key for plan in plans if (key := key_of(plan))]
        lane = (
            next(self._together) % self.options.writers
        )  # as many shapes as writers, so that others get their turn
        answer: Answer = await self._to_writers(("together", lane), plans, keys, MAX_BATCH)
        return answer

    def sweep(self, plan: Plan, limit: int) -> Awaitable[list[Row]]:
        chosen = plan.form.pick_key(plan.values)
        return self._to_writers(("sweep", plan.form, chosen), (plan, limit), (), 1)

    async def sweeps(
        self, first: Sequence[Plan], wanted: Sequence[tuple[Plan, int]]
    ) -> list[list[Row]] | Refused:
        keys = [key for plan in first if (key := key_of(plan))]
        shape = ("sweeps", next(self._together) % self.options.writers)
        swept: list[list[Row]] | Refused = await self._to_writers(
            shape, (first, wanted), keys, MAX_BATCH
        )
        return swept

    async def commit_and_sweep(self, plans: Sequence[Plan], plan: Plan, limit: int) -> Turned:
        if len(plans) > MAX_BATCH or not fits(plans):
            return await self.commit_many(plans), await self.sweep(plan, limit)
        shape = ("turn", plans[0].form, plan.form, plan.form.pick_key(plan.values))
        turned: Turned = await self._to_writers(
            shape, (plans, plan, limit), [key_of(each) for each in plans], len(plans)
        )
        return turned

    def _submit(self, form: Form, plans: list[Plan]) -> asyncio.Future[list[Answer]]:
        size = MAX_BATCH if text_of(form).alone else len(plans)
        keys = () if form.is_insert else [key for plan in plans if (key := key_of(plan))]
        return self._to_writers(("plans", form), plans, keys, size)

    def _to_writers(
        self, shape: Shape, item: Any, keys: Sequence[Key], size: int
    ) -> asyncio.Future[Any]:
        if self.closed:
            refused: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            refused.set_exception(closed())
            return refused
        return self._coalescer.submit(shape, item, keys, size)

    async def _run(self, link: Link, shape: Shape, items: list[Any]) -> list[Any]:
        """One batch; a conflict is tried again, a value that does not fit costs only its own plan."""
        if shape[0] == "plans" and _must_split(items):
            return await self._one_by_one(link, shape, items)
        for attempt in range(MAX_TRIES):
            effects = Effects()
            connection = await link.get()
            if self._noting:
                await asyncio.wait(tuple(self._noting))
            try:
                with link.watch:
                    await link.replan()
                    answers = await self._perform(connection, shape, items, effects)
            except Exception as error:
                if is_conflict(error) and attempt < MAX_TRIES - 1:
                    await asyncio.sleep(FIRST_PAUSE_S * 2**attempt)
                    continue
                if is_gone(error) or connection.is_closed():
                    link.drop()
                elif concerns_one(error) and _can_split(shape, items):
                    return await self._one_by_one(link, shape, items)
                raise as_engine_error(error) from error
            self.hub.announce(effects.topics, effects.dues)
            self._bell.tell(
                effects, _ticks_ms() + self._offset_ms if self.clock is None else self.clock()
            )
            return answers
        raise AssertionError("the last try returns or raises")

    async def _perform(
        self, session: Session, shape: Shape, items: list[Any], effects: Effects
    ) -> list[Any]:
        now = None if self.clock is None else self.clock()
        if shape[0] == "sweep":
            return await run_sweeps(session, items, now, effects)
        if shape[0] == "turn":
            return await run_turns(session, items, now, effects)
        if shape[0] == "together":
            return [await run_together(session, items[0], now, effects)]
        if shape[0] == "sweeps":
            first, wanted = items[0]
            return [await run_sweeps_together(session, first, wanted, now, effects)]
        plans = [plan for several in items for plan in several]
        run = run_many if len(plans) >= MANY else run_plans
        return dealt(await run(session, plans, now, effects), items)

    async def _one_by_one(self, link: Link, shape: Shape, items: list[Any]) -> list[Any]:
        """The neighbours of a plan that does not fit are applied; it alone is told why not."""
        if shape[0] != "plans":
            return [await self._told(self._run(link, shape, [item])) for item in items]
        answers = []
        for plans in items:
            singly = [await self._told(self._run(link, shape, [[plan]])) for plan in plans]
            answers.append([answer[0] if isinstance(answer, list) else answer for answer in singly])
        return answers

    @staticmethod
    async def _told(running: Awaitable[list[Any]]) -> Any:
        try:
            answers = await running
        except Exception as error:
            return error
        return answers[0]

    # ---- reads

    async def load(self, reads: Sequence[Read]) -> Loaded:
        now = (
            await self.now_ms()
        )  # before the rows: a renewal that this time could have seen is in them
        return Loaded(now, await self._read(lambda session: run_reads(session, reads)))

    async def read_events(self, channel: str, after: int, limit: int) -> list[Row]:
        return await self._gaps[channel].read(self._read, after, limit)

    def last_event(self, channel: str) -> Awaitable[int]:
        """Commits wait until it is noted, so that whatever is submitted after this call comes behind the answer."""
        noted = asyncio.get_running_loop().create_future()
        self._noting.add(noted)
        noted.add_done_callback(self._noting.discard)
        asked = asyncio.ensure_future(self._gaps[channel].last(self._read, lambda: _done(noted)))
        asked.add_done_callback(lambda _: _done(noted))
        return asked

    def next_due(self, index: str) -> Awaitable[int | None]:
        return self._dues.next_due(index)

    async def longest_writer(self) -> LongWriter | None:
        rows = await self._read(lambda session: session.fetch(_LONGEST_WRITER))
        return LongWriter(*rows[0]) if rows else None

    async def dump(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        return await self._read(lambda connection: dump_tables(connection, tables))

    async def execute_for_test(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Plain SQL, for tests that look or meddle behind the engine's back."""
        return [tuple(row) for row in await self._read(lambda session: session.fetch(sql, *params))]

    async def _read(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Reading again after a lost connection harms nobody."""
        if self.closed:
            raise closed()
        for attempt in range(MAX_TRIES):
            try:
                async with self._readers.one() as connection:
                    return await work(connection)
            except Exception as error:
                if attempt < MAX_TRIES - 1 and (is_gone(error) or is_conflict(error)):
                    continue
                raise as_engine_error(error) from error
        raise AssertionError("the last try returns or raises")


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _settled(running: Awaitable[list[Answer]]) -> list[Answer] | BaseException:
    try:
        return await running
    except Exception as error:
        return error


def closed() -> TransportError:
    return TransportError("postgres", "the database was closed", backend_kind="protocol")


def _must_split(items: list[Any]) -> bool:
    """Plans that read what they write, or that name one row twice, do not share a statement.

    Only inserts can name one twice here; the others stand in line for their rows.
    """
    form = items[0][0].form
    if text_of(form).alone:
        return len(items) > 1 or len(items[0]) > 1
    return (
        form.is_insert
        and len(items) > 1
        and not distinct([plan for plans in items for plan in plans])
    )


def _can_split(shape: Shape, items: list[Any]) -> bool:
    return len(items) > 1 or (shape[0] == "plans" and len(items[0]) > 1)


async def dump_tables(
    connection: asyncpg.Connection, tables: Iterable[str]
) -> dict[str, list[Row]]:
    """Whole tables on one snapshot."""
    found: dict[str, list[Row]] = {}
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        for table in tables:
            rows = await connection.fetch(f"SELECT {', '.join(TABLES[table].names)} FROM {table}")
            found[table] = decode_rows(table, rows)
    return found
