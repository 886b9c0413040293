"""`python -m tests.chaos --store postgres --kills 20 [--restarts N] [--seed N] [--executions N] [--keep]`"""

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
from flowfabric.codec.cursor import decode_cursor, encode_cursor
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS
from flowfabric.store.port import Scan
from flowfabric.verify.invariants import Violation
from flowfabric.verify.world import TABLES_READ

from .checker import check
from .child import CALM, Setup
from .evidence import FENCED, GRANTS, Evidence
from .fences import is_borrowed
from .fleet import Fleet
from .logs import Call, History, Log, read_history
from .nemesis import Nemesis
from .outages import Outages
from .plan import KID, LANES, SECRET
from .stores import STORES, StoreCase, case_of, open_engine
from .subscriber import saved_cursor
from .survivors import reconnects
from .waits import MET

KILLS_PER_S = 2.0
EXECUTIONS_PER_KILL = 40
TELL_EVERY_S = 2.0
LEFT = ("dependent", "undispatched", "cancel_groups", "open_waitpoints")
POSTGRES_RESTARTS = 3
LATE = ("lease_conflict", "lease_expired", "lease_revoked", "stale_lease", "execution_not_active")


class OutOfTime(Exception):
    """The run did not end within its bound."""


class Run:
    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options, self._folder = options, folder
        self._began = time.monotonic()
        work = 1.5 * options.kills + 0.02 * options.executions + 5 * options.restarts
        self._deadline = self._began + (options.deadline or 60 + work)
        self._case: StoreCase = case_of(options.store, folder)
        rate = options.executions / options.kills * KILLS_PER_S
        setup = Setup(self._case.url, str(folder), "", options.seed, options.executions, rate)
        self._fleet = Fleet(setup, self._case.url_of)
        self._outages = Outages(self._case, options.restarts, options.kills, options.seed, Log(folder, "outages-1"))
        self._nemesis = Nemesis(self._fleet, self._outages, options.seed, Log(folder, "nemesis-1"))
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
                violations.append(Violation("time", "nemesis", "could not kill as often as asked before the deadline"))
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
        violations += [Violation("process", instance, says) for instance, says in self._fleet.faults]
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
                ("the driver did not finish", self._driver_finished),
                ("work is left", lambda: self._idle(engine)),
                ("the subscriber did not catch up", lambda: self._caught_up(engine)),
            ):
                while not await reached():
                    if time.monotonic() > self._deadline:
                        return [Violation("time", "drain", what)]
                    self._fleet.tend()
                    self._tell()
                    await asyncio.sleep(0.1)
        finally:
            await engine.close()
        return []

    async def _driver_finished(self) -> bool:
        return self._fleet.members["driver"].finished

    async def _idle(self, engine: Any) -> bool:
        waiting = [await engine.store.next_due(index) for index in ("leased", "lost", "delayed")]
        ready = [await engine.scan_eligible_executions(lane, limit=1) for lane in LANES]
        left = (await engine.store.load([Scan(index, limit=1) for index in LEFT])).rows
        return not any(due is not None for due in waiting) and not any(ready) and not any(left)

    async def _caught_up(self, engine: Any) -> bool:
        for channel in (COMPLETION_EVENTS, LEASE_EVENTS):
            if saved_cursor(self._folder, channel) != encode_cursor(await engine.store.last_event(channel)):
                return False
        return True

    def _tell(self) -> None:
        if time.monotonic() - self._told >= TELL_EVERY_S:
            self._told = time.monotonic()
            done = self._nemesis.done
            ended = decode_cursor(saved_cursor(self._folder, COMPLETION_EVENTS), "chaos")
            self._say(
                f"kills {done['kill']}/{self._options.kills}, stops {done['stop']}, terms {done['term']}, "
                f"self-kills {self._fleet.self_kills}, restarts {sum(self._outages.done.values())}, ends seen {ended}"
            )

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)

    def _report(self, seen: Evidence, violations: list[Violation]) -> int:
        history, done = seen.history, self._nemesis.done
        leases = [event for events in seen.world.leases.values() for event in events]
        complaints = self._fleet.complaints()
        verdicts = {word: sum(call.verdict == word for call in history.calls) for word in ("acknowledged", "refused", "unknown")}
        table = {
            "seed": self._options.seed,
            "seconds": f"{time.monotonic() - self._began:.1f}",
            "executions": len(seen.world.executions),
            "flows": len(seen.world.flows),
            "members skipped": sum(e.terminal_outcome == "skipped" for e in seen.world.executions.values()),
            "losers cancelled": sum(
                (e.cancellation_reason or "").startswith("sibling_quorum") for e in seen.world.executions.values()
            ),
            "kills": done["kill"],
            "self-kills at named points": self._fleet.self_kills,
            "stops": done["stop"],
            "graceful ends": done["term"],
            "server restarts": ", ".join(f"{count} by {how}" for how, count in self._outages.done.items()),
            "connections cut": self._outages.cut,
            "reconnects": reconnects(seen),
            "calls": ", ".join(f"{count} {word}" for word, count in verdicts.items()),
            "unknown outcomes told": sum(call.verdict == "unknown" and call.answered_ns > 0 for call in history.calls),
            "told it is out of reach": sum(call.reply["code"] == "transport_error" for call in _refused(history)),
            "claims": sum(event["event_type"] in GRANTS for event in leases),
            "completes acknowledged": sum(1 for _ in history.of("complete")),
            "takeovers": sum(execution.lease_reclaim_count for execution in seen.world.executions.values()),
            "late writes refused": sum(_was_late(call) for call in history.of(*FENCED, verdict="refused")),
            "suspends acknowledged": sum(1 for _ in history.of("suspend")),
            "over at once": sum(call.reply["outcome"] == "met" for call in history.of("suspend")),
            "signals acknowledged": sum(1 for _ in history.of("signal")),
            "resumes acknowledged": sum(call.reply["effect"] == MET for call in history.of("signal")),
            "waits timed out": sum((s.close_reason or "").startswith("timed_out") for s in seen.world.suspensions.values()),
            "frames acknowledged": sum(len(call.reply["ids"]) for call in history.of("append")),
            "ends borrowed": sum(is_borrowed(seen, call) for call in history.of("fail", "give_up")),
            "subscriber lives": len({life.instance for life in history.lives}),
            "complaints": len(complaints),
            "violations": len(violations),
        }
        print()
        for name, value in table.items():
            print(f"  {name:<28}{value}")
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
        told = {name: getattr(self._options, name) for name in ("store", "kills", "restarts", "seed", "executions")}
        words = " ".join(f"--{name} {value}" for name, value in told.items())
        return f"{sys.executable} -m tests.chaos {words} --keep"


