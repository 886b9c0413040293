"""The raw limit: bare asyncpg on one table with a row of our size, claimed in order and completed,
with no rule in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import asyncpg

from benchmarks.peers.protocol import PAYLOAD, Tally, batches, sampled
from flowfabric.store.sql.ddl import postgres_schema

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

DRAIN_BATCH = 100
DRAIN_SETTINGS = f"bare asyncpg, batches of {DRAIN_BATCH}"
LATENCY_SETTINGS = "bare asyncpg, insert-notify-claim-complete"
WORK = "raw_work"
DONE = "raw_done"

_SCHEMA = """
CREATE TABLE raw_job (
    job_id uuid PRIMARY KEY,
    partition_key smallint NOT NULL DEFAULT 0,
    lane text NOT NULL,
    namespace text NOT NULL DEFAULT 'default',
    kind text NOT NULL DEFAULT 'bench',
    creator text NOT NULL DEFAULT '',
    capabilities text NOT NULL DEFAULT '[]',
    tags text NOT NULL DEFAULT '{}',
    priority int NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    phase text NOT NULL DEFAULT 'runnable',
    ownership text NOT NULL DEFAULT 'unowned',
    eligibility text NOT NULL DEFAULT 'eligible_now',
    outcome text NOT NULL DEFAULT 'none',
    public_state text NOT NULL DEFAULT 'waiting',
    attempts int NOT NULL DEFAULT 0,
    lease_epoch bigint NOT NULL DEFAULT 0,
    lease_id uuid,
    worker text,
    lease_expires_at bigint,
    created_at bigint NOT NULL,
    started_at bigint,
    finished_at bigint,
    payload bytea,
    result bytea
);
CREATE INDEX raw_job_order ON raw_job (lane, priority DESC, created_at, job_id)
  WHERE public_state = 'waiting';
"""
_INSERT = (
    "INSERT INTO raw_job (job_id, lane, priority, created_at, payload) VALUES ($1, "
    "'bench', 0, $2, $3)"
)
_INSERT_MANY = """INSERT INTO raw_job (job_id, lane, priority, created_at, payload)
 SELECT job_id, 'bench', 0, $2, $3 FROM unnest($1::uuid[]) AS job_id"""
_SUBMIT = (
    f"WITH added AS ({_INSERT} RETURNING job_id) SELECT pg_notify('{WORK}', job_id::text) "
    f"FROM added"
)
_CLAIM = """UPDATE raw_job SET version = version + 1, phase = 'active', ownership = 'leased',
 eligibility = 'not_applicable', public_state = 'active', attempts = attempts + 1,
 lease_epoch = lease_epoch + 1, lease_id = $2, worker = 'bench-1', lease_expires_at = $3,
 started_at = $3 WHERE job_id IN (SELECT job_id FROM raw_job WHERE lane = 'bench' AND
 public_state = 'waiting' ORDER BY priority DESC, created_at, job_id LIMIT $1 FOR UPDATE SKIP
 LOCKED) RETURNING job_id"""
_COMPLETE = """UPDATE raw_job SET version = version + 1, phase = 'terminal',
 ownership = 'unowned', outcome = 'success', public_state = 'completed', lease_id = NULL,
 worker = NULL, lease_expires_at = NULL, finished_at = $2, result = 'ok' WHERE
 job_id = ANY($1::uuid[])"""
_REPORT = (
    f"WITH done AS ({_COMPLETE} RETURNING job_id) SELECT pg_notify('{DONE}', job_id::text) "
    f"FROM done"
)


_SAME_ROW = """INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, namespace,
 execution_kind, creator_identity, required_capabilities, budget_ids, priority, tags, payload,
 attempt_state, created_at_ms, last_transition_at, last_mutation_at, lifecycle_phase,
 ownership_state, eligibility_state, blocking_reason, blocking_detail, terminal_outcome,
 public_state) VALUES (86, $1, 'bench', 'default', 'bench', '', '{}', '{}', 0, '{}', $3,
 'pending_first_attempt', $2, $2, $2, 'runnable', 'unowned', 'eligible_now', 'waiting_for_worker',
 '', 'none', 'waiting')"""


async def prepare(url: str) -> None:
    async with _connected(url) as db:
        await db.execute(_SCHEMA)
        await db.execute(postgres_schema())


async def enqueue_many(url: str, n: int) -> float:
    async with _connected(url) as db:
        insert = await db.prepare(_INSERT_MANY)
        started = time.perf_counter()
        for size in batches(n):
            await insert.fetch([uuid4() for _ in range(size)], _now(), PAYLOAD)
        return time.perf_counter() - started


async def enqueue_each(url: str, n: int) -> float:
    """A bare prepared insert of the very row that FlowFabric writes."""
    async with _connected(url) as db:
        insert = await db.prepare(_SAME_ROW)
        started = time.perf_counter()
        for _ in range(n):
            await insert.fetch(uuid4(), _now(), PAYLOAD)
        return time.perf_counter() - started


async def completed(url: str) -> int:
    async with _connected(url) as db:
        return int(
            await db.fetchval("SELECT count(*) FROM raw_job WHERE public_state = 'completed'")
        )


async def drain(url: str, n: int) -> float:
    """The next claim runs beside the last completion, on a connection of its own."""
    tally = Tally(n)
    async with _connected(url) as claiming, _connected(url) as completing:
        jobs = await _claim(claiming, DRAIN_BATCH)
        tally.start()
        while jobs:
            jobs, _ = await asyncio.gather(
                _claim(claiming, DRAIN_BATCH), _complete(completing, jobs, tally)
            )
    return tally.seconds


async def serve(url: str) -> None:
    async with _connected(url) as db:
        woken = asyncio.Event()
        await db.add_listener(WORK, lambda *_: woken.set())
        while True:
            woken.clear()
            while jobs := await _claim(db, 1):
                await db.fetch(_REPORT, jobs, _now())
            await woken.wait()


async def roundtrip(url: str, n: int) -> list[float]:
    async with _connected(url) as db:
        done: asyncio.Queue[str] = asyncio.Queue()
        await db.add_listener(DONE, lambda *message: done.put_nowait(str(message[-1])))

        async def once() -> None:
            job = uuid4()
            await db.fetch(_SUBMIT, job, _now(), PAYLOAD)
            if (finished := await done.get()) != str(job):
                raise RuntimeError(f"waited for {job}, but {finished} was done")

        return await sampled(once, n)


async def _claim(db: Connection, limit: int) -> list[UUID]:
    return [row["job_id"] for row in await db.fetch(_CLAIM, limit, uuid4(), _now())]


async def _complete(db: Connection, jobs: Sequence[UUID], tally: Tally) -> None:
    await db.execute(_COMPLETE, jobs, _now())
    tally.finish(len(jobs))


def _now() -> int:
    return time.time_ns() // 1_000_000


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Connection]:
    db = await asyncpg.connect(url)
    try:
        yield db
    finally:
        await db.close()
