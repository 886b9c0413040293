"""Leases that are lost: revocation, expiry, requeue and reclaim."""

from __future__ import annotations

import secrets
from uuid import UUID

from flowfabric.engine import validation
from flowfabric.engine.claims.admission import Admission
from flowfabric.engine.claims.claims import Claims
from flowfabric.engine.claims.grants import check_grant
from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import CORE_COLUMNS, core_of, full_page, pages
from flowfabric.errors import invalid
from flowfabric.ids import ExecutionId, execution_id, lease_mark, new_attempt_id, new_lease_id
from flowfabric.model import lease as model
from flowfabric.model.execution import Execution, Page
from flowfabric.model.policy import check_worker_capabilities
from flowfabric.rules.decision import Decision, Snapshot
from flowfabric.rules.leases import expiry, reclaim
from flowfabric.store.port import Scan

MAX_EXPIRED_LEASES = 10_000
_COMPOSITE_LABELS = {"postgres": "pg"}


class Recovery:
    def __init__(self, core: Core, admission: Admission, claims: Claims) -> None:
        self._core, self._store = core, core.store
        self._admission, self._claims = admission, claims

    async def revoke_lease(
        self, args: model.RevokeLeaseArgs
    ) -> model.Revoked | model.AlreadySatisfied:
        """Revokes a lease. Its holder is fenced off, and the execution is claimable at once."""
        ident = execution_id(args.execution_id)
        validation.text(args.reason, "reason")
        validation.text(args.worker_instance_id, "worker_instance_id")
        label = _COMPOSITE_LABELS.get(self._store.label, self._store.label)
        seen: list[int] = []

        def rule(snapshot: Snapshot) -> Decision:
            if snapshot.execution is not None:
                seen.append(snapshot.execution.lease_epoch)
            return expiry.revoke(snapshot, args, label, seen[0] if seen else None)

        return await self._core.decide(ident, rule)

    async def mark_lease_expired_if_due(
        self, execution: ExecutionId, *, partition: int | str | None = None
    ) -> model.MarkedExpired | model.AlreadySatisfied:
        ident = validation.target(execution, partition)
        lane = ""

        def rule(snapshot: Snapshot) -> Decision:
            nonlocal lane
            lane = "" if snapshot.execution is None else snapshot.execution.lane_id
            return expiry.mark_if_due(snapshot)

        result: model.MarkedExpired | model.AlreadySatisfied = await self._core.decide(ident, rule)
        if isinstance(result, model.MarkedExpired):
            self._core.telemetry.listener.lease_expired(lane)
        return result

    async def requeue_lost(
        self, execution: ExecutionId, grace_ms: int | None = None
    ) -> str | model.ReclaimCapExceeded:
        """Requeues a lost execution when the grace is over; returns what was found."""
        ident = execution_id(execution)
        grace = (
            self._core.settings.lease_reclaim_grace_ms
            if grace_ms is None
            else validation.timestamp(grace_ms, "grace_ms")
        )
        return await self._core.decide(
            ident, lambda snapshot: expiry.requeue(snapshot, grace), grant=True
        )

    async def issue_reclaim_grant(
        self, args: model.IssueGrantArgs
    ) -> model.ReclaimGrant | model.NotReclaimable | model.ReclaimCapExceeded:
        """Reserves a lost execution, so that one worker can reclaim it as a new attempt."""
        ident = check_grant(args)
        check_worker_capabilities(args.worker_capabilities, "worker_capabilities")
        grant_id = secrets.token_hex(16)
        result: (
            model.ReclaimGrant | model.NotReclaimable | model.ReclaimCapExceeded
        ) = await self._admission.run(
            ident, lambda snapshot: reclaim.issue_reclaim_grant(snapshot, args, grant_id=grant_id)
        )
        self._report_reclaim(result)
        return result

    async def reclaim_execution(
        self, args: model.ReclaimExecutionArgs
    ) -> model.Claimed | model.GrantNotFound | model.NotReclaimable | model.ReclaimCapExceeded:
        """Turns a reclaim grant into a new attempt under a higher epoch."""
        ident = execution_id(args.execution_id)
        validation.worker(args.worker_id, args.worker_instance_id)
        validation.ttl_ms(args.lease_ttl_ms)
        validation.optional_uuid(args.lease_id, "lease_id")
        validation.optional_uuid(args.attempt_id, "attempt_id")
        validation.text(args.attempt_policy_json, "attempt_policy_json", validation.MAX_JSON_BYTES)
        if args.max_reclaim_count is not None:
            validation.whole(args.max_reclaim_count, "max_reclaim_count", 0, 2**32 - 1)
        lease, attempt = args.lease_id or new_lease_id(), args.attempt_id or new_attempt_id()
        result: (
            model.Claimed | model.GrantNotFound | model.NotReclaimable | model.ReclaimCapExceeded
        ) = await self._claims.claim_one(
            ident,
            lambda snapshot: reclaim.reclaim(snapshot, args, lease_id=lease, attempt_id=attempt),
            args.lease_ttl_ms,
            args.worker_instance_id,
            model.HandleKind.RECLAIMED,
        )
        self._report_reclaim(result)
        return result

    def _report_reclaim(self, result: object) -> None:
        listener = self._core.telemetry.listener
        match result:
            case model.Claimed():
                listener.reclaimed("claimed")
            case model.ReclaimCapExceeded():
                listener.reclaimed("cap_exceeded")
            case model.NotReclaimable():
                listener.reclaimed("not_reclaimable")

    async def list_expired_leases(
        self,
        as_of: int | None = None,
        after: tuple[int, ExecutionId] | None = None,
        limit: int = 1_000,
        *,
        max_partitions_per_call: int = 32,
        namespace: str | None = None,
    ) -> Page[model.ExpiredLeaseInfo]:
        """Expired leases, marked or not, oldest first.

        `after` is the (expires_at_ms, execution_id) of the last entry of the page before.
        """
        validation.whole(max_partitions_per_call, "max_partitions_per_call", 1, 65_536)
        size = validation.limit(limit, MAX_EXPIRED_LEASES)
        bound = (
            await self._store.now_ms() if as_of is None else validation.timestamp(as_of, "as_of")
        )
        position = _position(after)
        found: list[Execution] = []
        for index in ("leased", "lost"):
            scan = Scan(index, {}, position, bound, size + 1, CORE_COLUMNS)
            found += await self._expired(scan, namespace)
        found.sort(key=lambda e: (e.lease_expires_at_ms or 0, e.execution_id))
        items, last = full_page([_expired_info(e) for e in found], size)
        return Page(items, None if last is None else (last.expires_at_ms, last.execution_id))

    async def _expired(self, scan: Scan, namespace: str | None) -> list[Execution]:
        found: list[Execution] = []
        async for page in pages(self._store, scan, core_of):
            found += [each for each in page if namespace in (None, each.namespace)]
            if len(found) >= scan.limit:
                break
        return found[: scan.limit]


def _position(after: object) -> tuple[int, UUID] | None:
    if after is None:
        return None
    if not isinstance(after, tuple) or len(after) != 2:
        raise invalid("after", "the (expires_at_ms, execution_id) of the last entry", after)
    expires_at_ms, ident = after
    return (
        validation.timestamp(expires_at_ms, "after.expires_at_ms"),
        execution_id(ident, "after.execution_id").uuid,
    )


def _expired_info(execution: Execution) -> model.ExpiredLeaseInfo:
    return model.ExpiredLeaseInfo(
        execution.id,
        lease_mark(execution.current_lease_id),
        execution.lease_epoch,
        execution.current_worker_instance_id,
        execution.lease_expires_at_ms or 0,
        execution.attempt_index,
    )
