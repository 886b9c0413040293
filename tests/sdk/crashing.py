"""A task of steps and waits, and a worker process that dies at a given await."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from flowfabric import App, Context, OpenWaitpoint, Worker

from .processes import LEASE, LOOPS, note

STEPS = 10
CALLS = (
    "claim_many",
    "read_steps",
    "record_step",
    "server_time_ms",
    "delay",
    "create_waitpoint",
    "suspend",
    "read_last_suspension",
    "read_resume_signals",
    "complete_many",
    "complete_and_claim",
)
NEVER = 1_000_000
EXPECTED = [*range(STEPS), ["at once"], [42]]


class Fuse:
    """Counts the points that are passed, and kills the process at one of them."""

    def __init__(self, point: int) -> None:
        self.passed, self._point = 0, point

    def burn(self) -> None:
        self.passed += 1
        if self.passed == self._point:
            os.kill(os.getpid(), signal.SIGKILL)


def ten_steps(url: str, folder: str, fuse: Fuse, **more: Any) -> App:
    app = App(url, **more)

    async def body(evidence: Path, n: int) -> int:
        fuse.burn()
        note(evidence, f"ran {n}")
        fuse.burn()
        return n

    async def answer(link: OpenWaitpoint) -> None:
        fuse.burn()
        run = app.run(link.run)
        await run.signal(
            "approved",
            "at once",
            source="ann",
            waitpoint=link.waitpoint_id,
            token=link.token,
            key="ann",
        )
        fuse.burn()

    @app.task
    async def ten(ctx: Context, name: str) -> Any:
        evidence = Path(folder) / name
        found: list[Any] = []
        for n in range(STEPS):
            found.append(await ctx.step(f"step {n}", body, evidence, n))
            note(evidence, f"kept {n}")
            fuse.burn()
            if n == 2:
                await ctx.sleep("20ms")
                fuse.burn()
        found.append(
            [
                each.payload
                for each in (await ctx.approval("question", notify=answer, payload=str)).answers
            ]
        )
        fuse.burn()
        found.append([signal.payload for signal in await ctx.suspend("answer", payload=int)])
        fuse.burn()
        return found

    return app


def fused(engine: Any, fuse: Fuse, calls: Sequence[str] = CALLS) -> None:
    """Each engine call of the worker has a point before and one after it."""
    for name in calls:
        setattr(engine, name, _around(getattr(engine, name), fuse))


def _around(call: Any, fuse: Fuse) -> Any:
    @wraps(call)
    async def calling(*args: Any, **kwargs: Any) -> Any:
        asks = call.__name__ == "claim_many"
        if not asks:
            fuse.burn()
        answer = await call(*args, **kwargs)
        if answer or not asks:
            fuse.burn()
        return answer

    return calling


async def work_until_dead(
    url: str, folder: str, runs: Sequence[str], able: Sequence[str], point: int
) -> None:
    """Waits until all of these runs have ended or the process is killed."""
    fuse = Fuse(point)
    app = ten_steps(url, folder, fuse)
    fused(await app.engine(), fuse)
    async with app, Worker(app, capabilities=able, lease=LEASE, loops=LOOPS, concurrency=32):
        for run in runs:
            await app.run(run).result()
