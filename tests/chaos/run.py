"""A run from its first process to its report."""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct, structs

from flowfabric import FlowFabricError
from flowfabric.codec.event_cursor import decode_cursor, encode_cursor
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS
from flowfabric.store.port import Scan
from flowfabric.verify.invariants import Violation
from flowfabric.verify.snapshot import TABLES_READ
from tests.patience import Allowance, patience

from .checker import check
from .child import CALM, Setup
from .evidence import Evidence
from .fleet import CLIENTS, ROLES, Fleet
from .logs import Log, read_history
from .nemesis import Nemesis, Pace
from .outages import CUT_AFTER_S, Outages
from .plan import KID, SECRET
from .progress import Timers, probe
from .stores import StoreCase, case_of, open_engine
from .subscriber import saved_cursor
from .summary import Table, checks, ends, faults, show, work

TELL_EVERY_S = 2.0
CHECKED_WITHIN_S = 60.0
LEFT = ("dependent", "undispatched", "cancel_groups")


class OutOfTime(Exception):
    """The run exceeded its time limit."""


class Found(Exception):
    """A violation found during the run."""

    def __init__(self, violations: list[Violation]) -> None:
        super().__init__(f"{len(violations)} violations")
        self.violations = violations


class Watch:
    """Checks a run while it is in progress and at its end."""

    def look(self, run: Run) -> None:
        """Called repeatedly; raises `Found`."""

    def judge(self, run: Run, seen: Evidence) -> list[Violation]:
        return []

    def report(self) -> dict[str, Table]:
        """Tables by their titles."""
        return {}

    def close(self) -> None: ...


class Scenario(Struct, frozen=True, kw_only=True):
    """The parts of a run. The url and the folder of the setup are the run's."""

    store: str
    setup: Setup
    kills: int
    restarts: int
    deadline_s: float
    command: str
    appendfsync: str = "always"
    pace: Pace = Pace()
    cut_after_s: tuple[float, float] = CUT_AFTER_S
    extra_roles: tuple[tuple[str, str], ...] = ()
    clients: tuple[str, ...] = CLIENTS
    watch: Callable[[], Watch] = Watch


