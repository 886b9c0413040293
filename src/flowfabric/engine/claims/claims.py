"""Claims of every kind."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec import structs

from flowfabric.engine import validation
from flowfabric.engine.claims.gated_claims import SHORTEST_WAIT_S, Claimer, NextOpening
from flowfabric.engine.claims.routing import Routing
from flowfabric.engine.executions.quarantine import hold_claimed
from flowfabric.errors import Corruption, EngineError
from flowfabric.ids import ExecutionId, execution_id, lane_id, name, new_attempt_id, new_lease_id
from flowfabric.model.attempt import Attempt
from flowfabric.model.event import LEASE_EVENTS
from flowfabric.model.execution import stored_tags
from flowfabric.model.lease import (
    MAX_CLAIM_BATCH,
    Claimed,
    ClaimExecutionArgs,
    ClaimPolicy,
    ClaimResumedArgs,
    Handle,
    HandleFields,
    HandleKind,
    IssuedAndClaimed,
    ResumeToken,
    Work,
)
from flowfabric.model.policy import check_worker_capabilities, stored_policy
from flowfabric.plan import Applied, Plan
from flowfabric.rules.claims import claims
from flowfabric.rules.decision import Commit, Decision, Snapshot
from flowfabric.rules.leases import attempts, recovery
from flowfabric.rules.limits.limit_scopes import GATES
from flowfabric.rules.limits.quotas import QUOTAS
from flowfabric.store.port import Row
from flowfabric.store.wakeups import Waiter

log = logging.getLogger("flowfabric.engine")
T = TypeVar("T")

POLL_S = 5.0
CALM_S = 0.02
"""At least this long between two looks at a quota that is full, however many leases end meanwhile."""
AT_ANY_TIME = NextOpening()


class Claims(Routing):
    async def claim(
        self, lane: str, capabilities: Iterable[str], policy: ClaimPolicy
    ) -> Handle | None:
        """The best execution of a lane that these capabilities can run, or None. Waits up to `policy.max_wait_ms`."""
        found = await self.claim_many(lane, capabilities, policy, 1)
        return found[0].handle if found else None

    async def claim_many(
        self, lane: str, capabilities: Iterable[str], policy: ClaimPolicy, n: int
    ) -> list[Work]:
        """Up to n of the lane's best, each with its payload. Comes back with what there is; waits only when there is nothing.

        A call that may wait may be cancelled: what it had been granted by then is given back.
        """
        claimer = claimer_of(lane, capabilities, policy, n)
        rows, _ = await self._ask(claimer)
        try:
            again = await self._looked_around(claimer, granted_at(rows, claimer)) and not rows
        except BaseException:
            await self._give_back(claimer, rows)
            raise
        if again:
            rows, _ = await self._ask(claimer)
        if not rows and policy.max_wait_ms:
            rows = await self._wait_for_work(claimer, policy.max_wait_ms / 1000)
        return await self._works(rows, policy)

    async def _ask(self, claimer: Claimer) -> tuple[list[Row], NextOpening]:
        """What there is now. Where nothing is under a limit, the place is asked in one statement."""
        if claimer.namespace is None:
            return await self._ask_in_turn(claimer)
        if await self._attachments.gates(claimer.lane, claimer.namespace):
            return await self._whole(
                claimer, self._admissions.claim(claimer), lambda found: found[0]
            )
        sweeping = self.store.sweep(_claiming(claimer), claimer.wanted)
        return await self._whole(claimer, sweeping, lambda rows: rows), AT_ANY_TIME

    async def _ask_in_turn(self, claimer: Claimer) -> tuple[list[Row], NextOpening]:
        """Namespace after namespace, until as much was found as is wanted. The next call begins behind the last of them."""
        rows: list[Row] = []
        later = AT_ANY_TIME
        try:
            async for namespace in self._rota.namespaces(claimer.lane):
                found, said = await self._ask(
                    structs.replace(claimer, namespace=namespace, wanted=claimer.wanted - len(rows))
                )
                rows += found
                later = later.beside(said)
                if len(rows) >= claimer.wanted:
                    break
        except Exception:
            if not rows:
                raise
        except BaseException:
            await self._give_back(claimer, rows)
            raise
        return rows, later

    async def _looked_around(self, claimer: Claimer, now_ms: int | None = None) -> bool:
        return await self._look_around(
            claimer.lane, claimer.namespace, claimer.capabilities, now_ms
        )

    async def _commit_and_claim(
        self, plans: Sequence[Plan], claimer: Claimer
    ) -> tuple[Sequence[Any], list[Row]]:
        """In one journey, unless a limit has to be looked at in between. What cannot be claimed is not there: whoever asks for it
        next learns why.
        """
        done: Sequence[Any] = ()
        try:
            if (
                plans
                and claimer.namespace is not None
                and not await self._attachments.gates(claimer.lane, claimer.namespace)
            ):
                turning = self.store.commit_and_sweep(plans, _claiming(claimer), claimer.wanted)
                return await self._whole(claimer, turning, lambda turned: turned[1])
            done = await self.store.commit_many(plans) if plans else ()
            return done, (await self._ask(claimer))[0]
        except Exception as error:  # whatever it is, it may be the fault of what was to be claimed: the ends are looked into
            return done or [error] * len(plans), []

    async def _whole(
        self, claimer: Claimer, asked: Awaitable[T], rows_of: Callable[[T], list[Row]]
    ) -> T:
        """Whoever is cancelled in the middle of a grant does not learn of it: the grant is waited for, and taken back.

        Not so for those who do not wait: they have their answer in a moment, and the shield costs more than most of that.
        """
        if not claimer.waits:
            return await asked
        asking = asyncio.ensure_future(asked)
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            await asyncio.wait({asking})
            if not asking.cancelled() and asking.exception() is None:
                await self._give_back(claimer, rows_of(asking.result()))
            raise

    async def _give_back(self, claimer: Claimer, rows: list[Row]) -> None:
        """Each goes on with the same attempt, in the hands of whoever asks next."""
        for row in rows:
            fields, _ = self._claimed_fields(row, claimer.ttl_ms, claimer.instance)
            try:
                await self.by_holder(fields, attempts.delay(fields, await self.store.now_ms()))
            except EngineError as error:
                log.warning(
                    "%s: nobody waits for it, and it could not be given back: %s",
                    fields.execution_id,
                    error,
                )

    async def _wait_for_work(self, claimer: Claimer, seconds: float) -> list[Row]:
        """Parked on the lane's bells, with a slow look as the net. Where a quota is full, whatever ends may make room."""
        until = time.monotonic() + seconds
        topics = (("ready", claimer.lane), (GATES, claimer.lane), (QUOTAS, None))
        later = AT_ANY_TIME
        while True:
            listening = later.busy
            with self.store.hub.waiter(
                *topics, *(((LEASE_EVENTS, None),) if listening else ())
            ) as bell:
                asked = time.monotonic()
                rows, later = await self._ask(claimer)
                if rows or time.monotonic() >= until:
                    return rows
                if later.busy and not listening:
                    continue
                if later.opens_at_ms is None and not later.busy:
                    await self._rest(bell, claimer, asked, until)
                else:
                    await self._wait_for_room(bell, claimer, later, until)
            if listening:
                await asyncio.sleep(max(asked + CALM_S - time.monotonic(), 0))

    async def _rest(self, bell: Waiter, claimer: Claimer, asked: float, until: float) -> None:
        """Until a bell rings, the time is up, or somebody of this process has seen that the lane is not empty."""
        known, something = asked, False
        while not something:
            left = until - time.monotonic()
            wait_s = self._lookout.wait_s(claimer.place, known, POLL_S)
            if await bell.wait(max(min(left, wait_s), SHORTEST_WAIT_S)) or left <= wait_s:
                return
            if claimer.capabilities and await self._looked_around(claimer):
                return
            something, known = await self._lookout.look(claimer.place, known)

    async def _wait_for_room(
        self, bell: Waiter, claimer: Claimer, later: NextOpening, until: float
    ) -> None:
        """As long as a quota is full, at the most as long as claims rest between two looks."""
        left = until - time.monotonic()
        if (
            not await bell.wait(max(min(left, later.wait_s(POLL_S)), SHORTEST_WAIT_S))
            and claimer.capabilities
        ):
            await self._looked_around(claimer)

    async def _works(self, rows: list[Row], policy: ClaimPolicy) -> list[Work]:
        """All but those that cannot be read: these are leased already, so their leases are given up."""
        works: list[Work] = []
        damaged: list[tuple[HandleFields, str]] = []
        for row in rows:
            fields, was = self._claimed_fields(row, policy.lease_ttl_ms, policy.worker_instance_id)
            try:
                works.append(self._work(row, fields, was, policy))
            except Corruption as error:
                damaged.append((fields, error.what.partition(" ")[0]))
        if damaged:
            await hold_claimed(self.store, damaged)
        return works

    def _work(self, row: Row, fields: HandleFields, was: str, policy: ClaimPolicy) -> Work:
        tags = stored_tags(row[12])
        if row[9] is not None:
            stored_policy(row[9])
        handle = self.handle(fields, claims.kind_after(was), retry_count=row[8], policy=row[9])
        used_ms = claims.time_used_ms(row[6] - policy.lease_ttl_ms, row[14], row[15])
        return Work(
            handle,
            fields.execution_id,
            row[2],
            row[5],
            row[6],
            row[10],
            row[11] or b"",
            tags,
            used_ms,
        )

    def _claimed_fields(self, row: Row, ttl_ms: int, instance: str) -> tuple[HandleFields, str]:
        """The columns of `claims.CLAIMED` as a lease."""
        ident = ExecutionId.of(row[0], row[1])
        return HandleFields(
            self.store.tag, ident, row[2], row[3], row[4], row[5], ttl_ms, row[7], instance
        ), row[13]

    def _granted(
        self,
        applied: Applied,
        ttl_ms: int,
        instance: str,
        attempt: Attempt | None,
        kind: HandleKind | None,
    ) -> Claimed:
        row = applied.row
        fields, was = self._claimed_fields(row, ttl_ms, instance)
        handle = self.handle(
            fields, kind or claims.kind_after(was), retry_count=row[8], policy=row[9]
        )
        word = {"pending_retry_attempt": "retry", "pending_replay_attempt": "replay"}.get(
            was, "initial"
        )
        if kind is HandleKind.RECLAIMED:
            word = "reclaim"
        elif was == "attempt_interrupted" and attempt is not None:
            word = attempt.attempt_type
        return Claimed(fields.execution_id, row[4], row[5], row[2], row[3], word, row[6], handle)

    async def claim_execution(self, args: ClaimExecutionArgs) -> Claimed:
        """Turns a grant into a lease."""
        ident = self._check_claim(args)
        validation.optional_uuid(args.attempt_id, "attempt_id")
        validation.text(args.attempt_policy_json, "attempt_policy_json", validation.MAX_JSON_BYTES)
        if args.attempt_timeout_ms is not None:
            validation.ttl_ms(
                args.attempt_timeout_ms, "attempt_timeout_ms", validation.MAX_TIMESTAMP_MS
            )
        validation.optional_timestamp(args.execution_deadline_at, "execution_deadline_at")
        lease, attempt = args.lease_id or new_lease_id(), args.attempt_id or new_attempt_id()
        claimed: Claimed = await self._claim_one(
            ident,
            lambda snapshot: claims.claim_execution(
                snapshot, args, lease_id=lease, attempt_id=attempt
            ),
            args.lease_ttl_ms,
            args.worker_instance_id,
        )
        return claimed

    async def claim_resumed_execution(self, args: ClaimResumedArgs) -> Claimed:
        """Continues an interrupted attempt."""
        ident = self._check_claim(args)
        if args.remaining_attempt_timeout_ms is not None:
            validation.whole(
                args.remaining_attempt_timeout_ms,
                "remaining_attempt_timeout_ms",
                0,
                validation.MAX_TIMESTAMP_MS,
            )
        lease, attempt = args.lease_id or new_lease_id(), new_attempt_id()
        claimed: Claimed = await self._claim_one(
            ident,
            lambda snapshot: claims.claim_resumed(
                snapshot, args, lease_id=lease, attempt_id=attempt
            ),
            args.lease_ttl_ms,
            args.worker_instance_id,
        )
        return claimed

    async def issue_grant_and_claim(
        self, execution: ExecutionId, lane: str, lease_duration_ms: int
    ) -> IssuedAndClaimed:
        """An operator takes a particular execution in one step."""
        ident = execution_id(execution)
        validation.ttl_ms(lease_duration_ms, "lease_duration_ms")
        checked, lease, attempt = lane_id(lane), new_lease_id(), new_attempt_id()
        claimed = await self._claim_one(
            ident,
            lambda snapshot: claims.issue_grant_and_claim(
                snapshot, checked, lease_duration_ms, lease_id=lease, attempt_id=attempt
            ),
            lease_duration_ms,
            "operator",
        )
        return IssuedAndClaimed(
            claimed.lease_id, claimed.lease_epoch, claimed.attempt_index, claimed.handle
        )

    async def claim_from_resume_grant(self, token: ResumeToken) -> Handle | None:
        """Takes an interrupted or lost attempt over; None while somebody holds it. Another worker's grant is in the way."""
        ident = execution_id(token.grant.execution_id)
        name(token.worker_id, "worker_id")
        name(token.worker_instance_id, "worker_instance_id")
        validation.ttl_ms(token.lease_ttl_ms)
        validation.timestamp(token.grant.expires_at_ms, "grant.expires_at_ms")
        lease, attempt = new_lease_id(), new_attempt_id()
        claimed = await self._claim_one(
            ident,
            lambda snapshot: recovery.claim_from_resume_grant(
                snapshot, token, lease_id=lease, attempt_id=attempt
            ),
            token.lease_ttl_ms,
            token.worker_instance_id,
            HandleKind.RESUMED,
        )
        return claimed.handle if isinstance(claimed, Claimed) else None

    def _check_claim(self, args: ClaimExecutionArgs | ClaimResumedArgs) -> ExecutionId:
        validation.optional_uuid(args.lease_id, "lease_id")
        name(args.worker_id, "worker_id")
        name(args.worker_instance_id, "worker_instance_id")
        validation.ttl_ms(args.lease_ttl_ms)
        return execution_id(args.execution_id)

    async def _claim_one(
        self,
        ident: ExecutionId,
        rule: Any,
        ttl_ms: int,
        instance: str,
        kind: HandleKind | None = None,
    ) -> Any:
        def decided(snapshot: Snapshot) -> Decision:
            decision: Decision = rule(snapshot)
            if isinstance(decision, Commit) and decision.result is None:
                return Commit(
                    decision.plan,
                    lambda applied: self._granted(
                        applied, ttl_ms, instance, snapshot.attempt, kind
                    ),
                )
            return decision

        return await self.admit(ident, decided)


def claimer_of(lane: str, capabilities: Iterable[str], policy: ClaimPolicy, n: int) -> Claimer:
    checked, tokens = lane_id(lane), check_worker_capabilities(capabilities)
    validation.claim_policy(policy)
    validation.whole(n, "n", 1, MAX_CLAIM_BATCH)
    waits = bool(policy.max_wait_ms)
    return Claimer(
        checked,
        policy.namespace,
        tokens,
        policy.worker_id,
        policy.worker_instance_id,
        policy.lease_ttl_ms,
        n,
        waits,
    )


def granted_at(rows: list[Row], claimer: Claimer) -> int | None:
    """The store's time, where a grant tells it."""
    return rows[0][6] - claimer.ttl_ms if rows else None


def _claiming(claimer: Claimer) -> Plan:
    assert claimer.namespace is not None, "one statement claims in one namespace"
    return claims.claim(
        lane=claimer.lane,
        namespace=claimer.namespace,
        capabilities=claimer.capabilities,
        worker_id=claimer.worker_id,
        instance=claimer.instance,
        ttl_ms=claimer.ttl_ms,
    )
