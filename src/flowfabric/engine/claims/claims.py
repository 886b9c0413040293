"""Claims of every kind."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from msgspec import structs

from flowfabric.engine import validation
from flowfabric.engine.claims.admission import Admission
from flowfabric.engine.claims.claimer import (
    ClaimedRows,
    Claimer,
    claimed_at,
    claimer_of,
    sweep_plan,
)
from flowfabric.engine.claims.gated_claims import GatedClaims
from flowfabric.engine.claims.idle_poll import IdlePoll
from flowfabric.engine.claims.limit_cache import LimitCache
from flowfabric.engine.claims.namespace_rotation import NamespaceRotation
from flowfabric.engine.claims.next_opening import NO_OPENING, SHORTEST_WAIT_S, NextOpening
from flowfabric.engine.claims.routing import Routing
from flowfabric.engine.core import Core
from flowfabric.engine.executions.quarantine import hold_claimed
from flowfabric.engine.leases.facts import LeaseCache
from flowfabric.errors import Corruption, EngineError
from flowfabric.ids import ExecutionId, execution_id, lane_id, new_attempt_id, new_lease_id
from flowfabric.model import lease as model
from flowfabric.model.event import LEASE_EVENTS
from flowfabric.plan import Plan
from flowfabric.rules.claims import claims
from flowfabric.rules.decision import Commit, Decided, Snapshot
from flowfabric.rules.leases import attempts, reclaim
from flowfabric.rules.limits.limit_scopes import GATES
from flowfabric.rules.limits.quotas import QUOTAS
from flowfabric.store.port import Row
from flowfabric.store.wakeups import Waiter

log = logging.getLogger("flowfabric.engine")
T = TypeVar("T")

POLL_S = 5.0
QUOTA_PAUSE_S = 0.02
"""The shortest time between two claims of a waiter whose quota is full, however many leases end."""


class Claims:
    def __init__(
        self,
        core: Core,
        leases: LeaseCache,
        routing: Routing,
        admission: Admission,
        gated: GatedClaims,
        limit_cache: LimitCache,
        idle_poll: IdlePoll,
        rotation: NamespaceRotation,
    ) -> None:
        self._core, self._store = core, core.store
        self._leases, self._rows = leases, ClaimedRows(core.store.tag, leases)
        self._routing, self._rotation = routing, rotation
        self._admission, self._gated, self._limit_cache = admission, gated, limit_cache
        self._idle_poll = idle_poll

    # ---- the best executions of a lane

    async def claim_many(
        self, lane: str, capabilities: Iterable[str], policy: model.ClaimPolicy, n: int
    ) -> list[model.Work]:
        """Claims up to n executions of a lane, best first, each with its payload.

        Waits only while nothing is claimable. A cancelled call gives back what it was granted.
        """
        claimer = claimer_of(lane, capabilities, policy, n)
        if policy.max_wait_ms:
            return await self._claim_many(claimer, policy)
        began = time.perf_counter()
        try:
            return await self._claim_many(claimer, policy)
        finally:
            self.report_claim(lane, began)

    def report_claim(self, lane: str, began: float) -> None:
        self._core.telemetry.listener.claimed(lane, time.perf_counter() - began)

    async def _claim_many(self, claimer: Claimer, policy: model.ClaimPolicy) -> list[model.Work]:
        rows, _ = await self._claim_now(claimer)
        try:
            released = await self.check_routes(claimer, claimed_at(rows, claimer.ttl_ms))
        except BaseException:
            await self.give_back(claimer, rows)
            raise
        if released and not rows:
            rows, _ = await self._claim_now(claimer)
        if not rows and policy.max_wait_ms:
            rows = await self._wait_for_work(claimer, policy.max_wait_ms / 1000)
        return await self.works(rows, policy)

    async def _claim_now(self, claimer: Claimer) -> tuple[list[Row], NextOpening]:
        """Claims without waiting. A queue without limits takes one statement."""
        if claimer.namespace is None:
            return await self._claim_in_rotation(claimer)
        if await self._limit_cache.gates(claimer.lane, claimer.namespace):
            return await self._completed(
                claimer, self._gated.claim(claimer), lambda found: found[0]
            )
        sweep = self._store.sweep(sweep_plan(claimer), claimer.wanted)
        return await self._completed(claimer, sweep, lambda rows: rows), NO_OPENING

    async def _claim_in_rotation(self, claimer: Claimer) -> tuple[list[Row], NextOpening]:
        """Claims in one namespace after the other. The next call starts behind the last of them."""
        rows: list[Row] = []
        opening = NO_OPENING
        try:
            async for namespace in self._rotation.namespaces(claimer.lane):
                found, next_opening = await self._claim_now(
                    structs.replace(claimer, namespace=namespace, wanted=claimer.wanted - len(rows))
                )
                rows += found
                opening = opening.combined_with(next_opening)
                if len(rows) >= claimer.wanted:
                    break
        except Exception:
            if not rows:
                raise
        except BaseException:
            await self.give_back(claimer, rows)
            raise
        return rows, opening

    async def check_routes(self, claimer: Claimer, now_ms: int | None = None) -> bool:
        """Whether parked executions were released, so another claim may succeed."""
        return await self._routing.check_routes(
            claimer.lane, claimer.namespace, claimer.capabilities, now_ms
        )

    async def commit_and_claim(
        self, plans: Sequence[Plan], claimer: Claimer
    ) -> tuple[Sequence[object], list[Row]]:
        """Commits plans and claims, in one round trip unless a limit has to be read in between.

        A claim that fails claims nothing; the next one raises the error.
        """
        done: Sequence[object] = ()
        try:
            if (
                plans
                and claimer.namespace is not None
                and not await self._limit_cache.gates(claimer.lane, claimer.namespace)
            ):
                both = self._store.commit_and_sweep(plans, sweep_plan(claimer), claimer.wanted)
                return await self._completed(claimer, both, lambda found: found[1])
            done = await self._store.commit_many(plans) if plans else ()
            return done, (await self._claim_now(claimer))[0]
        except Exception as error:  # the claim may have caused it, so each plan is examined
            return done or [error] * len(plans), []

    async def _completed(
        self, claimer: Claimer, claim: Awaitable[T], rows_of: Callable[[T], list[Row]]
    ) -> T:
        """Awaits a claim. When the caller is cancelled, the claim completes and is given back.

        A claim that does not wait is not shielded: it is short, and the shield costs more.
        """
        if not claimer.waits:
            return await claim
        running = asyncio.ensure_future(claim)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait({running})
            if not running.cancelled() and running.exception() is None:
                await self.give_back(claimer, rows_of(running.result()))
            raise

    async def give_back(self, claimer: Claimer, rows: list[Row]) -> None:
        """Requeues claimed executions; their attempts continue with the next claim."""
        for row in rows:
            lease = self._rows.lease(row, claimer.ttl_ms, claimer.instance)
            try:
                await self._core.run_fenced(
                    lease, attempts.delay(lease, await self._store.now_ms())
                )
            except EngineError as error:
                log.warning(
                    "claimed execution could not be given back after its claim was cancelled",
                    extra={"execution_id": str(lease.execution_id), "error": str(error)},
                )

    async def works(self, rows: list[Row], policy: model.ClaimPolicy) -> list[model.Work]:
        """The work of claimed rows. An unreadable execution is held and its lease released."""
        works: list[model.Work] = []
        damaged: list[tuple[model.HandleFields, str]] = []
        for row in rows:
            lease = self._rows.lease(row, policy.lease_ttl_ms, policy.worker_instance_id)
            try:
                works.append(self._rows.work(row, lease, policy))
            except Corruption as error:
                damaged.append((lease, error.what.partition(" ")[0]))
        if damaged:
            await hold_claimed(self._store, damaged)
        return works

    # ---- waiting for work

    async def _wait_for_work(self, claimer: Claimer, seconds: float) -> list[Row]:
        """Waits for wake-ups of the lane and polls as a fallback.

        While a concurrency limit is reached, every ended lease wakes the claim.
        """
        until = time.monotonic() + seconds
        topics = (("ready", claimer.lane), (GATES, claimer.lane), (QUOTAS, None))
        opening = NO_OPENING
        while True:
            follows_leases = opening.busy
            lease_topics = ((LEASE_EVENTS, None),) if follows_leases else ()
            with self._store.hub.waiter(*topics, *lease_topics) as waiter:
                asked = time.monotonic()
                rows, opening = await self._claim_now(claimer)
                if rows or time.monotonic() >= until:
                    return rows
                if opening.busy and not follows_leases:
                    continue
                if opening.opens_at_ms is None and not opening.busy:
                    await self._wait_idle(waiter, claimer, asked, until)
                else:
                    await self._wait_for_quota(waiter, claimer, opening, until)
            if follows_leases:
                await asyncio.sleep(max(asked + QUOTA_PAUSE_S - time.monotonic(), 0))

    async def _wait_idle(
        self, waiter: Waiter, claimer: Claimer, asked: float, until: float
    ) -> None:
        """Waits for a wake-up, the end of the wait, or a poll of this process that finds work."""
        known_at, has_work = asked, False
        while not has_work:
            left = until - time.monotonic()
            wait_s = self._idle_poll.wait_s(claimer.queue, known_at, POLL_S)
            if await waiter.wait(max(min(left, wait_s), SHORTEST_WAIT_S)) or left <= wait_s:
                return
            if claimer.capabilities and await self.check_routes(claimer):
                return
            has_work, known_at = await self._idle_poll.poll(claimer.queue, known_at)

    async def _wait_for_quota(
        self, waiter: Waiter, claimer: Claimer, opening: NextOpening, until: float
    ) -> None:
        """Waits until a quota opens, at most as long as a poll takes to come."""
        wait_s = min(until - time.monotonic(), opening.wait_s(POLL_S))
        if not await waiter.wait(max(wait_s, SHORTEST_WAIT_S)) and claimer.capabilities:
            await self.check_routes(claimer)

    # ---- one execution

    async def claim_execution(self, args: model.ClaimExecutionArgs) -> model.Claimed:
        """Turns a grant into a lease."""
        _check_claim(args)
        validation.optional_uuid(args.attempt_id, "attempt_id")
        validation.text(args.attempt_policy_json, "attempt_policy_json", validation.MAX_JSON_BYTES)
        if args.attempt_timeout_ms is not None:
            validation.ttl_ms(
                args.attempt_timeout_ms, "attempt_timeout_ms", validation.MAX_TIMESTAMP_MS
            )
        validation.optional_timestamp(args.execution_deadline_at, "execution_deadline_at")
        lease, attempt = args.lease_id or new_lease_id(), args.attempt_id or new_attempt_id()
        rule = partial(claims.claim_execution, args=args, lease_id=lease, attempt_id=attempt)
        return await self._claim_by(args, rule)

    async def claim_resumed_execution(self, args: model.ClaimResumedArgs) -> model.Claimed:
        """Continues an interrupted attempt."""
        _check_claim(args)
        if args.remaining_attempt_timeout_ms is not None:
            validation.timestamp(args.remaining_attempt_timeout_ms, "remaining_attempt_timeout_ms")
        lease, attempt = args.lease_id or new_lease_id(), new_attempt_id()
        rule = partial(claims.claim_resumed, args=args, lease_id=lease, attempt_id=attempt)
        return await self._claim_by(args, rule)

    async def _claim_by(
        self,
        args: model.ClaimExecutionArgs | model.ClaimResumedArgs,
        rule: Callable[[Snapshot], Decided[model.Claimed]],
    ) -> model.Claimed:
        began = time.perf_counter()
        claimed: model.Claimed = await self.claim_one(
            execution_id(args.execution_id), rule, args.lease_ttl_ms, args.worker_instance_id
        )
        self.report_claim(self._leases.fields(claimed.handle).lane_id, began)
        return claimed

    async def issue_grant_and_claim(
        self, execution: ExecutionId, lane: str, lease_duration_ms: int
    ) -> model.IssuedAndClaimed:
        """Reserves and claims one execution for an operator, in one step."""
        ident = execution_id(execution)
        validation.ttl_ms(lease_duration_ms, "lease_duration_ms")
        rule = partial(
            claims.issue_grant_and_claim,
            lane=lane_id(lane),
            ttl_ms=lease_duration_ms,
            lease_id=new_lease_id(),
            attempt_id=new_attempt_id(),
        )
        began = time.perf_counter()
        claimed: model.Claimed = await self.claim_one(ident, rule, lease_duration_ms, "operator")
        self.report_claim(lane, began)
        return model.IssuedAndClaimed(
            claimed.lease_id, claimed.lease_epoch, claimed.attempt_index, claimed.handle
        )

    async def claim_from_resume_grant(self, token: model.ResumeToken) -> model.Handle | None:
        """Takes over an interrupted or lost attempt; None while another worker holds it.

        A grant of another worker refuses the claim.
        """
        ident = execution_id(token.grant.execution_id)
        validation.worker(token.worker_id, token.worker_instance_id)
        validation.ttl_ms(token.lease_ttl_ms)
        validation.timestamp(token.grant.expires_at_ms, "grant.expires_at_ms")
        lease, attempt = new_lease_id(), new_attempt_id()
        claimed = await self.claim_one(
            ident,
            partial(
                reclaim.claim_from_resume_grant, token=token, lease_id=lease, attempt_id=attempt
            ),
            token.lease_ttl_ms,
            token.worker_instance_id,
            model.HandleKind.RESUMED,
        )
        return claimed.handle if isinstance(claimed, model.Claimed) else None

    async def claim_one(
        self,
        ident: ExecutionId,
        rule: Callable[[Snapshot], Decided[T]],
        ttl_ms: int,
        instance: str,
        kind: model.HandleKind | None = None,
    ) -> model.Claimed | T:
        """Claims by a rule; a commit without a result of its own answers `Claimed`."""

        def decided(snapshot: Snapshot) -> Decided[model.Claimed | T]:
            decision = rule(snapshot)
            if isinstance(decision, Commit) and decision.result is None:
                return Commit(
                    decision.plan,
                    lambda applied: self._rows.claimed(
                        applied.row, ttl_ms, instance, snapshot.attempt, kind
                    ),
                )
            return decision

        return await self._admission.run(ident, decided)


def _check_claim(args: model.ClaimExecutionArgs | model.ClaimResumedArgs) -> None:
    validation.optional_uuid(args.lease_id, "lease_id")
    validation.worker(args.worker_id, args.worker_instance_id)
    validation.ttl_ms(args.lease_ttl_ms)
    execution_id(args.execution_id)
