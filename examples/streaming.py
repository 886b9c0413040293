"""A model streams tokens: one reader reconnects, another starts late, and both read every frame."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from flowfabric import (
    BestEffortLive,
    ClaimPolicy,
    CreateExecutionArgs,
    DurableSummary,
    Engine,
    ExecutionId,
    ExecutionPolicy,
    Frame,
    FrameKind,
    RetryPolicy,
    Visibility,
    connect,
)

LANE = "answers"
RETRY_AT_ONCE = ExecutionPolicy(
    retry_policy=RetryPolicy(max_retries=1, backoff={"type": "fixed", "delay_ms": 0})
)
ANSWER = "Short waves are scattered most, so the light that comes from all over the sky is blue."
LENGTH, BREAKS_AFTER = len(ANSWER.split()), 7
Seen = list[tuple[int, str, str]]


async def fake_model(breaks: bool) -> AsyncIterator[str]:
    """No network: it yields one token after the other, and fails midway on the first attempt."""
    for at, token in enumerate(ANSWER.split()):
        if breaks and at == BREAKS_AFTER:
            raise ConnectionError("the model hung up")
        await asyncio.sleep(0.01)
        yield token


async def work(engine: Engine, half: asyncio.Event, written: set[tuple[int, str]]) -> None:
    """Two attempts at one answer. The sequence numbers make it safe to repeat an append."""
    for attempt in range(2):
        (job,) = await engine.claim_many(LANE, (), ClaimPolicy("writer", "writer-1"), 1)
        at = 0
        try:
            async for token in fake_model(breaks=attempt == 0):
                at += 1
                document = json.dumps({"tokens": at, "last": token}).encode()
                frames = [
                    Frame(f"{token} ".encode(), FrameKind.Stdout, "delta", seq=2 * at),
                    Frame(document, FrameKind.Event, seq=2 * at + 1, mode=DurableSummary()),
                    Frame(
                        f"{at / LENGTH:.0%}".encode(),
                        FrameKind.Event,
                        "gauge",
                        mode=BestEffortLive(ttl_ms=5_000),
                    ),
                ]
                *kept, _ = await engine.append_frames(job.handle, frames)
                written.update((attempt, outcome.frame_id) for outcome in kept)
                if attempt == 1 and at == LENGTH // 2:
                    half.set()
            await engine.complete(job.handle)
        except ConnectionError as error:
            print(f"worker  {error} after {at} tokens; another attempt")
            await engine.fail(job.handle, str(error))


async def follow(engine: Engine, job: ExecutionId, seen: Seen, at_most: int = 10_000) -> None:
    """Reads from the last frame seen to the end, or until the connection is lost."""
    attempt, after = (seen[-1][0], seen[-1][1]) if seen else (0, "0-0")
    async for number, frame in engine.follow_stream(
        job, attempt, after, Visibility.ExcludeBestEffort
    ):
        seen.append((number, frame.id, frame.fields["payload"] if frame.mode == "durable" else ""))
        at_most -= 1
        if not at_most:
            return


def text(seen: Seen, attempt: int) -> str:
    return "".join(payload for number, _, payload in seen if number == attempt).rstrip()


async def on_a_phone(engine: Engine, job: ExecutionId) -> Seen:
    seen: Seen = []
    for frames_until_it_breaks in (5, 20):
        await follow(engine, job, seen, frames_until_it_breaks)
        attempt, frame_id, _ = seen[-1]
        print(f"phone   loses its connection: {text(seen, attempt)} ...")
        print(f"phone   continues after frame {frame_id} of attempt {attempt}")
    await follow(engine, job, seen)
    print(f"phone   has it all: {text(seen, 1)}")
    return seen


async def late_reader(engine: Engine, job: ExecutionId, half: asyncio.Event) -> Seen:
    await half.wait()
    summary = await engine.read_summary(job, 1)
    assert summary is not None
    print(f"late    starts midway and reads the summary first: {summary.document_json.decode()}")
    seen: Seen = []
    await follow(engine, job, seen)
    print(f"late    has it all: {text(seen, 1)}")
    return seen


async def main(path: str) -> None:
    async with await connect(f"sqlite:///{path}", dev=True) as engine:
        job = ExecutionId.solo(LANE)
        await engine.create_execution(
            CreateExecutionArgs(execution_id=job, lane_id=LANE, policy=RETRY_AT_ONCE)
        )
        half, written = asyncio.Event(), set[tuple[int, str]]()
        phone, late, _ = await asyncio.gather(
            on_a_phone(engine, job), late_reader(engine, job, half), work(engine, half, written)
        )
        for seen in (phone, late):
            ids = [(attempt, frame_id) for attempt, frame_id, _ in seen]
            assert len(ids) == len(set(ids)) and set(ids) == written, (
                "every frame that is kept, exactly once"
            )
        document = await engine.read_summary(job, 1)
        assert document is not None and document.version == LENGTH
        print(
            f"all     {len(written)} frames were seen exactly once by both; "
            f"the summary: {document.document_json.decode()}"
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(str(Path(folder) / "answers.db")))
