"""Grants: lists what is claimable, and reserves an execution for a worker."""

from __future__ import annotations

import heapq
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from uuid import UUID

from msgspec import Struct

from flowfabric import errors
from flowfabric.engine import validation
from flowfabric.engine.claims.admission import Admission
from flowfabric.engine.claims.gated_claims import MAX_GATES
from flowfabric.engine.claims.limit_cache import LimitCache
from flowfabric.engine.claims.routing import Routing
from flowfabric.engine.core import Core
from flowfabric.engine.executions.lanes import Lanes
from flowfabric.engine.executions.operator_actions import OperatorActions
from flowfabric.engine.executions.quarantine import readable_rows
from flowfabric.engine.snapshots import CORE_COLUMNS, behind, core_of, load_all
from flowfabric.ids import ExecutionId, execution_id, lane_id, partition_key, partition_tag
from flowfabric.model.execution import Execution
from flowfabric.model.lease import MAX_GRANT_TTL_MS, ClaimGrant, Granted, IssueGrantArgs, NoWork
from flowfabric.model.policy import check_capability_tokens, check_worker_capabilities
from flowfabric.model.worker import WorkerInfo
from flowfabric.plan import Applied
from flowfabric.rules.claims import grants, routing
from flowfabric.rules.decision import Commit, Decided, Snapshot
from flowfabric.rules.workers import registry
from flowfabric.store.port import Scan, ScanAll

SCAN_PAGE = 100
SMALL_PAGE = 8
QUOTA_ERRORS = (
    errors.ContentionKind.RATE_LIMIT_EXCEEDED,
    errors.ContentionKind.CONCURRENCY_LIMIT_EXCEEDED,
)


class _Grantee(Struct, frozen=True):
    """The worker that a grant is for."""

    worker_id: str
    instance: str
    capabilities: frozenset[str]
    ttl_ms: int


