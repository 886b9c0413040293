"""Load, decide, commit: the one way every operation goes."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable
from typing import Any, Self
from uuid import UUID

from msgspec import Struct

from flowfabric.codec.handle import decode_handle, encode_handle
from flowfabric.engine import validation
from flowfabric.engine.claims.gated_claims import GatedClaims
from flowfabric.engine.claims.idle_poll import IdlePoll
from flowfabric.engine.claims.limit_cache import LimitCache
from flowfabric.engine.claims.namespace_rotation import NamespaceRotation
from flowfabric.engine.claims.quota_cache import ExecutionLimits
from flowfabric.engine.flows.cascade import Cascade
from flowfabric.engine.keyed_lock import KeyedLock
from flowfabric.engine.telemetry import NO_TELEMETRY, Telemetry, report_refusal
from flowfabric.errors import Contention, ContentionKind, Corruption, EngineError, TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import Execution, Lane
from flowfabric.model.flow import MAX_GRAPH_EDGES, Edge, EdgeGroup
from flowfabric.model.lease import Grant, Handle, HandleFields, HandleKind
from flowfabric.model.policy import MAX_DURATION_MS, RetryPolicy
from flowfabric.model.quota import QuotaPolicy
from flowfabric.plan import Applied
from flowfabric.rules.claims import admission
from flowfabric.rules.decision import DECIDE_AGAIN, Commit, Decision, Reject, Return, Snapshot
from flowfabric.rules.executions.quarantine import damaged_list, unknown_budgets
from flowfabric.rules.leases import attempts
from flowfabric.rules.retries import DEFAULT_RETRY_POLICY
from flowfabric.rules.workers.retention import DEFAULT_FAILED_RETENTION_MS, DEFAULT_RETENTION_MS
from flowfabric.store.port import Get, GetAll, Read, Row, Scan, Store
from flowfabric.store.schema import TABLES

MAX_TRIES = 3
MAX_MOVED = 1_000
FIRST_PAUSE_S = 0.005
MAX_FACTS = 50_000
MAX_EPOCH = 2**63 - 1


CORE_COLUMNS = TABLES["ff_exec_core"].names[:-2]
"""All columns of an execution but its payload and result, which come last and may be large."""


def from_core_row(row: Row) -> Execution:
    """An execution read without its payload and result."""
    return Execution(*(*row, None, None))


def check_readable(execution: Execution) -> Execution:
    """For what needs its lists; without them it could run where it must not."""
    column = damaged_list(execution)
    if column:
        raise Corruption(f"{column} cannot be read", execution.id)
    return execution


class Settings(Struct, frozen=True):
    """What a deployment may choose. A negative grace switches the automatic requeue off.

    `retention_completed_ms` is the age of completed, cancelled and skipped executions, `retention_failed_ms` that of failed and
    expired ones; an execution's own policy goes before them.
    Without `renewal_events` no lease event tells of a renewal, which most lease events do.
    """

    default_retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY
    lease_reclaim_grace_ms: int = 5_000
    retention_completed_ms: int = DEFAULT_RETENTION_MS
    retention_failed_ms: int = DEFAULT_FAILED_RETENTION_MS
    renewal_events: bool = True

    def checked(self) -> Settings:
        for field in ("retention_completed_ms", "retention_failed_ms"):
            validation.whole(getattr(self, field), field, 0, MAX_DURATION_MS)
        return self


class LeaseFacts(Struct, frozen=True, gc=False):
    """What a lease's epoch has frozen: nobody else can change it while the lease holds."""

    fields: HandleFields
    retry_count: int
    policy: str | None

    @property
    def may_have_children(self) -> bool:
        """A first lease has none that its own engine has not submitted; a later one is not known to."""
        return self.fields.lease_epoch > 1


class EndedRow(Struct, frozen=True, gc=False):
    """What the end of an execution answers. It may have joined its flow after its claim, in another process."""

    flow_id: UUID | None

    @classmethod
    def of(cls, applied: Applied) -> EndedRow:
        return cls(*applied.row)


