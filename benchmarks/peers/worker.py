"""The child process: `python -m benchmarks.peers.worker SYSTEM ACTION URL N`. Its last line is the
reply, as JSON.
"""

from __future__ import annotations

import argparse

import uvloop
from msgspec import json

from benchmarks.peers.protocol import Reply, System
from benchmarks.peers.systems import SYSTEMS, load

ACTIONS = ("prepare", "enqueue-many", "enqueue-each", "drain", "serve", "roundtrip")


async def perform(system: System, action: str, url: str, n: int) -> Reply:
    match action:
        case "prepare":
            await system.prepare(url)
        case "enqueue-many":
            return Reply(seconds=[await system.enqueue_many(url, n)])
        case "enqueue-each":
            return Reply(seconds=[await system.enqueue_each(url, n)])
        case "drain":
            return await _checked_drain(system, url, n)
        case "serve":
            await system.serve(url)
        case "roundtrip":
            return Reply(system.LATENCY_SETTINGS, await system.roundtrip(url, n))
    return Reply()


async def _checked_drain(system: System, url: str, n: int) -> Reply:
    seconds = await system.drain(url, n)
    done = await system.completed(url)
    if done != n:
        raise RuntimeError(f"the database says that {done} of {n} jobs have succeeded")
    return Reply(system.DRAIN_SETTINGS, [seconds])


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.peers.worker")
    parser.add_argument(
        "system", choices=sorted({name for each in SYSTEMS.values() for name in each})
    )
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("url")
    parser.add_argument("n", type=int)
    args = parser.parse_args()
    # PgQueuer depends on uvloop and runs on it; for equal terms, so do all with an event loop.
    reply = uvloop.run(perform(load(args.system, args.url), args.action, args.url, args.n))
    print("\n" + json.encode(reply).decode(), flush=True)


if __name__ == "__main__":
    main()
