"""How long one waits at the beginning: for the import, and for the first job of
`flowfabric dev`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.report import Measured
from flowfabric import App

DEV, IMPORT = "dev-start", "import-time"
BARE = "asyncio, msgspec, sqlite3"
TIMED = "import time; began = time.process_time(); import {}; print(time.process_time() - began)"
PATIENCE_S = 60.0
CODE = """
from flowfabric import App

app = App("sqlite:///ff.db")


@app.task
async def first() -> str:
    return "done"
"""


async def run_dev(store: str, n: int, workers: int) -> list[Measured]:
    """From the command to the line that says that a job, which was waiting already, is done."""
    logging.getLogger("flowfabric").setLevel(logging.ERROR)
    with TemporaryDirectory(prefix="flowfabric-bench-", dir=".") as place:
        env = _with_bytecode(place)
        first = [await _until_done(Path(place), env) for _ in range(n + 1)][
            1:
        ]  # the very first writes the bytecode
        bare = [
            await asyncio.to_thread(_seconds_of, ["-c", f"import {BARE}"], env) for _ in range(n)
        ]
    return [
        Measured(
            scenario=DEV,
            store="sqlite",
            system=f"python -c 'import {BARE}'",
            n=n,
            p50_ms=median(bare) * 1_000,
        ),
        Measured(
            scenario=DEV,
            store="sqlite",
            system="flowfabric dev: first job done",
            n=n,
            p50_ms=median(first) * 1_000,
        ),
    ]


def _with_bytecode(place: str) -> dict[str, str]:
    """As a package that was installed has it, whatever this environment says of it."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(Path(place).resolve() / "bytecode")}


async def _until_done(place: Path, env: Mapping[str, str]) -> float:
    with TemporaryDirectory(dir=place) as folder:
        await asyncio.to_thread(Path(folder, "app.py").write_text, CODE, encoding="utf-8")
        async with App(f"sqlite:///{folder}/ff.db") as app:

            @app.task
            async def first() -> str: ...  # type: ignore[empty-body]

            await first.submit()
        return await asyncio.to_thread(_seconds_until_done, folder, env)


def _seconds_until_done(folder: str, env: Mapping[str, str]) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "flowfabric.cli.main", "dev", "app.py"]
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as dev:
        try:
            assert dev.stdout is not None
            for line in dev.stdout:
                if ": done" in line:
                    return time.perf_counter() - began
        finally:
            dev.terminate()
            dev.wait(PATIENCE_S)
    raise RuntimeError("flowfabric dev ended before the job was done")


def _seconds_of(args: list[str], env: Mapping[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *args], env=env, check=True, timeout=PATIENCE_S)
    return time.perf_counter() - began


async def run_import(store: str, n: int, workers: int) -> list[Measured]:
    """Processor time of fresh processes, the bare ones in between."""
    with TemporaryDirectory(prefix="flowfabric-bench-", dir=".") as place:
        env = _with_bytecode(place)
        taken: dict[str, list[float]] = {
            modules: [] for modules in (BARE, "flowfabric", "flowfabric.cli.main")
        }
        for turn in range(n + 1):
            for modules, spent in taken.items():
                seconds = await asyncio.to_thread(_imported, modules, env)
                if turn:  # the first writes the bytecode
                    spent.append(seconds)
    bare = median(taken[BARE])
    return [
        Measured(
            scenario=IMPORT,
            store="-",
            system=f"import {modules}",
            n=n,
            p50_ms=median(spent) * 1_000,
            ratio_to_raw=median(spent) / bare,
        )
        for modules, spent in taken.items()
    ]


def _imported(modules: str, env: Mapping[str, str]) -> float:
    done = subprocess.run(
        [sys.executable, "-c", TIMED.format(modules)],
        env=env,
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    return float(done.stdout)
