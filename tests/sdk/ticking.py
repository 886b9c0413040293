"""Worker processes with a schedule and a shared clock that the test moves."""

from __future__ import annotations

import os
from pathlib import Path

from flowfabric import App, Context, Worker

from .processes import LEASE, LOOPS, note

MINUTE_MS = 60_000
BEGIN_MS = 1_800_000_000_000 - 10
"""Just before a full minute, so that the next tick is near."""


class SharedClock:
    """The time is the content of a file."""

    def __init__(self, folder: Path | str) -> None:
        self._file, self._next = Path(folder) / "clock", Path(folder) / "clock.next"

    def __call__(self) -> int:
        return int(self._file.read_text())

    def set(self, now_ms: int) -> None:
        self._next.write_text(str(now_ms))
        os.replace(self._next, self._file)


def ticking(url: str, folder: Path | str) -> App:
    app = App(url, clock=SharedClock(folder))
    evidence = Path(folder) / "evidence"

    @app.schedule("* * * * *", catch_up="all")
    @app.task
    async def minute(ctx: Context) -> None:
        note(evidence, ctx.tags["schedule.tick"])

    return app


async def tick(url: str, folder: str) -> None:
    """Works until SIGTERM."""
    app = ticking(url, folder)
    async with app:
        worker = Worker(app, lease=LEASE, loops=LOOPS, concurrency=20)
        note(Path(folder) / "workers", str(os.getpid()))
        await worker.run()
