"""Two processes with one schedule: each tick is exactly one execution."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from flowfabric import App
from flowfabric.connect import read_tables
from flowfabric.sdk.schedules import MAX_AT_ONCE
from flowfabric.store.schema import TABLES

from .processes import STORES, ask_to_end, ended, eventually, noted, started, url_on
from .ticking import BEGIN_MS, MINUTE_MS, SharedClock, tick, ticking

LOOK_S, QUIET_LOOKS = 0.1, 10
pytestmark = pytest.mark.timeout(900)
"""The deadlines are those of `eventually`, which start again at every progress."""


class Minutes:
    """A database, the shared clock, and the recorded runs."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder, self.clock = url, folder, SharedClock(folder)
        self.at = 0
        self.move(0)
        self.app = ticking(url, folder)

    def move(self, minutes: int) -> None:
        self.at += minutes
        self.clock.set(BEGIN_MS + self.at * MINUTE_MS)

    def scheduler(self) -> Any:
        return started(tick, self.url, str(self.folder))

    async def have_run(self, minutes: set[int]) -> None:
        """Each of these ticks has run once, and no other."""
        await eventually(lambda: self.ran() >= minutes, progress=self.ran)
        assert self.ran() == minutes
        assert await asyncio.to_thread(self.executions) == Counter(minutes)

    async def catch_up(self) -> None:
        """Moves the time until every minute up to now has run: leases of dead processes expire.

        The time moves only when nothing has run for a second, so that a slow machine keeps up.
        """
        had, quiet = 0, 0

        def is_done() -> bool:
            nonlocal had, quiet
            ran = self.ran()
            if ran >= set(range(1, self.at + 1)):
                return True
            had, quiet = len(ran), quiet + 1 if len(ran) == had else 0
            if quiet == QUIET_LOOKS:
                self.move(1)
                quiet = 0
            return False

        await eventually(is_done, LOOK_S, self.ran)
        await self.have_run(set(range(1, self.at + 1)))

    def ran(self) -> set[int]:
        return {_minute(line) for line in noted(self.folder / "evidence")}

    def executions(self) -> Counter[int]:
        """How often each tick was submitted."""
        columns = [column.name for column in TABLES["ff_exec_core"].columns]
        key = columns.index("idempotency_key")
        rows = read_tables(self.url, ["ff_exec_core"])["ff_exec_core"]
        return Counter(
            (int(row[key].rpartition("@")[2]) - BEGIN_MS - 10) // MINUTE_MS + 1 for row in rows
        )

    async def begun(self, app: App) -> None:
        await (await app.engine()).begin_schedule(app.namespace, "minute")


def _minute(text: str) -> int:
    """The first tick after the beginning is number one."""
    return (
        round(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1_000) - BEGIN_MS - 10
    ) // MINUTE_MS + 1


@pytest.fixture(params=STORES)
def minutes(request: pytest.FixtureRequest, tmp_path: Path) -> Minutes:
    return Minutes(url_on(request.param, tmp_path), tmp_path)


async def drained(*processes: BaseProcess) -> None:
    for process in processes:
        ask_to_end(process)
    for process in processes:
        assert await ended(process) == 0


async def test_two_processes_share_what_was_missed_and_what_comes(minutes: Minutes) -> None:
    """More ticks were missed than one batch holds; one of two processes dies in between."""
    async with minutes.app as app:
        await minutes.begun(app)
        missed = MAX_AT_ONCE + 60
        minutes.move(missed)
        with minutes.scheduler() as one, minutes.scheduler() as two:
            await eventually(
                lambda: len(minutes.ran()) > 10 and len(noted(minutes.folder / "workers")) == 2
            )
            one.kill()
            await minutes.catch_up()
            with minutes.scheduler() as three:
                await eventually(lambda: len(noted(minutes.folder / "workers")) == 3)
                for _ in range(10):
                    minutes.move(1)
                await minutes.catch_up()
                await drained(two, three)


async def test_pause_and_resume_apply_to_every_process(minutes: Minutes) -> None:
    async with minutes.app as app:
        await minutes.begun(app)
        engine, schedule = await app.engine(), app.schedules["minute"]
        with minutes.scheduler() as one, minutes.scheduler() as two:
            minutes.move(3)
            await minutes.have_run({1, 2, 3})
            assert (await schedule.pause(), await schedule.pause()) == (True, False)
            minutes.move(4)

            async def seen() -> bool:
                mark = (await engine.read_schedules(app.namespace)).marks["minute"]
                return mark.cursor_ms == minutes.clock()

            await eventually(seen)
            assert (await schedule.resume(), await schedule.resume()) == (True, False)
            minutes.move(2)
            await minutes.have_run({1, 2, 3, 8, 9})
            await drained(one, two)
