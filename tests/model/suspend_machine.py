"""The machine of suspension: two executions that wait, are signalled, time out and are taken over,
with other operations in between.
"""

from __future__ import annotations

import itertools
from typing import ClassVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Handle
from flowfabric.model.waitpoint import (
    AllOf,
    Condition,
    Count,
    CountKind,
    OperatorOnly,
    Single,
    Suspended,
)

from . import ops
from . import suspend_ops as sops
from .bench import LANES, Bench
from .machine import GPU, HOLDER_OPS, OUTSIDE_OPS, holder_ops, nearby, outside_ops
from .ops import LOOPS, Op
from .shapes import NO_POLICY, Held, Policy
from .spec import OVERRIDE
from .suspend_shapes import BLOCKED_BY, Asked, Box, Sent
from .suspend_spec import Suspends

LANE = LANES[0]
IDENTS = tuple(ExecutionId.of(p, UUID(int=(at + 1) << 64 | 9)) for at, p in enumerate((3, 3)))
POLICIES = (
    NO_POLICY,
    NO_POLICY,
    Policy(timeout=900),
    Policy(deadline=2_500, losses=1),
    Policy(retain=400, retain_failed=250, replays=1),
)
SECRETS = {"k1": "2a" * 32, "k2": "17" * 32, "k3": "c4" * 32}
SOURCES = CountKind.DISTINCT_SOURCES
ON_ONE: tuple[Condition, ...] = (
    Single("a"),
    Single("a", "go"),
    Count(2, SOURCES, ("a",)),
    Count(2, CountKind.DISTINCT_SIGNALS, ("a",), "go"),
    AllOf((Single("a", "go"), Single("a", "stop"))),
)
ON_SEVERAL: tuple[Condition, ...] = (
    AllOf((Single("a"), Single("b"))),
    Count(1, CountKind.DISTINCT_WAITPOINTS, ("a", "b")),
    Count(2, CountKind.DISTINCT_WAITPOINTS, ("a", "b", "c")),
    Count(2, SOURCES, ("a", "b"), "go"),
    AllOf((Count(2, SOURCES, ("a",)), Count(1, SOURCES, ("b",), "go"))),
)
ON_NONE: tuple[Condition, ...] = (OperatorOnly(), AllOf((Single("a"), OperatorOnly())))
BEHAVIORS = ("fail", "cancel", "expire", "auto_resume_with_timeout_signal", "escalate")
KEYS = ("a", "b", "c")

who = st.sampled_from((0, 0, 0, 1))
policies = st.sampled_from(POLICIES)
conditions = st.sampled_from((*ON_ONE, *ON_ONE, *ON_SEVERAL, *ON_NONE))
early = st.sampled_from((*ON_ONE, *ON_ONE[2:]))
behaviors = st.sampled_from((*BEHAVIORS, "escalate"))
words = st.sampled_from(("go", "go", "go", "stop", "other"))
sources = st.sampled_from((("test", "x"), ("test", "x"), ("test", "y"), ("other", "x")))
onces = st.sampled_from((None, None, None, "k", "l"))
delays = st.sampled_from((None, None, 0, 300, 300))
signals = st.tuples(st.integers(0, 2), words, sources, onces)
lots = st.lists(signals, min_size=1, max_size=4)
Draft = tuple[int, str, tuple[str, str], str | None]


