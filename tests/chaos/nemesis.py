"""Who does the harm: every so often one of the processes is killed, stopped for a while, or asked to end."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from random import Random

from .fleet import Fleet, Member
from .logs import Log
from .outages import Outages
from .plan import LEASE_MS

PAUSE_S = (0.15, 0.45)
STOPPED_LEASES = (0.5, 3.0)
TICK_S = 0.02
ACTS = {
    ("kill", "worker"): 46,
    ("kill", "subscriber"): 12,
    ("kill", "driver"): 8,
    ("kill", "signaller"): 10,
    ("stop", "worker"): 17,
    ("stop", "subscriber"): 3,
    ("stop", "driver"): 3,
    ("stop", "signaller"): 3,
    ("term", "worker"): 11,
}


class Nemesis:
    def __init__(self, fleet: Fleet, outages: Outages, seed: int, log: Log) -> None:
        self._fleet, self._outages, self._log = fleet, outages, log
        self._rng = Random(f"{seed}/nemesis")
        self.done = {"kill": 0, "stop": 0, "term": 0}

    def run(self, kills: int, deadline: float, tell: Callable[[], None]) -> bool:
        """Until so many were killed and every outage is over; False when time ran out first."""
        strikes_at = time.monotonic() + 1.0
        while self.done["kill"] < kills or not self._outages.over:
            now = time.monotonic()
            if now > deadline:
                return False
            self._fleet.tend()
            self._outages.tend(self.done["kill"])
            if now >= strikes_at and self.done["kill"] < kills and self._strike():
                strikes_at = now + self._rng.uniform(*PAUSE_S)
            tell()
            time.sleep(TICK_S)
        return True

    def _strike(self) -> bool:
        act, role = self._rng.choices(tuple(ACTS), tuple(ACTS.values()))[0]
        targets = [m for m in self._fleet.members.values() if m.role.startswith(role) and m.alive]
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
