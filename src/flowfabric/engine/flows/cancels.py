"""Cancelling flows: the operator's call, the header that remembers who is owed, and the siblings of a group that has fired."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast
from uuid import UUID

from flowfabric.engine import validation
from flowfabric.engine.core import CORE_COLUMNS, from_core_row
from flowfabric.engine.flows.cascade import MEMBER_COLUMNS
from flowfabric.engine.flows.dependencies import Dependencies
from flowfabric.errors import (
    EngineError,
    NotFound,
    TimedOut,
    ValidationError,
    ValidationKind,
    invalid,
)
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, execution_id, partition_of
from flowfabric.model.event import ScannerFilter
from flowfabric.model.flow import (
    LONGEST_CANCEL_WAIT_MS,
    CancelFlowArgs,
    CancelFlowPolicy,
    EdgeGroup,
    Flow,
    FlowAlreadyTerminal,
    FlowCancelled,
    PartiallyCancelled,
    Reconciled,
    WaitTimeout,
)
from flowfabric.model.flow_links import Member
from flowfabric.plan import Applied
from flowfabric.rules.decision import Return
from flowfabric.rules.flows import cancels
from flowfabric.rules.flows.cancels import CancelSnapshot, FlowCancel, pending_siblings
from flowfabric.rules.flows.flow_fields import fields_of
from flowfabric.store.port import Get, GetAll, Row, Scan

log = logging.getLogger("flowfabric.flows")

MAX_TOGETHER = 1_000
MAX_GROUPS = 50
MAX_FLOWS = 50
MAX_OWED = 500
POLL_S = 0.1


Ended = tuple[list[ExecutionId], list[ExecutionId]]
"""Members that were cancelled, and members that could not be."""


class FlowCancels(Dependencies):
    async def cancel_flow(
        self,
        flow_id: UUID,
        policy: CancelFlowPolicy | str = CancelFlowPolicy.CANCEL_ALL,
        wait: WaitTimeout | None = None,
    ) -> FlowCancelled | PartiallyCancelled:
        """Cancels a flow and, as the policy says, its members. Doing it again sweeps up what has come since."""
        ident = validation.flow_id(flow_id)
        word = str(validation.text(policy, "policy", 256))
        said = CancelFlowPolicy.FLOW_ONLY.value if word == "flow_only" else word
        if wait is not None and not isinstance(wait, WaitTimeout):
            raise invalid("wait", "None or a WaitTimeout", wait)
        if wait is not None:
            validation.timestamp(wait.timeout_ms, "timeout_ms")
        flow = await self._flow(ident)
        if flow is None:
            return FlowCancelled(said, [])
        async with self._turns.of(ident):
            ended = await self._cancel(
                ident, lambda around: cancels.cancel_flow(around, said), said
            )
        done, failed = ended or ([], [])
        if said == CancelFlowPolicy.CANCEL_PENDING:
            await self._queue_waiting_groups(flow)
        if done:
            await self._cascade.ended(done)
        if wait is not None:
            await self._wait_cancelled(ident, wait.timeout_ms)
        return _answer(said, done, failed)

    async def cancel_flow_header(
        self, args: CancelFlowArgs
    ) -> FlowCancelled | PartiallyCancelled | FlowAlreadyTerminal:
        """Cancels a flow as an operator's request, with its reason, and remembers which members are owed an answer."""
        ident = validation.flow_id(args.flow_id)
        validation.text(args.reason, "reason")
        policy = validation.text(args.cancellation_policy, "cancellation_policy", 256)
        validation.optional_timestamp(args.now, "now")
        async with self._turns.of(ident):
            if await self._flow(ident) is None:
                raise NotFound("flow")
            ended = await self._cancel(
                ident, lambda around: cancels.cancel_flow_header(around, args), policy
            )
        if ended is None:
            flow = await self._flow(ident)
            assert flow is not None
            return cancels.already_terminal(flow, await self._owed(flow))
        done, failed = ended
        if done:
            await self._cascade.ended(done)
        return _answer(policy, done, failed)

    async def _cancel(
        self, ident: UUID, rule: Callable[[CancelSnapshot], FlowCancel | None], policy: str
    ) -> Ended | None:
        """The flow and its members in one transaction; None when the rule finds nothing to do any more.

        Where members keep moving, are very many, or one of them cannot be cancelled, the flow goes first with a note of who is
        owed, and each member as it is found.
        """
        tries = 0
        while True:
            around = await self._cancelling(ident)
            plan = rule(around)
            if plan is None:
                return None
            plans = [
                cancel for _, cancel in sorted(plan.members, key=lambda pair: pair[1].form.name)
            ]
            few = len(plans) <= MAX_TOGETHER and tries < 2
            try:
                answer = await self.store.commit_together(
                    [*plan.head, *plans] if few else plan.owing
                )
            except Exception as error:
                if not few or not plans or _passes(error):
                    raise
                log.warning(
                    "flow %s cannot be cancelled with its members in one transaction; one by one",
                    ident,
                    exc_info=True,
                )
                tries = 2
                continue
            if isinstance(answer, Applied) and few:
                return [member.id for member, _ in plan.members], []
            if isinstance(answer, Applied):
                return await self._cancel_one_by_one(around.flow, plan, policy)
            tries += 1
            if tries >= 2:
                await self._pause(tries - 1)

    async def _cancel_one_by_one(self, flow: Flow, plan: FlowCancel, policy: str) -> Ended:
        """Members that could not be settled stay owed."""
        members = [member.id for member, _ in plan.members]
        done: list[ExecutionId] = []
        failed: list[ExecutionId] = []
        for at in range(0, len(members), MAX_OWED):
            some = members[at : at + MAX_OWED]
            cancelled, left = await self._cascade.cancel_members(
                flow.partition_key,
                [member.uuid for member in some],
                plan.reason,
                plan.by,
                told=plan.told,
                policy=policy,
            )
            done += cancelled
            failed += [member for member in some if member.uuid in left]
            kept = (
                set() if plan.told else set(cancelled)
            )  # whom a header cancelled is for its caller to acknowledge
            settled = [member for member in some if member.uuid not in left and member not in kept]
            await self.store.commit_many(
                [cancels.ack(flow.flow_id, member)[0] for member in settled]
            )
        await self.store.commit(cancels.forget_backlog(flow.partition_key, flow.flow_id))
        return done, failed

    async def _cancelling(self, ident: UUID) -> CancelSnapshot:
        flow = await self._flow(ident)
        assert flow is not None
        owner = {"partition_key": flow.partition_key, "flow_id": flow.flow_id}
        rows = await self._all("members", owner, lambda row: (row[1],), CORE_COLUMNS)
        owed = await self._all("cancel_backlog_members", owner, lambda row: (row[2],))
        return CancelSnapshot(
            await self.store.now_ms(),
            flow,
            [from_core_row(row) for row in rows],
            frozenset(row[2] for row in owed),
        )

    async def _queue_waiting_groups(self, flow: Flow) -> None:
        owner = {"partition_key": flow.partition_key, "flow_id": flow.flow_id}
        groups = [
            EdgeGroup(*row)
            for row in await self._all("groups_of_flow", owner, lambda row: (row[2],))
        ]
        now = await self.store.now_ms()
        plans = [cancels.enter_queue(group, now) for group in groups if group.running_count > 0]
        if plans:
            await self.store.commit_many(plans)

    async def _wait_cancelled(self, ident: UUID, timeout_ms: int) -> None:
        clock = asyncio.get_running_loop().time
        until = clock() + min(timeout_ms, LONGEST_CANCEL_WAIT_MS) / 1000
        while True:
            flow = await self._flow(ident)
            if flow is None or flow.public_flow_state == "cancelled":
                return
            if clock() >= until:
                raise TimedOut(
                    "cancel_flow",
                    f"not cancelled within {min(timeout_ms, LONGEST_CANCEL_WAIT_MS)} ms",
                )
            await asyncio.sleep(POLL_S)

    async def _owed(self, flow: Flow) -> list[ExecutionId]:
        """Members owed a cancel; where none were noted, all there are."""
        owner = {"partition_key": flow.partition_key, "flow_id": flow.flow_id}
        rows = await self._all("cancel_backlog_members", owner, lambda row: (row[2],))
        if rows:
            return [ExecutionId(row[2]) for row in rows]
        return [member.id for member in await self.flow_members(flow.flow_id)]

    async def ack_cancel_member(self, flow_id: UUID, execution: ExecutionId) -> None:
        """A member that was owed a cancel has had it. Again is fine."""
        await self.store.commit_many(
            cancels.ack(validation.flow_id(flow_id), execution_id(execution))
        )

    # ---- the backlog

    async def reconcile_cancel_backlog(
        self, limit: int = MAX_FLOWS, wanted: ScannerFilter | None = None
    ) -> int:
        """Finishes cancels that somebody began; how many members were seen to."""
        now = await self.store.now_ms()
        size = validation.limit(limit, MAX_FLOWS)
        reads = (
            Scan("cancel_backlog", upto=now, limit=size),
            Scan("cancel_backlog_since", upto=now - cancels.GRACE_MS, limit=size),
        )
        found = (await self.store.load(reads)).rows
        done = 0
        for row in (await self._wanted([*found[0], *found[1]], wanted))[:size]:
            try:
                done += await self._finish_cancels(
                    row[0], row[1], row[4] or "flow_cancelled", row[6]
                )
            except EngineError:
                log.exception("owed cancels of flow %s have to wait", row[1])
        return done

    async def _wanted(self, rows: list[Row], wanted: ScannerFilter | None) -> list[Row]:
        """Rows, beginning with a flow's key, of the flows a scanner was told to work on. A flow carries no instance tag."""
        if wanted is None or wanted.empty or not rows:
            return rows
        keys = list(dict.fromkeys(row[:2] for row in rows))
        known = {
            flow[:2]: Flow(*flow)
            for flow in (await self.store.load((GetAll("ff_flow_core", keys),))).rows[0]
        }
        spaces = {key: fields_of(flow).get("namespace", "default") for key, flow in known.items()}
        return [
            row
            for row in rows
            if wanted.instance_tag is None and spaces.get(row[:2]) == wanted.namespace
        ]

    async def _finish_cancels(self, partition: int, flow_id: UUID, reason: str, policy: str) -> int:
        """Those the policy is still about are cancelled; all but those who could not be settled have had what they were owed."""
        owner = {"partition_key": partition, "flow_id": flow_id}
        loaded = await self.store.load(
            (
                Scan("cancel_backlog_members", owner, limit=MAX_OWED),
                Get("ff_flow_core", (partition, flow_id)),
            )
        )
        members = [ExecutionId(row[2]) for row in loaded.rows[0]]
        left: set[UUID] = set()
        if loaded.rows[1] and members:
            owed = [member.uuid for member in members]
            cancelled, left = await self._cascade.cancel_members(
                partition, owed, reason, policy=policy
            )
            if cancelled:
                await self._cascade.ended(cancelled)
            if left:
                log.warning(
                    "%d members of flow %s could not be cancelled; they stay owed",
                    len(left),
                    flow_id,
                )
        await self.store.commit_many(
            [cancels.ack(flow_id, m)[0] for m in members if m.uuid not in left]
        )
        await self.store.commit(cancels.forget_backlog(partition, flow_id))
        return len(members)

    # ---- siblings

    async def dispatch_sibling_cancels(
        self, limit: int = MAX_GROUPS, wanted: ScannerFilter | None = None
    ) -> dict[str, int]:
        """Groups that have fired cancel whom they listed; how many groups met which fate."""
        fates = dict.fromkeys(("orphaned", "skipped_for_reconciler", "dispatched"), 0)
        for partition, flow, downstream in await self._queue(limit, wanted):
            try:
                fates[await self._dispatch(partition, flow, downstream)] += 1
            except EngineError:
                log.exception("siblings upstream of %s have to wait", downstream)
        return fates

    async def _queue(self, limit: int, wanted: ScannerFilter | None) -> list[Row]:
        rows = (
            await self.store.load(
                (Scan("cancel_groups", limit=validation.limit(limit, MAX_GROUPS)),)
            )
        ).rows[0]
        return [row[:3] for row in await self._wanted(rows, wanted)]

    async def _dispatch(self, partition: int, flow: UUID, downstream: UUID) -> str:
        rows = (await self.store.load((Get("ff_edge_group", (partition, flow, downstream)),))).rows[
            0
        ]
        if not rows:
            await self.store.commit(cancels.leave_queue(partition, flow, downstream))
            return "orphaned"
        group = EdgeGroup(*rows[0])
        if not group.cancel_siblings_pending_flag:
            return "skipped_for_reconciler"
        cancelled = await self._cascade.cancel_siblings(group)
        if cancelled:
            await self._cascade.ended(cancelled)
        return "dispatched"

    async def drain_sibling_cancel_group(self, flow_id: UUID, downstream: UUID) -> str:
        """Takes a group off the queue of those whose siblings are to be cancelled."""
        key, queued, group = await self._queued(flow_id, downstream)
        if not queued:
            return "already_drained"
        if group is None:
            await self.store.commit(cancels.leave_queue(*key))
            return "drained_sans_group"
        await self.settle(
            lambda: self._queued(flow_id, downstream), lambda found: cancels.drain_if_read(found[2])
        )
        return "drained"

    async def reconcile_sibling_cancel_group(self, flow_id: UUID, downstream: UUID) -> Reconciled:
        """Tidies what a dispatcher left behind; never cancels anything."""
        key, queued, group = await self._queued(flow_id, downstream)
        running = group is not None and await self._any_running(group)
        decision = cancels.reconcile(queued, group, running, cancels.group_key(*key))
        if not isinstance(decision, Return):
            await self.store.commit(decision.plan)
        result = cast(Reconciled, decision.result)
        self.onlooker.siblings_reconciled(result.action)
        return result

    async def reconcile_sibling_cancels(
        self, limit: int = MAX_GROUPS, wanted: ScannerFilter | None = None
    ) -> int:
        """A pass over the queue; how many groups were taken off it."""
        done = 0
        for _, flow, downstream in await self._queue(limit, wanted):
            try:
                done += (
                    await self.reconcile_sibling_cancel_group(flow, downstream)
                ).action != "no_op"
            except EngineError:
                log.exception("the queued group of %s has to wait", downstream)
        return done

    async def _queued(
        self, flow_id: UUID, downstream: UUID
    ) -> tuple[tuple[int, UUID, UUID], bool, EdgeGroup | None]:
        if not flow_id or not downstream:
            raise ValidationError(
                ValidationKind.INVALID_INPUT, "flow_id and downstream_eid required"
            )
        ident, down = validation.flow_id(flow_id), validation.flow_id(downstream, "downstream_eid")
        flow = await self._flow(ident)
        key = (
            partition_of(ident, FLOW_PARTITIONS) if flow is None else flow.partition_key,
            ident,
            down,
        )
        queued, groups = (
            await self.store.load((Get("ff_pending_cancel_groups", key), Get("ff_edge_group", key)))
        ).rows
        return key, bool(queued), EdgeGroup(*groups[0]) if groups else None

    async def _any_running(self, group: EdgeGroup) -> bool:
        keys = [(group.partition_key, uid) for uid in pending_siblings(group)]
        rows = (await self.store.load((GetAll("ff_exec_core", keys, MEMBER_COLUMNS),))).rows[0]
        return any(not Member(*row).is_ended for row in rows)


def _answer(
    policy: str, done: list[ExecutionId], failed: list[ExecutionId]
) -> FlowCancelled | PartiallyCancelled:
    return PartiallyCancelled(policy, done, failed) if failed else FlowCancelled(policy, done)


def _passes(error: Exception) -> bool:
    """Whether it is about the store of the moment, and not about one of the members."""
    return isinstance(error, EngineError) and (error.retryable or isinstance(error, TimedOut))