def _refused(history: History) -> list[Call]:
    return [call for call in history.calls if call.verdict == "refused"]


def _was_late(call: Call) -> bool:
    """A renewal that met its own execution's end was not late, only superfluous."""
    return call.reply["code"] in LATE and (call.op, call.reply["code"]) != ("renew", "execution_not_active")


def _out_of_time(number: int, _: object) -> None:
    raise OutOfTime(signal.Signals(number).name)


def options_of(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.chaos", description="Kills processes at random and checks what is left.")
    parser.add_argument("--store", default="sqlite", choices=STORES)
    parser.add_argument("--kills", type=_positive, default=20)
    parser.add_argument("--restarts", type=int, default=None, help=f"of the server; {POSTGRES_RESTARTS} on postgres unless given")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--executions", type=_positive, default=None, help=f"{EXECUTIONS_PER_KILL} per kill unless given")
    parser.add_argument("--deadline", type=float, default=None, help="seconds; grows with the work unless given")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the database and the logs")
    options = parser.parse_args(words)
    options.seed = SystemRandom().randrange(2**31) if options.seed is None else options.seed
    if options.restarts is None:
        options.restarts = POSTGRES_RESTARTS if options.store == "postgres" else 0
    if options.restarts < 0:
        parser.error(f"--restarts {options.restarts}: at least 0")
    if options.restarts and options.store == "sqlite":
        parser.error(f"--restarts {options.restarts}: SQLite has no server to restart; leave it out, or use --store postgres")
    options.executions = options.executions or EXECUTIONS_PER_KILL * options.kills
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
        f"seed {options.seed}, {options.executions} executions, {options.kills} kills, {options.restarts} restarts, {folder}",
        flush=True,
    )
    run = Run(options, folder)
    try:
        return run()
    except OutOfTime as why:
        print(f"\ngave up ({why}); seed {options.seed}; replay with:\n  {run.command()}", flush=True)
        return 2
    finally:
        if not options.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
