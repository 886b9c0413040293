"""The composite rules: sequences that random steps would rarely find, such as a takeover with the
old handle still used.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import rule

from flowfabric.codec.handle import decode_fields, encode_handle
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Handle

from . import ops
from .bench import LANES
from .machine import (
    FAILURES,
    GPU,
    HOLDER_OPS,
    IDENTS,
    NAMESPACES,
    NOTHING,
    OUTSIDE_OPS,
    PHASES,
    EngineMachine,
    caps,
    holder_ops,
    lanes,
    nearby,
    outside_ops,
    policies,
    prios,
    space_of,
    spaces,
    ttls,
    who,
    workers,
)
from .shapes import NO_POLICY, Policy
from .spec import OVERRIDE

ENDS = ("complete", "end", "give up", "cancel")
ENDING = ("complete", "end", "fail", "give up", "delay")

often = st.sampled_from((True, True, False))


class Stories(EngineMachine):
    @rule(
        prios=st.tuples(prios, prios),
        lane=lanes,
        worker=workers,
        of=st.sampled_from(("a", "a", None)),
    )
    def claim_in_order(
        self, prios: tuple[int, int], lane: str, worker: str, of: str | None
    ) -> None:
        """The better of two first."""
        for i, prio in enumerate(prios):
            self.do(ops.create(IDENTS[i], lane, NAMESPACES[i], prio, "", NO_POLICY, None))
            self.do(ops.change_priority(IDENTS[i], prio))
        self.do(ops.claim(lane, GPU, worker, 1_000, of=of))

    @rule(prio=prios, n=st.sampled_from((1, 2, 3)), of=spaces, again=spaces)
    def border(self, prio: int, n: int, of: str | None, again: str | None) -> None:
        """Two namespaces in one lane: each gets its own, and a claim for all starts with another
        one each time.
        """
        for i in (0, 2):
            self.clear(i)
            self.open_lane(LANES[0])
            self.do(
                ops.create(
                    IDENTS[i], LANES[0], NAMESPACES[i], prio if i else 0, "", NO_POLICY, None
                )
            )
        self.do(ops.claim(LANES[0], GPU, "ann", 1_000, n, of))
        self.do(ops.claim(LANES[0], GPU, "bob", 1_000, 1, again))

    @rule(i=who, granted=workers, claimer=workers, off=nearby, ttl=ttls, sweep=st.booleans())
    def grant_then_claim(
        self, i: int, granted: str, claimer: str, off: int, ttl: int, sweep: bool
    ) -> None:
        """A reservation excludes others until it expires."""
        self.make_ready(i, NO_POLICY)
        lane = self.lane_of(IDENTS[i])
        self.do(ops.issue_claim_grant(IDENTS[i], granted, GPU, 300))
        self.do(ops.claim(lane, GPU, "cyd", ttl, of=NAMESPACES[i]))
        self.step_to(self.now + 300, off)
        if sweep:
            self.do(ops.loop("lease_expiry"))
        self.do(ops.claim_execution(IDENTS[i], claimer, ttl))
        self.do(ops.claim(lane, GPU, claimer, ttl, of=NAMESPACES[i]))

    @rule(i=who, policy=policies, what=holder_ops)
    def forged(self, i: int, policy: Policy, what: str) -> None:
        """Everything right except the lease id."""
        true = self.lease_on(i, policy)
        if true is not None:
            fields, lease = decode_fields(true.handle.opaque), UUID(int=99)
            opaque = encode_handle(msgspec.structs.replace(fields, lease_id=lease))
            made = replace(
                true, lease=lease, handle=Handle(true.handle.backend, true.handle.kind, opaque)
            )
            self.do(HOLDER_OPS[what](made, self.now))

    @rule(i=who, worker=workers, state=st.sampled_from(("paused", "draining", "disabled")))
    def closed_lane(self, i: int, worker: str, state: str) -> None:
        """The creates and claims of a lane that is not active."""
        self.make_ready(i, NO_POLICY)
        lane, other = self.lane_of(IDENTS[i]), (i + 1) % len(IDENTS)
        self.clear(other)
        self.do(ops.lane(lane, state))
        self.do(ops.create(IDENTS[other], lane, NAMESPACES[other], 0, "", NO_POLICY, None))
        self.do(ops.issue_claim_grant(IDENTS[i], worker, GPU, 300))
        self.do(ops.claim(lane, GPU, worker, 1_000, of=NAMESPACES[i]))
        self.do(ops.claim_execution(IDENTS[i], worker, 400))
        self.do(ops.resume(IDENTS[i], worker, 400, self.now))
        self.do(ops.lane(lane, "active"))

    @rule(
        i=who,
        worker=workers,
        ttl=ttls,
        how=st.sampled_from(("claim", "complete and claim", "grant", "reclaim")),
    )
    def unfit(self, i: int, worker: str, ttl: int, how: str) -> None:
        """A worker without the required capabilities gets nothing, and the next in line is not
        hidden from it.
        """
        self.clear(i)
        self.make_ready(i, Policy(caps=GPU))
        lane = self.lane_of(IDENTS[i])
        if how == "claim":
            self.do(ops.claim(lane, NOTHING, worker, ttl, 2, NAMESPACES[i]))
        elif how == "complete and claim":
            self.do(ops.complete_and_claim((), lane, NOTHING, worker, ttl, 2, NAMESPACES[i]))
        elif how == "grant":
            self.do(ops.issue_claim_grant(IDENTS[i], worker, NOTHING, 300))
        else:
            self.do(ops.grant_and_claim(IDENTS[i], lane, 400))
            self.step_to(self.now + 400, 0)
            self.do(ops.issue_reclaim_grant(IDENTS[i], worker, NOTHING, 300))

    @rule(i=who, policy=policies, offered=caps, live=st.booleans())
    def routed(self, i: int, policy: Policy, offered: frozenset[str], live: bool) -> None:
        """An execution that waits for a capable worker continues when one registers, and only
        then.
        """
        self.do(ops.create(IDENTS[i], LANES[0], NAMESPACES[i], 0, "", policy, None))
        self.do(ops.block(IDENTS[i], "waiting_for_capable_worker"))
        self.do(ops.register(NAMESPACES[i], "ann", "ann", offered, 700))
        self.step_to(self.now + 700, -1 if live else 0)
        self.do(ops.block(IDENTS[i], "waiting_for_capable_worker"))
        self.do(ops.loop("route_releaser"))

    @rule(
        i=who,
        live=st.sampled_from((GPU, NOTHING, NOTHING)),
        known=st.sampled_from((0, 1, 1)),
        later=caps,
        long=often,
        by=often,
        all_of_them=st.sampled_from((False, False, True)),
    )
    def looked_around(
        self,
        i: int,
        live: frozenset[str],
        known: int,
        later: frozenset[str],
        long: bool,
        by: bool,
        all_of_them: bool,
    ) -> None:
        """An execution that no live worker covers is parked by a claimer, and released by one that
        covers it.
        """
        lane, of = self.lane_of(IDENTS[i]), None if all_of_them else NAMESPACES[i]
        self.do(ops.claim(lane, GPU, "bob", 400, 3, of))
        self.do(ops.claim(lane, NOTHING, "bob", 400, 3, of))
        if not self.make_ready(i, Policy(caps=GPU)):
            return
        self.step_to(self.now + (10_000 if long else 0), 0)
        self.do(ops.register(NAMESPACES[i - 1 + known], "ann", "ann", live, 5_000))
        self.step_to(self.now + 1_000, 0)
        asking = ops.claim(lane, NOTHING, "bob", 400, of=of)
        self.do(asking if by else ops.complete_and_claim((), lane, NOTHING, "bob", 400, of=of))
        if later:
            self.do(ops.claim(lane, GPU, "bob", 400, 1, of))
        else:
            self.do(ops.register(NAMESPACES[i], "bob", "bob", NOTHING, 5_000))

    @rule(i=who, of=spaces)
    def asked_for(self, i: int, of: str | None) -> None:
        """An execution is not parked while a recent claimer covers it, registered or not."""
        lane = self.lane_of(IDENTS[i])
        self.do(ops.claim(lane, GPU, "bob", 400, 3, of))
        self.do(ops.claim(lane, NOTHING, "bob", 400, 3, NAMESPACES[i]))
        if self.make_ready(i, Policy(caps=GPU)):
            self.do(ops.register(NAMESPACES[i], "ann", "ann", NOTHING, 5_000))
            self.step_to(self.now + 1_000, 0)
            self.do(ops.claim(lane, NOTHING, "bob", 400, 1, NAMESPACES[i]))

    @rule(
        i=who,
        policies=st.tuples(policies, policies),
        prios=st.tuples(prios, prios),
        late=st.sampled_from((None, None, -1, 0)),
        offered=caps,
        n=st.sampled_from((1, 1, 2)),
    )
    def next_in_line(
        self,
        i: int,
        policies: tuple[Policy, Policy],
        prios: tuple[int, int],
        late: int | None,
        offered: frozenset[str],
        n: int,
    ) -> None:
        """One ends and the better of two starts, or both, even if the end is late."""
        others = [(i + 1) % len(IDENTS), (i + 2) % len(IDENTS)]
        for each in others:
            self.clear(each)
        h = self.lease_on(i, NO_POLICY)
        if h is None:
            return
        lane = self.lane_of(h.ident)
        for each, policy, prio in zip(others, policies, prios, strict=True):
            self.do(ops.create(IDENTS[each], lane, NAMESPACES[each], prio, "", policy, None))
        self.step_to(None if late is None else self.bench.spec.execs[h.ident].expiry, late or 0)
        self.do(
            ops.complete_and_claim(
                ((h, b"1"),), lane, offered, "ann", 1_000, n, NAMESPACES[others[1]]
            )
        )

    @rule(
        i=who,
        policy=policies,
        first=outside_ops,
        order=st.permutations((0, 1, 2)),
        n=st.sampled_from((1, 3)),
    )
    def several_end(self, i: int, policy: Policy, first: str, order: list[int], n: int) -> None:
        """Each end has its own answer, whatever has happened to one of them."""
        self.make_ready(i, policy)
        h = self.lease_on((i + 1) % len(IDENTS), policy)
        if h is not None:
            lane, other = (
                self.lane_of(h.ident),
                next((each for each in self.bench.handles[::-1] if each != h), h),
            )
            self.do(OUTSIDE_OPS[first](h.ident, lane))
            many = [((h, b"1"), (other, b"2"), (h, b"3"))[at] for at in order]
            self.do(ops.complete_and_claim(many, lane, GPU, "bob", 1_000, n, NAMESPACES[i]))

    @rule(
        i=who,
        policy=policies,
        off=nearby,
        how=st.sampled_from(
            ("requeue", "loop", "mark", "resume", "resume", "reclaim", "reclaim", "revoke")
        ),
        grace=nearby,
        write=holder_ops,
        again=holder_ops,
    )
    def takeover(
        self, i: int, policy: Policy, off: int, how: str, grace: int, write: str, again: str
    ) -> None:
        """The lease expires, another worker takes over, and the old handle is still used."""
        old = self.lease_on(i, policy, 400)
        if old is None:
            return
        self.step_to(self.bench.spec.execs[old.ident].expiry, off)
        self.hand_over(old.ident, how, grace)
        self.do(HOLDER_OPS[write](old, self.now))
        self.do(HOLDER_OPS[again](self.held(0), self.now))
        self.do(HOLDER_OPS[again](old, self.now))

    def hand_over(self, ident: ExecutionId, how: str, grace: int) -> None:
        lane = self.lane_of(ident)
        if how in ("requeue", "mark"):
            self.do(ops.mark(ident))
        if how == "loop":
            self.do(ops.loop("lease_expiry"))
        if how in ("requeue", "loop"):
            self.step_to(self.now + 500, grace)
            self.do(ops.loop("lease_expiry") if how == "loop" else ops.requeue(ident, 500))
            self.do(ops.claim(lane, GPU, "bob", 1_000, of=space_of(ident)))
        elif how == "resume":
            self.do(ops.resume(ident, "bob", 1_000, self.now + 100))
        elif how == "reclaim":
            self.do(ops.issue_reclaim_grant(ident, "bob", GPU, 300))
            self.step_to(self.now + (300 if grace else 0), grace)
            self.do(ops.requeue(ident, 0))
            self.do(ops.reclaim(ident, "bob", 1_000))
        elif how == "revoke":
            self.do(ops.revoke(ident))
            self.do(ops.claim(lane, GPU, "bob", 1_000, of=space_of(ident)))

    @rule(
        i=who,
        policy=policies,
        how=st.lists(st.sampled_from(("requeue", "resume", "reclaim")), min_size=2, max_size=3),
    )
    def lost_again(self, i: int, policy: Policy, how: list[str]) -> None:
        """Lost as often as its policy allows, and once more."""
        h = self.lease_on(i, policy, 400)
        for each in how if h is not None else ():
            e = self.bench.spec.execs[IDENTS[i]]
            self.step_to(e.expiry, 0)
            self.hand_over(IDENTS[i], each, 0)

    @rule(
        i=who,
        policy=policies,
        by=st.sampled_from(("delay", "revoke")),
        off=nearby,
        then=st.sampled_from(
            (
                "claim",
                "resumed",
                "execution",
                "take",
                "resume",
                "reclaim",
                "replay",
                "cancel",
                "grant",
            )
        ),
        write=holder_ops,
    )
    def interrupted(self, i: int, policy: Policy, by: str, off: int, then: str, write: str) -> None:
        """An attempt stops midway and continues in one of the possible ways."""
        h = self.lease_on(i, policy)
        if h is None:
            return
        ident, lane = h.ident, self.lane_of(h.ident)
        self.bench.to(self.now + 150)
        if by == "delay":
            self.do(ops.delay(h, self.now + 200))
            self.step_to(self.now + 200, off)
            self.do(ops.loop("delayed_promoter"))
        else:
            self.do(ops.revoke(ident))
        if then in ("grant", "reclaim"):
            make = ops.issue_claim_grant if then == "grant" else ops.issue_reclaim_grant
            self.do(make(ident, "bob", GPU, 100))
            self.step_to(self.now + 100, off)
        self.do(
            {
                "claim": ops.claim(lane, GPU, "bob", 400, of=NAMESPACES[i]),
                "execution": ops.claim_execution(ident, "bob", 400),
                "take": ops.grant_and_claim(ident, lane, 400),
                "resume": ops.resume(ident, "bob", 400, self.now),
                "reclaim": ops.reclaim(ident, "bob", 400),
                "replay": ops.replay(ident),
                "cancel": ops.cancel(ident, OVERRIDE),
            }.get(then, ops.claim_resumed(ident, "ann" if off else "bob", 400))
        )
        self.do(HOLDER_OPS[write](h, self.now))

    @rule(
        i=who,
        policy=policies,
        kinds=st.lists(st.sampled_from(FAILURES), min_size=2, max_size=4),
        off=nearby,
    )
    def fail_again(self, i: int, policy: Policy, kinds: list[str], off: int) -> None:
        """Fails, waits for the backoff, and fails again until no retry is left."""
        for kind in kinds:
            h = self.lease_on(i, policy)
            if h is None:
                return
            self.do(ops.fail(h, kind))
            e = self.bench.spec.execs[h.ident]
            self.step_to(e.delay, off)
            self.do(ops.loop("delayed_promoter"))

    @rule(
        i=who,
        policy=policies,
        phase=st.sampled_from(PHASES),
        off=nearby,
        by_loop=st.booleans(),
        lost=st.booleans(),
    )
    def time_out(
        self, i: int, policy: Policy, phase: str, off: int, by_loop: bool, lost: bool
    ) -> None:
        """Held until just before, at or after its time limit."""
        h = self.lease_on(i, policy)
        if h is not None:
            e = self.bench.spec.execs[h.ident]
            if lost:
                self.step_to(e.expiry, 0)
                self.do(ops.mark(h.ident))
            self.step_to(e.timeout_at if phase == PHASES[0] else e.deadline, off)
            self.do(ops.loop(phase) if by_loop else ops.expire(h.ident, phase))
            self.do(ops.complete(h))

    @rule(i=who, policy=policies, end=st.sampled_from(ENDS), write=holder_ops, between=outside_ops)
    def ended_and_replayed(
        self, i: int, policy: Policy, end: str, write: str, between: str
    ) -> None:
        """A new generation; the handle of the old one must not affect it."""
        h = self.lease_on(i, policy)
        if h is not None:
            self.do(
                ops.cancel(h.ident, OVERRIDE) if end == "cancel" else HOLDER_OPS[end](h, self.now)
            )
            self.do(ops.replay(h.ident))
            self.do(OUTSIDE_OPS[between](h.ident, self.lane_of(h.ident)))
            self.do(HOLDER_OPS[write](h, self.now))

    @rule(i=who, policy=policies, end=st.sampled_from(ENDS), off=nearby, by_loop=st.booleans())
    def forgotten(self, i: int, policy: Policy, end: str, off: int, by_loop: bool) -> None:
        """Kept until its retention age, then removed with all its rows."""
        h = self.lease_on(i, policy)
        if h is not None:
            self.do(
                ops.cancel(h.ident, OVERRIDE) if end == "cancel" else HOLDER_OPS[end](h, self.now)
            )
            e = self.bench.spec.execs[h.ident]
            self.step_to(self.now + self.bench.spec.age(e, None if by_loop else 2_000), off)
            self.do(ops.loop("retention_trimmer") if by_loop else ops.trim(e.lane, 2_000))

    @rule(
        i=who,
        policy=policies,
        inside=holder_ops,
        outside=outside_ops,
        swapped=st.booleans(),
        late=st.booleans(),
    )
    def race(
        self, i: int, policy: Policy, inside: str, outside: str, swapped: bool, late: bool
    ) -> None:
        """A holder and an outside caller at once, such as cancel against complete."""
        h = self.lease_on(i, policy)
        if h is not None:
            self.step_to(self.bench.spec.execs[h.ident].expiry if late else None, 0)
            pair = (
                HOLDER_OPS[inside](h, self.now),
                OUTSIDE_OPS[outside](h.ident, self.lane_of(h.ident)),
            )
            self.bench.race(*reversed(pair) if swapped else pair)

    @rule(
        i=who,
        policy=policies,
        inside=st.sampled_from(ENDING),
        outside=st.sampled_from(("cancel", "revoke")),
    )
    def race_to_end(self, i: int, policy: Policy, inside: str, outside: str) -> None:
        """A decision on earlier reads must not overwrite a commit in between."""
        h = self.lease_on(i, policy)
        if h is not None:
            self.bench.race(
                OUTSIDE_OPS[outside](h.ident, self.lane_of(h.ident)),
                HOLDER_OPS[inside](h, self.now),
            )

    @rule(i=who, policy=policies, same=st.booleans(), n=st.sampled_from((1, 1, 2)))
    def race_for_the_next(self, i: int, policy: Policy, same: bool, n: int) -> None:
        """Two calls that end executions do not claim the same one; neither do two that end the
        same.
        """
        at, after = (i + 1) % len(IDENTS), (i + 2) % len(IDENTS)
        self.clear(after)
        self.make_ready(at, NO_POLICY)
        one = self.lease_on(i, NO_POLICY)
        other = (
            one
            if same
            else next((h for h in reversed(self.bench.handles) if h.ident == IDENTS[at]), None)
        )
        if one is not None and other is not None:
            lane = self.lane_of(one.ident)
            self.do(ops.create(IDENTS[after], lane, NAMESPACES[after], 0, "", policy, None))
            sides = (((one, b"1"),), "ann"), (((other, b"2"),), "bob")
            of = NAMESPACES[after]
            self.bench.race(
                *(
                    ops.complete_and_claim(ends, lane, GPU, worker, 1_000, n, of)
                    for ends, worker in sides
                )
            )

    @rule(i=who, first=outside_ops, second=outside_ops)
    def race_outside(self, i: int, first: str, second: str) -> None:
        lane = self.lane_of(IDENTS[i])
        self.bench.race(OUTSIDE_OPS[first](IDENTS[i], lane), OUTSIDE_OPS[second](IDENTS[i], lane))

    @rule(i=who, policy=policies, what=holder_ops, crash=st.booleans())
    def reply_lost(self, i: int, policy: Policy, what: str, crash: bool) -> None:
        """The call was committed, its answer was lost, and it is sent again."""
        h = self.lease_on(i, policy)
        if h is not None:
            op = HOLDER_OPS[what](h, self.now)
            self.do(op)
            if crash:
                self.bench.reopen()
            self.do(op)


def machine_on(store: str) -> type[Stories]:
    return type(f"{store.title().replace('-', '')}Machine", (Stories,), {"kind": store})
