"""What each operation costs on Postgres: statements, WAL, rows on disk, processor of the server and
of the client.

Sixteen callers at once, as workers do it, so that calls share statements. Statements are counted in
the server's log, everything else without it.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import asyncpg
from msgspec import Struct, json

from benchmarks.engines import LANE, creations, new_database
from benchmarks.raw import PAYLOAD
from benchmarks.report import Measured
from flowfabric import (
    ClaimPolicy,
    CreateExecutionArgs,
    DeliverSignalArgs,
    Engine,
    ExecutionId,
    Frame,
    FrameKind,
    FreshWaitpoint,
    PostgresBackend,
    Single,
    SuspendArgs,
    Suspended,
)
from flowfabric.model.flow import GraphEdge, SubmitFlowArgs
from flowfabric.model.lease import Work
from flowfabric.testing.postgres import PostgresServer

NAME = "costs"
FILE = Path(__file__).parent / "costs.json"
AT_ONCE = 16
BULK = 100
PASSES = 3
SECRET = "2a" * 32
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
POLICY = ClaimPolicy("bench", "bench-1", 3_600_000)


class Cost(Struct, frozen=True):
    """Of one operation. The first WAL figure is right after a checkpoint, when every page is
    written whole once more; the second is with few whole pages.
    """

    statements: float = 0.0
    wal_first: float = 0.0
    wal: float = 0.0
    disk: float = 0.0
    server_us: float = 0.0
    client_us: float = 0.0


class Costs(Struct, frozen=True):
    """All operations, and how they were measured."""

    command: str
    machine: str
    version: str
    operations: dict[str, Cost]


class Reading(Struct, frozen=True):
    """Counters at one moment."""

    statements: int
    wal: int
    disk: int
    server_s: float
    client_s: float


class Meter:
    """Reads the counters of one server and this process."""

    def __init__(self, server: PostgresServer, db: asyncpg.Connection, pid: int) -> None:
        self._server, self._db, self._pid = server, db, pid
        self.costs: dict[str, Cost] = {}

    async def log_statements(self, on: bool) -> None:
        await self._db.execute(f"ALTER SYSTEM SET log_statement = '{'all' if on else 'none'}'")
        await self._db.execute("SELECT pg_reload_conf()")
        await asyncio.sleep(0.5)

    async def checkpoint(self) -> None:
        await self._db.execute("CHECKPOINT")

    async def read(self, logged: bool) -> Reading:
        wal = await self._db.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        size = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'"
        log = self._server.log if logged else ""
        return Reading(
            log.count(" LOG:  execute ") + log.count(" LOG:  statement: "),
            int(wal),
            int(await self._db.fetchval(size)),
            _server_seconds(self._pid),
            time.process_time(),
        )


def _server_seconds(postmaster: int) -> float:
    """Of all processes of the server there are."""
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return sum(map(_seconds, [str(postmaster), *children]))


def _seconds(pid: str) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """`n` of each operation: with statements counted, after a checkpoint, and three times more, of
    which the middle one counts. The figures go to `costs.json`.
    """
    if store != "postgres":
        raise SystemExit(f"the costs are those of Postgres: --store postgres, not {store}")
    with PostgresServer() as server:
        url = await new_database(server, "engine")
        engine = await PostgresBackend.connect(url, migrate=True)
        db = await asyncpg.connect(url)
        await engine.seed_waitpoint_hmac_secret("bench", SECRET)
        pid = int((await db.fetchval("SELECT pg_read_file('postmaster.pid')")).splitlines()[0])
        meter = Meter(server, db, pid)
        version = str(await db.fetchval("SHOW server_version"))
        await Lives(engine, meter, 200).pass_by("warm")
        await meter.log_statements(on=True)
        counted = await Lives(engine, meter, min(n, 1_000)).pass_by("statements")
        await meter.log_statements(on=False)
        first = await Lives(engine, meter, n, checkpoint=True).pass_by("first")
        again = _middle([await Lives(engine, meter, n).pass_by("again") for _ in range(PASSES)])
        await db.close()
        await engine.close()
    operations = {
        name: Cost(
            round(counted[name].statements, 3),
            round(first[name].wal),
            round(cost.wal),
            round(cost.disk),
            round(cost.server_us, 1),
            round(cost.client_us, 1),
        )
        for name, cost in again.items()
    }
    found = Costs(
        f"python -m benchmarks {NAME} --store postgres --n {n}", _machine(), version, operations
    )
    FILE.write_bytes(json.format(json.encode(found)) + b"\n")
    return [_measured(name, cost, n) for name, cost in operations.items()]


def _middle(passes: Sequence[dict[str, Cost]]) -> dict[str, Cost]:
    """A vacuum or a checkpoint of the server falls into one of the passes."""
    names = Cost.__struct_fields__
    return {
        op: Cost(*(median(getattr(each[op], name) for each in passes) for name in names))
        for op in passes[0]
    }


def _machine() -> str:
    return f"{os.cpu_count()} processors, {platform.machine()}, Python {platform.python_version()}"


def _measured(name: str, cost: Cost, n: int) -> Measured:
    system = (
        f"{cost.statements:.2f} statements, {cost.wal:.0f} bytes of WAL "
        f"({cost.wal_first:.0f} after a checkpoint), {cost.disk:.0f} on disk, "
        f"{cost.server_us:.0f} us of the server, {cost.client_us:.0f} of the client"
    )
    return Measured(scenario=f"{NAME}/{name}", store="postgres", system=system, n=n)


class Lives:
    """Passes `n` executions through every operation and measures each."""

    def __init__(self, engine: Engine, meter: Meter, n: int, *, checkpoint: bool = False) -> None:
        self._engine, self._meter, self._n, self._checkpoint = engine, meter, n, checkpoint
        self._found: dict[str, Cost] = {}
        self._works: list[Work] = []

    async def pass_by(self, name: str) -> dict[str, Cost]:
        engine, n = self._engine, self._n
        logged = name == "statements"

        async def measure(op: str, count: int, work: Callable[[], Awaitable[Any]]) -> None:
            if self._checkpoint:
                await self._meter.checkpoint()
            before = await self._meter.read(logged)
            await work()
            after = await self._meter.read(logged)
            self._found[op] = _difference(before, after, count)

        await measure("create, one by one", n, lambda: _each(creations(n), engine.create_execution))
        batches = [creations(min(BULK, n - at)) for at in range(0, n, BULK)]
        await measure(
            f"create, {BULK} at once", n, lambda: _each(batches, engine.create_executions)
        )
        await measure("claim", n, lambda: self._claim(n))
        await measure("renew", n, lambda: self._held(engine.renew))
        await measure("step", n, lambda: self._held(self._step))
        await measure("frame", n, lambda: self._held(self._frame))
        await measure("complete", n, lambda: self._held(self._complete))
        self._works = []
        await measure("complete and claim", n, self._turns)
        await self._waits(measure)
        await self._flows(measure)
        return self._found

    async def _claim(self, n: int) -> None:
        async def one(_: int) -> None:
            self._works += await self._engine.claim_many(LANE, (), POLICY, 1)

        await _each(range(n), one)

    async def _held(self, work: Callable[[Any], Awaitable[Any]]) -> None:
        await _each([work.handle for work in self._works], work)

    async def _step(self, handle: Any) -> None:
        await self._engine.record_step(handle, 0, "step", b'"value"')

    async def _frame(self, handle: Any) -> None:
        await self._engine.append_frame(handle, Frame(b"token", FrameKind.Stdout))

    async def _complete(self, handle: Any) -> None:
        await self._engine.complete(handle, b"ok")

    async def _turns(self) -> None:
        """What is left from the creates, by callers that hold one at a time."""

        async def caller() -> None:
            works = await self._engine.claim_many(LANE, (), POLICY, 1)
            while works:
                _, works = await self._engine.complete_and_claim(
                    [(works[0].handle, b"ok")], LANE, (), POLICY, 1
                )

        await asyncio.gather(*(caller() for _ in range(AT_ONCE)))

    async def _waits(self, measure: Callable[..., Awaitable[None]]) -> None:
        engine, n = self._engine, self._n
        await _each([creations(n)], engine.create_executions)
        await self._claim(n)
        parked: list[Suspended] = []

        async def suspend(handle: Any) -> None:
            answer = await engine.suspend(
                handle,
                SuspendArgs(
                    suspension_id=uuid4(),
                    waitpoints=[FreshWaitpoint(uuid4(), "answer")],
                    resume_condition=Single("answer", "go"),
                ),
            )
            assert isinstance(answer, Suspended)
            parked.append(answer)

        async def signal(pair: tuple[Work, Suspended]) -> None:
            work, answer = pair
            await engine.deliver_signal(
                DeliverSignalArgs(
                    execution_id=work.execution_id,
                    waitpoint_id=answer.details.waitpoint_id,
                    signal_id=uuid4(),
                    waitpoint_token=answer.details.waitpoint_token,
                    signal_name="go",
                )
            )

        await measure("suspend", n, lambda: self._held(suspend))
        ids = {answer.details.waitpoint_id for answer in parked}
        assert len(ids) == n
        pairs = await self._paired(parked)
        await measure("signal", n, lambda: _each(pairs, signal))
        self._works = []
        await self._turns()

    async def _paired(self, parked: Sequence[Suspended]) -> list[tuple[Work, Suspended]]:
        by_id = {work.execution_id: work for work in self._works}
        opened: dict[Any, Work] = {}
        for ident, work in by_id.items():
            for each in (await self._engine.list_pending_waitpoints(ident)).items:
                opened[each.waitpoint_id] = work
        return [(opened[answer.details.waitpoint_id], answer) for answer in parked]

    async def _flows(self, measure: Callable[..., Awaitable[None]]) -> None:
        """Flows of two members: what a member costs to submit, and an edge beyond the complete."""
        graphs = [_pair() for _ in range(self._n // 2)]
        members = 2 * len(graphs)
        await measure("flow member", members, lambda: _each(graphs, self._engine.submit_flow))
        await self._claim(len(graphs))
        await measure("edge", len(graphs), lambda: self._held(self._complete))
        self._found["edge"] = _beyond(self._found["edge"], self._found["complete"])
        self._works = []
        await self._turns()


def _pair() -> SubmitFlowArgs:
    flow = uuid4()
    idents = [ExecutionId.for_flow(flow) for _ in range(2)]
    nodes = [
        CreateExecutionArgs(execution_id=ident, lane_id=LANE, input_payload=PAYLOAD)
        for ident in idents
    ]
    return SubmitFlowArgs(flow_id=flow, nodes=nodes, edges=[GraphEdge(idents[0], idents[1])])


async def _each(items: Sequence[Any], work: Callable[[Any], Awaitable[Any]]) -> None:
    """By sixteen callers at once."""
    left = iter(items)

    async def caller() -> None:
        for item in left:
            await work(item)

    await asyncio.gather(*(caller() for _ in range(AT_ONCE)))


def _difference(before: Reading, after: Reading, n: int) -> Cost:
    return Cost(
        (after.statements - before.statements) / n,
        0.0,
        (after.wal - before.wal) / n,
        (after.disk - before.disk) / n,
        (after.server_s - before.server_s) / n * 1e6,
        (after.client_s - before.client_s) / n * 1e6,
    )


def _beyond(whole: Cost, part: Cost) -> Cost:
    return Cost(
        *(max(getattr(whole, name) - getattr(part, name), 0.0) for name in Cost.__struct_fields__)
    )


def load() -> Costs:
    return json.decode(FILE.read_bytes(), type=Costs)