class Run:
    def __init__(self, scenario: Scenario, folder: Path, *, keep: bool) -> None:
        self.scenario, self.folder, self._keep = scenario, folder, keep
        self._began = time.monotonic()
        self._allowed = Allowance(scenario.deadline_s)
        self.case: StoreCase = case_of(scenario.store, folder, scenario.appendfsync)
        setup = structs.replace(scenario.setup, url=self.case.url, folder=str(folder))
        roles = {**ROLES, **dict(scenario.extra_roles)}
        self.fleet = Fleet(setup, self.case.url_of, roles, scenario.clients)
        self._outages = Outages(
            self.case,
            scenario.restarts,
            scenario.kills,
            setup.seed,
            Log(folder, "outages-1"),
            scenario.cut_after_s,
        )
        self._nemesis = Nemesis(
            self.fleet,
            self._outages,
            self.case,
            folder,
            setup.seed,
            Log(folder, "nemesis-1"),
            scenario.pace,
        )
        self._timers, self._probes = Timers(Log(folder, "timers-1")), Log(folder, "probes-1")
        self._watch = scenario.watch()
        self._told = 0.0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def __call__(self) -> int:
        for number in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, _out_of_time)
        self._guard()
        try:
            return self._run()
        finally:
            self._watch.close()
            self._outages.close()
            self.case.close(keep=self._keep)

    def _guard(self) -> None:
        """Ends a run that hangs. Called again and again, it follows the speed of the machine."""
        signal.alarm(int(patience(max(self._allowed.left_s(), 0) + CHECKED_WITHIN_S)))

    def _run(self) -> int:
        violations: list[Violation] = []
        asyncio.run(self._seed())
        try:
            if not self._nemesis.run(self.scenario.kills, self._allowed, self._tell):
                violations.append(
                    Violation(
                        "time", "nemesis", "could not kill as often as asked before the deadline"
                    )
                )
            (self.folder / CALM).touch()
            self.fleet.resume_all()
            violations += asyncio.run(self._drain())
        except Found as found:
            return self._report(self._evidence(found.violations), found.violations)
        finally:
            self.fleet.kill_all()
        self.fleet.tend(restart=False)
        self._guard()
        self.say("checking")
        violations += self.case.survives(Random(self.scenario.setup.seed))
        seen = self._evidence(violations)
        violations += check(seen)
        violations += self._watch.judge(self, seen)
        violations += [Violation("process", instance, says) for instance, says in self.fleet.faults]
        return self._report(seen, violations)

    def _evidence(self, violations: list[Violation]) -> Evidence:
        try:
            tables = self.case.tables()
        except FlowFabricError as error:
            tables = {table: [] for table in TABLES_READ}
            violations.append(Violation("recovery", self.case.url, str(error)))
        return Evidence.of(tables, read_history(self.folder))

    async def _seed(self) -> None:
        engine = await open_engine(self.case.url)
        await engine.seed_waitpoint_hmac_secret(KID, SECRET)
        await engine.close()

    async def _drain(self) -> list[Violation]:
        """Everybody is alive and well; what is left must come to its end by itself."""
        engine = await open_engine(self.case.url)
        try:
            for what, reached in (
                ("a client did not finish", self._clients_finished),
                ("work is left", lambda: self._idle(engine)),
                ("the probes were not submitted", lambda: self._probed(engine)),
                ("the subscriber did not catch up", lambda: self._caught_up(engine)),
            ):
                while not await reached():
                    if self._allowed.is_spent:
                        return [Violation("time", "drain", what)]
                    self.fleet.tend()
                    await self._timers.look(engine)
                    self._tell()
                    await asyncio.sleep(0.1)
        finally:
            await engine.close()
        return []

    async def _clients_finished(self) -> bool:
        return all(self.fleet.members[role].finished for role in self.scenario.clients)

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
            if saved_cursor(self.folder, channel) != encode_cursor(
                await engine.store.last_event(channel)
            ):
                return False
        return True

    def _tell(self) -> None:
        self._watch.look(self)
        if time.monotonic() - self._told >= TELL_EVERY_S:
            self._told = time.monotonic()
            self._guard()
            done = self._nemesis.done
            ended = decode_cursor(saved_cursor(self.folder, COMPLETION_EVENTS), "chaos")
            self.say(
                f"kills {done['kill']}/{self.scenario.kills}, stops {done['stop']}, "
                f"terms {done['term']}, self-kills {self.fleet.self_kills}, "
                f"restarts {sum(self._outages.done.values())}, ends seen {ended}"
            )

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)

    def _report(self, seen: Evidence, violations: list[Violation]) -> int:
        complaints = self.fleet.complaints()
        show("faults", faults(seen, self.fleet.self_kills, self._outages.done, self._outages.cut))
        show("ends", ends(seen))
        show("work", work(seen))
        show("checked", checks(seen, violations, self._timers.worst_ms))
        for title, table in self._watch.report().items():
            show(title, table)
        print(
            f"\nseed {self.scenario.setup.seed}, {time.monotonic() - self._began:.1f} s, "
            f"{len(complaints)} complaints"
        )
        for line in complaints[:20]:
            print(f"  said: {line}")
        if not violations:
            return 0
        print("\nVIOLATIONS")
        for violation in violations[:20]:
            print(f"  {violation.invariant}: {violation.subject}: {violation.says}")
        print(
            f"\nseed {self.scenario.setup.seed}; replay with:\n  {self.scenario.command}",
            flush=True,
        )
        return 1


def _out_of_time(number: int, _: object) -> None:
    raise OutOfTime(signal.Signals(number).name)


def run_in_folder(scenario: Scenario, *, keep: bool) -> int:
    """Runs in a new folder; returns the exit code."""
    logging.getLogger("flowfabric").setLevel(logging.ERROR)
    folder = Path(tempfile.mkdtemp(prefix="flowfabric-chaos-"))
    setup = scenario.setup
    print(
        (
            f"seed {setup.seed}, {setup.executions} executions, {scenario.kills} kills, "
            f"{scenario.restarts} restarts, {folder}"
        ),
        flush=True,
    )
    try:
        return Run(scenario, folder, keep=keep)()
    except OutOfTime as why:
        print(
            f"\ngave up ({why}); seed {setup.seed}; replay with:\n  {scenario.command}",
            flush=True,
        )
        return 2
    finally:
        if not keep:
            shutil.rmtree(folder)
