"""One of several processes behind a pooler: pooled_child URL NUMBER [LISTEN_URL].

It runs the loops when it is elected, and works until its input ends. The first attempt of every
fifth execution fails, so that a timer must retry it.
"""

from __future__ import annotations

import asyncio
import sys

from flowfabric.connect import PostgresBackend
from flowfabric.engine.engine import Engine
from flowfabric.model.attempt import FailureClass
from tests.engine.helpers import worker


async def work(engine: Engine, number: int) -> None:
    while True:
        claimed = await engine.claim_many(
            "default", (), worker(number, 10_000, max_wait_ms=20_000), 4
        )
        for each in claimed:
            if each.execution_id.uuid.int % 5 == 0 and each.attempt_index == 0:
                await engine.fail(each.handle, "once", FailureClass.TRANSIENT)
            else:
                await engine.renew(each.handle)
                await engine.complete(each.handle, each.input_payload)


async def main(url: str, number: int, listen_url: str) -> None:
    engine = await PostgresBackend.connect(url, pooler=True, listen_url=listen_url)
    engine.with_scanners()
    workers = [asyncio.create_task(work(engine, number * 10 + n)) for n in range(4)]
    print("ready", flush=True)
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    await asyncio.wait({ended, *workers}, return_when=asyncio.FIRST_COMPLETED)
    for task in workers:
        task.cancel()
    results = await asyncio.gather(*workers, return_exceptions=True)
    await engine.close()
    wrong = [each for each in results if not isinstance(each, asyncio.CancelledError)]
    print("stopped" if not wrong else repr(wrong), flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else ""))