class Grants:
    def __init__(
        self,
        core: Core,
        routing: Routing,
        admission: Admission,
        limit_cache: LimitCache,
        lanes: Lanes,
        actions: OperatorActions,
    ) -> None:
        self._core, self._store = core, core.store
        self._routing, self._admission, self._limit_cache = routing, admission, limit_cache
        self._lanes, self._actions = lanes, actions

    async def scan_eligible_executions(
        self,
        lane: str,
        partition: int | str | None = None,
        limit: int = 100,
        namespace: str | None = "default",
    ) -> list[ExecutionId]:
        """Claimable executions of a lane in claim order, of one partition when it is given.

        Without a namespace, those of each namespace in turn.
        """
        size = validation.limit(limit, 1_000)
        wanted = None if partition is None else partition_key(partition)
        found: list[ExecutionId] = []
        checked = validation.optional_namespace(namespace)
        async for each in self._routing.namespaces(lane_id(lane), checked):
            async for execution in self._ready(lane, each):
                if len(found) >= size:
                    return found
                if wanted is None or execution.partition_key == wanted:
                    found.append(execution.id)
        return found

    async def _ready(self, lane: str, namespace: str) -> AsyncIterator[Execution]:
        """The ready executions of a namespace in a lane, behind any gate, in claim order."""
        gates = ("", *await self._limit_cache.gates(lane, namespace))
        page = SCAN_PAGE if len(gates) == 1 else SMALL_PAGE
        queues: dict[str, deque[Execution]] = {gate: deque() for gate in gates}
        for at in range(0, len(gates), MAX_GATES):
            groups = [(lane, namespace, gate) for gate in gates[at : at + MAX_GATES]]
            ready = ScanAll("ready", groups, page, CORE_COLUMNS)
            for found in await load_all(self._store, ready, core_of):
                queues[found.gate].append(found)
        longer = {gate for gate, queue in queues.items() if len(queue) == page}
        heads = [(_rank(queue[0]), gate) for gate, queue in queues.items() if queue]
        heapq.heapify(heads)
        while heads:
            _, gate = heapq.heappop(heads)
            queue = queues[gate]
            found = queue.popleft()
            yield found
            if not queue and gate in longer:
                group = {"lane_id": lane, "namespace": namespace, "gate": gate}
                scan = Scan("ready", group, limit=SCAN_PAGE, columns=CORE_COLUMNS)
                queue.extend(await load_all(self._store, behind(scan, found), core_of))
                if len(queue) < SCAN_PAGE:
                    longer.remove(gate)
            if queue:
                heapq.heappush(heads, (_rank(queue[0]), gate))

    async def issue_claim_grant(self, args: IssueGrantArgs) -> Granted:
        """Reserves an execution for a worker; others cannot claim it until the grant expires."""
        ident = check_grant(args)
        grant_id = secrets.token_hex(16)
        return await self._admission.run(
            ident, lambda snapshot: grants.issue_claim_grant(snapshot, args, grant_id=grant_id)
        )

    async def claim_for_worker(
        self,
        lane: str,
        worker_id: str,
        worker_instance_id: str,
        worker_capabilities: Iterable[str],
        grant_ttl_ms: int,
        namespace: str | None = "default",
    ) -> ClaimGrant | NoWork:
        """Reserves the best admissible execution of a lane for a worker.

        The worker then calls `claim_execution`. Without a namespace, the namespaces take turns.
        """
        checked = lane_id(lane)
        validation.worker(worker_id, worker_instance_id)
        tokens = frozenset(check_worker_capabilities(worker_capabilities, "worker_capabilities"))
        validation.ttl_ms(grant_ttl_ms, "grant_ttl_ms", MAX_GRANT_TTL_MS)
        validation.optional_namespace(namespace)
        grantee = _Grantee(worker_id, worker_instance_id, tokens, grant_ttl_ms)
        began = time.perf_counter()
        try:
            return await self._grant_for(checked, namespace, grantee)
        finally:
            self._core.telemetry.listener.claimed(checked, time.perf_counter() - began)

    async def _grant_for(
        self, lane: str, namespace: str | None, grantee: _Grantee
    ) -> ClaimGrant | NoWork:
        held = await self._lanes.read_lane(lane)
        if held is not None and held.is_held:
            return NoWork()
        await self._routing.check_routes(lane, namespace, tuple(sorted(grantee.capabilities)))
        async for each in self._routing.namespaces(lane, namespace):
            granted = await self._grant_in(lane, each, grantee)
            if granted is not None:
                return granted
        return NoWork()

    async def _grant_in(self, lane: str, namespace: str, grantee: _Grantee) -> ClaimGrant | None:
        live: list[WorkerInfo] | None = None
        full: set[str] = set()
        async for execution in self._ready(lane, namespace):
            if execution.gate in full:
                continue
            now = await self._store.now_ms()
            if execution.reserved_until_ms is not None and execution.reserved_until_ms >= now:
                continue
            if not await readable_rows(self._store, [execution], of_budgets=True):
                continue
            if grants.missing_capabilities(execution, grantee.capabilities):
                if live is None:
                    live = await self._routing.live_workers(namespace)
                if not registry.covers(live, execution.namespace, execution.required_capabilities):
                    await self._actions.block_route(
                        execution.id, routing.WAITING, routing.NO_WORKER_COVERS
                    )
                continue
            granted = await self._try_grant(execution, grantee, full)
            if granted is not None:
                return granted
        return None

    async def _try_grant(
        self, execution: Execution, grantee: _Grantee, full: set[str]
    ) -> ClaimGrant | None:
        """None if the execution cannot start now; a full quota adds its gate to `full`."""
        args = IssueGrantArgs(
            execution_id=execution.id,
            worker_id=grantee.worker_id,
            worker_instance_id=grantee.instance,
            grant_ttl_ms=grantee.ttl_ms,
            worker_capabilities=grantee.capabilities,
        )
        ident, grant_id = check_grant(args), secrets.token_hex(16)

        def granted(applied: Applied) -> ClaimGrant:
            return ClaimGrant(ident, partition_tag(ident.partition_index), grant_id, *applied.row)

        def rule(snapshot: Snapshot) -> Decided[ClaimGrant]:
            decision = grants.issue_claim_grant(snapshot, args, grant_id=grant_id)
            return Commit(decision.plan, granted) if isinstance(decision, Commit) else decision

        try:
            return await self._admission.run(ident, rule)
        except (errors.Contention, errors.StateError, errors.ValidationError) as error:
            if isinstance(error, errors.Contention) and error.kind in QUOTA_ERRORS:
                full.add(execution.gate)
            if (
                isinstance(error, errors.StateError)
                and error.kind is errors.StateKind.BUDGET_EXCEEDED
            ):
                await self._block_for_budget(execution, error.detail)
            elif not _is_passing(error):
                raise
            return None

    async def _block_for_budget(self, execution: Execution, detail: str) -> None:
        """Blocks the execution, so it does not hide others. The detail starts with the budget."""
        on = "budget:" + detail.partition(":")[0].removeprefix("budget ")
        await self._core.decide(
            execution.id,
            lambda snapshot: grants.block(snapshot, "waiting_for_budget", detail, None, on),
        )


def _is_passing(error: errors.EngineError) -> bool:
    """Whether another execution may still be granted."""
    return (
        error.error_class in (errors.ErrorClass.RETRYABLE, errors.ErrorClass.INFORMATIONAL)
        or getattr(error, "kind", None) is errors.ValidationKind.CAPABILITY_MISMATCH
    )


def _rank(execution: Execution) -> tuple[int, int, UUID]:
    return -execution.priority, execution.created_at_ms, execution.execution_id


def check_grant(args: IssueGrantArgs) -> ExecutionId:
    ident = execution_id(args.execution_id)
    validation.partition_matches(args.partition, ident.partition_index)
    validation.worker(args.worker_id, args.worker_instance_id)
    validation.ttl_ms(args.grant_ttl_ms, "grant_ttl_ms", MAX_GRANT_TTL_MS)
    check_capability_tokens(args.worker_capabilities, "worker_capabilities")
    for field in ("capability_hash", "route_snapshot_json", "admission_summary"):
        validation.optional_text(getattr(args, field), field, validation.MAX_JSON_BYTES)
    return ident
