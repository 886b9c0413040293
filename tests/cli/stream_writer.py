"""A worker process that writes frames given on standard input, a type and a text per line."""

from __future__ import annotations

import asyncio
import sys

from flowfabric import (
    BestEffortLive,
    ClaimPolicy,
    CreateExecutionArgs,
    Durable,
    DurableSummary,
    ExecutionId,
    ExecutionPolicy,
    Frame,
    FrameKind,
    Handle,
    RetryPolicy,
    connect,
)
from flowfabric.model.stream import FrameMode

LANE = "writers"
KINDS = {
    "out": FrameKind.Stdout,
    "err": FrameKind.Stderr,
    "event": FrameKind.Event,
    "blob": FrameKind.Blob,
}
MODES: dict[str, FrameMode] = {"sum": DurableSummary(), "live": BestEffortLive(60_000)}


def framed(word: str, text: str) -> Frame:
    data = b"\xff\x00\xfe" if word == "blob" else text.encode().decode("unicode_escape").encode()
    return Frame(data, KINDS.get(word, FrameKind.Event), mode=MODES.get(word, Durable()))


async def main(url: str, ident: str) -> None:
    engine = await connect(url, dev=True, loops=False)
    policy = ExecutionPolicy(
        retry_policy=RetryPolicy(max_retries=3, backoff={"type": "fixed", "delay_ms": 0})
    )
    await engine.create_execution(
        CreateExecutionArgs(execution_id=ExecutionId(ident), lane_id=LANE, policy=policy)
    )
    handle: Handle | None = None
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        word, _, text = line.rstrip("\n").partition(" ")
        if word == "claim":
            handle = await engine.claim(LANE, (), ClaimPolicy("w", "w-1", 600_000))
        assert handle is not None
        if word == "fail":
            await engine.fail(handle, "nope")
        elif word == "complete":
            await engine.complete(handle)
        elif word != "claim":
            await engine.append_frame(handle, framed(word, text))
        print("done", flush=True)
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
