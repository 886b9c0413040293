"""`python -m tests.chaos --store postgres --kills 20 [--restarts N] [--seed N] [--executions N]
[--keep]`
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

from flowfabric import FlowFabricError
from flowfabric.codec.event_cursor import decode_cursor, encode_cursor
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS
from flowfabric.store.port import Scan
from flowfabric.verify.invariants import Violation
from flowfabric.verify.snapshot import TABLES_READ

from .checker import check
from .child import CALM, Setup
from .evidence import Evidence
from .fleet import CLIENTS, Fleet
from .logs import Log, read_history
from .nemesis import Nemesis
from .outages import Outages
from .plan import KID, SECRET
from .progress import Timers, probe
from .stores import STORES, StoreCase, case_of, open_engine
from .subscriber import saved_cursor
from .summary import checks, ends, faults, show, work

KILLS_PER_S = 2.0
EXECUTIONS_PER_KILL = 30
TASKS_PER_KILL = 5
TELL_EVERY_S = 2.0
LEFT = ("dependent", "undispatched", "cancel_groups")
POSTGRES_RESTARTS = 3
LATE = ("lease_conflict", "lease_expired", "lease_revoked", "stale_lease", "execution_not_active")


class OutOfTime(Exception):
    """The run did not end within its bound."""


class Run:
    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options, self._folder = options, folder
        self._began = time.monotonic()
        work = (
            1.5 * options.kills
            + 0.02 * options.executions
            + 0.2 * options.tasks
            + 5 * options.restarts
        )
        self._deadline = self._began + (options.deadline or 60 + work)
        self._case: StoreCase = case_of(options.store, folder)
        rate = options.executions / options.kills * KILLS_PER_S
        setup = Setup(
            self._case.url, str(folder), "", options.seed, options.executions, options.tasks, rate
        )
        self._fleet = Fleet(setup, self._case.url_of)
        self._outages = Outages(
            self._case, options.restarts, options.kills, options.seed, Log(folder, "outages-1")
        )
        self._nemesis = Nemesis(
            self._fleet, self._outages, self._case, folder, options.seed, Log(folder, "nemesis-1")
        )
        self._timers, self._probes = Timers(Log(folder, "timers-1")), Log(folder, "probes-1")
        self._told = 0.0

    def __call__(self) -> int:
        for number in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, _out_of_time)
        signal.alarm(int(self._deadline - self._began) + 30)
        try:
            return self._run()
        finally:
            self._outages.close()
            self._case.close(keep=self._options.keep)

    def _run(self) -> int:
        violations: list[Violation] = []
        asyncio.run(self._seed())
        try:
            if not self._nemesis.run(self._options.kills, self._deadline, self._tell):
                violations.append(
                    Violation(
                        "time", "nemesis", "could not kill as often as asked before the deadline"
                    )
                )
            (self._folder / CALM).touch()
            self._fleet.resume_all()
            violations += asyncio.run(self._drain())
        finally:
            self._fleet.kill_all()
        self._fleet.tend(restart=False)
        self._say("checking")
        violations += self._case.survives(Random(self._options.seed))
        try:
            tables = self._case.tables()
        except FlowFabricError as error:
            tables = {table: [] for table in TABLES_READ}
            violations.append(Violation("recovery", self._case.url, str(error)))
        seen = Evidence.of(tables, read_history(self._folder))
        violations += check(seen)
        violations += [
            Violation("process", instance, says) for instance, says in self._fleet.faults
        ]
        return self._report(seen, violations)

    async def _seed(self) -> None:
        engine = await open_engine(self._case.url)
        await engine.seed_waitpoint_hmac_secret(KID, SECRET)
        await engine.close()

    async def _drain(self) -> list[Violation]:
        """Everybody is alive and well; what is left must come to its end by itself."""
        engine = await open_engine(self._case.url)
        try:
            for what, reached in (
                ("a client did not finish", self._clients_finished),
                ("work is left", lambda: self._idle(engine)),
                ("the probes were not submitted", lambda: self._probed(engine)),
                ("the subscriber did not catch up", lambda: self._caught_up(engine)),
            ):
                while not await reached():
                    if time.monotonic() > self._deadline:
                        return [Violation("time", "drain", what)]
                    self._fleet.tend()
                    await self._timers.look(engine)
                    self._tell()
                    await asyncio.sleep(0.1)
        finally:
            await engine.close()
        return []

    async def _clients_finished(self) -> bool:
        return all(self._fleet.members[role].finished for role in CLIENTS)

    async def _idle(self, engine: Any) -> bool:
        """By a census on one snapshot: an execution that moves between two reads would be seen by
        neither.
        """
        left = (await engine.store.load([Scan(index, limit=1) for index in LEFT])).rows
        return not any(left) and not any(
            sum(lane.states.values()) for lane in (await engine.census()).lanes
        )

    async def _probed(self, engine: Any) -> bool:
        await probe(engine, self._probes)
        return True

    async def _caught_up(self, engine: Any) -> bool:
        for channel in (COMPLETION_EVENTS, LEASE_EVENTS):
            if saved_cursor(self._folder, channel) != encode_cursor(
                await engine.store.last_event(channel)
            ):
                return False
        return True

    def _tell(self) -> None:
        if time.monotonic() - self._told >= TELL_EVERY_S:
            self._told = time.monotonic()
            done = self._nemesis.done
            ended = decode_cursor(saved_cursor(self._folder, COMPLETION_EVENTS), "chaos")
            self._say(
                f"kills {done['kill']}/{self._options.kills}, stops {done['stop']}, "
                f"terms {done['term']}, self-kills {self._fleet.self_kills}, "
                f"restarts {sum(self._outages.done.values())}, ends seen {ended}"
            )

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)

    def _report(self, seen: Evidence, violations: list[Violation]) -> int:
        complaints = self._fleet.complaints()
        show("faults", faults(seen, self._fleet.self_kills, self._outages.done, self._outages.cut))
        show("ends", ends(seen))
        show("work", work(seen))
        show("checked", checks(seen, violations, self._timers.worst_ms))
        print(
            f"\nseed {self._options.seed}, {time.monotonic() - self._began:.1f} s, "
            f"{len(complaints)} complaints"
        )
        for line in complaints[:20]:
            print(f"  said: {line}")
        if not violations:
            return 0
        print("\nVIOLATIONS")
        for violation in violations[:20]:
            print(f"  {violation.invariant}: {violation.subject}: {violation.says}")
        print(f"\nseed {self._options.seed}; replay with:\n  {self.command()}", flush=True)
        return 1

    def command(self) -> str:
        told = {
            name: getattr(self._options, name)
            for name in ("store", "kills", "restarts", "seed", "executions", "tasks")
        }
        words = " ".join(f"--{name} {value}" for name, value in told.items())
        return f"{sys.executable} -m tests.chaos {words} --keep"


def _out_of_time(number: int, _: object) -> None:
    raise OutOfTime(signal.Signals(number).name)


def options_of(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.chaos", description="Kills processes at random and checks what is left."
    )
    parser.add_argument("--store", default="sqlite", choices=STORES)
    parser.add_argument("--kills", type=_positive, default=20)
    parser.add_argument(
        "--restarts",
        type=int,
        default=None,
        help=f"of the server; {POSTGRES_RESTARTS} on postgres unless given",
    )
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--executions",
        type=_positive,
        default=None,
        help=f"{EXECUTIONS_PER_KILL} per kill unless given",
    )
    parser.add_argument(
        "--tasks",
        type=_positive,
        default=None,
        help=f"runs of tasks; {TASKS_PER_KILL} per kill unless given",
    )
    parser.add_argument(
        "--deadline", type=float, default=None, help="seconds; grows with the work unless given"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the folder with the database and the logs"
    )
    options = parser.parse_args(words)
    options.seed = SystemRandom().randrange(2**31) if options.seed is None else options.seed
    if options.restarts is None:
        options.restarts = POSTGRES_RESTARTS if options.store == "postgres" else 0
    if options.restarts < 0:
        parser.error(f"--restarts {options.restarts}: at least 0")
    if options.restarts and options.store == "sqlite":
        parser.error(
            f"--restarts {options.restarts}: SQLite has no server to restart; leave it out, or "
            f"use --store postgres"
        )
    options.executions = options.executions or EXECUTIONS_PER_KILL * options.kills
    options.tasks = options.tasks or TASKS_PER_KILL * options.kills
    return options


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return int(text)


def main(words: list[str]) -> int:
    options = options_of(words)
    logging.getLogger("flowfabric").setLevel(logging.ERROR)
    folder = Path(tempfile.mkdtemp(prefix="flowfabric-chaos-"))
    print(
        (
            f"seed {options.seed}, {options.executions} executions, {options.kills} kills, "
            f"{options.restarts} restarts, {folder}"
        ),
        flush=True,
    )
    run = Run(options, folder)
    try:
        return run()
    except OutOfTime as why:
        print(
            f"\ngave up ({why}); seed {options.seed}; replay with:\n  {run.command()}", flush=True
        )
        return 2
    finally:
        if not options.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
