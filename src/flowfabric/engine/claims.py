"""Claims of every kind."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from typing import Any

import msgspec

from flowfabric.engine import checks
from flowfabric.engine.kernel import LIGHT, light
from flowfabric.engine.routes import Routes
from flowfabric.errors import Contention, ErrorClass, StateError, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId, execution_id, lane_id, name, new_attempt_id, new_lease_id, partition_key, partition_tag
from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import Execution
from flowfabric.model.lease import (
    MAX_CLAIM_BATCH,
    MAX_GRANT_TTL_MS,
    Claimed,
    ClaimExecutionArgs,
    ClaimGrant,
    ClaimPolicy,
    ClaimResumedArgs,
    Granted,
    Handle,
    HandleFields,
    HandleKind,
    IssuedAndClaimed,
    IssueGrantArgs,
    NoWork,
    ResumeToken,
    Work,
)
from flowfabric.model.policy import check_capability_tokens, check_worker_capabilities
from flowfabric.model.worker import WorkerInfo
from flowfabric.plan import Applied
from flowfabric.rules import claims, grants, leases, routes, workers
from flowfabric.rules.decision import Act, Decision, Snapshot
from flowfabric.store.port import Row, Scan

POLL_S = 5.0
SCAN_PAGE = 100
_tags = msgspec.json.Decoder(dict[str, str]).decode


class Claims(Routes):
    async def claim(self, lane: str, capabilities: Iterable[str], policy: ClaimPolicy) -> Handle | None:
        """The best execution of a lane that these capabilities can run, or None. Waits up to `policy.max_wait_ms`."""
        found = await self.claim_many(lane, capabilities, policy, 1)
        return found[0].handle if found else None

    async def claim_many(self, lane: str, capabilities: Iterable[str], policy: ClaimPolicy, n: int) -> list[Work]:
        """Up to n of the lane's best, each with its payload. Comes back with what there is; waits only when there is nothing."""
        checked = lane_id(lane)
        tokens = check_worker_capabilities(capabilities)
        checks.claim_policy(policy)
        checks.whole(n, "n", 1, MAX_CLAIM_BATCH)
        plan = claims.claim(
            0,
            lane=checked,
            capabilities=tokens,
            worker_id=policy.worker_id,
            instance=policy.worker_instance_id,
            ttl_ms=policy.lease_ttl_ms,
        )
        rows = await self.store.sweep(plan, n)
        if await self._look_around(checked, tokens) and not rows:
            rows = await self.store.sweep(plan, n)
        if not rows and policy.max_wait_ms:
            rows = await self._wait_for_work(plan, n, checked, tokens, policy.max_wait_ms / 1000)
        return [self._work(row, policy) for row in rows]

    async def _wait_for_work(self, plan: Any, n: int, lane: str, offered: tuple[str, ...], seconds: float) -> list[Row]:
        """Parked on the lane's bell, with a slow poll as the net."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        with self.store.hub.waiter(("ready", lane)) as bell:
            while True:
                bell.arm()
                rows = await self.store.sweep(plan, n)
                left = until - clock()
                if rows or left <= 0:
                    return rows
                if not await bell.wait(min(left, POLL_S)) and offered:
                    await self._look_around(lane, offered)

    def _work(self, row: Row, policy: ClaimPolicy) -> Work:
        fields, was = self._claimed_fields(row, policy.lease_ttl_ms, policy.worker_instance_id)
        handle = self.handle(fields, claims.kind_after(was), retry_count=row[8], policy=row[9], in_flow=row[14] is not None)
        tags = {} if row[12] == "{}" else _tags(row[12])
        return Work(handle, fields.execution_id, row[2], row[5], row[6], row[10], row[11] or b"", tags)

    def _claimed_fields(self, row: Row, ttl_ms: int, instance: str) -> tuple[HandleFields, str]:
        """The columns of `claims.CLAIMED` as a lease."""
        ident = ExecutionId.of(row[0], row[1])
        return HandleFields(self.store.tag, ident, row[2], row[3], row[4], row[5], ttl_ms, row[7], instance), row[13]

    def _granted(self, applied: Applied, ttl_ms: int, instance: str, attempt: Attempt | None, kind: HandleKind | None) -> Claimed:
        row = applied.row
        fields, was = self._claimed_fields(row, ttl_ms, instance)
        in_flow = row[14] is not None
        handle = self.handle(fields, kind or claims.kind_after(was), retry_count=row[8], policy=row[9], in_flow=in_flow)
        word = {"pending_retry_attempt": "retry", "pending_replay_attempt": "replay"}.get(was, "initial")
        if kind is HandleKind.RECLAIMED:
            word = "reclaim"
        elif was == "attempt_interrupted" and attempt is not None:
            word = attempt.attempt_type
        return Claimed(fields.execution_id, row[4], row[5], row[2], row[3], word, row[6], handle)

    async def claim_execution(self, args: ClaimExecutionArgs) -> Claimed:
        """Turns a grant into a lease."""
        ident = self._check_claim(args)
        checks.optional_uuid(args.attempt_id, "attempt_id")
        checks.text(args.attempt_policy_json, "attempt_policy_json", checks.MAX_JSON_BYTES)
        if args.attempt_timeout_ms is not None:
            checks.ttl_ms(args.attempt_timeout_ms, "attempt_timeout_ms", checks.MAX_TIMESTAMP_MS)
        checks.optional_timestamp(args.execution_deadline_at, "execution_deadline_at")
        lease, attempt = args.lease_id or new_lease_id(), args.attempt_id or new_attempt_id()
        claimed: Claimed = await self._claim_one(
            ident,
            lambda snapshot: claims.claim_execution(snapshot, args, lease_id=lease, attempt_id=attempt),
            args.lease_ttl_ms,
            args.worker_instance_id,
        )
        return claimed

    async def claim_resumed_execution(self, args: ClaimResumedArgs) -> Claimed:
        """Continues an interrupted attempt."""
        ident = self._check_claim(args)
        if args.remaining_attempt_timeout_ms is not None:
            checks.whole(args.remaining_attempt_timeout_ms, "remaining_attempt_timeout_ms", 0, checks.MAX_TIMESTAMP_MS)
        lease, attempt = args.lease_id or new_lease_id(), new_attempt_id()
        claimed: Claimed = await self._claim_one(
            ident,
            lambda snapshot: claims.claim_resumed(snapshot, args, lease_id=lease, attempt_id=attempt),
            args.lease_ttl_ms,
            args.worker_instance_id,
        )
        return claimed

    async def issue_grant_and_claim(self, execution: ExecutionId, lane: str, lease_duration_ms: int) -> IssuedAndClaimed:
        """An operator takes a particular execution in one step."""
        ident = execution_id(execution)
        checks.ttl_ms(lease_duration_ms, "lease_duration_ms")
        checked, lease, attempt = lane_id(lane), new_lease_id(), new_attempt_id()
        claimed = await self._claim_one(
            ident,
            lambda snapshot: claims.issue_grant_and_claim(
                snapshot, checked, lease_duration_ms, lease_id=lease, attempt_id=attempt
            ),
            lease_duration_ms,
            "operator",
        )
        return IssuedAndClaimed(claimed.lease_id, claimed.lease_epoch, claimed.attempt_index, claimed.handle)

    async def claim_from_resume_grant(self, token: ResumeToken) -> Handle | None:
        """Takes an interrupted or lost attempt over; None while somebody holds it."""
        ident = execution_id(token.grant.execution_id)
        name(token.worker_id, "worker_id")
        name(token.worker_instance_id, "worker_instance_id")
        checks.ttl_ms(token.lease_ttl_ms)
        checks.timestamp(token.grant.expires_at_ms, "grant.expires_at_ms")
        lease, attempt = new_lease_id(), new_attempt_id()
        claimed = await self._claim_one(
            ident,
            lambda snapshot: leases.claim_from_resume_grant(snapshot, token, lease_id=lease, attempt_id=attempt),
            token.lease_ttl_ms,
            token.worker_instance_id,
            HandleKind.RESUMED,
        )
        return claimed.handle if isinstance(claimed, Claimed) else None

    def _check_claim(self, args: ClaimExecutionArgs | ClaimResumedArgs) -> ExecutionId:
        checks.optional_uuid(args.lease_id, "lease_id")
        name(args.worker_id, "worker_id")
        name(args.worker_instance_id, "worker_instance_id")
        checks.ttl_ms(args.lease_ttl_ms)
        return execution_id(args.execution_id)

    async def _claim_one(self, ident: ExecutionId, rule: Any, ttl_ms: int, instance: str, kind: HandleKind | None = None) -> Any:
        def decided(snapshot: Snapshot) -> Decision:
            decision: Decision = rule(snapshot)
            if isinstance(decision, Act) and decision.result is None:
                return Act(decision.plan, lambda applied: self._granted(applied, ttl_ms, instance, snapshot.attempt, kind))
            return decision

        return await self.decide(ident, decided, grant=True, lane=await self._lane_of(ident))

    # ---- the scheduler's side

    async def scan_eligible_executions(
        self, lane: str, partition: int | str | None = None, limit: int = 100
    ) -> list[ExecutionId]:
        """Claimable executions of a lane in claim order; of one partition when it is given."""
        size = checks.limit(limit, 1_000)
        wanted = None if partition is None else partition_key(partition)
        found: list[ExecutionId] = []
        async for execution in self._ready(lane_id(lane)):
            if len(found) >= size:
                break
            if wanted is None or execution.partition_key == wanted:
                found.append(execution.id)
        return found

    async def _ready(self, lane: str) -> Any:
        after = None
        while True:
            loaded = await self.store.load((Scan("ready", {"lane_id": lane, "gate": ""}, after, limit=SCAN_PAGE, columns=LIGHT),))
            for row in loaded.rows[0]:
                yield light(row)
            if len(loaded.rows[0]) < SCAN_PAGE:
                return
            last = light(loaded.rows[0][-1])
            after = (last.priority, last.created_at_ms, last.execution_id)

    async def issue_claim_grant(self, args: IssueGrantArgs) -> Granted:
        """Reserves one execution for one worker; it stays claimable by that worker until the grant runs out."""
        ident = self._check_grant(args)
        grant_id = secrets.token_hex(16)
        result: Granted = await self.decide(
            ident,
            lambda snapshot: grants.issue_claim_grant(snapshot, args, grant_id=grant_id),
            grant=True,
            lane=await self._lane_of(ident),
        )
        return result

    def _check_grant(self, args: IssueGrantArgs) -> ExecutionId:
        ident = execution_id(args.execution_id)
        checks.partition_matches(args.partition, ident.partition_index)
        name(args.worker_id, "worker_id")
        name(args.worker_instance_id, "worker_instance_id")
        checks.ttl_ms(args.grant_ttl_ms, "grant_ttl_ms", MAX_GRANT_TTL_MS)
        check_capability_tokens(args.worker_capabilities, "worker_capabilities")
        for field in ("capability_hash", "route_snapshot_json", "admission_summary"):
            checks.optional_text(getattr(args, field), field, checks.MAX_JSON_BYTES)
        return ident

    async def claim_for_worker(
        self,
        lane: str,
        worker_id: str,
        worker_instance_id: str,
        worker_capabilities: Iterable[str],
        grant_ttl_ms: int,
        namespace: str | None = None,
    ) -> ClaimGrant | NoWork:
        """Picks and reserves the best admissible execution for a worker, who then calls `claim_execution`."""
        checked = lane_id(lane)
        name(worker_id, "worker_id")
        name(worker_instance_id, "worker_instance_id")
        tokens = frozenset(check_worker_capabilities(worker_capabilities, "worker_capabilities"))
        checks.ttl_ms(grant_ttl_ms, "grant_ttl_ms", MAX_GRANT_TTL_MS)
        held = await self.read_lane(checked)
        if held is not None and held.is_held:
            return NoWork()
        await self._look_around(checked, tuple(sorted(tokens)))
        live: list[WorkerInfo] | None = None
        async for execution in self._ready(checked):
            if namespace is not None and execution.namespace != namespace:
                continue
            now = await self.store.now_ms()
            if execution.reserved_until_ms is not None and execution.reserved_until_ms >= now:
                continue
            if grants.missing_capabilities(execution, tokens):
                if live is None:
                    live = await self.live_workers()
                if not workers.covers(live, execution.namespace, execution.required_capabilities):
                    await self.block_route(execution.id, routes.WAITING, routes.NO_WORKER_COVERS)
                continue
            granted = await self._try_grant(execution, worker_id, worker_instance_id, tokens, grant_ttl_ms)
            if granted is not None:
                return granted
        return NoWork()

    async def _try_grant(
        self, execution: Execution, worker_id: str, instance: str, tokens: frozenset[str], ttl_ms: int
    ) -> ClaimGrant | None:
        args = IssueGrantArgs(
            execution_id=execution.id,
            worker_id=worker_id,
            worker_instance_id=instance,
            grant_ttl_ms=ttl_ms,
            worker_capabilities=tokens,
        )
        ident = self._check_grant(args)
        grant_id = secrets.token_hex(16)

        def rule(snapshot: Snapshot) -> Decision:
            decision = grants.issue_claim_grant(snapshot, args, grant_id=grant_id)
            if isinstance(decision, Act):
                key = partition_tag(ident.partition_index)
                return Act(decision.plan, lambda applied: ClaimGrant(ident, key, grant_id, applied.row[0]))
            return decision

        try:
            result: ClaimGrant = await self.decide(ident, rule, grant=True)
            return result
        except (Contention, StateError, ValidationError) as error:
            passing = error.error_class in (ErrorClass.RETRYABLE, ErrorClass.INFORMATIONAL)
            if passing or getattr(error, "kind", None) is ValidationKind.CAPABILITY_MISMATCH:
                return None
            raise
