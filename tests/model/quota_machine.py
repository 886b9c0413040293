"""The machine of quotas: claims, grants, all ends of leases and sliding windows, in two
processes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId

from . import ops
from .bench import LANES, SETTINGS, Mismatch
from .ops import Op
from .quota_ops import (
    NOTHING,
    Asking,
    QuotaBench,
    ask,
    attach,
    change,
    claims,
    claims_at_once,
    close,
    create,
    define,
    detach,
    let_go,
    reconcile,
    release_limited,
)
from .quota_spec import HAND_GRACE_MS, Quota, Quotas, Wish
from .shapes import Held
from .spec import OVERRIDE

FIRST, SECOND, THIRD, UNMADE = QUOTAS = tuple(UUID(int=n) for n in range(1, 5))
LANE = LANES[0]
IDENTS = tuple(ExecutionId.of(n % 3, UUID(int=(9 - n) << 64 | 7)) for n in range(9))
OUTSIDERS = tuple(ExecutionId.of(5, UUID(int=0xF0 + n)) for n in range(2))
NAMESPACES = {FIRST: "default", SECOND: "default", THIRD: "a", UNMADE: "default"}
PLACES = (
    ("lane", LANES[0]),
    ("lane", LANES[1]),
    ("namespace", "a"),
    ("namespace", "default"),
    ("tag", "app.who=x"),
)
SHORT_MS, LONG_MS = 2_000, 10_000
Place = tuple[str, str]
WORKERS = ("ann", "bob", "cid")

# ---- what is drawn

quotas = st.sampled_from((FIRST, FIRST, SECOND, THIRD))
made = st.builds(
    Quota, cap=st.integers(0, 3), rate=st.integers(0, 3), seconds=st.sampled_from((1, 2, 2, 0))
)
tight = st.sampled_from(
    (Quota(1, 1, 1), Quota(2, 2, 2), Quota(0, 2, 1), Quota(0, 1, 2), Quota(0, 1, 1), Quota(1))
)
who = st.integers(0, len(IDENTS) - 1)
lanes = st.sampled_from((LANES[0], LANES[0], LANES[0], LANES[1]))
wishes = st.builds(
    Wish,
    lane=lanes,
    namespace=st.sampled_from(("a", "default")),
    tag=st.sampled_from(("", "", "app.who=x")),
    own=st.sampled_from((None, None, FIRST, SECOND, UNMADE)),
    prio=st.sampled_from((0, 0, 5)),
)
places = st.sampled_from(PLACES)
workers = st.sampled_from(WORKERS)
ttls = st.sampled_from((400, 5_000))
asking = st.lists(st.tuples(workers, st.integers(1, 3)), min_size=1, max_size=3).map(tuple)
nearby = st.sampled_from((-1, 0, 1))


def holding(self: QuotaMachine) -> bool:
    return bool(self.bench.handles)


class QuotaMachine(RuleBasedStateMachine):
    kind: ClassVar[str] = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.bench = QuotaBench(self.kind, Quotas)
        self.bench.kept = 40
        self.other: Engine | None = None
        self.last = 0

    def teardown(self) -> None:
        self.bench.close()

    @property
    def spec(self) -> Quotas:
        return self.bench.spec

    def do(self, op: Op) -> Any:
        """Each call has its own millisecond, or the time to which the clock was moved. After a long
        time the loop has run.
        """
        self.bench.to(max(self.last + 1, self.bench.clock()))
        if self.last and self.bench.clock() > self.last + LONG_MS:
            self.bench.do(reconcile())
        self.last = self.bench.clock()
        return self.bench.do(op)

    def to(self, at: int) -> None:
        self.bench.to(max(at, self.last + 1))

    def held(self, which: int) -> Held:
        return self.bench.handles[-1 - which % len(self.bench.handles)]

    def claim_in(self, lane: str, several: Asking, ttl: int = 5_000) -> None:
        self.do(claims(lane, several, ttl))

    def some(self, i: int, *states: str) -> ExecutionId:
        """One with this property, if there is any."""
        found = [ident for ident, e in self.spec.execs.items() if e.state in states]
        return found[i % len(found)] if found else IDENTS[i]

    def ready(self, quota: UUID, n: int) -> list[ExecutionId]:
        """So many of the first lane that wait under a quota without a reservation; missing ones are
        created.
        """
        execs = self.spec.execs
        mine = [i for i, e in execs.items() if e.lane == LANE and self.spec.under[i] == quota]
        found = [i for i in mine if execs[i].state == "READY" and execs[i].grant is None][:n]
        free = [i for i in IDENTS if i not in execs]
        for ident in [i for i in execs if i not in found][: max(n - len(found) - len(free), 0)]:
            self.do(
                ops.cancel(ident, OVERRIDE) if execs[ident].state != "ENDED" else ops.mark(ident)
            )
        if len(free) < n - len(found):
            self.sweep()
        for ident in [i for i in IDENTS if i not in execs][: n - len(found)]:
            self.do(create(ident, Wish(LANE, self.spec.quotas[quota].namespace, own=quota, prio=5)))
            found.append(ident)
        return found

    def sweep(self) -> None:
        for lane in LANES:
            self.do(ops.trim(lane, 0))

    def complete_all(self) -> None:
        running = [ident for ident, e in self.spec.execs.items() if e.state == "RUNNING"]
        for ident in running:
            h = next(h for h in reversed(self.bench.handles) if h.ident == ident)
            self.do(ops.complete(h))

    # ---- limits

    @initialize(
        one=tight,
        two=made,
        three=made,
        at=st.tuples(places, places),
        many=st.lists(wishes, min_size=4, max_size=6),
    )
    def start(
        self, one: Quota, two: Quota, three: Quota, at: tuple[Place, Place], many: list[Wish]
    ) -> None:
        for ident, each in zip(QUOTAS, (one, two, three), strict=False):
            self.do(define(ident, replace(each, namespace=NAMESPACES[ident])))
        self.do(attach(FIRST, at[0]))
        self.do(attach(SECOND, at[1]))
        for ident, wish in zip(IDENTS, many, strict=False):
            self.do(create(ident, wish))

    @rule(ident=st.sampled_from(QUOTAS), made=made)
    def define(self, ident: UUID, made: Quota) -> None:
        self.do(define(ident, replace(made, namespace=NAMESPACES[ident])))

    @rule(
        ident=st.sampled_from((FIRST, FIRST, SECOND, THIRD, UNMADE)),
        made=made,
        n=st.integers(1, 3),
        off=nearby,
    )
    def other_limits(self, ident: UUID, made: Quota, n: int, off: int) -> None:
        """Some start, and some more under the new limits: at once, and when the new window has
        passed for the first of them.
        """
        if ident not in self.spec.quotas:
            self.do(change(ident, made))
            return
        self.ready(ident, 3)
        self.claim_in(LANE, (("ann", n),))
        self.do(change(ident, made))
        self.claim_in(LANE, (("bob", n),))
        times = self.spec.counted(ident, made.window)
        if times:
            self.to(times[0] + made.window + off)
        self.claim_in(LANE, (("ann", n),))

    @rule(ident=quotas, at=places, on=st.sampled_from((True, True, False)))
    def attach(self, ident: UUID, at: Place, on: bool) -> None:
        self.do(attach(ident, at) if on else detach(ident, at))

    @rule(
        ident=quotas,
        ahead=st.sampled_from((-1, 0, 1, 700)),
        off=nearby,
        opened=st.sampled_from((False, False, True)),
    )
    def close(self, ident: UUID, ahead: int, off: int, opened: bool) -> None:
        (one,) = self.ready(ident, 1)
        until = self.bench.clock() + 1 + ahead
        self.do(close(ident, until))
        self.claim_in(LANE, (("ann", 1),))
        self.do(ops.issue_claim_grant(one, "ann", NOTHING, 5_000))
        if opened:
            self.do(close(ident, None))
        else:
            self.to(until + off)
        self.claim_in(LANE, (("bob", 1),))

    @rule(ident=st.sampled_from((UNMADE, THIRD)), until=st.sampled_from((None, 0)))
    def close_or_open(self, ident: UUID, until: int | None) -> None:
        self.do(close(ident, until))

    @rule(many=st.lists(st.tuples(who, wishes), min_size=1, max_size=4))
    def create(self, many: list[tuple[int, Wish]]) -> None:
        for i, wish in many:
            self.do(create(IDENTS[i], wish))

    @rule(many=st.lists(wishes, min_size=2, max_size=5))
    def create_more(self, many: list[Wish]) -> None:
        """Replaces ended ones."""
        self.sweep()
        free = [ident for ident in IDENTS if ident not in self.spec.execs]
        for ident, wish in zip(free, many, strict=False):
            self.do(create(ident, wish))

    # ---- starting

    @rule(lane=lanes, several=asking, ttl=ttls)
    def claim(self, lane: str, several: Asking, ttl: int) -> None:
        self.claim_in(lane, several, ttl)

    @precondition(lambda self: self.kind != "postgres")
    @rule(
        lane=lanes,
        worker=workers,
        sizes=st.lists(st.integers(1, 3), min_size=2, max_size=4).map(tuple),
    )
    def claim_at_once(self, lane: str, worker: str, sizes: tuple[int, ...]) -> None:
        self.do(claims_at_once(lane, worker, sizes, 5_000))

    @rule(
        ident=st.sampled_from((FIRST, FIRST, FIRST, SECOND)),
        n=st.integers(1, 3),
        off=st.sampled_from((-1, 0, 0, 1)),
    )
    def window_opens(self, ident: UUID, n: int, off: int) -> None:
        """Slots are free; only the window blocks."""
        self.to(self.last + SHORT_MS)
        self.ready(ident, 2)
        self.claim_in(LANE, (("ann", 2),))
        self.complete_all()
        self.ready(ident, 2)
        self.claim_in(LANE, (("bob", n),))
        self.complete_all()
        self.ready(ident, 1)
        times = self.spec.counted(ident, self.spec.quotas[ident].window)
        if times:
            self.to(times[0] + self.spec.quotas[ident].window + off)
        self.claim_in(LANE, (("ann", n),))

    @rule(i=who, worker=workers, ttl=st.sampled_from((300, 5_000)))
    def grant(self, i: int, worker: str, ttl: int) -> None:
        self.do(ops.issue_claim_grant(self.some(i, "READY"), worker, NOTHING, ttl))

    @rule(ident=quotas, by=st.sampled_from(("ann", "ann", "bob")), off=nearby)
    def grant_and_use(self, ident: UUID, by: str, off: int) -> None:
        """In time or too late; no other execution gets its slot meanwhile."""
        first, second = self.ready(ident, 2)
        self.do(ops.issue_claim_grant(first, "ann", NOTHING, 300))
        self.claim_in(LANE, (("bob", 1),))
        self.do(ops.issue_claim_grant(second, "cid", NOTHING, 300))
        e = self.spec.execs[first]
        self.to(self.last + 1 if e.grant is None else e.grant.until + off)
        self.do(ops.claim_execution(first, by, 5_000))
        self.do(ops.loop("lease_expiry"))
        self.claim_in(LANE, ((by, 1),))

    @rule(
        ident=st.sampled_from((FIRST, FIRST, SECOND)),
        off=st.sampled_from((1, 1, 0)),
        worker=workers,
    )
    def grant_runs_out(self, ident: UUID, off: int, worker: str) -> None:
        """The loop frees the slot of an unused grant."""
        self.to(self.last + SHORT_MS)
        self.complete_all()
        (first,) = self.ready(ident, 1)
        self.do(ops.issue_claim_grant(first, "ann", NOTHING, 300))
        self.claim_in(LANE, (("bob", 1),))
        e = self.spec.execs[first]
        self.to(self.last + 1 if e.grant is None else e.grant.until + off)
        self.do(ops.loop("lease_expiry"))
        self.claim_in(LANE, ((worker, 2),))

    @rule(i=who, ttl=ttls)
    def take(self, i: int, ttl: int) -> None:
        ident = self.some(i, "READY")
        e = self.spec.execs.get(ident)
        self.do(ops.grant_and_claim(ident, e.lane if e else LANE, ttl))

    @rule(i=who, how=st.sampled_from(("resumed", "resume", "reclaim", "granted")), worker=workers)
    def take_over(self, i: int, how: str, worker: str) -> None:
        ident = self.some(i, "LOST", "RUNNING", "READY")
        if how == "resumed":
            self.do(ops.claim_resumed(ident, worker, 5_000))
        elif how == "resume":
            self.do(ops.resume(ident, worker, 5_000, self.bench.clock() + 10))
        elif how == "granted":
            self.do(ops.claim_execution(ident, worker, 5_000))
        else:
            self.do(ops.mark(ident))
            self.do(ops.issue_reclaim_grant(ident, worker, NOTHING, 300))
            self.do(ops.reclaim(ident, worker, 5_000))

    # ---- ending

    @precondition(holding)
    @rule(
        which=st.integers(0, 5),
        how=st.sampled_from(("complete", "fail", "end", "delay", "revoke", "cancel")),
        lane=lanes,
    )
    def end(self, which: int, how: str, lane: str) -> None:
        """Every end of a lease frees its slot."""
        h = self.held(which)
        made = {
            "complete": lambda: ops.complete(h),
            "fail": lambda: ops.fail(h),
            "end": lambda: ops.fail(h, "permanent"),
            "delay": lambda: ops.delay(h, self.bench.clock() + 200),
            "revoke": lambda: ops.revoke(h.ident),
            "cancel": lambda: ops.cancel(h.ident, OVERRIDE),
        }
        self.do(made[how]())
        self.claim_in(lane, (("cid", 2),))

    @precondition(holding)
    @rule(
        which=st.lists(st.integers(0, 5), min_size=1, max_size=2),
        lane=lanes,
        worker=workers,
        n=st.integers(1, 3),
    )
    def end_and_claim(self, which: list[int], lane: str, worker: str, n: int) -> None:
        """An end frees a slot for the claim of the same call."""
        self.do(
            ops.complete_and_claim(
                [(self.held(each), b"") for each in which], lane, NOTHING, worker, 5_000, n
            )
        )

    @rule(ident=quotas, n=st.integers(1, 3))
    def turn_over(self, ident: UUID, n: int) -> None:
        (one,) = self.ready(ident, 1)
        self.do(ops.grant_and_claim(one, LANE, 5_000))
        self.ready(ident, 2)
        last = [(h, b"") for h in self.bench.handles[-1:]]
        self.do(ops.complete_and_claim(last, LANE, NOTHING, "ann", 5_000, n))

    @rule(lane=lanes, off=nearby)
    def leases_run_out(self, lane: str, off: int) -> None:
        self.claim_in(lane, (("ann", 2),), 400)
        self.to(self.bench.clock() + 400 + off)
        self.do(ops.loop("lease_expiry"))
        self.claim_in(lane, (("bob", 2),))
        self.to(self.bench.clock() + SETTINGS.lease_reclaim_grace_ms)
        self.do(ops.loop("lease_expiry"))
        self.claim_in(lane, (("bob", 2),))

    @rule(nth=st.sampled_from((0, 0, 1, 2)), off=nearby)
    def tick(self, nth: int, off: int) -> None:
        times = self.spec.times()
        self.to((times[min(nth, len(times) - 1)] if times else self.bench.clock() + 100) + off)

    @rule(name=st.sampled_from(("lease_expiry", "delayed_promoter")))
    def loop(self, name: str) -> None:
        self.do(ops.loop(name))

    # ---- by hand

    @rule(
        ident=quotas,
        i=st.integers(-2, len(IDENTS) - 1),
        dimension=st.sampled_from(("", "", "", "other")),
        again=st.booleans(),
    )
    def ask(self, ident: UUID, i: int, dimension: str, again: bool) -> None:
        """By its policy, or for fewer when the caller does not run under it."""
        who, limits = (
            (IDENTS[i], self.spec.quotas[ident])
            if i >= 0
            else (OUTSIDERS[i], self.spec.quotas[ident])
        )
        asked = Quota(
            min(limits.cap, 1) if again and i < 0 else limits.cap, limits.rate, limits.seconds
        )
        self.do(ask(ident, who, asked, dimension))
        if again:
            self.do(ask(ident, who, asked, dimension))

    @rule(ident=quotas, off=st.sampled_from((0, 1, -1)), runs=st.sampled_from((True, True, False)))
    def place_outlives_its_execution(self, ident: UUID, off: int, runs: bool) -> None:
        """No worker gives back the slot of an execution that does not run."""
        (one,) = self.ready(ident, 1)
        self.do(ask(ident, one, self.spec.quotas[ident]))
        at = self.last
        if runs:
            self.do(ops.grant_and_claim(one, LANE, 5_000))
        self.to(at + HAND_GRACE_MS + off)
        self.do(reconcile())

    @rule(ident=quotas, i=st.integers(-2, len(IDENTS) - 1))
    def let_go(self, ident: UUID, i: int) -> None:
        self.do(let_go(ident, IDENTS[i] if i >= 0 else OUTSIDERS[i]))

    # ---- upkeep

    @rule(later=st.sampled_from((0, 0, HAND_GRACE_MS - 1, HAND_GRACE_MS, HAND_GRACE_MS + 1)))
    def reconcile(self, later: int) -> None:
        """A second run has nothing to repair."""
        held = [at for at in self.spec.slots.values() if at + later > self.last]
        self.to(held[0] + later if held and later else self.bench.clock())
        self.do(reconcile())
        before = self.bench.tables
        self.bench.do(reconcile())
        if self.bench.tables != before:
            raise Mismatch("what was put right was put right again")

    @rule(
        several=st.lists(
            st.tuples(
                who,
                st.sampled_from(("waiting_for_quota", "waiting_for_quota", "waiting_for_budget")),
            ),
            max_size=4,
        )
    )
    def hold_back_and_release(self, several: list[tuple[int, str]]) -> None:
        for i, reason in several:
            if self.spec.execs:
                self.do(ops.block(self.some(i, "READY"), reason))
        self.do(release_limited())

    @rule()
    def another_process(self) -> None:
        """Its cache of quotas dates from its last call."""
        engine = self.bench.engine
        self.bench.engine, self.other = (
            self.other or type(engine)(engine.store, SETTINGS, seed=2),
            engine,
        )
        self.bench.story.append("another process")

    @rule()
    def crash(self) -> None:
        self.bench.reopen()
        self.other = None


def quota_machine_on(store: str) -> type[QuotaMachine]:
    return type(f"{store.title().replace('-', '')}QuotaMachine", (QuotaMachine,), {"kind": store})
