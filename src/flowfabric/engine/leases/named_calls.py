"""Calls of lease holders that name the lease instead of passing a handle."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.telemetry import report_failure
from flowfabric.errors import StateError, StateKind
from flowfabric.ids import execution_id, name
from flowfabric.model import lease as model
from flowfabric.model.attempt import (
    Delayed,
    FailOutcome,
    FailureClass,
)
from flowfabric.model.execution import Execution
from flowfabric.model.policy import parse_retry_policy
from flowfabric.plan import Applied
from flowfabric.rules import retries
from flowfabric.rules.decision import Commit, Decided, Decision, Reject, Return, Snapshot
from flowfabric.rules.fence import check_fence
from flowfabric.rules.leases import attempts, renewal
from flowfabric.rules.leases.acquisition import policy_text

R = TypeVar("R")


class NamedCalls:
    """Checks the named fence, then decides as calls with a handle do."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def renew_lease(self, args: model.RenewLeaseArgs) -> model.Renewed:
        validation.ttl_ms(args.lease_ttl_ms)
        ident = execution_id(args.execution_id)

        def renewed(applied: Applied) -> model.Renewed:
            expires_at_ms, _ = applied.row
            return model.Renewed(expires_at_ms)

        def rule(snapshot: Snapshot) -> Decided[model.Renewed]:
            refused = check_fence(snapshot, args.fence, args.attempt_index, None)
            if refused is not None:
                return refused
            assert snapshot.execution is not None
            plan = renewal.renew_for(
                attempts.holder(snapshot.execution, self._store.tag),
                args.lease_ttl_ms,
                event=self._core.settings.lease_events == "all",
            )
            return Commit(plan, renewed)

        return await self._core.decide(ident, rule)

    async def update_progress(self, args: model.UpdateProgressArgs) -> None:
        """Checks lifecycle, revocation and expiry first, then the named lease."""
        ident = execution_id(args.execution_id)
        if args.progress_pct is not None:
            validation.whole(args.progress_pct, "progress_pct", 0, 100)
        validation.optional_text(args.progress_message, "progress_message")

        def rule(snapshot: Snapshot) -> Decision:
            refused = check_fence(snapshot, None, 0, "operator_override")
            if refused is not None:
                return Reject(refused.error)
            stored = snapshot.execution
            assert stored is not None
            if (stored.current_lease_id, stored.lease_epoch) != (args.lease_id, args.lease_epoch):
                return Reject(StateError(StateKind.STALE_LEASE))
            if args.progress_pct is None and args.progress_message is None:
                return Return(None)
            fields = attempts.holder(stored, self._store.tag)
            return Commit(renewal.progress(fields, args.progress_pct, args.progress_message))

        await self._core.decide(ident, rule)

    async def complete_execution(self, args: model.CompleteExecutionArgs) -> model.Completed:
        result = args.result_payload
        if result is not None:
            result = validation.payload(result, "result_payload")
        validation.optional_text(args.result_encoding, "result_encoding", 64)

        def complete(fields: model.HandleFields, _: Execution) -> Commit[model.Completed]:
            plan = attempts.complete(fields, result, args.result_encoding)
            return Commit(plan, model.Completed(fields.execution_id))

        done, lane = await self._end(args, "success", complete)
        self._core.telemetry.listener.attempt_ended(lane, "ok", execution_id(args.execution_id))
        return done

    async def fail_execution(self, args: model.FailExecutionArgs) -> FailOutcome:
        """Retries by the policy given here; without one, the failure is final."""
        validation.text(args.failure_reason, "failure_reason", 65_536)
        validation.text(name(args.failure_category, "failure_category"), "failure_category")
        for field in ("retry_policy_json", "next_attempt_policy_json"):
            validation.text(getattr(args, field), field, validation.MAX_JSON_BYTES)
        policy = parse_retry_policy(args.retry_policy_json)
        roll = self._core.random.random()
        category = args.failure_category

        def fail(fields: model.HandleFields, execution: Execution) -> Commit[FailOutcome]:
            delay_ms = None
            if policy is not None:
                delay_ms = retries.next_delay(policy, category, execution.retry_count, roll)
            following = policy_text(args.next_attempt_policy_json)
            return attempts.fail(fields, args.failure_reason, category, delay_ms, following)

        outcome, lane = await self._end(args, "failed", fail)
        report_failure(
            self._core.telemetry.listener,
            lane,
            execution_id(args.execution_id),
            outcome,
            category,
            is_late=category == FailureClass.TIMEOUT,
        )
        return outcome

    async def delay_execution(self, args: model.DelayExecutionArgs) -> Delayed:
        validation.timestamp(args.delay_until, "delay_until")

        def delay(fields: model.HandleFields, _: Execution) -> Commit[Delayed]:
            return attempts.delay(fields, args.delay_until)

        delayed, _ = await self._end(args, None, delay)
        return delayed

    async def _end(
        self,
        args: model.EndArgs,
        outcome: str | None,
        act: Callable[[model.HandleFields, Execution], Commit[R]],
    ) -> tuple[R, str]:
        """The answer, and the lane of the execution."""
        lane = ""

        def rule(snapshot: Snapshot) -> Decided[R]:
            nonlocal lane
            decision = self._ending(snapshot, args, outcome)
            if not isinstance(decision, model.HandleFields):
                return decision
            assert snapshot.execution is not None
            lane = snapshot.execution.lane_id
            return act(decision, snapshot.execution)

        return await self._core.decide(execution_id(args.execution_id), rule), lane

    def _ending(
        self, snapshot: Snapshot, args: model.EndArgs, outcome: str | None
    ) -> model.HandleFields | Return | Reject:
        """The fields of the holder, the answer of a repeated call, or the refusal."""
        fence, stored = args.fence, snapshot.execution
        if fence is not None and stored is not None:
            shown = model.HandleFields(
                self._store.tag,
                stored.id,
                args.attempt_index,
                fence.attempt_id,
                fence.lease_id,
                fence.lease_epoch,
                0,
                "",
                "",
            )
            repeated = attempts.repeated(snapshot, shown, outcome)
            if repeated is not None:
                return repeated
        refused = check_fence(snapshot, fence, args.attempt_index, args.source)
        if refused is not None:
            return refused
        assert stored is not None
        return attempts.holder(stored, self._store.tag)
