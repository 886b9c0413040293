"""`flowfabric demo`: three workers, one killed and one frozen, and a check of the result."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from flowfabric.cli import demo_worker, verify
from flowfabric.cli.demo_worker import LEASE_MS
from flowfabric.cli.exits import refuse_windows
from flowfabric.cli.text import console
from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError
from flowfabric.verify.invariants import check

WORKERS = 3
KILL_AT, FREEZE_AT = 0.2, 0.4
FROZEN_S = LEASE_MS / 1000 * 1.6
DEADLINE_S = 18.0
KILLED = "killed worker-2 (SIGKILL): its leases expire and others reclaim its jobs"
FROZEN = "froze worker-3 (SIGSTOP) for longer than its leases"
THAWED = "resumed worker-3 (SIGCONT): its late writes are refused"


class Fleet:
    """The worker processes and the number of refused writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.workers: dict[str, asyncio.subprocess.Process] = {}
        self.refusals = 0
        self.refused = asyncio.Event()
        self._readers: list[asyncio.Task[None]] = []

    async def start(self, name: str) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "flowfabric.cli.demo_worker",
            str(self._path),
            name,
            stdout=asyncio.subprocess.PIPE,
        )
        self.workers[name] = process
        self._readers.append(asyncio.create_task(self._read(process)))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            if json.loads(line)["kind"] == "refused":
                self.refusals += 1
                self.refused.set()

    def signal(self, name: str, number: signal.Signals) -> None:
        os.kill(self.workers[name].pid, number)

    async def stop(self) -> None:
        for process in self.workers.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await asyncio.gather(*(p.wait() for p in self.workers.values()), *self._readers)


def run(
    jobs: Annotated[int, typer.Option(min=1, max=10_000, help="How many jobs to run.")] = 200,
    keep: Annotated[Path | None, typer.Option(help="Keep the database at this path.")] = None,
) -> int:
    """Runs jobs on SQLite with three workers, kills one, freezes one, and checks the result."""
    refuse_windows("demo", "it needs SIGSTOP; use WSL")
    with tempfile.TemporaryDirectory(prefix="flowfabric-demo-") as folder:
        path = keep or Path(folder) / "demo.db"
        if path.exists():
            raise ConfigError(f"--keep: {path} exists; choose a new path")
        workers = f"{WORKERS} worker processes"
        console.print(f"[bold]FlowFabric demo[/bold]: {jobs} jobs on SQLite, {workers}")
        return asyncio.run(_show(jobs, path))


async def _show(jobs: int, path: Path) -> int:
    app = demo_worker.build_app(str(path))
    await app.tasks["job"].submit_many(range(jobs))
    fleet = Fleet(path)
    try:
        finished = await _drive(await app.engine(), fleet, jobs)
    finally:
        await fleet.stop()
        await app.close()
    snapshot = verify.load(str(path))
    violations = check(snapshot)
    facts = verify.summary(snapshot)
    lost = (
        facts["created"] - facts["completed once"] - facts["done twice"]
        if finished
        else facts["not ended"]
    )
    console.print(_verdict(facts, fleet.refusals, lost, len(violations)))
    verify.print_violations(violations)
    wrong = lost or facts["done twice"] or facts["created"] != jobs
    healthy = finished and not violations and not wrong
    console.print(
        "[green]No job lost, no job run twice.[/green]" if healthy else "[red]Check failed.[/red]"
    )
    return 0 if healthy else 1


async def _drive(engine: EngineProtocol, fleet: Fleet, jobs: int) -> bool:
    for name in ("worker-1", "worker-2", "worker-3"):
        await fleet.start(name)
    events = await engine.subscribe_completion(BEGINNING)
    now = time.monotonic
    deadline, thaw_at, done = now() + DEADLINE_S, float("inf"), 0
    steps: list[tuple[str, signal.Signals, str, Callable[[], bool]]] = [
        ("worker-2", signal.SIGKILL, KILLED, lambda: done >= jobs * KILL_AT),
        ("worker-3", signal.SIGSTOP, FROZEN, lambda: done >= jobs * FREEZE_AT),
        ("worker-3", signal.SIGCONT, THAWED, lambda: now() >= thaw_at),
    ]
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("completed", total=jobs, note="")
        while now() < deadline and (done < jobs or len(steps) == 1):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await anext(events)
                    done += 1
            while steps and steps[0][3]():
                name, number, text, _ = steps.pop(0)
                fleet.signal(name, number)
                thaw_at = now() + FROZEN_S if number is signal.SIGSTOP else thaw_at
                progress.console.print(f"  {text}")
            progress.update(bar, completed=done, note=f"{fleet.refusals} late writes refused")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await fleet.refused.wait()  # a resumed worker with a lost lease reports it soon
        progress.update(bar, completed=done, note=f"{fleet.refusals} late writes refused")
    return done >= jobs


def _verdict(facts: dict[str, int], refused: int, lost: int, violations: int) -> Table:
    table = Table(title="Read back from the database", title_justify="left", show_header=False)
    table.add_column("what")
    table.add_column("count", justify="right")
    for what, count in (
        ("created", facts["created"]),
        ("completed once", facts["completed once"]),
        ("reclaimed with a higher epoch", facts["taken over"]),
        ("late writes refused", refused),
    ):
        table.add_row(what, str(count))
    for what, count in (
        ("lost", lost),
        ("completed twice", facts["done twice"]),
        ("invariants violated", violations),
    ):
        table.add_row(what, verify.shown_count(count))
    return table
