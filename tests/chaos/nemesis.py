"""Injects the faults: processes are killed, stopped, frozen or asked to end, and the wall clock is
set.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from msgspec import Struct

from tests.patience import Allowance

from .child import leader_file
from .clocks import set_clock
from .fleet import Fleet, Member
from .logs import Log
from .outages import Outages
from .plan import LEASE_MS
from .stores import StoreCase

STOPPED_LEASES = (0.5, 3.0)
STEPPED_MS = (1_500, 3_000)
TICK_S = 0.02
AGAIN_S = 0.2
ACTS = {
    ("kill", "worker"): 30,
    ("kill", "taskworker"): 20,
    ("kill", "subscriber"): 10,
    ("kill", "driver"): 7,
    ("kill", "taskclient"): 7,
    ("kill", "signaller"): 8,
    ("stop", "worker"): 12,
    ("stop", "taskworker"): 8,
    ("stop", "subscriber"): 3,
    ("stop", "driver"): 3,
    ("stop", "signaller"): 3,
    ("term", "worker"): 8,
    ("term", "taskworker"): 4,
}


class Pace(Struct, frozen=True):
    """The interval of faults and the minimal duration of a run. Without `kills_per_clock` the clock
    is not set. Processes of `spared` roles are only frozen, while they lead the loops.
    """

    pause_s: tuple[float, float] = (0.15, 0.45)
    kills_per_freeze: int = 20
    kills_per_clock: int = 7
    lasts_s: float = 0.0
    spared: tuple[str, ...] = ()


class Nemesis:
    def __init__(
        self,
        fleet: Fleet,
        outages: Outages,
        case: StoreCase,
        folder: Path,
        seed: int,
        log: Log,
        pace: Pace,
    ) -> None:
        self._pace = pace
        self._fleet, self._outages, self._case, self._folder, self._log = (
            fleet,
            outages,
            case,
            folder,
            log,
        )
        self._rng = Random(f"{seed}/nemesis")
        self._kills = 0
        self.done = {"kill": 0, "stop": 0, "freeze": 0, "term": 0, "clock": 0}

    def run(self, kills: int, allowed: Allowance, tell: Callable[[], None]) -> bool:
        """Until enough processes were killed and every outage and freeze is over; False at the time
        limit.
        """
        self._kills = kills
        strikes_at = acts_at = time.monotonic() + 1.0
        ends_at = time.monotonic() + self._pace.lasts_s
        while True:
            now = time.monotonic()
            over = self.done["kill"] >= kills and self._outages.over and not self._frozen
            if over and now >= ends_at:
                break
            if allowed.is_spent:
                return False
            self._fleet.tend()
            self._outages.tend(self.done["kill"])
            if now >= acts_at:
                acts_at = now + AGAIN_S
                self._act_by_count()
            if now >= strikes_at and self.done["kill"] < kills and self._strike():
                strikes_at = now + self._rng.uniform(*self._pace.pause_s)
            tell()
            time.sleep(TICK_S)
        set_clock(self._folder, 0)
        return True

    @property
    def _frozen(self) -> list[Member]:
        return [member for member in self._fleet.members.values() if member.is_frozen]

    def _act_by_count(self) -> None:
        """The first freeze starts at once, so other faults happen during it; the clock is right for
        a while.
        """
        kills = self.done["kill"]
        if (
            kills >= self._pace.kills_per_freeze * self.done["freeze"]
            and kills < self._kills
            and not self._frozen
        ):
            self._freeze()
        every = self._pace.kills_per_clock
        if every and kills >= every * (self.done["clock"] + 1):
            self._set_clock()

    def _freeze(self) -> None:
        """Freezes a worker, or the process that runs the loops, for longer than every limit. A
        process stopped during a write to SQLite holds the lock of the file: it is continued and
        stopped again.
        """
        leader = leader_file(self._folder)
        named = leader.read_text() if leader.exists() else ""
        able = [
            m
            for m in self._fleet.members.values()
            if m.alive and m.resumes_at is None and m.asked_to_end_at is None
        ]
        member = next((m for m in able if m.instance == named), None)
        if member is None:
            workers = [m for m in able if "worker" in m.role and m.role not in self._pace.spared]
            able = workers if self._case.has_no_leader else []
            member = self._rng.choice(able) if able else None
        if member is None or not self._fleet.send(member, signal.SIGSTOP):
            return
        if not self._case.is_writable():
            self._fleet.send(member, signal.SIGCONT)
            return
        seconds = self._rng.uniform(*self._case.frozen_s)
        member.resumes_at, member.is_frozen = time.monotonic() + seconds, True
        self.done["freeze"] += 1
        self._log.write(
            "note",
            "freeze",
            target=member.instance,
            seconds=f"{seconds:.2f}",
            led=member.instance == named,
        )

    def _set_clock(self) -> None:
        """Forward and back in turn."""
        self.done["clock"] += 1
        wrong_ms = self._rng.randint(*self._case.clock_ms) * (1 if self.done["clock"] % 2 else -1)
        self._log.write("note", "clock", wrong_ms=wrong_ms, event=self._case.last_lease_event())
        set_clock(self._folder, wrong_ms)
        ahead_ms = self._rng.randint(*STEPPED_MS)
        if not self._outages.is_under_way and self._case.step_server(ahead_ms):
            self._log.write("note", "server_clock", ahead_ms=ahead_ms)

    def _strike(self) -> bool:
        act, role = self._rng.choices(tuple(ACTS), tuple(ACTS.values()))[0]
        targets = [
            m
            for m in self._fleet.members.values()
            if m.role.startswith(role)
            and m.role not in self._pace.spared
            and m.alive
            and not m.is_frozen
        ]
        if act != "kill":
            targets = [m for m in targets if m.resumes_at is None and m.asked_to_end_at is None]
        if not targets:
            return False
        self._hit(act, self._rng.choice(targets))
        return True

    def _hit(self, act: str, member: Member) -> None:
        facts = {"target": member.instance}
        if act == "kill":
            sent = self._fleet.send(member, signal.SIGKILL)
        elif act == "term":
            sent = self._fleet.send(member, signal.SIGTERM)
            member.asked_to_end_at = time.monotonic()
        else:
            seconds = self._rng.uniform(*STOPPED_LEASES) * LEASE_MS[1] / 1000
            sent = self._fleet.send(member, signal.SIGSTOP)
            member.resumes_at = time.monotonic() + seconds
            facts["seconds"] = f"{seconds:.2f}"
        if sent:
            self.done[act] += 1
            self._log.write("note", act, **facts)
