"""The machine of output streams: appends by current and former holders, every end of an attempt,
readers and followers.
"""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.stream import (
    BestEffortLive,
    Durable,
    DurableSummary,
    Frame,
    FrameKind,
    FrameMode,
)
from flowfabric.model.waitpoint import Single

from . import ops, stream_ops
from . import suspend_ops as sops
from .bench import LANES, SETTINGS
from .ops import Op
from .shapes import Held
from .spec import OVERRIDE
from .stream_ops import FIRST, Follower, StreamBench
from .stream_spec import CAP, SLACK, Name, Place, Streams
from .suspend_shapes import Asked

LANE = LANES[0]
IDENTS = tuple(ExecutionId.of(3, UUID(int=(at + 1) << 64 | 5)) for at in range(2))
SECRET = "2a" * 32
NOTHING: frozenset[str] = frozenset()
PATCHES = (
    b'{"a":1}',
    b'{"a":{"b":2,"c":[1,"__ff_null__"]}}',
    b'{"a":{"b":null},"d":"__ff_null__"}',
    b'{"a":null}',
    b'{"e":{}}',
    b'{"a":{}, "f":"\xc3\xa4"}',
)
BAD_PATCHES = (b"{", b"[1]", b"\xff", b"1")
LIVE = (BestEffortLive(1_000, 2, 5), BestEffortLive(1_000, 2, 5), BestEffortLive(200, 1, 3, 0.5))
KINDS = tuple(FrameKind)


def framed(mode: FrameMode, data: bytes, kind: FrameKind, label: str, seq: int | None) -> Frame:
    return Frame(data, kind, label, seq=seq, mode=mode)


def once_each(found: list[Frame]) -> list[Frame]:
    """A caller's number occurs once in a batch."""
    used: set[int | None] = set()
    kept = []
    for frame in found:
        if frame.seq is None or frame.seq not in used:
            kept.append(frame)
        used.add(frame.seq)
    return kept


seqs = st.sampled_from((None, None, 1, 2, 3, 4))
kinds = st.sampled_from(KINDS)
labels = st.sampled_from(("", "", "delta"))
texts = st.sampled_from((b"a", b"b", b"", b"\xff\xfe", "ü".encode()))
durable = st.builds(framed, st.just(Durable()), texts, kinds, labels, seqs)
patches = st.builds(
    framed, st.just(DurableSummary()), st.sampled_from(PATCHES), kinds, labels, seqs
)
bad = st.builds(
    framed, st.just(DurableSummary()), st.sampled_from(BAD_PATCHES), kinds, labels, seqs
)
live = st.builds(framed, st.sampled_from(LIVE), texts, kinds, labels, seqs)
frames = st.one_of(durable, durable, patches, live)
batches = st.lists(frames, min_size=1, max_size=4).map(once_each)
plain = st.builds(framed, st.just(Durable()), texts, kinds, labels, st.none())
who = st.sampled_from((0, 0, 0, 1))
nearby = st.sampled_from((-1, 0, 1))
flags = st.booleans()


