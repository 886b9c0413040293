"""The specification of the engine's answers and rows, in plain Python. Shares no rule with the
engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model import attempt, execution, lease

from .shapes import BLOCKS, NO_POLICY, Attempt, Err, Exec, Grant, Held, Lease, Policy, Whatever, no

WAITING = ("READY", "DELAYED", *BLOCKS.values())
FATAL = ("permanent", "timeout", "cancelled")
OVERRIDE = "operator_override"


class Spec:
    def __init__(
        self, now: int, label: str, lanes: tuple[str, ...], grace: int, ages: tuple[int, int]
    ) -> None:
        self.now, self.label, self.grace, self.ages = now, label, grace, ages
        self.lanes, self.marks = dict.fromkeys(lanes, "active"), True
        self.execs: dict[ExecutionId, Exec] = {}
        self.keys: dict[tuple[str, str], tuple[ExecutionId, int | None]] = {}
        self.turn: dict[str, str] = {}

    # ---- pieces

    def of(self, ident: ExecutionId) -> Exec:
        no(ident not in self.execs, "execution_not_found")
        return self.execs[ident]

    def live(self, e: Exec) -> Grant | None:
        return e.grant if e.grant is not None and e.grant.until >= self.now else None

    def lane_held(self, e: Exec) -> bool:
        return self.lanes[e.lane] in ("paused", "disabled")

    def held_back(self, e: Exec) -> bool:
        return e.state != "READY" or self.lane_held(e)

    def has_expired(self, e: Exec) -> bool:
        return e.state == "RUNNING" and e.expiry is not None and e.expiry <= self.now

    def out_of_time(self, e: Exec) -> bool:
        return e.timeout_at is not None and e.timeout_at <= self.now

    def told(self, e: Exec, kind: str, epoch: int | None = None) -> None:
        e.leases.append((kind, self.now, epoch))

    def wait(
        self,
        e: Exec,
        state: str,
        why: str = "",
        pend: str = "interrupted",
        delay: int | None = None,
        *,
        lost: bool = False,
    ) -> None:
        """Gives up the lease, keeping the rest of the attempt's time, or all of it if the lease was
        lost.
        """
        left = None if e.timeout_at is None else max(e.timeout_at - self.now, 1)
        e.remaining = e.policy.timeout if lost else left
        e.lease = e.holder = e.expiry = e.lost_at = e.timeout_at = None
        e.state, e.why, e.pend, e.delay = state, why, pend, delay
        if pend == "interrupted":
            e.attempt.phase = "suspended"

    def end(self, e: Exec, outcome: str, phase: str, word: str) -> None:
        """`phase` and `word` close the current attempt, if it is open."""
        if e.continues:
            e.attempt.phase, e.attempt.outcome = phase, word
        e.closing, e.lease, e.holder, e.expiry, e.lost_at, e.timeout_at = (
            (e.epoch, e.index),
            None,
            None,
            None,
            None,
            None,
        )
        e.state, e.why, e.outcome, e.ended, e.grant, e.delay = (
            "ENDED",
            "",
            outcome,
            self.now,
            None,
            None,
        )
        e.done.append((outcome, self.now))

    def acquire(
        self, e: Exec, worker: str, instance: str, ttl: int, event: str = "acquired", **said: Any
    ) -> Lease:
        new, kind = not e.continues, "Resumed" if e.pend == "interrupted" else "Fresh"
        left = e.remaining if e.timeout_at is None else e.policy.timeout
        lasts = said.get("timeout") or (e.policy.timeout if new or e.pend == "replay" else left)
        e.losses += said.get("lost", e.cause == "lease_expired")
        if new:
            e.index = len(e.attempts)
            e.attempts.append(Attempt({"first": "initial"}.get(e.pend, e.pend)))
        e.epoch += 1
        e.state, e.why, e.pend, e.cause, e.delay, e.grant, e.lost_at, e.remaining = (
            "RUNNING",
            "",
            "",
            None,
            None,
            None,
            None,
            None,
        )
        e.holder, e.expiry, e.started = (worker, instance), self.now + ttl, e.started or self.now
        e.timeout_at = None if lasts is None else self.now + lasts
        a = e.attempt
        a.phase, a.outcome, a.epoch, a.worker, a.instance = (
            "started",
            None,
            e.epoch,
            worker,
            instance,
        )
        self.told(e, event, e.epoch)
        return Lease(e.ident, e.index, e.epoch, e.expiry, said.get("kind", kind))

    def bind(self, ident: ExecutionId, told: UUID) -> None:
        """The random lease id that the engine returned to the new holder, which may have lost it by
        then.
        """
        e = self.execs[ident]
        e.attempt.lease = told
        if e.state == "RUNNING":
            e.lease = told

    def lose(self, e: Exec) -> None:
        e.state, e.why, e.pend, e.lost_at, e.cause = (
            "LOST",
            "",
            "interrupted",
            self.now,
            "lease_expired",
        )
        e.timeout_at, e.remaining = None, e.policy.timeout
        e.ran_out[e.epoch] = e.lease
        self.told(e, "expired", e.epoch)

    def too_many(self, e: Exec, limit: int | None = None) -> lease.ReclaimCapExceeded | None:
        if e.losses < (limit if limit is not None and e.policy == NO_POLICY else e.policy.losses):
            return None
        self.end(e, "failed", "interrupted_reclaimed", "interrupted_reclaimed")
        e.failure = "max_reclaims_exceeded"
        self.told(e, "revoked")
        return lease.ReclaimCapExceeded(e.ident, e.losses)

    def fence(self, h: Held, outcome: str = "", *, marks: bool = True) -> Any:
        """None lets the call through; a terminal call that was already committed has its old
        answer.
        """
        e = self.of(h.ident)
        no(h.index >= len(e.attempts), "attempt_not_found")
        shown, own = (h.epoch, h.index), e.attempts[h.index].lease == h.lease
        if e.state == "ENDED" and e.outcome == outcome and e.closing == shown and own:
            return attempt.TerminalFailed() if outcome == "failed" else "done"
        if (
            outcome == "failed"
            and e.state in WAITING
            and e.pend == "retry"
            and shown == (e.epoch, e.index)
            and own
        ):
            return attempt.RetryScheduled(
                Whatever() if e.delay is None else e.delay, len(e.attempts)
            )
        if h.epoch in e.ran_out:
            no(h.epoch == max(e.ran_out) and e.ran_out[h.epoch] == h.lease, "lease_expired")
            raise Err("lease_expired", "lease_conflict")
        no(shown != (e.epoch, e.index) or not own, "lease_conflict")
        no(e.state not in ("RUNNING", "LOST"), "execution_not_active")
        if self.has_expired(e) and marks and self.marks:
            self.lose(e)
        no(e.state == "LOST" or self.has_expired(e) or self.out_of_time(e), "lease_expired")
        return None

    # ---- creating and claiming

    def has_key(self, ident: ExecutionId, key: tuple[str, str]) -> bool:
        return ident in self.execs and (self.execs[ident].namespace, self.execs[ident].key) == key

    def create(
        self,
        ident: ExecutionId,
        lane: str,
        namespace: str,
        prio: int,
        key: str,
        policy: Policy,
        delay: int | None,
    ) -> Any:
        held = self.keys.get((namespace, key)) if key else None
        if held is not None and (
            (held[1] or 0) > self.now or self.has_key(held[0], (namespace, key))
        ):
            return execution.Duplicate(held[0])
        if ident in self.execs:
            return execution.Duplicate(ident)
        no(self.lanes[lane] in ("draining", "disabled"), "lane_closed")
        e = self.execs[ident] = Exec(ident, lane, namespace, policy, prio, self.now)
        e.key = key
        if key:
            self.keys[namespace, key] = (ident, self.now + policy.dedup)
        if delay is not None and delay > self.now:
            e.state, e.why, e.delay = "DELAYED", "waiting_for_delay", delay
        return execution.Created(ident, "delayed" if e.state == "DELAYED" else "waiting")  # type: ignore[arg-type]

    def turns(self, lane: str) -> Iterator[str]:
        """Each namespace with ready work, starting after the last one."""
        ready = sorted(
            {e.namespace for e in self.execs.values() if e.lane == lane and e.state == "READY"}
        )
        last = self.turn.get(lane, "")
        for each in sorted(ready, key=lambda of: (of <= last, of)):
            self.turn[lane] = each
            yield each

    def take(
        self,
        lane: str,
        caps: frozenset[str],
        of: str | None,
        worker: str,
        instance: str,
        ttl: int,
        n: int,
    ) -> list[Lease]:
        """The best of a namespace, or of one after the other."""
        if of is None:
            got: list[Lease] = []
            for each in self.turns(lane):
                got += self.take(lane, caps, each, worker, instance, ttl, n - len(got))
                if len(got) == n:
                    break
            return got
        mine = [e for e in self.execs.values() if e.lane == lane and e.namespace == of]
        ready = [e for e in mine if not self.held_back(e) and e.policy.caps <= caps]
        free = [e for e in ready if self.live(e) is None or e.grant.worker == worker]
        free.sort(key=lambda e: (-e.prio, e.created, e.ident.uuid))
        return [self.acquire(e, worker, instance, ttl) for e in free[:n]]

    def issue_claim_grant(
        self, ident: ExecutionId, worker: str, caps: frozenset[str], ttl: int
    ) -> Any:
        e = self.of(ident)
        no(self.held_back(e), "execution_not_eligible")
        no(self.live(e), "grant_already_exists")
        no(e.policy.caps - caps, "capability_mismatch")
        e.grant = Grant("claim", worker, self.now + ttl)
        return lease.Granted(ident)

    def claim_execution(
        self,
        ident: ExecutionId,
        worker: str,
        instance: str,
        ttl: int,
        timeout: int | None,
        deadline: int | None,
    ) -> Any:
        e = self.of(ident)
        no(e.state == "RUNNING", "lease_conflict")
        no(self.held_back(e), "execution_not_leaseable")
        no(e.pend == "interrupted", "use_claim_resumed_execution")
        no(
            e.grant is None or e.grant.kind != "claim" or e.grant.worker != worker,
            "invalid_claim_grant",
        )
        no(self.live(e) is None, "claim_grant_expired")
        if deadline:
            e.deadline, e.rearms = deadline, False
        return self.acquire(e, worker, instance, ttl, timeout=timeout)

    def claim_resumed(
        self, ident: ExecutionId, worker: str, instance: str, ttl: int, remaining: int | None = None
    ) -> Any:
        e = self.of(ident)
        no(e.state not in WAITING, "execution_not_leaseable")
        no(e.pend != "interrupted", "not_a_resumed_execution")
        no(self.held_back(e), "execution_not_leaseable")
        grant = self.live(e)
        no(grant is not None and grant.worker != worker, "invalid_claim_grant")
        return self.acquire(e, worker, instance, ttl, timeout=remaining)

    def grant_and_claim(self, ident: ExecutionId, lane: str, ttl: int) -> Any:
        e = self.of(ident)
        no(lane != e.lane, "invalid_input")
        no(e.state in ("RUNNING", "LOST"), "lease_conflict")
        no(e.state == "ENDED", "execution_not_eligible")
        no(self.live(e), "grant_already_exists")
        no(
            e.state == "DELAYED" or (e.pend != "interrupted" and e.state != "READY"),
            "execution_not_eligible",
        )
        return self.acquire(e, "operator", "operator", ttl)

    def resume(self, ident: ExecutionId, worker: str, instance: str, ttl: int, until: int) -> Any:
        """claim_from_resume_grant: the same attempt under a higher epoch, or None."""
        e = self.of(ident)
        if (
            not e.continues
            or self.lane_held(e)
            or (e.state == "RUNNING" and not self.has_expired(e))
        ):
            return None
        no(until < self.now, "claim_grant_expired")
        grant = self.live(e)
        no(grant is not None and grant.worker != worker, "invalid_claim_grant")
        lost = e.state in ("RUNNING", "LOST")
        if (not lost and (e.state != "READY" or e.pend != "interrupted")) or (
            lost and self.too_many(e)
        ):
            return None
        if e.state == "RUNNING":
            e.ran_out[e.epoch] = e.lease
        more = {"lost": True} if lost else {}
        return self.acquire(e, worker, instance, ttl, "reclaimed", kind="Resumed", **more)

    # ---- the holder of a lease

    def renew(self, h: Held) -> Any:
        self.fence(h)
        e = self.execs[h.ident]
        e.expiry = self.now + h.ttl
        self.told(e, "renewed", e.epoch)
        return lease.LeaseRenewal(e.expiry, e.epoch)

    def report(self, h: Held, percent: int) -> None:
        self.fence(h, marks=False)
        self.execs[h.ident].progress = percent

    def complete(self, h: Held, result: bytes | None) -> None:
        if self.fence(h, "success") is None:
            e = self.execs[h.ident]
            self.end(e, "success", "ended_success", "success")
            e.result = result
            self.told(e, "revoked")

    def fail(self, h: Held, kind: str, reason: str) -> Any:
        before = self.fence(h, "failed")
        if before is not None:
            return before
        e = self.execs[h.ident]
        p, most = e.policy, 3 if e.policy.max_retries is None else e.policy.max_retries
        self.told(e, "revoked")
        if kind in FATAL or (p.categories and kind not in p.categories) or e.retries >= most:
            self.end(e, "failed", "ended_failure", "failed")
            e.failure = reason
            return attempt.TerminalFailed()
        return self.again(e)

    def again(self, e: Exec) -> attempt.RetryScheduled:
        p = e.policy
        delay = min(p.first_ms * p.factor**e.retries, p.most_ms)
        e.retries += 1
        e.attempt.phase, e.attempt.outcome = "ended_failure", "retry"
        self.wait(
            e,
            "DELAYED" if delay else "READY",
            "waiting_for_retry_backoff" if delay else "",
            "retry",
            self.now + delay,
        )
        return attempt.RetryScheduled(e.delay, len(e.attempts))

    def postpone(self, h: Held, until: int) -> None:
        self.fence(h)
        e = self.execs[h.ident]
        self.wait(e, "DELAYED", "waiting_for_delay", delay=until)
        e.cause = "delayed"
        self.told(e, "revoked")

    def give_up(self, h: Held) -> None:
        if self.fence(h, "cancelled") is None:
            self.cancel(h.ident, "worker", h.epoch)

    # ---- operators and timers

    def cancel(
        self, ident: ExecutionId, source: str, epoch: int | None = None, shown: UUID | None = None
    ) -> Any:
        e = self.of(ident)
        no(e.state == "ENDED" and e.outcome != "cancelled", "invalid_input")
        if e.state != "ENDED":
            leased, fresh = e.state == "RUNNING", e.continues
            if leased and source != OVERRIDE:
                no(epoch is None, "invalid_input")
                no(epoch != e.epoch or (shown is not None and shown != e.lease), "stale_lease")
            self.end(e, "cancelled", "ended_cancelled", "cancelled")
            e.cancelled_by = source
            if fresh:
                e.epoch += 1
                e.attempt.epoch, e.attempt.instance = e.epoch, None
            if leased:
                self.told(e, "revoked")
        return execution.Cancelled(ident)

    def revoke(self, ident: ExecutionId, instance: str, shown: str) -> Any:
        e = self.of(ident)
        if e.state != "RUNNING":
            return lease.AlreadySatisfied(
                "already_expired" if e.state == "LOST" else "no_active_lease"
            )
        if instance and e.holder is not None and instance != e.holder[1]:
            return lease.AlreadySatisfied("different_worker_instance_id")
        composite = f"{self.label}:{ident.uuid}:{e.index}:{e.epoch}"
        if shown and shown not in (str(e.lease), composite):
            return lease.AlreadySatisfied("lease_id_mismatch")
        e.epoch += 1
        self.wait(e, "READY", lost=True)
        e.cause, e.attempt.epoch, e.attempt.instance = "lease_revoked", e.epoch, None
        self.told(e, "revoked")
        return lease.Revoked(composite, str(e.epoch))

    def change_priority(self, ident: ExecutionId, wanted: int) -> Any:
        e = self.of(ident)
        no(e.state != "READY", "execution_not_eligible")
        old, e.prio = e.prio, min(max(wanted, 0), 9_000)
        e.ops.append(("priority_changed", f'{{"old_priority":{old},"new_priority":{e.prio}}}'))
        return execution.Changed(ident)

    def replay(self, ident: ExecutionId) -> Any:
        e = self.of(ident)
        no(e.state != "ENDED", "execution_not_terminal")
        no(e.replays >= e.policy.replays, "max_replays_exhausted")
        e.state, e.pend, e.outcome, e.replays, e.epoch = (
            "READY",
            "replay",
            "none",
            e.replays + 1,
            e.epoch + 1,
        )
        e.ended = e.result = e.closing = e.failure = e.cancelled_by = e.cause = e.remaining = None
        if e.attempts:
            e.attempt.kind, e.attempt.phase, e.attempt.outcome, e.attempt.epoch = (
                "replay",
                "created",
                None,
                e.epoch,
            )
            e.attempt.worker = e.attempt.instance = None
        if e.rearms:
            e.deadline = self.now + e.policy.deadline
        elif e.deadline is not None and e.deadline <= self.now:
            e.deadline = None
        e.ops.append(("replayed", '{"branch":"normal"}'))
        return execution.Replayed("waiting")  # type: ignore[arg-type]

    def expire(self, ident: ExecutionId, phase: str) -> Any:
        e = self.execs.get(ident)
        if e is None or e.state == "ENDED":
            return None if e is None else execution.AlreadyTerminal()
        due = e.deadline
        if phase == "attempt_timeout":
            due = (
                e.timeout_at
                if e.state == "RUNNING"
                and not (e.expiry and e.timeout_at and e.expiry < e.timeout_at)
                else None
            )
        if due is None or due > self.now:
            return None
        if e.state == "RUNNING":
            self.told(e, "revoked")
        p, most = e.policy, 3 if e.policy.max_retries is None else e.policy.max_retries
        if (
            phase == "attempt_timeout"
            and not (p.categories and phase not in p.categories)
            and e.retries < most
        ):
            return self.again(e)
        self.end(e, "expired", "ended_failure", "expired")
        e.failure = phase
        return execution.Expired(ident)

    def promote(self, ident: ExecutionId) -> str:
        e = self.execs.get(ident)
        if e is None or e.state not in WAITING:
            return "not_found_cleaned" if e is None else "not_runnable_cleaned"
        if e.state != "DELAYED":
            return "not_delayed_cleaned"
        if e.delay is not None and e.delay > self.now:
            return "not_yet_due"
        e.state, e.why, e.delay = "READY", "", None
        return "promoted"

    # ---- losing a lease and taking it over

    def mark(self, ident: ExecutionId) -> Any:
        e = self.execs.get(ident)
        if e is not None and self.has_expired(e):
            self.lose(e)
            return lease.MarkedExpired()
        reasons = {"RUNNING": "not_yet_expired", "LOST": "already_expired"}
        return lease.AlreadySatisfied(
            "execution_not_found" if e is None else reasons.get(e.state, "not_active")
        )

    def requeue(self, ident: ExecutionId, grace: int) -> Any:
        e = self.execs.get(ident)
        if e is None or e.state != "LOST":
            return "not_lost"
        if e.lost_at + grace > self.now:
            return "not_yet_due"
        if self.live(e):
            return "granted"
        over = self.too_many(e)
        if over is None:
            self.wait(e, "READY", lost=True)
        return over or "requeued"

    def unreclaimable(self, e: Exec) -> str:
        """The reason, or empty. An expired lease without a mark is marked."""
        if self.has_expired(e):
            self.lose(e)
        if e.state == "LOST" or (
            e.state == "READY" and e.cause in ("lease_expired", "lease_revoked")
        ):
            return ""
        if e.state == "RUNNING":
            return "ownership_state=leased (expected lease_expired_reclaimable | lease_revoked)"
        return (
            f"lifecycle_phase={'terminal' if e.state == 'ENDED' else 'runnable'} (expected active)"
        )

    def issue_reclaim_grant(
        self, ident: ExecutionId, worker: str, caps: frozenset[str], ttl: int
    ) -> Any:
        """The expiry of the grant, or the reason why there is none."""
        e = self.of(ident)
        why = self.unreclaimable(e)
        if why:
            return lease.NotReclaimable(ident, why)
        over = self.too_many(e)
        if over is not None:
            return over
        no(self.live(e), "grant_already_exists")
        if not e.policy.caps <= caps:
            return lease.NotReclaimable(
                ident, f"capability_mismatch: {','.join(sorted(e.policy.caps - caps))}"
            )
        e.grant = Grant("reclaim", worker, self.now + ttl)
        return e.grant.until

    def reclaim(
        self, ident: ExecutionId, worker: str, instance: str, ttl: int, limit: int | None
    ) -> Any:
        e = self.execs.get(ident)
        if e is None or e.grant is None or e.grant.kind != "reclaim":
            return lease.GrantNotFound(ident)
        no(e.grant.worker != worker, "invalid_input")
        if self.live(e) is None:
            e.grant = None
            return lease.GrantNotFound(ident)
        why = self.unreclaimable(e)
        if why:
            return lease.NotReclaimable(ident, f"{why}; exec transitioned after grant issuance")
        if self.lane_held(e):
            return lease.NotReclaimable(ident, f"lane {e.lane} is held")
        over = self.too_many(e, limit)
        if over is not None:
            return over
        e.attempt.phase = e.attempt.outcome = "interrupted_reclaimed"
        e.pend, e.timeout_at, e.remaining, e.index = "reclaim", None, None, len(e.attempts)
        e.attempts.append(Attempt("reclaim"))
        return self.acquire(
            e,
            worker,
            instance,
            ttl,
            "reclaimed",
            kind="Reclaimed",
            lost=True,
            timeout=e.policy.timeout,
        )
