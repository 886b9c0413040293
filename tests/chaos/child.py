"""The common part of every process of a run: arguments, log, engine, signals, end."""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from multiprocessing import forkserver
from pathlib import Path

from msgspec import Struct

from flowfabric import Engine
from flowfabric.connect import is_server
from flowfabric.errors import TransportError

from .clocks import read_set_clock, true_ns
from .logs import Log
from .one_cell import use_one_cell
from .plan import LOOPS
from .stores import open_engine
from .vitals import tell_vitals

CALM = "calm"
DRIVER_SAYS = "unexpected connection_lost() call"
_PR_SET_PDEATHSIG = 1
LEAD_S = 0.25


class Soak(Struct, frozen=True):
    """The differences of a run of many minutes. Processes of `spared` roles are not killed; ended
    executions of workers are removed after `kept_ms`.
    """

    spared: tuple[str, ...]
    kept_ms: int


class Setup(Struct, frozen=True):
    """Passed as one JSON argument."""

    url: str
    folder: str
    instance: str
    seed: int
    executions: int
    tasks: int
    rate: float
    soak: Soak | None = None

    @property
    def role(self) -> str:
        return self.instance.rpartition("-")[0]

    @property
    def is_spared(self) -> bool:
        return self.soak is not None and self.role in self.soak.spared

    @property
    def calm(self) -> bool:
        """The nemesis has stopped; nobody dies on purpose any more."""
        return (Path(self.folder) / CALM).exists()

    @property
    def may_die(self) -> bool:
        """Whether a process that was armed to end at a point does so, or blocks its event loop."""
        return not self.calm and not self.is_spared


def leader_file(folder: str | Path) -> Path:
    """Names the last process that ran the loops."""
    return Path(folder) / "leader"


Main = Callable[[Setup, Engine, Log, asyncio.Event], Awaitable[None]]


def die() -> None:
    """Like a failure of the machine: nothing is flushed, closed or answered."""
    os.kill(os.getpid(), signal.SIGKILL)


def begin(role: str, setup: Setup) -> None:
    """The whole process, starting right after the fork."""
    _end_with_the_run()
    use_one_cell()
    if not is_server(setup.url) or "worker" in role:
        read_set_clock(setup.folder)
    errors = os.open(
        Path(setup.folder) / f"{setup.instance}.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
    )
    for stream in (1, 2):
        os.dup2(errors, stream)
    logging.basicConfig(level=logging.ERROR, format="%(name)s: %(message)s")
    if is_server(setup.url):
        logging.getLogger().handlers[0].addFilter(_is_no_outage)
    asyncio.run(_live(setup, importlib.import_module(module_of(role)).main))


def module_of(role: str) -> str:
    """A name with a dot is a module of another package."""
    return role if "." in role else f"{__package__}.{role}"


def _is_no_outage(record: logging.LogRecord) -> bool:
    """Outages are planned: log lines of the engine and the driver about them are expected. A task
    that fails because of one is not.
    """
    error = record.exc_info[1] if record.exc_info else None
    ours = (
        isinstance(error, TransportError)
        and error.retryable
        and record.name.startswith("flowfabric.")
    )
    return not ours and str(error) != DRIVER_SAYS


def _end_with_the_run() -> None:
    """Also when the run itself is killed: the fork server ends when the last holder of its pipe is
    gone, and ends its processes, stopped or not.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    held = getattr(forkserver._forkserver, "_forkserver_alive_fd", None)
    if held is not None:
        os.close(held)


async def _live(setup: Setup, main: Main) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # the parent decides
    log = Log(Path(setup.folder), setup.instance, true_ns if is_server(setup.url) else None)
    engine = await open_engine(setup.url)
    log.write("note", "born", pid=os.getpid())
    if is_server(setup.url):
        engine.with_scanners(
            LOOPS
        )  # everybody stands for election, so that a dead leader is followed
    beside = [asyncio.create_task(_tell_lead(setup, engine))]
    if setup.is_spared:
        beside.append(asyncio.create_task(tell_vitals(log)))
    try:
        await main(setup, engine, log, stop)
    finally:
        for task in beside:
            task.cancel()
        await engine.close()
    log.write("note", "ended")


async def _tell_lead(setup: Setup, engine: Engine) -> None:
    while True:
        if engine.loops.leads:
            leader_file(setup.folder).write_text(setup.instance)
        await asyncio.sleep(LEAD_S)