class StreamMachine(RuleBasedStateMachine):
    kind: ClassVar[str] = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.bench = StreamBench(self.kind)
        self.bench.kept = 6
        self.other: Engine | None = None
        self.names = 0

    def teardown(self) -> None:
        self.bench.close()

    # ---- pieces

    @property
    def spec(self) -> Streams:
        return self.bench.spec

    def do(self, op: Op) -> Any:
        return self.bench.do(op)

    def pass_time(self, ms: int) -> None:
        self.bench.to(self.bench.clock() + ms)

    def holder(self, i: int) -> Held | None:
        e = self.spec.execs.get(IDENTS[i])
        if e is None or e.state != "RUNNING" or self.spec.has_expired(e):
            return None
        return next(
            (h for h in reversed(self.bench.handles) if (h.ident, h.epoch) == (e.ident, e.epoch)),
            None,
        )

    def hold(self, i: int, worker: str = "ann", ttl: int = 1_000) -> Held:
        """Leases one execution, by ordinary calls."""
        ident = IDENTS[i]
        for _ in range(9):
            held, e = self.holder(i), self.spec.execs.get(ident)
            if held is not None:
                return held
            if e is None:
                self.do(stream_ops.create(ident))
            elif e.state == "READY":
                if e.grant is not None:
                    self.bench.to(e.grant.until + 1)
                self.do(ops.claim(LANE, NOTHING, worker, ttl, 2))
            elif e.state == "RUNNING":
                self.do(ops.mark(ident))
            elif e.state == "LOST":
                self.bench.to(e.lost_at or 0)
                self.do(ops.requeue(ident, 0))
            elif e.state == "DELAYED":
                self.bench.to(e.delay or 0)
                self.do(ops.promote(ident))
            elif e.state == "SUSPENDED":
                self.do(sops.resume_execution(ident))
            elif e.replays < 1:
                self.do(ops.replay(ident))
            else:
                self.pass_time(3_000)
                self.do(ops.trim(LANE, 0))
        raise AssertionError("nothing brings it under a lease")

    def of_old(self, which: int) -> Held:
        return self.bench.handles[-1 - which % len(self.bench.handles)]

    def stream(self, i: int, back: int) -> Name:
        e = self.spec.execs.get(IDENTS[i])
        return IDENTS[i], max((e.index if e is not None else 0) - back, 0)

    def place(self, name: Name, nth: int) -> Place:
        """The position of a stored frame, of a removed one, or one near it."""
        written = [w.place for n, w in self.spec.log if n == name]
        kept = [w.place for w in self.spec.kept(name, False)] or written
        if not written:
            return FIRST
        ts, seq = (written if nth % 3 == 2 else kept)[-1 - nth // 3 % len(kept)]
        return (ts, seq) if nth % 3 else (ts, seq + 1)

    # ---- writing

    @initialize()
    def start(self) -> None:
        self.do(sops.seed("k1", SECRET))
        for ident in IDENTS:
            self.do(stream_ops.create(ident))
        self.do(ops.claim(LANE, NOTHING, "ann", 1_000))

    @rule(
        i=who, several=st.lists(batches, min_size=1, max_size=3), ms=st.sampled_from((0, 1, 1, 250))
    )
    def append(self, i: int, several: list[list[Frame]], ms: int) -> None:
        for batch in several:
            self.do(stream_ops.append(self.hold(i), batch))
            self.pass_time(ms)
        name = self.stream(i, 0)
        self.do(stream_ops.read(name, None, self.place(name, 1), 100, False))

    @rule(i=who, many=st.lists(plain, min_size=2, max_size=4))
    def append_at_once(self, i: int, many: list[Frame]) -> None:
        """Without trimming: the trimmed number depends on the batches."""
        held = self.hold(i)
        tape = self.spec.tapes.get((held.ident, held.index))
        there = 0 if tape is None else tape.of_mode["durable"] - tape.gone["durable"]
        if there + len(many) <= CAP + SLACK:
            self.do(stream_ops.append_at_once(held, many))

    @rule(i=who, batch=batches, more=batches, crash=flags)
    def append_again(self, i: int, batch: list[Frame], more: list[Frame], crash: bool) -> None:
        """The repetition after a lost answer: the same numbers, and new frames with them."""
        held = self.hold(i)
        self.do(stream_ops.append(held, batch))
        if crash:
            self.crash()
        self.pass_time(1)
        self.do(stream_ops.append(held, batch))
        self.do(stream_ops.append(held, once_each([*more, *batch])))

    @rule(i=who, batch=batches, wrong=bad, which=st.integers(0, 5))
    def bad_patch(self, i: int, batch: list[Frame], wrong: Frame, which: int) -> None:
        """Nothing of the batch is written. A caller without the lease gets that error."""
        self.do(stream_ops.append(self.hold(i), once_each([*batch, wrong])))
        self.do(stream_ops.append(self.of_old(which), [wrong]))

    @rule(i=who, n=st.integers(CAP + SLACK, CAP + SLACK + 2), batch=batches)
    def too_many(self, i: int, n: int, batch: list[Frame]) -> None:
        """More than the cap: the next append trims."""
        held = self.hold(i)
        self.do(
            stream_ops.append(held, [Frame(b"x", FrameKind.Stdout, seq=10 + at) for at in range(n)])
        )
        self.do(stream_ops.append(held, batch))
        self.do(stream_ops.append(held, [Frame(b"x", FrameKind.Stdout, seq=10)]))

    @rule(i=who, n=st.integers(2, 5), gap=st.sampled_from((0, 1, 40, 400)), batch=batches)
    def live_ones(self, i: int, n: int, gap: int, batch: list[Frame]) -> None:
        """Frequent ones, kept by their rate; frames of other modes stay."""
        held = self.hold(i)
        self.do(stream_ops.append(held, batch))
        for _ in range(n):
            self.do(stream_ops.append(held, [Frame(b"l", FrameKind.Event, mode=LIVE[0])]))
            self.pass_time(gap)

    @rule(off=nearby)
    def forget(self, off: int) -> None:
        due = [
            w.expires
            for tape in self.spec.tapes.values()
            for w in tape.kept
            if w.expires is not None
        ]
        if due:
            self.bench.to(min(due) + off)
        self.do(stream_ops.forget())

    @precondition(lambda self: self.bench.handles)
    @rule(which=st.integers(0, 5), batch=batches)
    def late(self, which: int, batch: list[Frame]) -> None:
        """By a former holder."""
        self.do(stream_ops.append(self.of_old(which), batch))

    # ---- ways an attempt ends or goes on

    @rule(
        i=who,
        batch=batches,
        how=st.sampled_from(("complete", "fail", "end", "cancel", "give up", "expire")),
        again=flags,
    )
    def end(self, i: int, batch: list[Frame], how: str, again: bool) -> None:
        """No frame is written after it; readers see the end."""
        held = self.hold(i)
        self.do(stream_ops.append(held, batch))
        made = {
            "complete": ops.complete(held),
            "fail": ops.fail(held),
            "end": ops.fail(held, "permanent"),
            "cancel": ops.cancel(held.ident, OVERRIDE),
            "give up": ops.give_up(held),
            "expire": ops.delay(held, self.bench.clock() + 100),
        }
        self.do(made[how])
        self.do(stream_ops.append(held, batch if again else [Frame(b"late", FrameKind.Stdout)]))
        self.do(stream_ops.tail((held.ident, held.index), FIRST, 2, False))
        last = self.place((held.ident, held.index), 1)
        self.do(stream_ops.tail((held.ident, held.index), last, 10, False))

    @rule(i=who, batch=batches, off=nearby, more=batches)
    def takeover(self, i: int, batch: list[Frame], off: int, more: list[Frame]) -> None:
        """The lease expires, another worker continues with a new attempt; the old one still
        writes.
        """
        held = self.hold(i, ttl=400)
        self.do(stream_ops.append(held, batch))
        e = self.spec.execs[held.ident]
        self.bench.to((e.expiry or 0) + off)
        self.do(stream_ops.append(held, more))
        self.do(ops.mark(held.ident))
        self.do(
            stream_ops.tail(
                (held.ident, held.index), self.place((held.ident, held.index), 1), 10, False
            )
        )
        self.do(ops.issue_reclaim_grant(held.ident, "bob", NOTHING, 300))
        self.do(ops.reclaim(held.ident, "bob", 1_000))
        self.do(stream_ops.append(held, more))
        self.do(stream_ops.append(self.hold(i, "bob"), more))

    @rule(i=who, batch=batches, revoked=flags)
    def same_attempt_goes_on(self, i: int, batch: list[Frame], revoked: bool) -> None:
        """A lost lease is no end when the attempt is claimed again: its stream continues."""
        held = self.hold(i, ttl=400)
        self.do(stream_ops.append(held, batch))
        if revoked:
            self.do(ops.revoke(held.ident))
        else:
            self.pass_time(400)
            self.do(ops.mark(held.ident))
            self.do(stream_ops.read((held.ident, held.index), None, None, 10, False))
            self.do(ops.requeue(held.ident, 0))
        self.do(stream_ops.read((held.ident, held.index), None, None, 10, False))
        again = self.hold(i, "cid")
        self.do(stream_ops.append(held, batch))
        self.do(stream_ops.append(again, batch))
        self.do(stream_ops.read((held.ident, held.index), None, None, 10, False))

    @rule(i=who, batch=batches, how=st.sampled_from(("resume", "resume", "cancel", "time out")))
    def suspend(self, i: int, batch: list[Frame], how: str) -> None:
        """A suspension is no end."""
        held = self.hold(i)
        self.names += 1
        fresh = ((UUID(int=self.names << 32 | 2), "a"),)
        until = self.bench.clock() + 500
        asked = Asked(
            UUID(int=self.names << 32 | 3), Single("a"), fresh=fresh, timeout=until, behavior="fail"
        )
        self.do(stream_ops.append(held, batch))
        self.do(sops.suspend(held, asked))
        self.do(stream_ops.append(held, batch))
        if how == "resume":
            self.do(sops.resume_execution(held.ident))
        elif how == "cancel":
            self.do(ops.cancel(held.ident, OVERRIDE))
        else:
            self.bench.to(until)
            self.do(sops.time_out(held.ident))
        self.do(stream_ops.read((held.ident, held.index), None, None, 10, False))
        self.do(stream_ops.append(self.hold(i, "dan"), batch))

    @rule(name=st.sampled_from(("lease_expiry", "delayed_promoter", "retention_trimmer")))
    def loop(self, name: str) -> None:
        self.do(ops.loop(name))

    # ---- reading

    @rule(
        i=who,
        back=st.integers(0, 2),
        low=st.integers(0, 14),
        size=st.sampled_from((0, 3, 3, 6, 1, 2)),
        count=st.sampled_from((1, 2, 100)),
        kept=flags,
        open_ends=st.tuples(flags, flags),
    )
    def read(
        self,
        i: int,
        back: int,
        low: int,
        size: int,
        count: int,
        kept: bool,
        open_ends: tuple[bool, bool],
    ) -> None:
        name = self.stream(i, back)
        first, last = sorted((self.place(name, low), self.place(name, low + size)))
        self.do(
            stream_ops.read(
                name, None if open_ends[0] else first, None if open_ends[1] else last, count, kept
            )
        )
        self.do(stream_ops.summary(name))

    @rule(
        i=who,
        back=st.integers(-1, 2),
        at=st.integers(-1, 14),
        count=st.sampled_from((1, 2, 100)),
        kept=flags,
    )
    def tail(self, i: int, back: int, at: int, count: int, kept: bool) -> None:
        name = self.stream(i, back)
        self.do(stream_ops.tail(name, FIRST if at < 0 else self.place(name, at), count, kept))

    @precondition(lambda self: len(self.bench.followers) < 3)
    @rule(
        i=who,
        back=st.integers(0, 2),
        at=st.integers(-3, 14),
        kept=flags,
        later=st.sampled_from((True, True, False)),
    )
    def follow(self, i: int, back: int, at: int, kept: bool, later: bool) -> None:
        """From now on a follower has seen every visible frame after each call."""
        name = self.stream(i, back)
        if name[0] in self.spec.execs:
            self.bench.follow(
                Follower(name, FIRST if at < 0 else self.place(name, at), kept, later)
            )

    @rule(i=who, batch=batches, kept=flags)
    def follow_into_the_next_attempt(self, i: int, batch: list[Frame], kept: bool) -> None:
        held = self.hold(i)
        self.do(stream_ops.append(held, batch))
        if len(self.bench.followers) < 3:
            self.bench.follow(Follower((held.ident, held.index), FIRST, kept, True))
        self.do(ops.fail(held))
        again = self.hold(i)
        self.do(stream_ops.append(again, batch))
        self.do(ops.complete(again))

    # ---- around them

    @rule(ms=st.sampled_from((1, 10, 300)))
    def time_passes(self, ms: int) -> None:
        self.pass_time(ms)

    @rule(i=who, batch=batches, ms=st.sampled_from((1, 50, 300)))
    def clock_is_set_back(self, i: int, batch: list[Frame], ms: int) -> None:
        """As seen by a process that starts after the step."""
        held = self.hold(i)
        self.do(stream_ops.append(held, batch))
        store: Any = self.bench.engine.store
        self.bench.clock.now_ms -= ms
        self.spec.now = self.bench.clock.now_ms
        store.clock.latest = 0
        self.bench.story.append(f"the clock is set back by {ms}")
        self.do(stream_ops.append(self.hold(i), batch))

    @rule()
    def another_process(self) -> None:
        """Its cached state of a stream dates from its last write."""
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


def stream_machine_on(store: str) -> type[StreamMachine]:
    return type(f"{store.title().replace('-', '')}StreamMachine", (StreamMachine,), {"kind": store})
