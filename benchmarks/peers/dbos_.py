"""DBOS: a workflow without steps on a queue. It polls, so both polls are set far below their second
by default.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy
from dbos import DBOS, DBOSClient, EnqueueOptions, run_dbos_database_migrations

from benchmarks.peers.protocol import PAYLOAD, Tally, batches, sampled

CONCURRENCY = 100
POLL_S = 0.01
RESULT_POLL_S = 0.001
DRAIN_SETTINGS = f"worker_concurrency {CONCURRENCY}, queue polled every 10 ms"
LATENCY_SETTINGS = "queue polled every 10 ms, result every 1 ms"
JOB = "noop"
QUEUE = "bench"
OPTIONS: EnqueueOptions = {"workflow_name": JOB, "queue_name": QUEUE}
RESULT = "ok"


async def prepare(url: str) -> None:
    await asyncio.to_thread(run_dbos_database_migrations, url)
    with _client(url) as client:
        await client.register_queue_async(
            QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=POLL_S
        )


async def enqueue_many(url: str, n: int) -> float:
    return await asyncio.to_thread(_enqueue_many, url, n)


def _enqueue_many(url: str, n: int) -> float:
    """It has no call for many, so many share a transaction."""
    engine = sqlalchemy.create_engine(sqlalchemy.make_url(url).set(drivername="postgresql+psycopg"))
    with _client(url) as client, engine.connect() as connection:
        started = time.perf_counter()
        for size in batches(n):
            for _ in range(size):
                client.enqueue_in_transaction(connection, OPTIONS, PAYLOAD)
            connection.commit()
        return time.perf_counter() - started


async def enqueue_each(url: str, n: int) -> float:
    return await asyncio.to_thread(_enqueue_each, url, n)


def _enqueue_each(url: str, n: int) -> float:
    with _client(url) as client:
        started = time.perf_counter()
        for _ in range(n):
            client.enqueue(OPTIONS, PAYLOAD)
        return time.perf_counter() - started


async def completed(url: str) -> int:
    with _client(url) as client:
        return len(
            await client.list_workflows_async(status="SUCCESS", load_input=False, load_output=False)
        )


async def drain(url: str, n: int) -> float:
    return await asyncio.to_thread(_drain, url, n)


def _drain(url: str, n: int) -> float:
    """No event reports a committed outcome, so the last ones are polled after every handler."""
    tally, handled = Tally(n), Tally(n)
    returned = threading.Event()

    @DBOS.workflow(name=JOB)
    def noop(payload: bytes) -> str:
        tally.start()
        if handled.finish():
            returned.set()
        return RESULT

    with _launched(url):
        returned.wait()
        while DBOS.list_workflows(
            status=["ENQUEUED", "PENDING"], limit=1, load_input=False, load_output=False
        ):
            pass
        tally.finish(n)
    return tally.seconds


async def serve(url: str) -> None:
    await asyncio.to_thread(_serve, url)


def _serve(url: str) -> None:
    @DBOS.workflow(name=JOB)
    def noop(payload: bytes) -> str:
        return RESULT

    with _launched(url):
        threading.Event().wait()


async def roundtrip(url: str, n: int) -> list[float]:
    """The calls block this process's loop, which does nothing else: a thread in between would only
    add to the time.
    """
    with _client(url) as client:

        async def once() -> None:
            result: object = client.enqueue(OPTIONS, PAYLOAD).get_result(
                polling_interval_sec=RESULT_POLL_S
            )
            if result != RESULT:
                raise RuntimeError(f"a workflow returned {result!r}")

        return await sampled(once, n)


@contextmanager
def _client(url: str) -> Iterator[DBOSClient]:
    client = DBOSClient(system_database_url=url)
    try:
        yield client
    finally:
        client.destroy()


@contextmanager
def _launched(url: str) -> Iterator[None]:
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
    DBOS.launch()
    try:
        yield
    finally:
        DBOS.destroy()
