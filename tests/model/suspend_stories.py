"""Sequences of suspension that random steps would rarely find: early and late signals, takeovers,
time limits, races.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import rule

from flowfabric.model.waitpoint import Condition, Count, CountKind, Single, TimeoutOnly

from . import ops
from . import suspend_ops as sops
from .machine import GPU, HOLDER_OPS, holder_ops, nearby
from .ops import Op
from .shapes import Held, Policy
from .spec import OVERRIDE
from .suspend_machine import (
    IDENTS,
    KEYS,
    LANE,
    ON_ONE,
    ON_SEVERAL,
    SECRETS,
    Draft,
    SuspendMachine,
    behaviors,
    conditions,
    delays,
    early,
    lots,
    policies,
    signals,
    who,
)
from .suspend_shapes import Asked, Box

CLAIMS = ("claim", "resumed", "take", "resume", "execution")
claims = st.sampled_from(CLAIMS)
SIGNALS = ("signal", "another", "same key")
ends = st.sampled_from(
    (*SIGNALS, "signal", "cancel", "resume", "time out", "close", "close", "deadline")
)
WRONG = ("key", "attempt", "other", "used", "none")
RACERS = ("signal", "signal", "signal", "close", "cancel", "again", "complete")
easy = st.sampled_from((*ON_ONE[:2] * 3, *ON_ONE, *ON_SEVERAL))
CONDITION_OF_TWO = Count(2, CountKind.DISTINCT_SOURCES, ("a",))


class SuspendStories(SuspendMachine):
    def go_on(self, i: int, how: str) -> Held | None:
        """Claims executions that may resume."""
        ident = IDENTS[i]
        self.do(
            {
                "claim": ops.claim(LANE, GPU, "bob", 1_000, of="a"),
                "take": ops.grant_and_claim(ident, LANE, 1_000),
                "resume": ops.resume(ident, "bob", 1_000, self.now),
                "execution": ops.claim_execution(ident, "bob", 1_000),
            }.get(how, ops.claim_resumed(ident, "bob", 1_000))
        )
        return self.holder(i)

    @rule(
        i=who,
        policy=policies,
        until=conditions,
        said=lots,
        how=claims,
        write=holder_ops,
        delay=delays,
        wait=st.booleans(),
    )
    def signalled(
        self,
        i: int,
        policy: Policy,
        until: Condition,
        said: list[Draft],
        how: str,
        write: str,
        delay: int | None,
        wait: bool,
    ) -> None:
        """Waits, gets its signal or not, and continues under the next epoch; the old lease is
        useless.
        """
        old = self.park(i, policy, until)
        if old is None:
            return
        for draft in said:
            self.send(i, draft, delay)
        if delay and wait:
            self.step_to(self.now + delay, 0)
            self.do(ops.loop("delayed_promoter"))
        new = self.go_on(i, how)
        self.do(HOLDER_OPS[write](old, self.now))
        if new is not None:
            self.do(sops.observe(new))
            self.do(ops.complete(new))

    @rule(
        i=who,
        policy=policies,
        until=early,
        said=lots,
        later=lots,
        off=st.sampled_from((None, None, None, None, -1, 0, 1)),
        sweep=st.booleans(),
        turn=st.sampled_from((None, None, 400)),
    )
    def signalled_early(
        self,
        i: int,
        policy: Policy,
        until: Condition,
        said: list[Draft],
        later: list[Draft],
        off: int | None,
        sweep: bool,
        turn: int | None,
    ) -> None:
        """A waitpoint created before the suspension: its signals count, unless the waitpoint
        expired.
        """
        held = self.hold(i, policy)
        box = self.ahead(held, 300)
        if held is None or box is None:
            return
        for draft in said:
            self.do(sops.deliver(IDENTS[i], box.name, box.token, self.draft(draft)))
        if turn is not None:
            self.do(
                sops.rotate(
                    next(
                        kid
                        for kid in SECRETS
                        if kid not in self.spec.hmac or self.spec.hmac[kid].until
                    ),
                    "17" * 32,
                    turn,
                )
            )
        self.step_to(None if off is None else box.expires, off or 0)
        if sweep:
            self.do(ops.loop("pending_wp_expiry"))
        self.suspend(held, Asked(self.name(3), until, ahead=box.name, once="s" if sweep else None))
        for draft in later:
            self.do(sops.deliver(IDENTS[i], box.name, box.token, self.draft(draft)))
        self.do(sops.observe(held))

    def ahead(self, held: Held | None, lasts: int, key: str = "a") -> Box | None:
        if held is None:
            return None
        known = set(self.spec.boxes)
        self.do(sops.create_waitpoint(held, key, lasts))
        return next((box for name, box in self.spec.boxes.items() if name not in known), None)

    @rule(
        i=who,
        until=early,
        key=st.sampled_from(KEYS[:2]),
        wrong=st.sampled_from(WRONG),
    )
    def wrong_waitpoint(self, i: int, until: Condition, key: str, wrong: str) -> None:
        """A waitpoint created ahead serves once, for its attempt and its key."""
        held = self.hold(i)
        box = self.ahead(held, 5_000, key if wrong == "key" else "a")
        if held is None or box is None:
            return
        user: Held | None = held
        if wrong == "attempt":
            self.step_to(self.spec.execs[held.ident].expiry, 0)
            self.do(ops.issue_reclaim_grant(held.ident, "bob", GPU, 300))
            self.do(ops.reclaim(held.ident, "bob", 1_000))
            user = self.holder(i)
        elif wrong == "other":
            user = self.hold(1 - i)
        elif wrong == "used":
            self.do(sops.close_waitpoint(held.ident, box.name))
        if user is not None:
            name = UUID(int=78) if wrong == "none" else box.name
            self.suspend(user, Asked(self.name(3), until, ahead=name))

    @rule(i=who, off=nearby, said=signals, crash=st.booleans())
    def outdated(self, i: int, off: int, said: Draft, crash: bool) -> None:
        """A waitpoint created ahead belongs to its attempt while that lasts, and is useless
        afterwards.
        """
        held = self.hold(i)
        box = self.ahead(held, 200)
        if held is None or box is None:
            return
        self.suspend(held, self.asks(Single("a"), fresh=((box.name, "a"),)))
        self.step_to(box.expires, off)
        if crash:
            self.bench.reopen()
        self.do(sops.deliver(IDENTS[i], box.name, box.token, self.draft(said)))
        self.suspend(held, Asked(self.name(3), Single("a", "go"), ahead=box.name))

    @rule(i=who, until=conditions, said=lots, then=lots, reuse=st.booleans())
    def waits_twice(
        self, i: int, until: Condition, said: list[Draft], then: list[Draft], reuse: bool
    ) -> None:
        """The same attempt waits again, on new waitpoints or under the ids of the old ones."""
        first = self.hold(i)
        if first is None:
            return
        asked = self.asks(until)
        self.suspend(first, asked)
        for draft in said:
            self.send(i, draft)
        self.do(sops.resume_execution(IDENTS[i]))
        second = self.go_on(i, "claim")
        if second is None:
            return
        old = self.box(i, 0)
        self.suspend(second, replace(asked, name=self.name(3)) if reuse else self.asks(until))
        if old is not None:
            self.do(sops.deliver(IDENTS[i], old.name, old.token, self.draft(said[0])))
        for draft in then:
            self.send(i, draft)
        for held, handle in self.parked[-2:]:
            self.do(sops.observe(held, handle))
        self.do(sops.observe(second))

    @rule(
        i=who,
        policy=policies,
        off=nearby,
        how=st.sampled_from(("mark", "resume", "reclaim", "revoke")),
        until=conditions,
    )
    def taken_over(self, i: int, policy: Policy, off: int, how: str, until: Condition) -> None:
        """The lease expires before its holder suspends; the next holder may suspend, the old one
        may not.
        """
        old = self.hold(i, policy, 400)
        if old is None:
            return
        if how == "revoke":
            self.do(ops.revoke(old.ident))
        else:
            self.step_to(self.spec.execs[old.ident].expiry, off)
        if how == "resume":
            self.do(ops.resume(old.ident, "bob", 1_000, self.now))
        elif how == "reclaim":
            self.do(ops.issue_reclaim_grant(old.ident, "bob", GPU, 300))
            self.do(ops.reclaim(old.ident, "bob", 1_000))
        elif how == "mark":
            self.do(ops.mark(old.ident))
        self.do(sops.create_waitpoint(old, "a", 5_000))
        self.suspend(old, self.asks(until))
        new = self.holder(i)
        if new is not None:
            self.suspend(new, self.asks(until))
            self.suspend(old, self.asks(until))

    @rule(
        i=who,
        policy=policies,
        until=conditions,
        behavior=behaviors,
        off=nearby,
        by_loop=st.booleans(),
        said=signals,
        how=claims,
    )
    def timed_out(
        self,
        i: int,
        policy: Policy,
        until: Condition,
        behavior: str,
        off: int,
        by_loop: bool,
        said: Draft,
        how: str,
    ) -> None:
        """Just before, at or after its time, with any signals so far."""
        held = self.hold(i, policy)
        if held is None:
            return
        self.do(sops.create_waitpoint(held, "c", 5_000))
        at = self.now + 250
        self.suspend(
            held, self.asks(TimeoutOnly() if said[3] else until, timeout=at, behavior=behavior)
        )
        self.send(i, said)
        self.step_to(at, off)
        self.do(ops.loop("suspension_timeout") if by_loop else sops.time_out(IDENTS[i]))
        self.do(sops.time_out(IDENTS[i]))
        self.send(i, said)
        new = self.go_on(i, how)
        for waited, handle in self.parked[-1:]:
            self.do(sops.observe(waited, handle))
        if new is not None:
            self.do(sops.observe(new))

    @rule(
        i=who,
        until=conditions,
        how=st.sampled_from(("cancel", "deadline", "deadline", "timeout")),
        off=nearby,
        said=signals,
    )
    def ended_while_waiting(
        self, i: int, until: Condition, how: str, off: int, said: Draft
    ) -> None:
        """An end from outside closes the suspension and every waitpoint."""
        ident = IDENTS[i]
        self.do(ops.cancel(ident, OVERRIDE))
        self.step_to(self.now + 400, 0)
        self.do(ops.trim(LANE, 0))
        held = self.hold(i, Policy(deadline=900, timeout=700))
        if held is None:
            return
        self.do(sops.create_waitpoint(held, "c", 5_000))
        self.bench.to(self.now + 200)
        self.suspend(held, self.asks(until))
        if how == "cancel":
            self.do(ops.cancel(ident, OVERRIDE))
        else:
            e = self.spec.execs[ident]
            self.step_to(e.deadline if how == "deadline" else self.now + 500, off)
            self.do(
                ops.loop("execution_deadline")
                if how == "deadline"
                else ops.expire(ident, "attempt_timeout")
            )
        for which in range(3):
            self.send(i, (which, *said[1:]))
        self.do(ops.replay(ident))

    @rule(i=who, grace=st.sampled_from((0, 400)), off=nearby, said=signals, again=st.booleans())
    def rotated(self, i: int, grace: int, off: int, said: Draft, again: bool) -> None:
        """An old token is valid during the grace period, and not a millisecond longer."""
        held = self.park(i, Policy(), Single("a", "never"))
        if held is None or self.spec.open_wait(IDENTS[i]) is None:
            return
        active = next(kid for kid, key in self.spec.hmac.items() if key.active)
        new = next(kid for kid in SECRETS if kid != active)
        self.do(sops.rotate(new, SECRETS[new], grace))
        until = self.spec.hmac[active].until
        if again:
            third = next(kid for kid in SECRETS if kid not in (active, new))
            self.do(sops.rotate(third, SECRETS[third], 5_000))
        self.send(i, said)
        self.step_to(until, off)
        self.send(i, said)
        if again:
            self.do(sops.rotate(active, SECRETS[active], 400))
            self.send(i, said)

    @rule(
        i=who,
        until=conditions,
        timeout=st.sampled_from((None, 500)),
        late=st.sampled_from((0, 0, 61_000)),
        crash=st.booleans(),
    )
    def asked_again(
        self, i: int, until: Condition, timeout: int | None, late: int, crash: bool
    ) -> None:
        """A suspend under a key with a lost answer, repeated by a caller that may have lost the
        lease.
        """
        held = self.hold(i)
        if held is None:
            return
        at = None if timeout is None else self.now + timeout
        asked = self.asks(
            until,
            once=f"once-{next(self.names)}",
            timeout=at,
            behavior="auto_resume_with_timeout_signal",
        )
        self.suspend(held, asked)
        if crash:
            self.bench.reopen()
        self.bench.to(self.now + late)
        self.suspend(
            held, replace(asked, name=self.name(3), until=Single("a"), fresh=((self.name(2), "a"),))
        )

    @rule(
        i=who,
        said=signals,
        same=st.booleans(),
        late=st.sampled_from((0, 0, 4_999, 5_000)),
        pending=st.booleans(),
    )
    def sent_twice(self, i: int, said: Draft, same: bool, late: int, pending: bool) -> None:
        """A repeated signal: under the same id it is stored again and counts once, under the same
        key it is a duplicate.
        """
        held = self.hold(i)
        box = self.ahead(held, 9_000) if pending else None
        if held is None:
            return
        if not pending:
            self.suspend(held, self.asks(CONDITION_OF_TWO))
            box = self.box(i, 0)
        if box is None:
            return
        sent = replace(self.draft(said), once="k" if not same else said[3])
        self.do(sops.deliver(IDENTS[i], box.name, box.token, sent))
        self.bench.to(self.now + late)
        sent = sent if same else replace(sent, name=self.name())
        self.do(sops.deliver(IDENTS[i], box.name, box.token, sent))
        self.do(
            sops.deliver(
                IDENTS[i],
                box.name,
                box.token,
                replace(sent, name=self.name(), source=("test", "z"), once=None),
            )
        )
        if pending and self.holder(i) is not None:
            self.suspend(held, Asked(self.name(3), CONDITION_OF_TWO, ahead=box.name))

    # ---- at once

    def racer(self, i: int, what: str, box: Box, said: Draft) -> Op:
        ident, sent = IDENTS[i], self.draft(said)
        makers: dict[str, Callable[[], Op]] = {
            "signal": lambda: sops.deliver(ident, box.name, box.token, replace(sent, once=None)),
            "another": lambda: sops.deliver(
                ident, box.name, box.token, replace(sent, source=("test", "z"))
            ),
            "same key": lambda: sops.deliver(ident, box.name, box.token, replace(sent, once="k")),
            "cancel": lambda: ops.cancel(ident, OVERRIDE),
            "resume": lambda: sops.resume_execution(ident),
            "time out": lambda: sops.time_out(ident),
            "close": lambda: sops.close_waitpoint(ident, box.name),
            "deadline": lambda: ops.expire(ident, "execution_deadline"),
        }
        return makers[what]()

    @rule(
        i=who,
        policy=policies,
        until=easy,
        behavior=behaviors,
        one=ends,
        other=ends,
        said=signals,
        second=signals,
    )
    def both_end_it(
        self,
        i: int,
        policy: Policy,
        until: Condition,
        behavior: str,
        one: str,
        other: str,
        said: Draft,
        second: Draft,
    ) -> None:
        """The first end of a wait is final, and the other call is told so."""
        held = self.hold(i, policy)
        if held is None:
            return
        self.suspend(held, self.asks(until, timeout=self.now, behavior=behavior))
        box = self.box(i, said[0])
        if box is not None:
            self.bench.race(self.racer(i, one, box, said), self.racer(i, other, box, second))

    @rule(
        i=who,
        other=st.sampled_from(
            ("suspend", "suspend", "close", "close", "cancel", "resume", "time out", "another")
        ),
    )
    def signalled_too_late(self, i: int, other: str) -> None:
        """A signal that would be enough, after a change between its read and its commit."""
        held, said = self.hold(i), (0, "go", ("test", "x"), None)
        if held is None:
            return
        if other == "suspend":
            box = self.ahead(held, 5_000)
        else:
            self.suspend(held, self.asks(Single("a"), timeout=self.now))
            box = self.box(i, 0)
        if box is not None:
            ahead = sops.suspend(held, Asked(self.name(3), Single("a"), ahead=box.name))
            first = ahead if other == "suspend" else self.racer(i, other, box, said)
            self.bench.race(first, self.racer(i, "signal", box, said))

    @rule(
        i=who,
        until=early,
        said=lots,
        other=st.sampled_from(RACERS),
        swapped=st.sampled_from((False, False, True)),
    )
    def races_a_suspend(
        self, i: int, until: Condition, said: list[Draft], other: str, swapped: bool
    ) -> None:
        """A signal concurrent with the suspend counts in it or after it."""
        held = self.hold(i)
        box = self.ahead(held, 5_000)
        if held is None or box is None:
            return
        for draft in said[1:]:
            self.do(sops.deliver(IDENTS[i], box.name, box.token, self.draft(draft)))
        once = f"once-{next(self.names)}" if other == "again" else None
        first = sops.suspend(held, Asked(self.name(3), until, ahead=box.name, once=once))
        if other == "again":
            second = first
        elif other == "complete":
            second = ops.complete(held)
        else:
            second = self.racer(i, other, box, said[0])
        self.bench.race(*(second, first) if swapped else (first, second))


def suspend_machine_on(store: str) -> type[SuspendStories]:
    return type(
        f"{store.title().replace('-', '')}SuspendMachine", (SuspendStories,), {"kind": store}
    )
