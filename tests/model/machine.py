"""The machine: draws operations, with a bias towards few keys, short leases and takeovers; the
bench compares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flowfabric.ids import ExecutionId

from . import ops
from .bench import LANES, Bench
from .ops import LOOPS, Op
from .shapes import BLOCKS, NO_POLICY, Held, Policy
from .spec import OVERRIDE

IDENTS = tuple(ExecutionId.of(p, UUID(int=(at + 1) << 64 | 7)) for at, p in enumerate((3, 3, 9)))
NAMESPACES = ("a", "a", "b")
GPU: frozenset[str] = frozenset({"gpu"})
NOTHING: frozenset[str] = frozenset()
POLICIES = (
    NO_POLICY,
    Policy(max_retries=1, first_ms=0, timeout=900),
    Policy(max_retries=2, first_ms=300, factor=3, most_ms=500, losses=1),
    Policy(caps=GPU, losses=0, replays=1),
    Policy(max_retries=1, first_ms=200, categories=("infra_crash",), deadline=2_500, timeout=1_500),
    Policy(losses=1, dedup=1_500, retain=400, retain_failed=250, replays=1),
)
FAILURES = (
    "transient",
    "transient",
    "transient",
    "infra_crash",
    "permanent",
    "timeout",
    "cancelled",
)
WORKERS = ("ann", "bob")
PHASES = ("attempt_timeout", "execution_deadline")


who = st.sampled_from((0, 0, 1, 1, 2))
workers = st.sampled_from(WORKERS)
lanes = st.sampled_from((*LANES[:1] * 3, *LANES))
caps = st.sampled_from((GPU, GPU, GPU, NOTHING))
ttls = st.sampled_from((400, 1_000))
recent = st.sampled_from((0, 0, 0, 1, 1, 2, 3))
nearby = st.sampled_from((-1, 0, 1))
policies = st.sampled_from(POLICIES)
prios = st.sampled_from((0, 0, 5, 9_500, -3))

spaces = st.sampled_from(("a", "a", "b", None))
"""Whose work is asked for: None is for all of it."""


def space_of(ident: ExecutionId) -> str:
    return dict(zip(IDENTS, NAMESPACES, strict=True)).get(ident, "a")


HOLDER_OPS: dict[str, Callable[[Held, int], Op]] = {
    "complete": lambda h, now: ops.complete(h),
    "complete and claim": lambda h, now: ops.complete_and_claim(
        ((h, b"ok"),), LANES[0], GPU, "ann", 400, of=space_of(h.ident)
    ),
    "renew": lambda h, now: ops.renew(h),
    "fail": lambda h, now: ops.fail(h),
    "end": lambda h, now: ops.fail(h, "permanent"),
    "progress": lambda h, now: ops.progress(h, 50),
    "give up": lambda h, now: ops.give_up(h),
    "delay": lambda h, now: ops.delay(h, now + 200),
}
OUTSIDE_OPS: dict[str, Callable[[ExecutionId, str], Op]] = {
    "cancel": lambda i, lane: ops.cancel(i, OVERRIDE),
    "revoke": lambda i, lane: ops.revoke(i),
    "mark": lambda i, lane: ops.mark(i),
    "claim": lambda i, lane: ops.claim(lane, GPU, "bob", 1_000, of=space_of(i)),
    "take": lambda i, lane: ops.grant_and_claim(i, lane, 400),
    "replay": lambda i, lane: ops.replay(i),
    "deadline": lambda i, lane: ops.expire(i, "execution_deadline"),
    "timeout": lambda i, lane: ops.expire(i, "attempt_timeout"),
    "promote": lambda i, lane: ops.promote(i),
    "requeue": lambda i, lane: ops.requeue(i, 0),
    "block": lambda i, lane: ops.block(i, "paused_by_operator"),
    "priority": lambda i, lane: ops.change_priority(i, 7),
}
holder_ops, outside_ops = st.sampled_from(sorted(HOLDER_OPS)), st.sampled_from(sorted(OUTSIDE_OPS))


def holding(self: EngineMachine) -> bool:
    return bool(self.bench.handles)


class EngineMachine(RuleBasedStateMachine):
    kind: ClassVar[str] = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(self.kind)
        self.last: Op | None = None

    def teardown(self) -> None:
        self.bench.close()

    # ---- helpers

    @property
    def now(self) -> int:
        return self.bench.clock()

    def do(self, op: Op) -> object:
        self.last = op
        return self.bench.do(op)

    def held(self, which: int) -> Held:
        return self.bench.handles[-1 - which % len(self.bench.handles)]

    def lane_of(self, ident: ExecutionId) -> str:
        found = self.bench.spec.execs.get(ident)
        return found.lane if found else LANES[0]

    def step_to(self, at: int | None, off: int) -> None:
        if at is not None:
            self.bench.to(at + off)

    def open_lane(self, lane: str) -> None:
        if self.bench.spec.lanes[lane] != "active":
            self.do(ops.lane(lane, "active"))

    def make_ready(self, i: int, policy: Policy) -> bool:
        """Makes one execution claimable by any worker, by ordinary calls."""
        ident = IDENTS[i]
        for _ in range(6):
            e = self.bench.spec.execs.get(ident)
            if e is None:
                self.open_lane(LANES[0])
                self.do(ops.create(ident, LANES[0], NAMESPACES[i], 0, "", policy, None))
            elif e.state == "READY":
                self.step_to(e.grant.until if e.grant else None, 1)
                self.open_lane(e.lane)
                return True
            elif e.state == "RUNNING":
                self.step_to(e.expiry, 0)
                self.do(ops.mark(ident))
            elif e.state == "LOST":
                self.step_to(e.grant.until if e.grant else None, 1)
                self.do(ops.requeue(ident, 0))
            elif e.state == "DELAYED":
                self.step_to(e.delay, 0)
                self.do(ops.promote(ident))
            elif e.state != "ENDED":
                self.do(ops.unblock(ident, ""))
            elif e.replays < e.policy.replays:
                self.do(ops.replay(ident))
            else:
                self.clear(i)
        return False

    def clear(self, i: int) -> None:
        """Ends one execution and removes it by retention."""
        e = self.bench.spec.execs.get(IDENTS[i])
        if e is not None:
            if e.state != "ENDED":
                self.do(ops.cancel(IDENTS[i], OVERRIDE))
            self.step_to(self.now + 400, 0)
            self.do(ops.trim(e.lane, 0))

    def lease_on(self, i: int, policy: Policy, ttl: int = 1_000) -> Held | None:
        """Leases one execution to ann."""
        if not self.make_ready(i, policy):
            return None
        self.do(ops.claim(self.lane_of(IDENTS[i]), GPU, "ann", ttl, 3, NAMESPACES[i]))
        return next((h for h in reversed(self.bench.handles) if h.ident == IDENTS[i]), None)

    # ---- creating

    @initialize(first=policies, second=policies, lane=lanes)
    def start(self, first: Policy, second: Policy, lane: str) -> None:
        self.do(ops.create(IDENTS[0], LANES[0], NAMESPACES[0], 0, "", first, None))
        self.do(ops.create(IDENTS[1], lane, NAMESPACES[1], 0, "", second, None))

    @rule(i=who, lane=lanes, prio=prios, policy=policies)
    def create(self, i: int, lane: str, prio: int, policy: Policy) -> None:
        self.do(ops.create(IDENTS[i], lane, NAMESPACES[i], prio, "", policy, None))

    @rule(i=who, lane=lanes, policy=policies, delay=st.sampled_from((-1, 0, 1, 300)))
    def create_delayed(self, i: int, lane: str, policy: Policy, delay: int) -> None:
        self.do(ops.create(IDENTS[i], lane, NAMESPACES[i], 0, "", policy, self.now + delay))

    @rule(first=who, second=who, lane=lanes, policy=policies, key=st.sampled_from(("k", "k", "l")))
    def create_keyed(self, first: int, second: int, lane: str, policy: Policy, key: str) -> None:
        for i in (first, second):
            self.do(ops.create(IDENTS[i], lane, NAMESPACES[i], 0, key, policy, None))

    # ---- claiming

    @rule(
        lane=lanes, offered=caps, worker=workers, ttl=ttls, n=st.sampled_from((1, 1, 3)), of=spaces
    )
    def claim(
        self, lane: str, offered: frozenset[str], worker: str, ttl: int, n: int, of: str | None
    ) -> None:
        self.do(ops.claim(lane, offered, worker, ttl, n, of))

    @rule(i=who, worker=workers, offered=caps, ttl=ttls)
    def issue_grant(self, i: int, worker: str, offered: frozenset[str], ttl: int) -> None:
        self.do(ops.issue_claim_grant(IDENTS[i], worker, offered, ttl))

    @rule(
        i=who,
        worker=workers,
        ttl=ttls,
        timeout=st.sampled_from((None, None, 250)),
        ahead=st.sampled_from((None, None, 600)),
    )
    def claim_execution(
        self, i: int, worker: str, ttl: int, timeout: int | None, ahead: int | None
    ) -> None:
        deadline = None if ahead is None else self.now + ahead
        self.do(ops.claim_execution(IDENTS[i], worker, ttl, timeout, deadline))

    @rule(i=who, worker=workers, ttl=ttls, remaining=st.sampled_from((None, 0, 350)))
    def claim_resumed(self, i: int, worker: str, ttl: int, remaining: int | None) -> None:
        self.do(ops.claim_resumed(IDENTS[i], worker, ttl, remaining))

    @rule(i=who, worker=workers, ttl=ttls, ahead=st.sampled_from((-1, 0, 500)))
    def resume(self, i: int, worker: str, ttl: int, ahead: int) -> None:
        self.do(ops.resume(IDENTS[i], worker, ttl, self.now + ahead))

    @rule(i=who, ttl=ttls, wrong=st.sampled_from((False, False, False, True)))
    def grant_and_claim(self, i: int, ttl: int, wrong: bool) -> None:
        self.do(
            ops.grant_and_claim(IDENTS[i], "elsewhere" if wrong else self.lane_of(IDENTS[i]), ttl)
        )

    # ---- holding

    @precondition(holding)
    @rule(which=recent)
    def renew(self, which: int) -> None:
        self.do(ops.renew(self.held(which)))

    @precondition(holding)
    @rule(which=recent, percent=st.sampled_from((0, 50, 100)))
    def progress(self, which: int, percent: int) -> None:
        self.do(ops.progress(self.held(which), percent))

    @precondition(holding)
    @rule(which=recent, result=st.sampled_from((None, b"", b"done")))
    def complete(self, which: int, result: bytes | None) -> None:
        self.do(ops.complete(self.held(which), result))

    @precondition(holding)
    @rule(
        which=st.lists(recent, max_size=3),
        lane=lanes,
        offered=caps,
        worker=workers,
        ttl=ttls,
        n=st.sampled_from((1, 1, 3)),
        of=spaces,
    )
    def complete_and_claim(
        self,
        which: list[int],
        lane: str,
        offered: frozenset[str],
        worker: str,
        ttl: int,
        n: int,
        of: str | None,
    ) -> None:
        many = [(self.held(each), b"%d" % at) for at, each in enumerate(which)]
        self.do(ops.complete_and_claim(many, lane, offered, worker, ttl, n, of))

    @precondition(holding)
    @rule(which=recent, kind=st.sampled_from(FAILURES))
    def fail(self, which: int, kind: str) -> None:
        self.do(ops.fail(self.held(which), kind))

    @precondition(holding)
    @rule(which=recent, ahead=st.sampled_from((-1, 0, 200)))
    def delay(self, which: int, ahead: int) -> None:
        self.do(ops.delay(self.held(which), self.now + ahead))

    @precondition(holding)
    @rule(which=recent)
    def give_up(self, which: int) -> None:
        self.do(ops.give_up(self.held(which)))

    # ---- operators

    @rule(i=who)
    def cancel(self, i: int) -> None:
        self.do(ops.cancel(IDENTS[i], OVERRIDE))

    @precondition(holding)
    @rule(which=recent, epoch=st.sampled_from((None, 0, 1)), with_lease=st.booleans())
    def cancel_by_source(self, which: int, epoch: int | None, with_lease: bool) -> None:
        h = self.held(which)
        said = None if epoch is None else h.epoch + epoch
        self.do(ops.cancel(h.ident, "worker_sdk", said, h.lease if with_lease else None))

    @rule(
        i=who,
        instance=st.sampled_from(("", "", "ann-1", "bob-1")),
        shown=st.sampled_from(("", "", "lease", "composite", "x")),
    )
    def revoke(self, i: int, instance: str, shown: str) -> None:
        e = self.bench.spec.execs.get(IDENTS[i])
        if e is not None and shown in ("lease", "composite"):
            composite = f"{self.bench.spec.label}:{e.ident.uuid}:{e.index}:{e.epoch}"
            shown = composite if shown == "composite" else str(e.lease)
        self.do(ops.revoke(IDENTS[i], instance, shown))

    @rule(i=who, prio=prios)
    def change_priority(self, i: int, prio: int) -> None:
        self.do(ops.change_priority(IDENTS[i], prio))

    @rule(i=who)
    def replay(self, i: int) -> None:
        self.do(ops.replay(IDENTS[i]))

    @rule(
        i=who,
        reason=st.sampled_from(sorted(BLOCKS)),
        expected=st.sampled_from((None, "", *sorted(BLOCKS))),
    )
    def block(self, i: int, reason: str, expected: str | None) -> None:
        if expected is not None:
            self.make_ready(i, NO_POLICY)
        self.do(ops.block(IDENTS[i], reason))
        if expected is not None:
            self.do(ops.unblock(IDENTS[i], expected))

    @rule(i=who)
    def unblock(self, i: int) -> None:
        self.do(ops.unblock(IDENTS[i], ""))

    @rule(
        lane=lanes,
        state=st.sampled_from(("active", "active", "active", "paused", "draining", "disabled")),
    )
    def lane(self, lane: str, state: str) -> None:
        self.do(ops.lane(lane, state))

    # ---- time and its keepers

    @rule(nth=st.sampled_from((0, 0, 0, 1, 2)), off=nearby)
    def tick(self, nth: int, off: int) -> None:
        times = self.bench.spec.times()
        self.step_to(times[min(nth, len(times) - 1)] if times else self.now + 100, off)

    @rule(i=who)
    def mark(self, i: int) -> None:
        self.do(ops.mark(IDENTS[i]))

    @rule(i=who, grace=st.sampled_from((0, 500)))
    def requeue(self, i: int, grace: int) -> None:
        self.do(ops.requeue(IDENTS[i], grace))

    @rule(i=who, phase=st.sampled_from(("attempt_timeout", "execution_deadline")), off=nearby)
    def expire(self, i: int, phase: str, off: int) -> None:
        e = self.bench.spec.execs.get(IDENTS[i])
        self.step_to(
            (e.timeout_at if phase == "attempt_timeout" else e.deadline) if e else None, off
        )
        self.do(ops.expire(IDENTS[i], phase))

    @rule(i=who, off=nearby)
    def promote(self, i: int, off: int) -> None:
        e = self.bench.spec.execs.get(IDENTS[i])
        self.step_to(e.delay if e and e.state == "DELAYED" else None, off)
        self.do(ops.promote(IDENTS[i]))

    @rule(lane=lanes, kept=st.sampled_from((0, 0, 400, 2_000)))
    def trim(self, lane: str, kept: int) -> None:
        self.do(ops.trim(lane, kept))

    @rule(name=st.sampled_from(LOOPS))
    def loop(self, name: str) -> None:
        self.do(ops.loop(name))

    @rule()
    def all_loops(self) -> None:
        self.do(ops.loops())
        self.bench.timers()

    # ---- workers

    @rule(
        what=st.sampled_from(("register", "heartbeat", "heartbeat", "bury", "sweep")),
        ns=st.sampled_from(("a", "b")),
        instance=workers,
        reassigned=st.sampled_from((False, False, False, True)),
        offered=caps,
        off=nearby,
    )
    def worker(
        self, what: str, ns: str, instance: str, reassigned: bool, offered: frozenset[str], off: int
    ) -> None:
        if what == "bury":
            self.do(ops.bury(ns, instance))
            return
        self.do(ops.register(ns, instance, "zoe" if reassigned else instance, offered, 700))
        if what != "register":
            self.step_to(self.now + 700, off)
            self.do(
                ops.heartbeat(ns, instance) if what == "heartbeat" else ops.loop("worker_reaper")
            )

    # ---- taking over

    @rule(i=who, worker=workers, offered=caps, ttl=ttls)
    def issue_reclaim_grant(self, i: int, worker: str, offered: frozenset[str], ttl: int) -> None:
        self.do(ops.issue_reclaim_grant(IDENTS[i], worker, offered, ttl))

    @rule(i=who, worker=workers, ttl=ttls, limit=st.sampled_from((None, None, 0)))
    def reclaim(self, i: int, worker: str, ttl: int, limit: int | None) -> None:
        self.do(ops.reclaim(IDENTS[i], worker, ttl, limit))

    @precondition(lambda self: self.last is not None)
    @rule()
    def repeat(self) -> None:
        assert self.last is not None
        self.do(self.last)

    @rule()
    def crash(self) -> None:
        self.bench.reopen()
