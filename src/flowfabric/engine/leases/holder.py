"""What a lease holder calls, and the typed forms of the same for callers without a handle."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from flowfabric.engine import validation
from flowfabric.engine.claims.claims import claimer_of, granted_at
from flowfabric.engine.claims.grants import Grants
from flowfabric.engine.core import EndedRow
from flowfabric.errors import EngineError, StateError, StateKind, TransportError, invalid
from flowfabric.ids import ExecutionId, execution_id, name
from flowfabric.model.attempt import (
    Delayed,
    FailOutcome,
    FailureClass,
    FailureReason,
    TerminalFailed,
)
from flowfabric.model.lease import (
    ClaimPolicy,
    Completed,
    CompleteExecutionArgs,
    DelayExecutionArgs,
    EndArgs,
    FailExecutionArgs,
    Handle,
    HandleFields,
    LeaseRenewal,
    Renewed,
    RenewLeaseArgs,
    UpdateProgressArgs,
    Work,
)
from flowfabric.model.policy import MAX_DURATION_MS, parse_retry_policy, stored_policy
from flowfabric.plan import Applied, Plan
from flowfabric.rules import retries
from flowfabric.rules.decision import Commit, Decision, Reject, Return, Snapshot
from flowfabric.rules.fence import HELD_COLUMNS, check_fence, check_handle, is_held
from flowfabric.rules.leases import attempts, renewal
from flowfabric.rules.leases.acquisition import policy_text
from flowfabric.store.port import GetAll

log = logging.getLogger("flowfabric.engine")

MAX_COMPLETE_MANY = 1_000
MAX_CHECKED = 1_000


class _Completions(Struct):
    """Completions on their way: an answer for each asked for, and those that are sent, with their places."""

    answers: list[EngineError | None]
    at: list[int]
    held: list[tuple[Handle, HandleFields]]
    plans: list[Plan]


class Holder(Grants):
    async def renew(self, handle: Handle) -> LeaseRenewal:
        """Holds the lease for as long again as it was last granted for, whatever the handle says of that."""
        fields = self.fields(handle)
        validation.ttl_ms(fields.lease_ttl_ms, "handle.lease_ttl_ms")
        result: LeaseRenewal = await self.by_holder(
            fields, renewal.renew(fields, event=self.settings.renewal_events)
        )
        return result

    async def are_held(self, handles: Sequence[Handle]) -> list[bool]:
        """Which of these leases are still the current ones, without renewing them: one read for all."""
        if len(handles) > MAX_CHECKED:
            raise invalid("handles", f"at most {MAX_CHECKED} handles", len(handles))
        fields = [self.fields(handle) for handle in handles]
        keys = list(
            dict.fromkeys(
                (each.execution_id.partition_index, each.execution_id.uuid) for each in fields
            )
        )
        rows = (await self.store.load((GetAll("ff_exec_core", keys, HELD_COLUMNS),))).rows[0]
        found = {row[0]: tuple(row) for row in rows}
        return [is_held(found.get(each.execution_id.uuid), each) for each in fields]

    async def progress(
        self, handle: Handle, percent: int | None = None, message: str | None = None
    ) -> None:
        """Says how far the work is. What is None stays as it was."""
        fields = self.fields(handle)
        if percent is not None:
            validation.whole(percent, "percent", 0, 100)
        validation.optional_text(message, "message")
        if percent is not None or message is not None:
            await self.by_holder(
                fields, Commit(renewal.progress(fields, percent, message)), marks=False
            )
            return
        snapshot = await self.snapshot(fields.execution_id, attempt_index=fields.attempt_index)
        refused = check_handle(snapshot, fields, marks=False)
        if refused is not None:
            raise refused.error

    async def complete(
        self, handle: Handle, payload: bytes | None = None, *, settle: bool = True
    ) -> None:
        """Ends the execution with success. Sent again by the same lease, it answers the same.

        Members of its flow that wait for it hear of it before this returns; with settle=False, right afterwards.
        """
        fields = self.fields(handle)
        result = None if payload is None else validation.payload(payload, "payload")
        over = await self.by_holder(
            fields, Commit(attempts.complete(fields, result), EndedRow.of), "success"
        )
        await self._ended(handle, fields, over, settle=settle)

    async def complete_many(
        self, many: Sequence[tuple[Handle, bytes | None]]
    ) -> list[EngineError | None]:
        """Each as `complete` would answer it: None, or the error for that one."""
        ends = self._ends_of(many)
        done = await self.store.commit_many(ends.plans) if ends.plans else []
        return await self._settled(ends, done)

    async def complete_and_claim(
        self,
        many: Sequence[tuple[Handle, bytes | None]],
        lane: str,
        capabilities: Iterable[str],
        policy: ClaimPolicy,
        n: int,
    ) -> tuple[list[EngineError | None], list[Work]]:
        """Ends executions as `complete_many` does and takes up to n others in the same journey to the store.

        For a worker that has its hands full. It waits for nothing, and looks once: who gets nothing asks with `claim_many`.
        """
        claimer, ends = claimer_of(lane, capabilities, policy, n), self._ends_of(many)
        done, rows = await self._commit_and_claim(ends.plans, claimer)
        try:
            answers = await self._settled(ends, done)
            try:
                await self._looked_around(claimer, granted_at(rows, claimer))
            except (
                EngineError
            ) as error:  # a courtesy to the lane; what ended has ended, and its holder is told so
                log.warning("lane %s: it could not be looked at: %s", claimer.lane, error)
        except BaseException:
            await self._give_back(claimer, rows)
            raise
        return answers, await self._works(rows, policy)

    def _ends_of(self, many: Sequence[tuple[Handle, bytes | None]]) -> _Completions:
        validation.whole(len(many), "completions", 0, MAX_COMPLETE_MANY)
        ends = _Completions([None] * len(many), [], [], [])
        for at, (handle, payload) in enumerate(many):
            try:
                fields = self.fields(handle)
                result = None if payload is None else validation.payload(payload, "payload")
            except EngineError as error:
                ends.answers[at] = error
                continue
            ends.at.append(at)
            ends.held.append((handle, fields))
            ends.plans.append(attempts.complete(fields, result))
        return ends

    async def _settled(self, ends: _Completions, done: Sequence[Any]) -> list[EngineError | None]:
        """What was refused is looked into, and those that wait for what has ended hear of it."""
        ended: list[ExecutionId] = []
        for at, (handle, fields), plan, answer in zip(
            ends.at, ends.held, ends.plans, done, strict=True
        ):
            try:
                if isinstance(answer, Applied):
                    over: object = EndedRow.of(answer)
                else:
                    lost = (
                        answer if isinstance(answer, TransportError) and answer.doubtful else None
                    )
                    over = await self.by_holder(
                        fields, Commit(plan, EndedRow.of), "success", lost=lost
                    )
                if self._concerns_others(handle, over):
                    ended.append(fields.execution_id)
            except EngineError as error:
                ends.answers[at] = error
        if ended:
            await self._cascade.ended(ended)
        return ends.answers

    async def fail(
        self,
        handle: Handle,
        reason: FailureReason | str,
        failure_class: FailureClass = FailureClass.TRANSIENT,
        *,
        retry_after_ms: int | None = None,
    ) -> FailOutcome:
        """Ends the attempt; the class and the policy decide whether there is another, `retry_after_ms` when, if given."""
        fields = self.fields(handle)
        said = FailureReason(reason) if isinstance(reason, str) else reason
        if not isinstance(said, FailureReason):
            raise invalid("reason", "text or a FailureReason", reason)
        message = validation.text(said.message, "reason.message", 65_536)
        category = _category(said, failure_class)
        if retry_after_ms is not None:
            validation.whole(retry_after_ms, "retry_after_ms", 0, MAX_DURATION_MS)
        known = self.facts(handle)
        if known is None:
            snapshot = await self.snapshot(fields.execution_id, attempt_index=fields.attempt_index)
            why = attempts.explain_refusal(snapshot, fields, "failed")
            if isinstance(why, Return):
                repeated: FailOutcome = why.result
                return repeated
            if why is not None:
                await self._refuse(why)
            assert snapshot.execution is not None
            retry_count, policy = snapshot.execution.retry_count, snapshot.execution.policy
        else:
            retry_count, policy = known.retry_count, known.policy
        stored = stored_policy(policy, fields.execution_id)
        delay_ms = retries.delay_after(
            failure_class,
            category,
            stored.retry_policy if stored else None,
            self.settings.default_retry_policy,
            retry_count,
            self._random.random(),
            retry_after_ms,
        )
        act = attempts.fail(fields, message, category, delay_ms)
        if act.plan.form.ends:
            act = Commit(act.plan, EndedRow.of)
        outcome: FailOutcome | EndedRow = await self.by_holder(fields, act, "failed")
        if isinstance(outcome, EndedRow | TerminalFailed):
            await self._ended(handle, fields, outcome)
            return TerminalFailed()
        self.forget(handle)
        return outcome

    async def delay(self, handle: Handle, delay_until: int) -> None:
        """Parks the execution until a time; the same attempt goes on then."""
        fields = self.fields(handle)
        validation.timestamp(delay_until, "delay_until")
        await self.by_holder(fields, attempts.delay(fields, delay_until))
        self.forget(handle)

    async def cancel(self, handle: Handle, reason: str = "") -> None:
        """The holder gives its own execution up."""
        fields = self.fields(handle)
        validation.text(reason, "reason")
        over = await self.by_holder(
            fields, Commit(attempts.give_up(fields, reason), EndedRow.of), "cancelled"
        )
        await self._ended(handle, fields, over)

    # ---- without a handle

    async def renew_lease(self, args: RenewLeaseArgs) -> Renewed:
        validation.ttl_ms(args.lease_ttl_ms)
        ident = execution_id(args.execution_id)

        def rule(snapshot: Snapshot) -> Decision:
            refused = check_fence(snapshot, args.fence, args.attempt_index, None)
            if refused is not None:
                return refused
            assert snapshot.execution is not None
            plan = renewal.renew_for(
                attempts.holder(snapshot.execution, self.store.tag),
                args.lease_ttl_ms,
                event=self.settings.renewal_events,
            )
            return Commit(plan, lambda applied: Renewed(applied.row[0]))

        result: Renewed = await self.decide(ident, rule)
        return result

    async def update_progress(self, args: UpdateProgressArgs) -> None:
        """Lifecycle, revocation and expiry first, then the lease named here."""
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
            fields = attempts.holder(stored, self.store.tag)
            return Commit(renewal.progress(fields, args.progress_pct, args.progress_message))

        await self.decide(ident, rule)

    async def complete_execution(self, args: CompleteExecutionArgs) -> Completed:
        result = (
            None
            if args.result_payload is None
            else validation.payload(args.result_payload, "result_payload")
        )
        validation.optional_text(args.result_encoding, "result_encoding", 64)

        def act(fields: HandleFields) -> Commit:
            return Commit(
                attempts.complete(fields, result, args.result_encoding),
                Completed(fields.execution_id),
            )

        done: Completed = await self._end(args, "success", act)
        return done

    async def fail_execution(self, args: FailExecutionArgs) -> FailOutcome:
        """The policy is the one given here; without one, the failure is final."""
        validation.text(args.failure_reason, "failure_reason", 65_536)
        validation.text(name(args.failure_category, "failure_category"), "failure_category")
        for field in ("retry_policy_json", "next_attempt_policy_json"):
            validation.text(getattr(args, field), field, validation.MAX_JSON_BYTES)
        policy = parse_retry_policy(args.retry_policy_json)
        roll = self._random.random()

        def rule(snapshot: Snapshot) -> Decision:
            decision = self._ending(snapshot, args, "failed")
            if not isinstance(decision, HandleFields):
                return decision
            assert snapshot.execution is not None
            delay_ms = None
            if policy is not None:
                delay_ms = retries.next_delay(
                    policy, args.failure_category, snapshot.execution.retry_count, roll
                )
            following = policy_text(args.next_attempt_policy_json)
            return attempts.fail(
                decision, args.failure_reason, args.failure_category, delay_ms, following
            )

        result: FailOutcome = await self.decide(execution_id(args.execution_id), rule)
        return result

    async def delay_execution(self, args: DelayExecutionArgs) -> Delayed:
        validation.timestamp(args.delay_until, "delay_until")
        result: Delayed = await self._end(
            args, None, lambda fields: attempts.delay(fields, args.delay_until)
        )
        return result

    async def _end(self, args: EndArgs, outcome: str | None, act: Any) -> Any:
        def rule(snapshot: Snapshot) -> Decision:
            decision = self._ending(snapshot, args, outcome)
            return act(decision) if isinstance(decision, HandleFields) else decision

        return await self.decide(execution_id(args.execution_id), rule)

    def _ending(
        self, snapshot: Snapshot, args: EndArgs, outcome: str | None
    ) -> HandleFields | Return | Reject:
        """The holder's fields when the fence is right; the answer of a repeated call; or the refusal."""
        fence, stored = args.fence, snapshot.execution
        if fence is not None and stored is not None:
            shown = HandleFields(
                self.store.tag,
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
        return attempts.holder(stored, self.store.tag)


def _category(reason: FailureReason, failure_class: FailureClass) -> str:
    if not isinstance(failure_class, FailureClass):
        raise invalid("failure_class", "a FailureClass", failure_class)
    if not reason.detail:
        return failure_class.value
    if not isinstance(reason.detail, bytes) or len(reason.detail) > 256:
        raise invalid("reason.detail", "at most 256 bytes")
    try:
        return reason.detail.decode()
    except UnicodeDecodeError:
        return failure_class.value
