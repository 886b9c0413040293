"""The surroundings of the specification: blocks, workers, retention and the loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from flowfabric.ids import ExecutionId
from flowfabric.model import execution, worker

from .shapes import BLOCKS, Err, Exec, Held, Lease, no
from .spec import Spec

LOOK_EVERY_MS = 1_000
ASKED_LATELY_MS = 10_000
ROUTED = "waiting_for_capable_worker"
Ends = Sequence[tuple[Held, bytes | None]]


class Fleet(Spec):
    tables: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, now: int, label: str, lanes: tuple[str, ...], grace: int, ages: tuple[int, int]
    ) -> None:
        super().__init__(now, label, lanes, grace, ages)
        self.workers: dict[tuple[str, str], dict[str, Any]] = {}
        self.worker_events: list[tuple[str, str, str, int]] = []
        self.looked: dict[tuple[str, str | None, frozenset[str]], int] = {}
        self.meanwhile: dict[str | None, Callable[[], None]] = {}

    def times(self) -> list[int]:
        """Every future time at which something changes by itself or becomes possible."""
        found: list[int | None] = [until for _, until in self.keys.values()]
        for e in self.execs.values():
            found += [
                e.expiry,
                e.delay,
                e.deadline,
                e.timeout_at,
                e.grant.until if e.grant else None,
            ]
            found += [
                e.lost_at + self.grace if e.lost_at else None,
                e.ended + self.age(e) if e.ended else None,
            ]
        found += [w["seen"] + w["ttl"] for w in self.workers.values()]
        return sorted({t for t in found if t is not None and t > self.now})

    def others_at(self, point: str | None) -> None:
        """At this point of a call of several round trips another call may have come first."""
        self.meanwhile.pop(point, lambda: None)()

    def claim(self, lane: str, caps: frozenset[str], of: str | None, *by: Any) -> list[Lease]:
        """A claim that finds nothing and then releases parked work for itself claims again."""
        got = self.take(lane, caps, of, *by)
        self.others_at("claimed")
        again = self.look_around(lane, of, caps) and not got
        return self.take(lane, caps, of, *by) if again else got

    def complete_and_claim(
        self, many: Ends, lane: str, caps: frozenset[str], of: str | None, *by: Any
    ) -> tuple[Any, ...]:
        """An answer for each end, and the claimed executions. The reason of a refused end is read
        after the claim, and an expired lease is marked only then.
        """
        marks, self.marks = self.marks, False
        refused = [self.refusal(h, result) is not None for h, result in many]
        self.marks = marks
        got = self.take(lane, caps, of, *by)
        self.others_at("claimed")
        answers = [
            self.refusal(*end) if again else None for end, again in zip(many, refused, strict=True)
        ]
        self.look_around(lane, of, caps)
        return *answers, got

    def refusal(self, h: Held, result: bytes | None) -> Err | None:
        try:
            self.complete(h, result)
        except Err as refused:
            return refused
        return None

    def block(self, ident: ExecutionId, reason: str) -> Any:
        e = self.of(ident)
        if e.state == "ENDED":
            return execution.LuaRejected("execution_not_active")
        if e.state not in ("READY", BLOCKS[reason]):
            return execution.LuaRejected("execution_not_eligible")
        e.state, e.why = BLOCKS[reason], reason
        return execution.Blocked(ident, reason)

    def unblock(self, ident: ExecutionId, expected: str) -> None:
        e = self.execs.get(ident)
        no(
            e is None or e.state not in BLOCKS.values() or expected not in ("", e.why),
            "execution_not_eligible",
        )
        e.state, e.why = "READY", ""

    def lane(self, lane: str, state: str) -> None:
        self.lanes[lane] = state

    def age(self, e: Exec, kept: int | None = None) -> int:
        """The retention age after this end: by its own policy, else by the engine's settings."""
        failed = e.outcome in ("failed", "expired")
        own = e.policy.retain_failed if failed else e.policy.retain
        return own if own is not None else self.ages[failed] if kept is None else kept

    def trim(self, lane: str, kept: int | None) -> int:
        def is_due(e: Exec) -> bool:
            return e.ended is not None and e.ended + self.age(e, kept) <= self.now

        gone = [i for i, e in self.execs.items() if e.lane == lane and is_due(e)]
        over = {
            k
            for k, (ident, until) in self.keys.items()
            if (until or 0) <= self.now and self.has_key(ident, k)
        }
        self.keys = {k: v for k, v in self.keys.items() if k not in over or v[0] not in gone}
        for ident in gone:
            del self.execs[ident]
        return len(gone)

    def register(
        self, namespace: str, instance: str, name: str, caps: frozenset[str], ttl: int
    ) -> Any:
        held = self.workers.get((namespace, instance))
        no(held is not None and held["name"] != name, "invalid_input")
        self.workers[namespace, instance] = {
            "name": name,
            "caps": caps,
            "seen": self.now,
            "ttl": ttl,
        }
        self.worker_events.append((namespace, instance, "registered", self.now))
        for e in self.execs.values():
            if ttl > 0 and e.why == ROUTED and e.namespace == namespace and e.policy.caps <= caps:
                self.unblock(e.ident, "")
        return worker.Registered() if held is None else worker.Refreshed(self.now + ttl)

    def heartbeat(self, namespace: str, instance: str) -> Any:
        held = self.workers.get((namespace, instance))
        if held is None or held["seen"] + held["ttl"] <= self.now:
            return worker.NotRegistered()
        held["seen"] = self.now
        self.worker_events.append((namespace, instance, "heartbeat", self.now))
        return worker.Refreshed(self.now + held["ttl"])

    def bury(self, namespace: str, instance: str, word: str = "marked_dead") -> Any:
        if self.workers.pop((namespace, instance), None) is None:
            return worker.NotRegistered()
        self.worker_events.append((namespace, instance, word, self.now))
        return worker.Marked()

    def alive(self) -> list[tuple[str, frozenset[str]]]:
        return [
            (ns, w["caps"])
            for (ns, _), w in self.workers.items()
            if w["seen"] + w["ttl"] > self.now
        ]

    def is_covered(self, e: Exec) -> bool:
        return any(ns == e.namespace and e.policy.caps <= caps for ns, caps in self.alive())

    def release_routed(self) -> None:
        for e in self.execs.values():
            if e.why == ROUTED and self.is_covered(e):
                self.unblock(e.ident, "")

    def look_around(self, lane: str, of: str | None, caps: frozenset[str]) -> bool:
        """Parks executions that no worker covers, if workers are known at all; releases parked ones
        that the caller covers.
        """
        before = self.looked.get((lane, of, caps))
        if before is not None and self.now < before + LOOK_EVERY_MS:
            return False
        self.looked[lane, of, caps] = self.now
        if before is None:
            return False
        if of is None:
            list(self.turns(lane))
        mine = [e for e in self.execs.values() if e.lane == lane and of in (None, e.namespace)]
        freed = [e for e in mine if e.why == ROUTED and e.policy.caps and e.policy.caps <= caps]
        for e in mine:
            known = any(ns == e.namespace for ns, _ in self.alive())
            lately = [key for key, when in self.looked.items() if when > self.now - ASKED_LATELY_MS]
            asked = [c for at, whose, c in lately if at == lane and whose in (None, e.namespace)]
            if (
                e.state == "READY"
                and known
                and not self.is_covered(e)
                and not any(e.policy.caps <= c for c in asked)
            ):
                self.block(e.ident, ROUTED)
        for e in freed:
            self.unblock(e.ident, "")
        return bool(freed)

    def release_limited(self) -> None:
        """This machine has no limits, so executions blocked for one wait for nothing."""
        for e in self.execs.values():
            if e.state in ("BUDGET", "QUOTA"):
                self.unblock(e.ident, "")

    def loop(self, name: str) -> None:
        """One run of a background loop."""
        for ident, e in list(self.execs.items()):
            if name == "lease_expiry":
                self.mark(ident)
                self.requeue(ident, self.grace)
                e.grant = self.live(e)
            elif name == "delayed_promoter":
                self.promote(ident)
            elif name in ("attempt_timeout", "execution_deadline"):
                self.expire(ident, name)
        if name == "route_releaser":
            self.release_routed()
        elif name == "limit_releaser":
            self.release_limited()
        elif name == "retention_trimmer":
            for lane in self.lanes:
                self.trim(lane, None)
            self.keys = {
                k: v
                for k, v in self.keys.items()
                if (v[1] or 0) > self.now or self.has_key(v[0], k)
            }
            self.keys = {
                k: (i, until if (until or 0) > self.now else None)
                for k, (i, until) in self.keys.items()
            }
        elif name == "worker_reaper":
            for key in [k for k, w in self.workers.items() if w["seen"] + w["ttl"] < self.now]:
                self.bury(*key, "ttl_swept")
            self.worker_events = [
                event for event in self.worker_events if event[3] > self.now - self.ages[0]
            ]
