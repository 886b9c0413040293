"""Tasks and worker processes of the tests with several processes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flowfabric import App, Context, Retry, Worker

from .processes import LEASE, LOOPS, note


def labours(url: str, folder: str) -> App:
    app = App(url)
    evidence = Path(folder) / "evidence"

    @app.task
    async def asks(ctx: Context) -> list[Any]:
        first = await ctx.step("first", os.getpid)
        (answer,) = await ctx.suspend("answer", payload=str)
        return [first, answer.payload, os.getpid()]

    @app.task
    async def lasts(name: str, seconds: float) -> int:
        note(evidence, f"begins {name} {os.getpid()}")
        await asyncio.sleep(seconds)
        note(evidence, f"ends {name} {os.getpid()}")
        return os.getpid()

    @app.task
    async def blocks(ctx: Context, seconds: float) -> list[int]:
        note(evidence, f"begins blocks {os.getpid()}")
        time.sleep(seconds)  # noqa: ASYNC251 - the point of it
        return [ctx.attempt, await ctx.step("after", lambda: 42)]

    @app.task
    async def held(ctx: Context) -> str:
        note(evidence, f"begins held {os.getpid()}")
        try:
            await asyncio.sleep(0 if ctx.attempt or (Path(folder) / "lost").exists() else 600)
        except asyncio.CancelledError:
            note(Path(folder) / "lost", f"lost {ctx.lost.is_set()}")
            raise
        return "done"

    @app.task(timeout="2s", retry=Retry(max=5, backoff="fixed", base="100ms"))
    async def limited() -> int:
        note(evidence, f"begins limited {os.getpid()}")
        await asyncio.sleep(0 if (Path(folder) / "lost").exists() else 600)
        return os.getpid()

    @app.task
    async def counts(n: int) -> int:
        note(evidence, f"begins {n} {os.getpid()}")
        await asyncio.sleep(0.005)
        note(evidence, f"ends {n} {os.getpid()}")
        return n

    return app


async def labour(url: str, folder: str, options: Mapping[str, Any]) -> None:
    """Works until SIGTERM."""
    app = labours(url, folder)
    async with app:
        worker = Worker(app, **{"lease": LEASE, "loops": LOOPS, **options})
        note(Path(folder) / "workers", f"{os.getpid()} {worker.instance_id}")
        await worker.run()
    note(Path(folder) / "workers", f"{os.getpid()} drained {worker.done}")