class SuspendMachine(RuleBasedStateMachine):
    kind: ClassVar[str] = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(self.kind, Suspends)
        self.names = itertools.count(1)
        self.parked: list[tuple[Held, Handle]] = []
        self.last: Op | None = None

    def teardown(self) -> None:
        self.bench.close()

    # ---- pieces

    @property
    def spec(self) -> Suspends:
        assert isinstance(self.bench.spec, Suspends)
        return self.bench.spec

    @property
    def now(self) -> int:
        return self.bench.clock()

    def do(self, op: Op) -> object:
        self.last = op
        return self.bench.do(op)

    def step_to(self, at: int | None, off: int) -> None:
        if at is not None:
            self.bench.to(at + off)

    def name(self, kind: int = 1) -> UUID:
        return UUID(int=next(self.names) << 32 | kind)

    def draft(self, said: Draft, delay: int | None = None) -> Sent:
        _, word, source, once = said
        return Sent(
            self.name(), word, source, once, delay=delay, payload=b"\x00\xff" if once else None
        )

    def holder(self, i: int) -> Held | None:
        """The holder of a live lease of it."""
        e = self.spec.execs.get(IDENTS[i])
        if e is None or e.state != "RUNNING" or self.spec.has_expired(e):
            return None
        return next(
            (h for h in reversed(self.bench.handles) if (h.ident, h.epoch) == (e.ident, e.epoch)),
            None,
        )

    def hold(self, i: int, policy: Policy = NO_POLICY, ttl: int = 1_000) -> Held | None:
        """Leases one execution, by ordinary calls."""
        ident = IDENTS[i]
        for _ in range(8):
            held, e = self.holder(i), self.spec.execs.get(ident)
            if held is not None:
                return held
            if e is None:
                self.do(ops.create(ident, LANE, "a", 0, "", policy, None))
            elif e.state == "READY":
                self.step_to(e.grant.until if e.grant else None, 1)
                self.do(ops.claim(LANE, GPU, "ann", ttl, 2, "a"))
            elif e.state == "RUNNING":
                self.do(ops.mark(ident))
            elif e.state == "LOST":
                self.do(ops.requeue(ident, 0))
            elif e.state == "DELAYED":
                self.step_to(e.delay, 0)
                self.do(ops.promote(ident))
            elif e.state == "SUSPENDED":
                self.do(sops.resume_execution(ident))
            elif e.state != "ENDED":
                self.do(ops.unblock(ident, ""))
            elif e.replays < e.policy.replays:
                self.do(ops.replay(ident))
            else:
                self.step_to(self.now + 400, 0)
                self.do(ops.trim(LANE, 0))
        return None

    def asks(self, until: Condition, **said: object) -> Asked:
        """One new waitpoint for each key that the condition may name."""
        keys = next(
            (wanted.waitpoints for wanted in (until,) if isinstance(wanted, Count)),
            KEYS[: 1 + (until in ON_SEVERAL)],
        )
        fresh = tuple((self.name(2), key) for key in keys)
        return Asked(self.name(3), until, **{"fresh": fresh, **said})  # type: ignore[arg-type]

    def suspend(self, h: Held, asked: Asked) -> None:
        answer = self.do(sops.suspend(h, asked))
        if isinstance(answer, Suspended):
            self.parked = [*self.parked[-3:], (h, answer.handle)]

    def box(self, i: int, which: int) -> Box | None:
        """The latest waitpoints of one execution, active ones first."""
        mine = [box for box in self.spec.boxes.values() if box.ident == IDENTS[i]]
        mine.sort(key=lambda box: box.state != "active")
        found = [box for box in mine if box.state == "active"] or mine[::-1]
        return found[which % len(found)] if found else None

    def send(self, i: int, said: Draft, delay: int | None = None) -> None:
        box = self.box(i, said[0])
        if box is not None:
            self.do(sops.deliver(IDENTS[i], box.name, box.token, self.draft(said, delay)))

    def park(self, i: int, policy: Policy, until: Condition, **said: object) -> Held | None:
        held = self.hold(i, policy)
        if held is not None:
            self.suspend(held, self.asks(until, **said))
        return held

    # ---- one call at a time

    @initialize(first=policies, second=policies)
    def start(self, first: Policy, second: Policy) -> None:
        self.do(sops.seed("k1", SECRETS["k1"]))
        for ident, policy in zip(IDENTS, (first, second), strict=True):
            self.do(ops.create(ident, LANE, "a", 0, "", policy, None))
        self.do(ops.claim(LANE, GPU, "ann", 1_000, of="a"))

    @rule(i=who, key=st.sampled_from(KEYS[:2]), lasts=st.sampled_from((0, 300, 5_000)))
    def create_waitpoint(self, i: int, key: str, lasts: int) -> None:
        held = self.hold(i)
        if held is not None:
            self.do(sops.create_waitpoint(held, key, lasts))

    @rule(
        i=who,
        policy=policies,
        until=conditions,
        timeout=st.sampled_from((None, None, -1, 0, 500)),
        behavior=behaviors,
        reason=st.sampled_from(sorted(BLOCKED_BY)),
        delay=delays,
        once=st.sampled_from((None, None, "s")),
    )
    def park_one(
        self,
        i: int,
        policy: Policy,
        until: Condition,
        timeout: int | None,
        behavior: str,
        reason: str,
        delay: int | None,
        once: str | None,
    ) -> None:
        at = None if timeout is None else self.now + timeout
        self.park(
            i, policy, until, timeout=at, behavior=behavior, reason=reason, delay=delay, once=once
        )

    @rule(i=who, said=signals, delay=delays)
    def signal(self, i: int, said: Draft, delay: int | None) -> None:
        self.send(i, said, delay)

    @rule(
        i=who,
        of=who,
        said=signals,
        how=st.sampled_from(("", "junk", "tampered", "foreign", "unknown key", "unknown box")),
    )
    def forged(self, i: int, of: int, said: Draft, how: str) -> None:
        """A token of another waitpoint or execution."""
        box, other = self.box(i, said[0]), self.box(of, said[0] + 1)
        if box is None or other is None:
            return
        last = "0" if box.token[-1] != "0" else "1"
        shown = {
            "": "",
            "junk": "no token",
            "tampered": box.token[:-1] + last,
            "unknown key": f"k9{box.token[2:]}",
        }
        target = UUID(int=77) if how == "unknown box" else box.name
        token = other.token if how == "foreign" else shown.get(how, box.token)
        self.do(sops.deliver(IDENTS[i], target, token, self.draft(said)))

    @rule(i=who, delay=st.sampled_from((0, 0, 300)))
    def resume_execution(self, i: int, delay: int) -> None:
        self.do(sops.resume_execution(IDENTS[i], delay))

    @rule(i=who, which=st.integers(0, 2), said=signals)
    def close_waitpoint(self, i: int, which: int, said: Draft) -> None:
        box = self.box(i, which)
        if box is not None:
            self.do(sops.close_waitpoint(IDENTS[i], box.name))
            self.do(sops.deliver(IDENTS[i], box.name, box.token, self.draft(said)))

    @rule(i=who, off=nearby, by_loop=st.booleans())
    def expire_suspension(self, i: int, off: int, by_loop: bool) -> None:
        wait = self.spec.open_wait(IDENTS[i])
        self.step_to(wait.timeout if wait else None, off)
        self.do(ops.loop("suspension_timeout") if by_loop else sops.time_out(IDENTS[i]))

    @rule(
        kid=st.sampled_from(sorted(SECRETS)),
        grace=st.sampled_from((0, 400, 5_000)),
        wrong=st.sampled_from((False, False, True)),
    )
    def rotate(self, kid: str, grace: int, wrong: bool) -> None:
        self.do(
            sops.rotate(kid, "0b" * 32 if wrong and kid in self.spec.hmac else SECRETS[kid], grace)
        )

    @precondition(lambda self: self.bench.handles)
    @rule(which=st.integers(0, 3))
    def observe(self, which: int) -> None:
        for h, handle in self.parked[-1 - which :][:1]:
            self.do(sops.observe(h, handle))
        self.do(sops.observe(self.bench.handles[-1 - which % len(self.bench.handles)]))

    @rule(nth=st.sampled_from((0, 0, 1)), off=nearby)
    def tick(self, nth: int, off: int) -> None:
        times = self.spec.times()
        self.step_to(times[min(nth, len(times) - 1)] if times else self.now + 100, off)

    @rule(
        name=st.sampled_from(
            (None, *LOOPS, *["suspension_timeout", "pending_wp_expiry", "retention_trimmer"] * 3)
        )
    )
    def loop(self, name: str | None) -> None:
        self.do(ops.loops() if name is None else ops.loop(name))
        if name is None:
            self.bench.timers()

    @precondition(lambda self: self.bench.handles)
    @rule(i=who, inside=holder_ops, outside=outside_ops, by=st.booleans())
    def otherwise(self, i: int, inside: str, outside: str, by: bool) -> None:
        """Other operations on an execution, by a former holder or from outside."""
        held = next((h for h in reversed(self.bench.handles) if h.ident == IDENTS[i]), None)
        if by and held is not None:
            self.do(HOLDER_OPS[inside](held, self.now))
        else:
            self.do(OUTSIDE_OPS[outside](IDENTS[i], LANE))

    @precondition(lambda self: self.last is not None)
    @rule(crash=st.booleans())
    def repeat(self, crash: bool) -> None:
        """The answer was lost, and perhaps the process with it."""
        assert self.last is not None
        if crash:
            self.bench.reopen()
        self.do(self.last)

    @rule(i=who, end=st.sampled_from(("cancel", "complete")), by_loop=st.booleans())
    def forgotten(self, i: int, end: str, by_loop: bool) -> None:
        """Ended and removed with all its rows."""
        held = self.holder(i)
        self.do(
            ops.complete(held)
            if held is not None and end == "complete"
            else ops.cancel(IDENTS[i], OVERRIDE)
        )
        self.step_to(self.now + 2_000, 0)
        self.do(ops.loop("retention_trimmer") if by_loop else ops.trim(LANE, 2_000))
