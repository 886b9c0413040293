"""The specification of suspension in plain Python, on top of that of executions."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model.lease import HandleKind
from flowfabric.model.signing_key import AlreadySeeded, Rotated, RotationNoop, Seeded
from flowfabric.model.waitpoint import (
    ConditionMet,
    PendingWaitpoint,
    Resumed,
    ResumeSignal,
    SignalAccepted,
    SignalDuplicate,
    Single,
    Suspended,
)

from .fleet import Fleet
from .shapes import Exec, Held, no
from .suspend_shapes import (
    BLOCKED_BY,
    BUFFERED,
    MET,
    Asked,
    Box,
    Heard,
    Key,
    Learned,
    Sent,
    Wait,
    effect_of,
    facts,
    names_for,
    token,
)

WEEK, MINUTE = 604_800_000, 60_000
ENDS = {
    "fail": ("failed", "ended_failure"),
    "cancel": ("cancelled", "ended_cancelled"),
    "expire": ("expired", "ended_failure"),
}
TIMEOUT = Sent(UUID(int=0), "timeout", ("engine", "suspension_timeout"))


class Suspends(Fleet):
    tables: ClassVar[tuple[str, ...]] = ("ff_signal_dedup", "ff_suspend_dedup", "ff_waitpoint_hmac")

    def __init__(self, *said: Any) -> None:
        super().__init__(*said)
        self.hmac: dict[str, Key] = {}
        self.boxes: dict[UUID, Box] = {}
        self.waits: dict[ExecutionId, Wait] = {}
        self.signals: dict[tuple[ExecutionId, UUID], Heard] = {}
        self.synthetic: list[tuple[ExecutionId, Heard]] = []
        self.events: dict[ExecutionId, list[tuple[UUID, UUID, str, int]]] = {}
        self.once: dict[tuple[UUID, str], tuple[UUID, int]] = {}
        self.asked: dict[tuple[ExecutionId, str], tuple[Any, int]] = {}
        self.stamps: dict[ExecutionId, int] = {}

    # ---- pieces

    def open_wait(self, ident: ExecutionId) -> Wait | None:
        found = self.waits.get(ident)
        return found if found is not None and found.closed is None else None

    def boxes_of(self, ident: ExecutionId, *states: str) -> list[Box]:
        return [box for box in self.boxes.values() if box.ident == ident and box.state in states]

    def close(self, box: Box, why: str, *, satisfied: bool = False) -> None:
        box.state, box.closed, box.why = "closed", self.now, why
        box.satisfied = self.now if satisfied else box.satisfied

    def over(self, ident: ExecutionId, why: str, *states: str, satisfied: bool = False) -> None:
        """Ends the open suspension, if there is one, and the waitpoints in these states."""
        found = self.open_wait(ident)
        if found is not None:
            found.closed, found.why = self.now, why
        for box in self.boxes_of(ident, *states):
            self.close(box, why, satisfied=satisfied)

    def awake(self, e: Exec, delay: int) -> str:
        e.state, e.why, e.delay = "READY", "", None
        if delay:
            e.state, e.why, e.delay = "DELAYED", "waiting_for_resume_delay", self.now + delay
        return "delayed" if delay else "waiting"

    def times(self) -> list[int]:
        more = [wait.timeout for wait in self.waits.values() if wait.closed is None]
        more += [box.expires for box in self.boxes.values() if box.state == "pending"]
        more += [key.until for key in self.hmac.values()] + [
            until for _, until in self.once.values()
        ]
        return sorted({*super().times(), *(at for at in more if at is not None and at > self.now)})

    # ---- keys

    def seed(self, kid: str, secret: str) -> Any:
        if kid in self.hmac:
            return AlreadySeeded(kid, self.hmac[kid].secret == secret)
        no(any(key.active for key in self.hmac.values()), "invalid_input")
        self.hmac[kid] = Key(secret, active=True, rotated=self.now)
        return Seeded(kid)

    def rotate(self, kid: str, secret: str, grace: int) -> Any:
        known = self.hmac.get(kid)
        if known is not None and known.secret != secret:
            return "rotation_conflict"
        if known is not None and known.active:
            return RotationNoop(kid)
        old = [
            k
            for k, key in self.hmac.items()
            if not key.active and k != kid and (key.until or 0) < self.now
        ]
        self.hmac = {k: key for k, key in self.hmac.items() if k not in old}
        current = next((k for k, key in self.hmac.items() if key.active), None)
        if current is not None:
            self.hmac[current].active, self.hmac[current].until = False, self.now + grace
        self.hmac[kid] = Key(secret, active=True, rotated=self.now)
        return Rotated(current, kid, len(old))

    def mint(self, ident: ExecutionId, box: UUID) -> str:
        kid = next(kid for kid, key in self.hmac.items() if key.active)
        return token(kid, self.hmac[kid].secret, ident, box)

    def unfit(self, shown: str, ident: ExecutionId, box: Box | None) -> str:
        """The reason why a token is refused, or nothing."""
        if not shown:
            return "missing_token"
        kid, _, digest = shown.partition(":")
        if not kid or len(digest) != 64 or kid not in self.hmac:
            return "invalid_token"
        key = self.hmac[kid]
        if not key.active and (key.until is None or key.until < self.now):
            return "token_expired"
        return (
            "" if box is not None and box.ident == ident and box.token == shown else "invalid_token"
        )

    # ---- the holder of a lease

    def create_waitpoint(self, h: Held, key: str, lasts: int) -> Any:
        self.fence(h)

        def learn(answer: Any) -> bool:
            if not isinstance(answer, PendingWaitpoint) or answer.waitpoint_id in self.boxes:
                return False
            name = answer.waitpoint_id
            shown = self.mint(h.ident, name)
            self.boxes[name] = Box(h.ident, name, key, shown, h.index, self.now, self.now + lasts)
            return answer.hmac_token == shown

        return Learned("a new waitpoint", learn)

    def suspend(self, h: Held, asked: Asked) -> Any:
        known = self.asked.get((h.ident, asked.once)) if asked.once else None
        if known is not None and known[1] > self.now:
            return known[0]
        self.fence(h)
        if asked.ahead is not None:
            self._check_ahead(h, asked, asked.ahead)
        for name, _ in asked.fresh:
            used = self.boxes.get(name)
            no(
                used is not None and (used.state != "closed" or used.ident != h.ident),
                "waitpoint_already_exists",
            )
        answer = self._park(h, asked)
        if asked.once:
            lasts = (
                WEEK
                if asked.timeout is None
                else min(max(asked.timeout - self.now, 0) + MINUTE, WEEK)
            )
            self.asked[h.ident, asked.once] = (answer, self.now + lasts)
        return answer

    def _check_ahead(self, h: Held, asked: Asked, name: UUID) -> None:
        no(name not in self.boxes, "waitpoint_not_found")
        box = self.boxes[name]
        if box.ident.partition_index != h.ident.partition_index:
            no(True, "waitpoint_not_found")
        no(box.state != "pending", "waitpoint_not_pending")
        no(box.ident != h.ident or box.index > h.index, "invalid_waitpoint_for_execution")
        no(box.expires is not None and box.expires <= self.now, "pending_waitpoint_expired")
        no(
            isinstance(asked.until, Single) and asked.until.waitpoint_key != box.key,
            "invalid_input",
        )

    def _park(self, h: Held, asked: Asked) -> Any:
        e = self.execs[h.ident]
        wait = Wait(
            asked,
            h.index,
            self.now,
            asked.timeout,
            asked.behavior if asked.timeout is not None else None,
            asked.reason,
            asked.ahead or asked.fresh[0][0],
        )
        if asked.ahead is not None:
            box = self.boxes[asked.ahead]
            buffered = self._early(box, wait)
            if buffered is not None:
                self.close(box, "resumed", satisfied=True)
                return _answered(ConditionMet, asked.name, [box], buffered)
            box.state, box.wait, box.activated, box.expires = (
                "active",
                asked.name,
                self.now,
                asked.timeout,
            )
            for heard in self.signals.values():
                heard.wait = asked.name if heard.box == box.name else heard.wait
        for name, key in asked.fresh:
            before = self.boxes.get(name)
            self.boxes[name] = Box(
                h.ident,
                name,
                key,
                self.mint(h.ident, name),
                h.index,
                self.now,
                asked.timeout,
                "active",
                asked.name,
                activated=self.now,
            )
            if before is not None:
                self.boxes[name].heard, self.boxes[name].matched = before.heard, before.matched
        bound = [
            self.boxes[name]
            for name in ([asked.ahead] if asked.ahead else [name for name, _ in asked.fresh])
        ]
        for box in bound:
            box.names = tuple(names_for(asked.until, box.key))
        self.waits[h.ident] = wait
        self.wait(e, "SUSPENDED", BLOCKED_BY[asked.reason])
        e.epoch, e.cause, e.grant = e.epoch + 1, "suspended", None  # type: ignore[assignment]
        e.attempt.epoch = e.epoch
        self.told(e, "revoked")
        return _answered(Suspended, asked.name, bound, [])

    def _early(self, box: Box, wait: Wait) -> list[ResumeSignal] | None:
        """Earlier signals count, oldest first; returns those that counted if that was enough."""
        for heard in self.kept(lambda each: each.box == box.name):
            new = facts(wait.asked.until, box.key, box.name, heard.sent)
            effect = effect_of(wait.asked.until, wait.have, new, box.key)
            wait.by += [heard.sent.name] if new - wait.have else []
            wait.have |= new
            if effect == MET:
                return [
                    seen(each)
                    for each in self.kept(
                        lambda each: each.box == box.name and each.sent.name in wait.by
                    )
                ]
        return None

    def kept(self, wanted: Any) -> list[Heard]:
        return sorted(
            (each for each in self.signals.values() if wanted(each)),
            key=lambda each: (each.at, each.sent.name),
        )

    def observe(self, h: Held, *, parked: bool) -> list[ResumeSignal]:
        found = self.waits.get(h.ident)
        if found is None or found.index != h.index:
            return []
        name = found.asked.name
        if parked or found.why == "timed_out_auto_resume":
            made = [
                heard for ident, heard in self.synthetic if ident == h.ident and heard.wait == name
            ]
            real = self.kept(lambda each: each.wait == name) if parked else []
            both = sorted([*real, *made], key=lambda each: each.at)
            return [seen(each) for each in both]
        if found.why != "resumed":
            return []
        return [
            seen(each)
            for each in self.kept(lambda each: each.wait == name and each.sent.name in found.by)
        ]

    # ---- signals and other ends

    def deliver(self, ident: ExecutionId, name: UUID, shown: str, sent: Sent) -> Any:
        e, box = self.of(ident), self.boxes.get(name)
        problem = self.unfit(shown, ident, box)
        if problem or box is None:
            self.stamps[ident] = self.now
            return problem
        known = self.once.get((name, sent.once)) if sent.once else None
        if known is not None and known[1] > self.now:
            return SignalDuplicate(known[0])
        no(e.state == "ENDED", "target_not_signalable")
        wait = self.open_wait(ident)
        if box.state == "pending":
            no(box.expires is not None and box.expires <= self.now, "waitpoint_closed")
            self._record(box, sent, BUFFERED, matched=False)
            return SignalAccepted(sent.name, BUFFERED)
        no(e.state != "SUSPENDED", "target_not_signalable")
        no(box.state != "active" or wait is None or box.wait != wait.asked.name, "waitpoint_closed")
        assert wait is not None
        new = facts(wait.asked.until, box.key, name, sent)
        effect = effect_of(wait.asked.until, wait.have, new, box.key)
        wait.by += [sent.name] if new - wait.have and sent.name not in wait.by else []
        wait.have, wait.last = wait.have | new, self.now
        self._record(box, sent, effect, matched=bool(new))
        if effect == MET:
            wait.closer = sent.name
            self.over(ident, "resumed", "active", satisfied=True)
            self.awake(e, sent.delay if sent.delay is not None else wait.asked.delay or 0)
            e.done.append(("resumable", self.now))
        return SignalAccepted(sent.name, effect)

    def _record(self, box: Box, sent: Sent, effect: str, *, matched: bool) -> None:
        box.heard, box.matched, box.last = box.heard + 1, box.matched + matched, self.now
        self.signals[box.ident, sent.name] = Heard(
            sent, box.name, box.key, box.index, self.now, effect, matched, box.wait
        )
        self.events.setdefault(box.ident, []).append((sent.name, box.name, effect, self.now))
        if sent.once:
            self.once[box.name, sent.once] = (sent.name, self.now + sent.ttl)

    def resume_execution(self, ident: ExecutionId, delay: int) -> Any:
        e = self.of(ident)
        no(e.state != "SUSPENDED", "execution_not_suspended")
        self.over(ident, "resumed", "active", satisfied=True)
        return Resumed(self.awake(e, delay))  # type: ignore[arg-type]

    def close_waitpoint(self, ident: ExecutionId, name: UUID) -> str:
        box = self.boxes.get(name)
        no(box is None or box.ident != ident, "waitpoint_not_found")
        assert box is not None
        if box.state == "closed":
            return "already_closed"
        self.close(box, "proactive_close")
        return "closed"

    def time_out(self, ident: ExecutionId) -> str:
        e, wait = self.execs.get(ident), self.waits.get(ident)
        if e is None or e.state != "SUSPENDED" or wait is None:
            return "not_found_cleaned" if e is None else "not_suspended_cleaned"
        if wait.timeout is None or wait.timeout > self.now:
            return "not_yet_due"
        behavior = wait.behavior or "fail"
        if behavior == "escalate":
            e.why = "paused_by_operator"
            wait.reason, wait.timeout, wait.behavior = "waiting_for_operator_review", None, None
            return "escalated"
        if behavior not in ENDS:
            self.over(ident, "timed_out_auto_resume", "active")
            self.awake(e, 0)
            said = Heard(
                TIMEOUT,
                wait.primary,
                "",
                wait.index,
                self.now,
                "timed_out_auto_resume",
                True,
                wait.asked.name,
            )
            self.synthetic.append((ident, said))
            return "auto_resumed"
        outcome, phase = ENDS[behavior]
        self.end(e, outcome, phase, outcome)
        e.failure = f"suspension_timeout:{behavior}"
        self.over(ident, f"timed_out_{behavior}", "active", "pending")
        return outcome

    # ---- what a suspension changes for the rest

    def cancel(self, ident: ExecutionId, *said: Any, **more: Any) -> Any:
        e = self.execs.get(ident)
        halfway = e is not None and e.continues and e.state != "RUNNING"
        answer = super().cancel(ident, *said, **more)
        if halfway:
            self.over(ident, "cancelled", "active", "pending")
        return answer

    def expire(self, ident: ExecutionId, phase: str) -> Any:
        e = self.execs.get(ident)
        halfway = e is not None and e.continues and e.state != "RUNNING"
        answer = super().expire(ident, phase)
        if halfway and self.execs[ident].state == "ENDED":
            self.over(ident, f"expired:{phase}", "active", "pending")
        return answer

    def claim_resumed(self, ident: ExecutionId, *said: Any, **more: Any) -> Any:
        no(self.of(ident).state == "SUSPENDED", "not_a_resumed_execution")
        return super().claim_resumed(ident, *said, **more)

    def grant_and_claim(self, ident: ExecutionId, lane: str, ttl: int) -> Any:
        no(self.of(ident).state == "SUSPENDED", "execution_not_eligible")
        return super().grant_and_claim(ident, lane, ttl)

    def resume(self, ident: ExecutionId, *said: Any) -> Any:
        return None if self.of(ident).state == "SUSPENDED" else super().resume(ident, *said)

    def unreclaimable(self, e: Exec) -> str:
        return (
            "lifecycle_phase=suspended (expected active)"
            if e.state == "SUSPENDED"
            else super().unreclaimable(e)
        )

    def trim(self, lane: str, kept: int | None) -> int:
        gone = super().trim(lane, kept)
        self.boxes = {name: box for name, box in self.boxes.items() if box.ident in self.execs}
        self.once = {key: said for key, said in self.once.items() if key[0] in self.boxes}
        for table in (self.waits, self.events, self.stamps):
            for ident in [ident for ident in table if ident not in self.execs]:
                del table[ident]  # type: ignore[attr-defined]
        self.signals = {key: heard for key, heard in self.signals.items() if key[0] in self.execs}
        self.asked = {key: said for key, said in self.asked.items() if key[0] in self.execs}
        self.synthetic = [one for one in self.synthetic if one[0] in self.execs]
        return gone

    def loop(self, name: str) -> None:
        super().loop(name)
        if name == "suspension_timeout":
            for ident in list(self.execs):
                self.time_out(ident)
        elif name == "pending_wp_expiry":
            for box in self.boxes.values():
                if box.state == "pending" and box.expires is not None and box.expires <= self.now:
                    self.close(box, "never_committed")
        elif name == "retention_trimmer":
            self.once = {key: said for key, said in self.once.items() if said[1] > self.now}
            self.asked = {key: said for key, said in self.asked.items() if said[1] > self.now}


def seen(heard: Heard) -> ResumeSignal:
    """In its shown form; the random id of a timeout's signal is not compared."""
    sent, made = heard.sent, heard.sent == TIMEOUT
    name: Any = Learned("any id", lambda answer: isinstance(answer, UUID)) if made else sent.name
    return ResumeSignal(
        name, sent.word, "system" if made else "", *sent.source, "", heard.at, sent.payload
    )


def _answered(kind: type, name: UUID, boxes: list[Box], heard: list[ResumeSignal]) -> Learned:
    """Only the kind of the handle is compared here; calls with it test the rest."""
    bound = [(box.name, box.key, box.token) for box in map(dataclasses.replace, boxes)]

    def right(answer: Any) -> bool:
        if not isinstance(answer, kind):
            return False
        told: Any = answer
        shown = [
            (w.waitpoint_id, w.waitpoint_key, w.waitpoint_token) for w in told.details.waitpoints
        ]
        parked = kind is not Suspended or told.handle.kind is HandleKind.SUSPENDED
        return (told.details.suspension_id, shown, list(told.details.signals)) == (
            name,
            bound,
            heard,
        ) and parked

    return Learned(f"{kind.__name__}({name}, {len(heard)} heard)", right)
