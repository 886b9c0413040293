"""What a lease holder calls, and the typed forms of the same for callers without a handle."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from flowfabric.engine import validation
from flowfabric.engine.claims.claimed_rows import claimed_at
from flowfabric.engine.claims.claimer import claimer_of
from flowfabric.engine.claims.claims import Claims
from flowfabric.engine.core import Core
from flowfabric.engine.leases.facts import LeaseCache
from flowfabric.engine.telemetry import report_failure
from flowfabric.errors import EngineError, TransportError, invalid
from flowfabric.model.attempt import (
    FailOutcome,
    FailureClass,
    FailureReason,
)
from flowfabric.model.lease import (
    ClaimPolicy,
    Handle,
    HandleFields,
    LeaseRenewal,
    Work,
)
from flowfabric.model.policy import MAX_DURATION_MS, stored_policy
from flowfabric.plan import Applied, Plan
from flowfabric.rules import retries
from flowfabric.rules.decision import Commit, Return
from flowfabric.rules.fence import HELD_COLUMNS, check_handle, is_held
from flowfabric.rules.leases import attempts, renewal
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


_OUTCOMES = {"success": "ok", "cancelled": "cancelled"}
"""Ends that are reported as such; failures are reported with their category."""


class Holder:
    """Operations of lease holders."""

    def __init__(self, core: Core, leases: LeaseCache, claims: Claims) -> None:
        self._core, self._store, self._leases, self._claims = core, core.store, leases, claims

    async def renew(self, handle: Handle) -> LeaseRenewal:
        """Holds the lease for as long again as it was last granted for, whatever the handle says of that."""
        fields = self._leases.fields(handle)
        validation.ttl_ms(fields.lease_ttl_ms, "handle.lease_ttl_ms")
        renew = renewal.renew(fields, event=self._core.settings.renewal_events)
        listener = self._core.telemetry.listener
        try:
            result: LeaseRenewal = await self._core.run_fenced(fields, renew)
        except BaseException:
            listener.lease_renewed("error")
            raise
        listener.lease_renewed("ok")
        return result

    async def are_held(self, handles: Sequence[Handle]) -> list[bool]:
        """Which of these leases are still the current ones, without renewing them: one read for all."""
        if len(handles) > MAX_CHECKED:
            raise invalid("handles", f"at most {MAX_CHECKED} handles", len(handles))
        fields = [self._leases.fields(handle) for handle in handles]
        keys = list(
            dict.fromkeys(
                (each.execution_id.partition_index, each.execution_id.uuid) for each in fields
            )
        )
        rows = (await self._store.load((GetAll("ff_exec_core", keys, HELD_COLUMNS),))).rows[0]
        found = {row[0]: tuple(row) for row in rows}
        return [is_held(found.get(each.execution_id.uuid), each) for each in fields]

    async def progress(
        self, handle: Handle, percent: int | None = None, message: str | None = None
    ) -> None:
        """Says how far the work is. What is None stays as it was."""
        fields = self._leases.fields(handle)
        if percent is not None:
            validation.whole(percent, "percent", 0, 100)
        validation.optional_text(message, "message")
        if percent is not None or message is not None:
            await self._core.run_fenced(
                fields, Commit(renewal.progress(fields, percent, message)), marks=False
            )
            return
        snapshot = await self._core.snapshots.load(
            fields.execution_id, attempt_index=fields.attempt_index
        )
        refused = check_handle(snapshot, fields, marks=False)
        if refused is not None:
            raise refused.error

    async def complete(
        self, handle: Handle, payload: bytes | None = None, *, settle: bool = True
    ) -> None:
        """Ends the execution with success. Sent again by the same lease, it answers the same.

        Members of its flow that wait for it hear of it before this returns; with settle=False, right afterwards.
        """
        fields = self._leases.fields(handle)
        result = None if payload is None else validation.payload(payload, "payload")
        await self._end_held(
            handle, fields, Commit(attempts.complete(fields, result)), "success", settle=settle
        )

    async def complete_many(
        self, many: Sequence[tuple[Handle, bytes | None]]
    ) -> list[EngineError | None]:
        """Each as `complete` would answer it: None, or the error for that one."""
        ends = self._ends_of(many)
        done = await self._store.commit_many(ends.plans) if ends.plans else []
        return await self._settled(ends, done)

    async def complete_and_claim(
        self,
        many: Sequence[tuple[Handle, bytes | None]],
        lane: str,
        capabilities: Iterable[str],
        policy: ClaimPolicy,
        n: int,
    ) -> tuple[list[EngineError | None], list[Work]]:
        """Completes executions and claims up to n others in one round trip.

        For a worker whose slots are all in use. The claim does not wait; `claim_many` does.
        """
        claimer, ends = claimer_of(lane, capabilities, policy, n), self._ends_of(many)
        began = time.perf_counter()
        done, rows = await self._claims.commit_and_claim(ends.plans, claimer)
        self._claims.report_claim(lane, began)
        try:
            answers = await self._settled(ends, done)
            try:
                await self._claims.check_routes(claimer, claimed_at(rows, claimer.ttl_ms))
            except EngineError as error:  # the completions stand, and their holder gets the answers
                log.warning(
                    "routing of a lane failed", extra={"lane": claimer.lane, "error": str(error)}
                )
        except BaseException:
            await self._claims.give_back(claimer, rows)
            raise
        return answers, await self._claims.works(rows, policy)

    def _ends_of(self, many: Sequence[tuple[Handle, bytes | None]]) -> _Completions:
        validation.whole(len(many), "completions", 0, MAX_COMPLETE_MANY)
        ends = _Completions([None] * len(many), [], [], [])
        for at, (handle, payload) in enumerate(many):
            try:
                fields = self._leases.fields(handle)
                result = None if payload is None else validation.payload(payload, "payload")
            except EngineError as error:
                ends.answers[at] = error
                continue
            ends.at.append(at)
            ends.held.append((handle, fields))
            ends.plans.append(attempts.complete(fields, result))
        return ends

    async def _settled(self, ends: _Completions, done: Sequence[Any]) -> list[EngineError | None]:
        """Follows what was applied, and examines what was refused."""
        alone = {
            fields.execution_id
            for handle, fields in ends.held
            if not self._leases.may_have_children(handle)
        }
        await self._core.after_commit(ends.plans, done, alone=alone)
        listener = self._core.telemetry.listener
        for at, (handle, fields), plan, answer in zip(
            ends.at, ends.held, ends.plans, done, strict=True
        ):
            if isinstance(answer, Applied):
                self._leases.forget(handle)
                listener.attempt_ended(fields.lane_id, "ok", fields.execution_id)
                continue
            lost = answer if isinstance(answer, TransportError) and answer.doubtful else None
            try:
                await self._end_held(handle, fields, Commit(plan), "success", lost=lost)
            except EngineError as error:
                ends.answers[at] = error
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
        fields = self._leases.fields(handle)
        said = FailureReason(reason) if isinstance(reason, str) else reason
        if not isinstance(said, FailureReason):
            raise invalid("reason", "text or a FailureReason", reason)
        message = validation.text(said.message, "reason.message", 65_536)
        category = _category(said, failure_class)
        if retry_after_ms is not None:
            validation.whole(retry_after_ms, "retry_after_ms", 0, MAX_DURATION_MS)
        known = self._leases.facts(handle)
        if known is None:
            snapshot = await self._core.snapshots.load(
                fields.execution_id, attempt_index=fields.attempt_index
            )
            why = attempts.explain_refusal(snapshot, fields, "failed")
            if isinstance(why, Return):
                repeated: FailOutcome = why.result
                return repeated
            if why is not None:
                await self._core.refuse(why)
            assert snapshot.execution is not None
            retry_count, policy = snapshot.execution.retry_count, snapshot.execution.policy
        else:
            retry_count, policy = known.retry_count, known.policy
        stored = stored_policy(policy, fields.execution_id)
        delay_ms = retries.delay_after(
            failure_class,
            category,
            stored.retry_policy if stored else None,
            self._core.settings.default_retry_policy,
            retry_count,
            self._core.random.random(),
            retry_after_ms,
        )
        outcome: FailOutcome = await self._end_held(
            handle, fields, attempts.fail(fields, message, category, delay_ms), "failed"
        )
        report_failure(
            self._core.telemetry.listener,
            fields.lane_id,
            fields.execution_id,
            outcome,
            category,
            is_late=FailureClass.TIMEOUT in (failure_class, category),
        )
        return outcome

    async def delay(self, handle: Handle, delay_until: int) -> None:
        """Parks the execution until a time; the same attempt goes on then."""
        fields = self._leases.fields(handle)
        validation.timestamp(delay_until, "delay_until")
        await self._core.run_fenced(fields, attempts.delay(fields, delay_until))
        self._leases.forget(handle)

    async def cancel(self, handle: Handle, reason: str = "") -> None:
        """The holder gives its own execution up."""
        fields = self._leases.fields(handle)
        validation.text(reason, "reason")
        await self._end_held(handle, fields, Commit(attempts.give_up(fields, reason)), "cancelled")

    async def _end_held(
        self,
        handle: Handle,
        fields: HandleFields,
        commit: Commit,
        outcome: str,
        *,
        lost: TransportError | None = None,
        settle: bool = True,
    ) -> Any:
        """A fenced call that ends the lease."""
        answer = await self._core.run_fenced(
            fields,
            commit,
            outcome,
            lost=lost,
            may_have_children=self._leases.may_have_children(handle),
            wait=settle,
        )
        self._leases.forget(handle)
        if outcome in _OUTCOMES:
            self._core.telemetry.listener.attempt_ended(
                fields.lane_id, _OUTCOMES[outcome], fields.execution_id
            )
        return answer


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