class Core:
    """Holds the store and what the operations share."""

    def __init__(
        self, store: Store, settings: Settings | None = None, *, seed: int | None = None
    ) -> None:
        self.store = store
        self.settings = (settings or Settings()).checked()
        self._random = random.Random(seed)  # noqa: S311 - jitter, not a secret
        self._facts: dict[bytes, LeaseFacts] = {}
        self._lanes: set[str] = set()
        self._looked: dict[tuple[str, str | None, tuple[str, ...]], int] = {}
        self._label = store.tag.label
        self._cascade = Cascade(store, self._wake_parent)
        self._turns = KeyedLock()
        self._attachments = LimitCache(store)
        self._admissions = GatedClaims(store, self._attachments)
        self._lookout = IdlePoll(store)
        self._rota = NamespaceRotation(store)
        self.onlooker: Telemetry = NO_TELEMETRY

    def watched_by(self, onlooker: Telemetry) -> None:
        """From now on this one is told what happens inside."""
        self.onlooker = self._cascade.onlooker = self._admissions.onlooker = onlooker

    async def _wake_parent(self, parent: ExecutionId, waitpoint_key: str) -> None:
        """Signals a parent that all its children have ended; the part that delivers signals does it."""

    # ---- snapshots

    async def snapshot(
        self,
        ident: ExecutionId,
        *,
        attempt_index: int | None = None,
        grant: bool = False,
        lane: str | None = None,
        groups: bool = False,
        limited: ExecutionLimits | None = None,
        whole: bool = False,
    ) -> Snapshot:
        """The execution with its current attempt, or the attempt asked for, and what else a rule needs.

        Its inbound group is found by its flow, which never changes once it has one. `whole`: the rule asks for its lists.
        """
        key = (ident.partition_index, ident.uuid)
        owner = {"partition_key": ident.partition_index, "execution_id": ident.uuid}
        reads: list[Read] = [Get("ff_exec_core", key, CORE_COLUMNS)]
        if attempt_index is None:
            reads.append(Scan("last_attempt", owner, limit=1))
        else:
            reads.append(Get("ff_attempt", (*key, attempt_index)))
        if grant:
            reads.append(Get("ff_claim_grant", key))
        if lane is not None:
            reads.append(Get("ff_lane_registry", (lane,)))
        if groups:
            inbound = {"partition_key": ident.partition_index, "downstream_eid": ident.uuid}
            flow = await self._flow_of(ident)
            reads.append(
                GetAll(
                    "ff_edge_group",
                    [] if flow is None else [(ident.partition_index, flow, ident.uuid)],
                )
            )
            reads.append(Scan("edges_in", inbound, limit=MAX_GRAPH_EDGES))
        if limited is not None:
            reads += limited.reads(ident, await self.store.now_ms())
        loaded = await self.store.load(reads)
        found = iter(loaded.rows)
        return Snapshot(
            loaded.now_ms,
            next(
                (
                    check_readable(from_core_row(row)) if whole else from_core_row(row)
                    for row in next(found)
                ),
                None,
            ),
            _first(Attempt, next(found)),
            _first(Grant, next(found)) if grant else None,
            _first(Lane, next(found)) if lane is not None else None,
            tuple(EdgeGroup(*row) for row in next(found)) if groups else (),
            tuple(Edge(*row) for row in next(found)) if groups else (),
            None if limited is None else limited.standing(found, loaded.now_ms),
        )

    async def execution(self, ident: ExecutionId) -> Execution | None:
        loaded = await self.store.load((Get("ff_exec_core", (ident.partition_index, ident.uuid)),))
        return Execution(*loaded.rows[0][0]) if loaded.rows[0] else None

    async def _flow_of(self, ident: ExecutionId) -> UUID | None:
        rows = (
            await self.store.load(
                (Get("ff_exec_core", (ident.partition_index, ident.uuid), ("flow_id",)),)
            )
        ).rows[0]
        return rows[0][0] if rows else None

    async def _place_of(self, ident: ExecutionId) -> tuple[str, ExecutionLimits | None]:
        """The lane to read beside an execution, and the limits it is under; they are only known once the execution is read."""
        read = Get(
            "ff_exec_core",
            (ident.partition_index, ident.uuid),
            ("lane_id", "quota_policy_id", "budget_ids"),
        )
        rows = (await self.store.load((read,))).rows[0]
        if not rows:
            return "", None
        lane, quota_id, budgets = rows[0]
        if unknown_budgets(budgets):
            raise Corruption("budget_ids cannot be read", ident)
        if quota_id is None:
            return lane, ExecutionLimits(None, budgets) if budgets else None
        quota = _first(
            QuotaPolicy, (await self.store.load((Get("ff_quota_policy", (quota_id,)),))).rows[0]
        )
        return lane, ExecutionLimits(quota, budgets)

    # ---- decisions

    async def decide(
        self, ident: ExecutionId, rule: Callable[[Snapshot], Decision], **wanted: Any
    ) -> Any:
        """Load, decide and commit, again when the world moved in between, three times at the most."""
        return await self.settle(lambda: self.snapshot(ident, **wanted), rule)

    async def admit(self, ident: ExecutionId, rule: Callable[[Snapshot], Decision]) -> Any:
        """As `decide`, for what lets an execution start: within the limits it is under."""
        lane, limited = await self._place_of(ident)

        async def decide() -> Any:
            try:
                return await self.decide(
                    ident,
                    lambda snapshot: admission.admitted(snapshot, rule(snapshot)),
                    grant=True,
                    lane=lane,
                    limited=limited,
                    whole=True,
                )
            except EngineError as error:
                report_refusal(self.onlooker, error)
                raise

        if limited is None or limited.quota is None:
            return await decide()
        async with self._turns.of(limited.quota.quota_policy_id):
            return await decide()

    async def settle(self, load: Callable[[], Any], rule: Callable[[Any], Decision]) -> Any:
        tries = moved = 0
        while True:
            loaded = await load()
            decision = rule(loaded)
            if isinstance(decision, Return):
                return decision.result
            if isinstance(decision, Reject):
                await self._refuse(decision)
            assert isinstance(decision, Commit)
            if decision.first:
                answer = await self.store.commit_together((*decision.first, decision.plan))
            else:
                answer = await self.store.commit(decision.plan)
            if isinstance(answer, Applied):
                if decision.plan.form.ends:
                    await self._cascade.ended((loaded.execution.id,))
                if decision.result is not DECIDE_AGAIN:
                    return _result(decision, answer)
                continue
            if (
                answer.plan < len(decision.first)
                and decision.first[answer.plan].form is admission.TOUCH_QUOTA
            ):
                moved += 1  # others were admitted meanwhile: that is no reason to give up
                tries -= moved < MAX_MOVED
            tries += 1
            await self._pause(tries, moved)

    async def by_holder(
        self,
        fields: HandleFields,
        act: Commit,
        outcome: str | None = None,
        *,
        marks: bool = True,
        lost: TransportError | None = None,
    ) -> Any:
        """A call of a lease holder: commit under the fence at once; only a refusal is looked into, or a lost answer.

        What ends an execution is known by its outcome, so it is sent again and, had it gone through, found to be done. What
        has none is not: the caller is told of the doubt. So he is when something else is found, for it may have come later.
        """
        tries = 0
        while True:
            try:
                answer = await self.store.commit(act.plan)
                if isinstance(answer, Applied):
                    return _result(act, answer)
            except TransportError as error:
                if not error.doubtful and lost is not None:
                    raise lost from error
                if not error.doubtful or outcome is None:
                    raise
                lost = error
            try:
                snapshot = await self.snapshot(
                    fields.execution_id, attempt_index=fields.attempt_index
                )
                why = attempts.explain_refusal(snapshot, fields, outcome, marks=marks)
                if isinstance(why, Return):
                    return why.result
                if why is not None:
                    await self._refuse(why)
                tries += 1
                await self._pause(tries)
            except EngineError as error:
                if lost is None:
                    raise
                raise lost from error

    def _inside(self, connection: Any) -> Self:
        """This engine in the transaction of a user's own connection."""
        bound = copy.copy(self)
        bound.store = self.store.inside(connection)
        return bound

    async def _refuse(self, refusal: Reject) -> None:
        if refusal.mark is not None:
            await self.store.commit(refusal.mark)
        raise refusal.error

    async def _pause(self, tries: int, moved: int = 0) -> None:
        if tries >= MAX_TRIES:
            raise Contention(ContentionKind.RETRY_EXHAUSTED)
        await asyncio.sleep(
            FIRST_PAUSE_S * (2 ** (tries - 1) if tries else min(moved, 4) * self._random.random())
        )

    # ---- handles

    def handle(
        self, fields: HandleFields, kind: HandleKind, *, retry_count: int, policy: str | None
    ) -> Handle:
        """A handle for a lease just granted; what its epoch froze is kept at hand."""
        opaque = encode_handle(fields)
        if len(self._facts) >= MAX_FACTS:
            del self._facts[next(iter(self._facts))]
        self._facts[opaque] = LeaseFacts(fields, retry_count, policy)
        return Handle(self._label, kind, opaque)

    def facts(self, handle: Handle) -> LeaseFacts | None:
        return (
            self._facts.get(handle.opaque)
            if type(handle) is Handle and handle.backend == self._label
            else None
        )

    def fields(self, handle: Handle) -> HandleFields:
        known = self.facts(handle)
        if known is not None:
            return known.fields
        fields = decode_handle(handle, self.store.tag)
        if fields.lease_epoch > MAX_EPOCH:
            raise Contention(ContentionKind.LEASE_CONFLICT)  # no store ever granted it
        return fields

    def forget(self, handle: Handle) -> bool:
        """The lease is over. Whether its execution may have children: where that is not known, it may."""
        known = self._facts.pop(handle.opaque, None)
        return known is None or known.may_have_children

    def _concerns_others(self, handle: Handle, over: object) -> bool:
        return self.forget(handle) or not isinstance(over, EndedRow) or over.flow_id is not None

    def _forget_facts(self, ident: ExecutionId) -> None:
        """What is kept at hand about its lease says too little of it from now on: it gets children, or is held back."""
        for opaque in [
            opaque for opaque, known in self._facts.items() if known.fields.execution_id == ident
        ]:
            del self._facts[opaque]

    async def _ended(
        self, handle: Handle, fields: HandleFields, over: object, *, settle: bool = True
    ) -> None:
        """The holder ended the execution: those that wait for it hear of it before the holder does, unless told otherwise.

        `over` is what was answered: no `Over` where the end was found to be done already.
        """
        if not self._concerns_others(handle, over):
            return
        hearing = self._cascade.ended((fields.execution_id,))
        if settle or self._cascade.is_behind:
            await hearing


def _first(kind: Any, rows: list[Row]) -> Any:
    return kind(*rows[0]) if rows else None


def _result(act: Commit, answer: Applied) -> Any:
    return act.result(answer) if callable(act.result) else act.result
