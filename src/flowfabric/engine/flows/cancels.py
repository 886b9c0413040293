"""Cancels of flows, and the backlog of members whose cancel is pending."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import starmap
from uuid import UUID

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.flows.snapshots import (
    MAX_PAGE,
    PHASE_COLUMNS,
    Backlog,
    BacklogMember,
    FlowKey,
    MemberPhase,
    load_backlog_members,
    load_flow,
    load_groups,
    load_pages,
    of_wanted_flows,
    owner_of,
    pages,
)
from flowfabric.engine.snapshots import CORE_COLUMNS, from_core_row
from flowfabric.errors import (
    EngineError,
    NotFound,
    TimedOut,
    invalid,
)
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model.event import ScannerFilter
from flowfabric.model.flow import (
    LONGEST_CANCEL_WAIT_MS,
    CancelFlowArgs,
    CancelFlowPolicy,
    Flow,
    FlowAlreadyTerminal,
    FlowCancelled,
    PartiallyCancelled,
    WaitTimeout,
)
from flowfabric.plan import Applied
from flowfabric.rules.flows import cancels
from flowfabric.rules.flows.cancels import CancelSnapshot, FlowCancel
from flowfabric.store.port import Get, GetAll, Scan

log = logging.getLogger("flowfabric.flows")

MAX_TOGETHER = 1_000
MAX_TRIES_TOGETHER = 2
MAX_FLOWS = 50
MAX_PENDING = 500
POLL_S = 0.1

CancelledMembers = tuple[list[ExecutionId], list[ExecutionId]]
"""Members that were cancelled, and members that could not be."""


class FlowCancels:
    """Cancels flows and their members."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def cancel_flow(
        self,
        flow_id: UUID,
        policy: CancelFlowPolicy | str = CancelFlowPolicy.CANCEL_ALL,
        wait: WaitTimeout | None = None,
        reason: str = "",
    ) -> FlowCancelled | PartiallyCancelled:
        """Cancels a flow and the members that the policy selects.

        A second call cancels members added since. The reason is recorded with the flow and with
        the members; the first one that is given stays.
        """
        ident = validation.flow_id(flow_id)
        word = str(validation.text(policy, "policy", 256))
        wanted = CancelFlowPolicy.FLOW_ONLY.value if word == "flow_only" else word
        if wait is not None:
            if not isinstance(wait, WaitTimeout):
                raise invalid("wait", "None or a WaitTimeout", wait)
            validation.timestamp(wait.timeout_ms, "timeout_ms")
        validation.text(reason, "reason")
        flow = await load_flow(self._store, ident)
        if flow is None:
            return FlowCancelled(wanted, [])
        async with self._core.locks.of(ident):
            ended = await self.cancel_by_rule(
                ident, lambda snapshot: cancels.cancel_flow(snapshot, wanted, reason=reason), wanted
            )
        if wanted == CancelFlowPolicy.CANCEL_PENDING:
            await self._queue_waiting_groups(flow)
        if wait is not None:
            await self._wait_cancelled(ident, min(wait.timeout_ms, LONGEST_CANCEL_WAIT_MS))
        return _answer(wanted, ended or ([], []))

    async def cancel_flow_header(
        self, args: CancelFlowArgs
    ) -> FlowCancelled | PartiallyCancelled | FlowAlreadyTerminal:
        """Cancels a flow on an operator's request, with a reason.

        Members wait for an acknowledgement of their cancel.
        """
        ident = validation.flow_id(args.flow_id)
        validation.text(args.reason, "reason")
        policy = validation.text(args.cancellation_policy, "cancellation_policy", 256)
        validation.optional_timestamp(args.now, "now")
        async with self._core.locks.of(ident):
            if await load_flow(self._store, ident) is None:
                raise NotFound("flow")
            ended = await self.cancel_by_rule(
                ident, lambda snapshot: cancels.cancel_flow_header(snapshot, args), policy
            )
        if ended is not None:
            return _answer(policy, ended)
        flow = await load_flow(self._store, ident)
        assert flow is not None
        return cancels.already_terminal(flow, await self._pending_members(flow))

    async def cancel_by_rule(
        self,
        ident: UUID,
        rule: Callable[[CancelSnapshot], FlowCancel | None],
        policy: str,
        by: ExecutionId | None = None,
    ) -> CancelledMembers | None:
        """Cancels the flow and its members in one transaction. None when there is nothing to do.

        When members keep changing, are too many, or one of them cannot be cancelled, the first
        transaction cancels the flow and stores a backlog, and its members are cancelled in pages
        after that. The rule always gets the member `by`.
        """
        tries = 0
        while True:
            snapshot = await self._cancelling(ident, by)
            plan = rule(snapshot)
            if plan is None:
                return None
            members = sorted(plan.members, key=lambda pair: pair[1].form.name)
            is_large = (
                snapshot.others and cancels.wanted_policy(policy) != CancelFlowPolicy.FLOW_ONLY
            )
            together = not is_large and tries < MAX_TRIES_TOGETHER
            plans = [*plan.head, *(cancel for _, cancel in members)] if together else plan.owing
            try:
                answer = await self._core.commit_together(plans)
            except Exception as error:
                if not together or not members or _is_temporary(error):
                    raise
                log.warning(
                    "flow is cancelled in pages, because one transaction failed",
                    extra={"flow": str(ident), "members": len(members)},
                    exc_info=True,
                )
                tries = MAX_TRIES_TOGETHER
                continue
            if isinstance(answer, Applied):
                if together:
                    return [member.id for member, _ in plan.members], []
                at = snapshot.flow.partition_key
                return await self._cancel_in_pages(
                    (at, ident), policy, plan.reason, plan.by, told=plan.told, owes=not plan.told
                )
            tries += 1
            if tries >= MAX_TRIES_TOGETHER:
                await self._core.pause(tries - 1)

    async def _cancel_in_pages(
        self,
        flow: FlowKey,
        policy: str,
        reason: str,
        by: str = "operator_override",
        *,
        told: bool = False,
        owes: bool = False,
    ) -> CancelledMembers:
        """Members that could not be cancelled stay in the backlog.

        With `owes`, the cancelled ones do as well, until they are acknowledged. The cascade starts
        behind the last page: members that depend on others are cancelled, too, and not skipped.
        """
        partition, flow_id = flow
        done: list[ExecutionId] = []
        failed: list[ExecutionId] = []
        owner = {"partition_key": partition, "flow_id": flow_id}
        scan = Scan("members", owner, limit=MAX_PENDING, columns=PHASE_COLUMNS)
        async for page in pages(self._store, scan, MemberPhase, _member_position):
            alive = [member.execution_id for member in page if not member.is_ended]
            if not alive:
                continue
            cancelled, left = await self._core.cascade.members.cancel(
                partition, alive, reason, by, always_revoked=told, policy=policy
            )
            unfinished = [ExecutionId.of(partition, uid) for uid in left]
            done += cancelled
            failed += unfinished
            pending = [*unfinished, *cancelled] if owes else unfinished
            if pending:
                await self._store.commit_many(cancels.add_backlog_members(flow_id, pending))
        await self._store.commit_many(cancels.leave_pages(partition, flow_id))
        for at in range(0, len(done), MAX_PENDING):  # in parts: other flows get their turn
            await self._core.cascade.ended(done[at : at + MAX_PENDING])
        return done, failed

    async def _remove_from_backlog(self, flow_id: UUID, members: Sequence[ExecutionId]) -> None:
        plans = [row for row, _ in (cancels.ack(flow_id, member) for member in members)]
        await self._store.commit_many(plans)

    async def _cancelling(self, ident: UUID, by: ExecutionId | None) -> CancelSnapshot:
        """The members that have not ended. Of a large flow they are only counted."""
        flow = await load_flow(self._store, ident)
        assert flow is not None
        counts: Counter[str] = Counter()
        alive: list[UUID] = []
        scan = Scan("members", owner_of(flow), limit=MAX_PAGE, columns=PHASE_COLUMNS)
        async for page in pages(self._store, scan, MemberPhase, _member_position):
            living = [member for member in page if not member.is_ended]
            counts.update(member.lifecycle_phase for member in living)
            room = max(MAX_TOGETHER - len(alive), 0)
            alive += [member.execution_id for member in living[:room]]
        is_large = counts.total() > MAX_TOGETHER
        wanted = ([] if by is None else [by.uuid]) if is_large else alive
        keys = [(flow.partition_key, uid) for uid in wanted]
        loaded = await self._store.load((GetAll("ff_exec_core", keys, CORE_COLUMNS),))
        members = [from_core_row(row) for row in loaded.rows[0]]
        if is_large:
            counts.subtract(member.lifecycle_phase for member in members)
        return CancelSnapshot(loaded.now_ms, flow, members, counts if is_large else {})

    async def _queue_waiting_groups(self, flow: Flow) -> None:
        groups = await load_groups(self._store, flow)
        now = await self._store.now_ms()
        plans = [cancels.enter_queue(group, now) for group in groups if group.running_count > 0]
        if plans:
            await self._store.commit_many(plans)

    async def _wait_cancelled(self, ident: UUID, timeout_ms: int) -> None:
        clock = asyncio.get_running_loop().time
        until = clock() + timeout_ms / 1000
        while True:
            flow = await load_flow(self._store, ident)
            if flow is None or flow.public_flow_state == "cancelled":
                return
            if clock() >= until:
                raise TimedOut("cancel_flow", f"not cancelled within {timeout_ms} ms")
            await asyncio.sleep(POLL_S)

    async def _pending_members(self, flow: Flow) -> list[ExecutionId]:
        """Members in the backlog; without a backlog, all members."""
        pending = await load_backlog_members(self._store, flow)
        if pending:
            return [ExecutionId(member.execution_id) for member in pending]
        scan = Scan("members", owner_of(flow), limit=MAX_PAGE, columns=PHASE_COLUMNS)
        members = await load_pages(self._store, scan, MemberPhase, _member_position)
        return [ExecutionId.of(flow.partition_key, member.execution_id) for member in members]

    async def ack_cancel_member(self, flow_id: UUID, execution: ExecutionId) -> None:
        """Removes a member from the backlog of its flow. It may be called again."""
        await self._store.commit_many(
            cancels.ack(validation.flow_id(flow_id), execution_id(execution))
        )

    # ---- the backlog

    async def reconcile_cancel_backlog(
        self, limit: int = MAX_FLOWS, wanted: ScannerFilter | None = None
    ) -> int:
        """Finishes cancels that were interrupted. Returns the number of members handled."""
        now = await self._store.now_ms()
        size = validation.limit(limit, MAX_FLOWS)
        columns = Backlog.__struct_fields__
        reads = (
            Scan("cancel_backlog", upto=now, limit=size, columns=columns),
            Scan("cancel_backlog_since", upto=now - cancels.GRACE_MS, limit=size, columns=columns),
        )
        due, overdue = (await self._store.load(reads)).rows
        backlogs = await of_wanted_flows(
            self._store, list(starmap(Backlog, (*due, *overdue))), wanted
        )
        done = 0
        for backlog in backlogs[:size]:
            try:
                done += await self._finish_cancels(backlog)
            except EngineError:
                log.exception(
                    "cancels of a flow could not be finished; the next pass tries again",
                    extra={"flow": str(backlog.flow_id)},
                )
        return done

    async def _finish_cancels(self, backlog: Backlog) -> int:
        """Cancels the members that the policy selects; those that kept changing stay pending."""
        partition, flow_id = backlog.partition_key, backlog.flow_id
        reason = backlog.reason or "flow_cancelled"
        if backlog.status == "listing":
            key, policy = (partition, flow_id), backlog.cancellation_policy
            done, failed = await self._cancel_in_pages(key, policy, reason)
            return len(done) + len(failed)
        owner = {"partition_key": partition, "flow_id": flow_id}
        reads = (
            Scan("cancel_backlog_members", owner, limit=MAX_PENDING),
            Get("ff_flow_core", (partition, flow_id)),
        )
        rows, flow = (await self._store.load(reads)).rows
        members = [ExecutionId(row.execution_id) for row in starmap(BacklogMember, rows)]
        left: set[UUID] = set()
        if flow and members:
            left = await self._core.cascade.end_members(
                partition,
                [member.uuid for member in members],
                reason,
                backlog.cancellation_policy,
            )
            if left:
                log.warning(
                    "members of a flow could not be cancelled and stay in its backlog",
                    extra={"flow": str(flow_id), "members": len(left)},
                )
        settled = [member for member in members if member.uuid not in left]
        await self._remove_from_backlog(flow_id, settled)
        await self._store.commit(cancels.forget_backlog(partition, flow_id))
        return len(members)


def _member_position(member: MemberPhase) -> tuple[UUID]:
    return (member.execution_id,)


def _answer(policy: str, ended: CancelledMembers) -> FlowCancelled | PartiallyCancelled:
    cancelled, failed = ended
    if failed:
        return PartiallyCancelled(policy, cancelled, failed)
    return FlowCancelled(policy, cancelled)


def _is_temporary(error: Exception) -> bool:
    """Whether the error comes from the state of the store, and not from one of the members."""
    return isinstance(error, EngineError) and (error.retryable or isinstance(error, TimedOut))
