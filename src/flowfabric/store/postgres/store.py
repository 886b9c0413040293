"""The Postgres store: connections for batched writes, for reads, and for notifications."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from typing import Any, TypeVar, cast

import asyncpg

from flowfabric.model.lease import BackendTag
from flowfabric.model.queue_stats import LongWriter
from flowfabric.plan import Answer, Form, Plan, Refused
from flowfabric.store.batching import Sweep, chunks, selection
from flowfabric.store.clock import Clock, Ratchet
from flowfabric.store.migration_steps import Report, no_report
from flowfabric.store.port import Loaded, Read, Row, Store
from flowfabric.store.postgres import connections
from flowfabric.store.postgres.batch_runner import BatchRunner, Shape
from flowfabric.store.postgres.coalescer import MAX_BATCH, Coalescer, Key
from flowfabric.store.postgres.connections import ConnectionPool, LazyConnection, Options, closed
from flowfabric.store.postgres.effects import Effects
from flowfabric.store.postgres.errors import MAX_TRIES, as_engine_error, is_conflict, must_reconnect
from flowfabric.store.postgres.events import GapReader
from flowfabric.store.postgres.executor import are_new, key_of, runs_of, statement_of
from flowfabric.store.postgres.migrate import Kind, check_schema, migrate
from flowfabric.store.postgres.next_due import NextDue
from flowfabric.store.postgres.notify import Notifier
from flowfabric.store.postgres.poller import Poller
from flowfabric.store.postgres.reader import decode_rows, run_reads
from flowfabric.store.postgres.server_clock import ServerClock
from flowfabric.store.postgres.sweeps import CommittedAndSwept, can_share_statement
from flowfabric.store.postgres.unfinished import check_whole
from flowfabric.store.postgres.user_transaction import BoundStore
from flowfabric.store.postgres.vacuum import VACUUM_SETTINGS, Vacuum
from flowfabric.store.schema import OUTBOXES, TABLES
from flowfabric.store.sql.reads import select
from flowfabric.store.sql.rows import SqlRows
from flowfabric.store.wakeups import Wakeups

CHUNK = 500
PLANS_PER_JOB = 32
"""What a group of new rows counts for in a batch."""
_CLOCK = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_LONGEST_WRITER = """SELECT pid,
    floor(extract(epoch FROM clock_timestamp() - xact_start) * 1000)::bigint,
    coalesce(datname, ''), coalesce(application_name, '') FROM pg_stat_activity
    WHERE backend_xid IS NOT NULL AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
    ORDER BY xact_start LIMIT 1"""
T = TypeVar("T")


class PostgresStore:
    """One per engine and event loop. It sends nothing before `open`."""

    label = "postgres"
    tag = BackendTag.POSTGRES
    durability = "full"

    def __init__(
        self, options: Options, *, clock: Clock | None = None, beside: PostgresStore | None = None
    ) -> None:
        """`beside` is a store of another thread; both share its hub and notifier."""
        self.options = options.checked()
        self._beside = beside
        self.hub: Wakeups = Wakeups() if beside is None else beside.hub
        self.channel = "ff_wake" if options.schema == "public" else f"ff_wake_{options.schema}"
        self.clock = None if clock is None else Ratchet(clock)
        self.server_clock = ServerClock(self._read_clock)
        self.closed = True
        self._gaps = {channel: GapReader(channel) for channel in OUTBOXES}
        self._next_lane = count()
        self._next_due = NextDue(self._fetch)
        self._poller = Poller(self._fetch, self.hub)
        self._reading_last_event: set[asyncio.Future[None]] = set()

    async def open(self, *, check: bool = True) -> PostgresStore:
        """Connects, and checks the schema unless `check` is false."""
        settings = None if self.options.pooler else connections.WRITER_SETTINGS
        self._writers = [
            LazyConnection(self.options, settings, watched=True)
            for _ in range(self.options.writers)
        ]
        self._readers = ConnectionPool(self.options, self.options.readers)
        runner = BatchRunner(
            self.clock, self._reading_last_event, self._committed, self._leave_server
        )
        self.coalescer = Coalescer(runner.run, self._writers)
        for_vacuum = None if self.options.pooler else VACUUM_SETTINGS
        self._vacuum = Vacuum(LazyConnection(self.options, for_vacuum, watched=True))
        self.notifier: Notifier = (
            self._new_notifier() if self._beside is None else self._beside.notifier
        )
        first = await connections.connect(self.options, settings, watched=True)
        link = self._writers[-1]
        link.adopt(first)
        try:
            if check:
                with link.timeout:
                    await check_schema(first)
                    await check_whole(first, self.options)
        except BaseException as error:
            link.drop()
            raise as_engine_error(error) from error
        self.closed = False
        if self._beside is None and self.options.listens:
            self.notifier.start()
        elif self._beside is None:
            self._poller.start()
        return self

    def _new_notifier(self) -> Notifier:
        def connect() -> Awaitable[asyncpg.Connection]:
            return connections.connect(self.options.direct, connections.NOTIFIER_SETTINGS)

        return Notifier(connect, self.hub, self.channel)

    @property
    def connections(self) -> list[LazyConnection]:
        """Those of the writers, then those of the readers."""
        return [*self._writers, *self._readers.connections]

    async def prepare(self) -> str | None:
        """Applies missing migrations; returns their titles, or None."""
        return ", ".join(await self.migrate()) or None

    async def migrate(self, kind: Kind | None = None, report: Report = no_report) -> list[str]:
        """A statement may take as long as it needs."""
        options = self.options.direct
        connection = await connections.connect(options, watched=True)
        try:
            return await migrate(connection, kind, report, keeps_session=not options.pooler)
        except Exception as error:
            raise as_engine_error(error) from error
        finally:
            await connection.close()

    async def close(self) -> None:
        """Finishes submitted work first. A second call does nothing."""
        if self.closed:
            return
        self.closed = True
        await self.coalescer.drain()
        await self._vacuum.close()
        if self._beside is None:
            await self.notifier.stop()
            await self._poller.stop()
        for link in self._writers:
            await link.close()
        await self._readers.close()
        if self._beside is None:
            self.hub.ring_all()

    async def now_ms(self) -> int:
        return await self.server_clock.now_ms() if self.clock is None else self.clock()

    async def _read_clock(self) -> int:
        return int((await self._fetch(_CLOCK))[0][0])

    def inside(self, connection: object) -> Store:
        return cast(Store, BoundStore(self, connection))

    # ---- commits

    async def commit(self, plan: Plan) -> Answer:
        answer: Any = (await self._submit_plans(plan.form, [plan]))[0]
        if isinstance(answer, BaseException):
            raise answer
        return cast(Answer, answer)

    async def commit_many(self, plans: Sequence[Plan]) -> list[Answer]:
        """In runs of one form that name no row twice; runs of new rows are written in parallel."""
        done: Sequence[list[Answer] | BaseException]
        if len(plans) > CHUNK and are_new(plans):
            runs = chunks(plans, CHUNK)
            done = await asyncio.gather(
                *(self._submit_plans(run[0].form, run) for run in runs), return_exceptions=True
            )
        else:
            runs = runs_of(plans, CHUNK)
            done = [await _result(self._submit_plans(run[0].form, run)) for run in runs]
        answers: list[Any] = []
        for run, answer in zip(runs, done, strict=True):
            answers += answer if isinstance(answer, list) else [answer] * len(run)
        return answers

    async def commit_together(self, plans: Sequence[Plan]) -> Answer:
        if len(plans) == 1:
            return await self.commit(plans[0])
        shape, size = self._lane("together"), MAX_BATCH
        if all(plan.form.is_insert and len(plan.form.steps) == 1 for plan in plans):
            shape, size = ("groups",), 1 + len(plans) // PLANS_PER_JOB
        answer: Answer = await self._submit(shape, plans, _keys(plans), size)
        return answer

    def sweep(self, plan: Plan, limit: int) -> Awaitable[list[Row]]:
        return self._submit(("sweep", *selection(plan)), (plan, limit), (), 1)

    async def sweeps(
        self, first: Sequence[Plan], wanted: Sequence[Sweep]
    ) -> list[list[Row]] | Refused:
        swept: list[list[Row]] | Refused = await self._submit(
            self._lane("sweeps"), (first, wanted), _keys(first), MAX_BATCH
        )
        return swept

    async def commit_and_sweep(
        self, plans: Sequence[Plan], plan: Plan, limit: int
    ) -> CommittedAndSwept:
        if len(plans) > MAX_BATCH or not can_share_statement(plans):
            return await self.commit_many(plans), await self.sweep(plan, limit)
        shape = ("commit_and_sweep", plans[0].form, *selection(plan))
        keys = [key_of(each) for each in plans]
        done: CommittedAndSwept = await self._submit(shape, (plans, plan, limit), keys, len(plans))
        return done

    def _lane(self, kind: str) -> Shape:
        """As many shapes as writers, so that other shapes get their turn."""
        return kind, next(self._next_lane) % self.options.writers

    def _submit_plans(self, form: Form, plans: list[Plan]) -> asyncio.Future[list[Answer]]:
        size = MAX_BATCH if statement_of(form).unbatchable else len(plans)
        keys = () if form.is_insert else _keys(plans)
        return self._submit(("plans", form), plans, keys, size)

    def _submit(
        self, shape: Shape, item: object, keys: Sequence[Key], size: int
    ) -> asyncio.Future[Any]:
        if self.closed:
            refused: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            refused.set_exception(closed())
            return refused
        return self.coalescer.submit(shape, item, keys, size)

    def _committed(self, effects: Effects) -> None:
        self.hub.announce(effects.topics, effects.dues)
        now_ms = self.server_clock.estimate_ms() if self.clock is None else self.clock()
        if self._beside is None:
            self.notifier.publish(effects, now_ms)
        else:
            self.notifier.publish_threadsafe(effects, now_ms)

    def _leave_server(self) -> None:
        """The server was demoted: reads and notifications follow the writes to the next one."""
        for link in self.connections:
            link.is_outdated = True
        self.server_clock.expire()
        self.notifier.reconnect_threadsafe()

    # ---- reads

    async def load(self, reads: Sequence[Read]) -> Loaded:
        # Read before the rows: they contain every renewal that this time could have seen.
        now = await self.now_ms()
        return Loaded(now, await self.read(lambda session: run_reads(session, reads)))

    async def read_events(self, channel: str, after: int, limit: int) -> list[Row]:
        return await self._gaps[channel].read(self.read, after, limit)

    def last_event(self, channel: str) -> Awaitable[int]:
        """Commits wait until the number is read: work submitted later gets a higher number."""
        reading = asyncio.get_running_loop().create_future()
        self._reading_last_event.add(reading)
        reading.add_done_callback(self._reading_last_event.discard)
        last = asyncio.ensure_future(self._gaps[channel].last(self.read, lambda: _finish(reading)))
        last.add_done_callback(lambda _: _finish(reading))
        return last

    def next_due(self, index: str) -> Awaitable[int | None]:
        return self._next_due.next_due(index)

    async def longest_writer(self) -> LongWriter | None:
        rows = await self._fetch(_LONGEST_WRITER)
        return LongWriter(*rows[0]) if rows else None

    def maintain(self) -> Awaitable[int]:
        return self._vacuum.start_if_needed(self._fetch)

    async def dump(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        return await self.read(lambda connection: _dump(connection, tables))

    async def execute_for_test(self, sql: str, params: Sequence[object] = ()) -> list[Row]:
        """Plain SQL, for tests that read or change rows directly."""
        return [tuple(row) for row in await self._fetch(sql, *params)]

    async def _fetch(self, sql: str, *args: object) -> SqlRows:
        return await self.read(lambda connection: connection.fetch(sql, *args))

    async def read(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """On a reader's connection; a read is repeated when the connection is lost."""
        if self.closed:
            raise closed()
        for attempt in range(MAX_TRIES):
            try:
                async with self._readers.lend() as connection:
                    return await work(connection)
            except Exception as error:
                lost = must_reconnect(error)
                if lost:  # the next server has another clock
                    self.server_clock.expire()
                if attempt < MAX_TRIES - 1 and (lost or is_conflict(error)):
                    continue
                raise as_engine_error(error) from error
        raise AssertionError("the last try returns or raises")


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _result(running: Awaitable[list[Answer]]) -> list[Answer] | BaseException:
    try:
        return await running
    except Exception as error:
        return error


def _keys(plans: Sequence[Plan]) -> list[Key]:
    return [key for plan in plans if (key := key_of(plan))]


async def _dump(connection: asyncpg.Connection, tables: Iterable[str]) -> dict[str, list[Row]]:
    """Whole tables on one snapshot; events in the order of their ids."""
    found: dict[str, list[Row]] = {}
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        for table in tables:
            in_order = " ORDER BY event_id" if TABLES[table].outbox else ""
            sql = select(TABLES[table], ()) + in_order
            found[table] = decode_rows(table, await connection.fetch(sql))
    return found
