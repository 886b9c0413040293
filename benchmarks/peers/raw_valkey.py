"""The raw limit on Valkey: bare valkey-glide on one hash and one sorted set, claimed in order and
completed by functions of the server, with no rule in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit
from uuid import uuid4

from glide import (
    GlideClient,
    GlideClientConfiguration,
    NodeAddress,
    PubSubMsg,
)

from benchmarks.peers.protocol import PAYLOAD, Tally, batches, sampled

DRAIN_BATCH = 100
CALL_MS = 10_000
DRAIN_SETTINGS = f"bare valkey-glide, batches of {DRAIN_BATCH}"
LATENCY_SETTINGS = "bare valkey-glide, insert-publish-claim-complete"
WORK, DONE = "{raw}work", "{raw}done"
READY, COUNT = "{raw}ready", "{raw}completed"

_FUNCTIONS = """#!lua name=raw_jobs
local READY, COUNT = '{raw}ready', '{raw}completed'
local function create(keys, args)
  local now = args[1]
  for at = 3, #args do
    server.call('HSET', keys[1] .. args[at], 'lane', 'bench', 'kind', 'bench', 'version', '0',
      'phase', 'runnable', 'eligibility', 'eligible_now', 'public_state', 'waiting',
      'created_at', now, 'payload', args[2])
    server.call('ZADD', READY, now, args[at])
  end
  return #args - 2
end
local function claim(keys, args)
  local picked, ids = server.call('ZPOPMIN', READY, args[1]), {}
  for at = 1, #picked, 2 do
    local id = picked[at]
    server.call('HSET', keys[1] .. id, 'version', '1', 'phase', 'active', 'ownership', 'leased',
      'eligibility', 'not_applicable', 'public_state', 'active', 'attempts', '1',
      'lease_epoch', '1', 'lease_id', args[2], 'worker', 'bench-1', 'lease_expires_at', args[3],
      'started_at', args[3])
    ids[#ids + 1] = id
  end
  return ids
end
local function complete(keys, args)
  for at = 2, #args do
    server.call('HSET', keys[1] .. args[at], 'version', '2', 'phase', 'terminal',
      'outcome', 'success', 'public_state', 'completed', 'finished_at', args[1], 'result', 'ok')
    server.call('HDEL', keys[1] .. args[at], 'ownership', 'lease_id', 'worker', 'lease_expires_at')
  end
  server.call('INCRBY', COUNT, #args - 1)
  return #args - 1
end
server.register_function('raw_create', create)
server.register_function('raw_claim', claim)
server.register_function('raw_complete', complete)
"""
_ROW = "{raw}job"


async def prepare(url: str) -> None:
    async with _connected(url) as db:
        await db.function_load(_FUNCTIONS, replace=True)


async def enqueue_many(url: str, n: int) -> float:
    async with _connected(url) as db:
        started = time.perf_counter()
        for size in batches(n):
            await _create(db, [_new_id() for _ in range(size)])
        return time.perf_counter() - started


async def enqueue_each(url: str, n: int) -> float:
    async with _connected(url) as db:
        started = time.perf_counter()
        for _ in range(n):
            await _create(db, [_new_id()])
        return time.perf_counter() - started


async def completed(url: str) -> int:
    async with _connected(url) as db:
        return int(await db.get(COUNT) or 0)


async def drain(url: str, n: int) -> float:
    """The next claim runs beside the last completion."""
    tally = Tally(n)
    async with _connected(url) as db:
        jobs = await _claim(db, DRAIN_BATCH)
        tally.start()
        while jobs:
            jobs, done = await asyncio.gather(_claim(db, DRAIN_BATCH), _complete(db, jobs))
            tally.finish(done)
    return tally.seconds


async def serve(url: str) -> None:
    woken = asyncio.Queue[str]()
    async with _connected(url, WORK, woken) as db:
        while True:
            while jobs := await _claim(db, 1):
                await _complete(db, jobs)
                for job in jobs:
                    await db.publish(job.decode(), DONE)
            await woken.get()


async def roundtrip(url: str, n: int) -> list[float]:
    done = asyncio.Queue[str]()
    async with _connected(url, DONE, done) as db:

        async def once() -> None:
            job = _new_id()
            await _create(db, [job])
            await db.publish(job, WORK)
            if (finished := await done.get()) != job:
                raise RuntimeError(f"waited for {job}, but {finished} was done")
            if await db.hget(_ROW + job, "result") != b"ok":
                raise RuntimeError(f"job {job} has another result")

        return await sampled(once, n)


async def _create(db: GlideClient, jobs: Sequence[str]) -> None:
    await db.fcall("raw_create", [_ROW], [_now(), PAYLOAD, *jobs])


async def _claim(db: GlideClient, limit: int) -> list[bytes]:
    found = await db.fcall("raw_claim", [_ROW], [str(limit), _new_id(), _now()])
    assert isinstance(found, list)
    return [each for each in found if isinstance(each, bytes)]


async def _complete(db: GlideClient, jobs: Sequence[bytes]) -> int:
    written = await db.fcall("raw_complete", [_ROW], [_now(), *jobs])
    assert isinstance(written, int)
    return written


def _new_id() -> str:
    return uuid4().hex


def _now() -> str:
    return str(time.time_ns() // 1_000_000)


@asynccontextmanager
async def _connected(
    url: str, channel: str = "", heard: asyncio.Queue[str] | None = None
) -> AsyncIterator[GlideClient]:
    loop = asyncio.get_running_loop()

    def told(message: PubSubMsg, _: object) -> None:
        text = message.message
        if heard is not None:
            loop.call_soon_threadsafe(
                heard.put_nowait, text.decode() if isinstance(text, bytes) else text
            )

    single = GlideClientConfiguration
    where = urlsplit(url)
    assert where.hostname is not None and where.port is not None
    subscriptions = (
        single.PubSubSubscriptions({single.PubSubChannelModes.Exact: {channel}}, told, None)
        if channel
        else None
    )
    db = await GlideClient.create(
        single(
            [NodeAddress(where.hostname, where.port)],
            request_timeout=CALL_MS,
            pubsub_subscriptions=subscriptions,
        )
    )
    try:
        yield db
    finally:
        await db.close()
