"""Leads the loops of a database: leader_child URL [seconds its event loop is blocked]."""

from __future__ import annotations

import asyncio
import sys
import time

from flowfabric.connect import connect_store


async def main(url: str, block_s: float) -> None:
    engine = await connect_store(url)
    while not engine.loops.leads:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    print("leads", flush=True)
    time.sleep(block_s)  # noqa: ASYNC251
    await asyncio.sleep(600)


asyncio.run(main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0))
