"""A parent of three children, twice, and a worker process that dies at a given await."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import structs

from flowfabric import App, Context, Worker

from .crashing import NEVER, Fuse, fused
from .processes import LOOPS, note

CHILDREN = 3
EXPECTED = [[0, 2, 4], [10, 12, 14]]
RUNS = 1 + 2 * (CHILDREN + 1)
CALLS = (
    "claim_many",
    "read_steps",
    "record_step",
    "submit_flow",
    "create_waitpoint",
    "flow_members",
    "suspend",
    "read_outcome",
    "list_pending_waitpoints",
    "deliver_signal",
    "complete_many",
    "complete_and_claim",
)
TILL_THE_NEXT, LONG = "2500ms", "1m"
"""The lease of the process after a kill, and one that does not expire on a slow machine."""
FAST = structs.replace(LOOPS, dependency_reconciler_ms=100)


def family_app(url: str, lane: str, folder: str, fuse: Fuse, **more: Any) -> App:
    app = App(url, **more)

    @app.task(lane=lane)
    async def double(n: int) -> int:
        fuse.burn()
        note(Path(folder) / lane, f"ran {n}")
        fuse.burn()
        return 2 * n

    @app.task(lane=lane)
    async def parent(ctx: Context) -> list[list[int]]:
        first = await ctx.children(*(double.call(n) for n in range(CHILDREN)))
        fuse.burn()
        second = await ctx.children(*(double.call(5 + n) for n in range(CHILDREN)))
        fuse.burn()
        return [first, second]

    return app


async def raise_family(url: str, lane: str, folder: str, run: str, point: int) -> None:
    """Waits until the run has ended or the process is killed."""
    fuse = Fuse(point)
    app = family_app(url, lane, folder, fuse)
    fused(await app.engine(), fuse, CALLS)
    async with (
        app,
        Worker(app, lease=LONG if point == NEVER else TILL_THE_NEXT, loops=FAST, concurrency=2),
    ):
        await app.run(run).result()
