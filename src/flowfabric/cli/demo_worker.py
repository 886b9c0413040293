"""A worker process of the demo: claims, works a little, renews, completes, and reports each step on stdout."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys

from flowfabric.connect import SqliteBackend
from flowfabric.engine.kernel import Settings
from flowfabric.errors import EngineError
from flowfabric.loops.loop import LoopSettings
from flowfabric.model.lease import ClaimPolicy, Work

LEASE_MS = 1_500
SLOTS = 4
GRACE_MS = 200
SHORTEST_JOB_S, LONGEST_JOB_S = 0.08, 0.24


def say(kind: str, **facts: object) -> None:
    """One write per line, so that a killed worker never leaves half of one."""
    os.write(1, json.dumps({"kind": kind, **facts}).encode() + b"\n")


async def work(engine: SqliteBackend, job: Work, slots: asyncio.Semaphore) -> None:
    try:
        renewing = asyncio.create_task(_renew(engine, job))
        await asyncio.sleep(random.uniform(SHORTEST_JOB_S, LONGEST_JOB_S))  # noqa: S311
        renewing.cancel()
        await engine.complete(job.handle, b"done")
        say("completed", epoch=job.lease_epoch)
    except EngineError as error:
        say("refused", code=error.code, epoch=job.lease_epoch)
    finally:
        slots.release()


async def _renew(engine: SqliteBackend, job: Work) -> None:
    while True:
        await asyncio.sleep(LEASE_MS / 3000)
        try:
            await engine.renew(job.handle)
        except EngineError:
            return  # the lease is gone; the completion will hear why


async def main(path: str, name: str) -> None:
    logging.disable(logging.WARNING)
    engine = await SqliteBackend.new(path, dev=True, settings=Settings(lease_reclaim_grace_ms=GRACE_MS))
    engine.with_scanners(LoopSettings(lease_expiry_ms=250))
    policy = ClaimPolicy("demo", name, LEASE_MS, max_wait_ms=1_000)
    slots = asyncio.Semaphore(SLOTS)
    running: set[asyncio.Task[None]] = set()
    say("started", pid=os.getpid())
    while True:
        await slots.acquire()
        jobs = await engine.claim_many("demo", (), policy, 1)
        if not jobs:
            slots.release()
            continue
        say("claimed", epoch=jobs[0].lease_epoch)
        task = asyncio.create_task(work(engine, jobs[0], slots))
        running.add(task)
        task.add_done_callback(running.discard)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
