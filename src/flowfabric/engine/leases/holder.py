"""Calls of lease holders."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from flowfabric.engine import validation
from flowfabric.engine.claims.claimer import claimed_at, claimer_of
from flowfabric.engine.claims.claims import Claims
from flowfabric.engine.core import Core
from flowfabric.engine.leases.facts import LeaseCache, LeaseFacts
from flowfabric.engine.snapshots import load_rows
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
from flowfabric.rules.fence import HELD_COLUMNS, is_held
from flowfabric.rules.leases import attempts, renewal
from flowfabric.store.port import GetAll

log = logging.getLogger("flowfabric.engine")

MAX_COMPLETE_MANY = 1_000
MAX_CHECKED = 1_000
R = TypeVar("R")


class _Completions(Struct):
    """The answers of all completions, and those that are committed, with their positions."""

    answers: list[EngineError | None]
    at: list[int] = []
    held: list[tuple[Handle, HandleFields]] = []
    plans: list[Plan] = []


_OUTCOMES = {"success": "ok", "cancelled": "cancelled"}
"""Outcomes and their metric labels. A failure is reported with its category instead."""


class Holder:
    def __init__(self, core: Core, leases: LeaseCache, claims: Claims) -> None:
        self._core, self._store, self._leases, self._claims = core, core.store, leases, claims

    async def renew(self, handle: Handle) -> LeaseRenewal:
        """Renews the lease for its stored duration, whatever duration the handle names."""
        fields = self._leases.fields(handle)
        validation.ttl_ms(fields.lease_ttl_ms, "handle.lease_ttl_ms")
        renew = renewal.renew(fields, event=self._core.settings.lease_events == "all")
        listener = self._core.telemetry.listener
        try:
            result: LeaseRenewal = await self._core.run_fenced(fields, renew)
        except BaseException:
            listener.lease_renewed("error")
            raise
        listener.lease_renewed("ok")
        return result

    async def are_held(self, handles: Sequence[Handle]) -> list[bool]:
        """Whether each lease is still current, without renewing it; one read for all."""
        if len(handles) > MAX_CHECKED:
            raise invalid("handles", f"at most {MAX_CHECKED} handles", len(handles))
        fields = [self._leases.fields(handle) for handle in handles]
        idents = dict.fromkeys(each.execution_id for each in fields)
        keys = [ident.key for ident in idents]
        rows = await load_rows(self._store, GetAll("ff_exec_core", keys, HELD_COLUMNS))
        found = {ident: (ident, *columns) for ident, *columns in rows}
        return [is_held(found.get(each.execution_id.uuid), each) for each in fields]

    async def progress(
        self, handle: Handle, percent: int | None = None, message: str | None = None
    ) -> None:
        """Stores the progress of the work. None leaves a value unchanged."""
        fields = self._leases.fields(handle)
        if percent is not None:
            validation.whole(percent, "percent", 0, 100)
        validation.optional_text(message, "message")
        if percent is not None or message is not None:
            await self._core.run_fenced(
                fields, Commit(renewal.progress(fields, percent, message)), marks=False
            )
            return
        await self._core.check_held(fields, marks=False)

    async def complete(
        self, handle: Handle, payload: bytes | None = None, *, settle: bool = True
    ) -> None:
        """Ends the execution with success. A repeated call with the same lease succeeds.

        Members of its flow that depend on it are updated before the call returns, or with
        settle=False shortly afterwards.
        """
        fields = self._leases.fields(handle)
        result = None if payload is None else validation.payload(payload, "payload")
        await self._end_held(
            handle, fields, Commit(attempts.complete(fields, result)), "success", settle=settle
        )

    async def complete_many(
        self, many: Sequence[tuple[Handle, bytes | None]]
    ) -> list[EngineError | None]:
        """Completes many executions; None for each that succeeded, else its error."""
        completions = self._completions(many)
        plans = completions.plans
        done = await self._store.commit_many(plans) if plans else []
        answers, _ = await self._after_completions(completions, done)
        return answers

    async def complete_and_claim(
        self,
        many: Sequence[tuple[Handle, bytes | None]],
        lane: str,
        capabilities: Iterable[str],
        policy: ClaimPolicy,
        n: int,
    ) -> tuple[list[EngineError | None], list[Work]]:
        """Completes executions and claims up to n others in one round trip.

        For a worker whose slots are all in use. The claim does not wait; `claim_many` does. When
        it finds nothing, members of flows that the completions release are claimed instead.
        """
        claimer = claimer_of(lane, capabilities, policy, n)
        completions = self._completions(many)
        began = time.perf_counter()
        done, rows = await self._claims.commit_and_claim(completions.plans, claimer)
        self._claims.report_claim(lane, began)
        try:
            answers, released = await self._after_completions(completions, done, wait=not rows)
            if released and not rows:
                _, rows = await self._claims.commit_and_claim((), claimer)
            try:
                await self._claims.check_routes(claimer, claimed_at(rows, claimer.ttl_ms))
            except EngineError as error:  # the completions are committed and must be answered
                log.warning(
                    "routing of a lane failed", extra={"lane": claimer.lane, "error": str(error)}
                )
        except BaseException:
            await self._claims.give_back(claimer, rows)
            raise
        return answers, await self._claims.works(rows, policy)

    def _completions(self, many: Sequence[tuple[Handle, bytes | None]]) -> _Completions:
        validation.whole(len(many), "completions", 0, MAX_COMPLETE_MANY)
        completions = _Completions([None] * len(many))
        for at, (handle, payload) in enumerate(many):
            try:
                fields = self._leases.fields(handle)
                result = None if payload is None else validation.payload(payload, "payload")
            except EngineError as error:
                completions.answers[at] = error
                continue
            completions.at.append(at)
            completions.held.append((handle, fields))
            completions.plans.append(attempts.complete(fields, result))
        return completions

    async def _after_completions(
        self, completions: _Completions, done: Sequence[object], *, wait: bool = True
    ) -> tuple[list[EngineError | None], bool]:
        """Starts the cascade for applied completions and examines refused ones.

        Returns the answers, and whether dependencies were resolved before the return.
        """
        alone = {
            fields.execution_id.uuid
            for handle, fields in completions.held
            if not self._leases.may_have_children(handle)
        }
        resolved = await self._core.after_commit(completions.plans, done, alone=alone, wait=wait)
        listener = self._core.telemetry.listener
        for at, (handle, fields), plan, answer in zip(
            completions.at, completions.held, completions.plans, done, strict=True
        ):
            if isinstance(answer, Applied):
                self._leases.forget(handle)
                listener.attempt_ended(fields.lane_id, "ok", fields.execution_id)
                continue
            lost = answer if isinstance(answer, TransportError) and answer.doubtful else None
            try:
                await self._end_held(handle, fields, Commit(plan), "success", lost=lost)
            except EngineError as error:
                completions.answers[at] = error
        return completions.answers, resolved > 0

    async def fail(
        self,
        handle: Handle,
        reason: FailureReason | str,
        failure_class: FailureClass = FailureClass.TRANSIENT,
        *,
        retry_after_ms: int | None = None,
    ) -> FailOutcome:
        """Ends the attempt; class and policy decide on a retry, `retry_after_ms` sets its delay."""
        fields = self._leases.fields(handle)
        message, category = _checked_reason(reason, failure_class)
        if retry_after_ms is not None:
            validation.whole(retry_after_ms, "retry_after_ms", 0, MAX_DURATION_MS)
        facts = await self._retry_facts(handle, fields)
        if not isinstance(facts, LeaseFacts):
            return facts
        stored = stored_policy(facts.policy, fields.execution_id)
        delay_ms = retries.delay_after(
            failure_class,
            category,
            stored.retry_policy if stored else None,
            self._core.settings.default_retry_policy,
            facts.retry_count,
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

    async def _retry_facts(self, handle: Handle, fields: HandleFields) -> LeaseFacts | FailOutcome:
        """What decides about a retry, or the answer of a failure that was applied before."""
        known = self._leases.facts(handle)
        if known is not None:
            return known
        snapshot, _ = await self._core.snapshots.held(fields)
        why = attempts.explain_refusal(snapshot, fields, "failed")
        if isinstance(why, Return):
            repeated: FailOutcome = why.result
            return repeated
        if why is not None:
            await self._core.refuse(why)
        assert snapshot.execution is not None
        return LeaseFacts(fields, snapshot.execution.retry_count, snapshot.execution.policy)

    async def delay(self, handle: Handle, delay_until: int) -> None:
        """Delays the execution until a time; the same attempt continues then."""
        fields = self._leases.fields(handle)
        validation.timestamp(delay_until, "delay_until")
        await self._core.run_fenced(fields, attempts.delay(fields, delay_until))
        self._leases.forget(handle)

    async def cancel(self, handle: Handle, reason: str = "") -> None:
        """Cancels the execution on behalf of its holder."""
        fields = self._leases.fields(handle)
        validation.text(reason, "reason")
        await self._end_held(handle, fields, Commit(attempts.give_up(fields, reason)), "cancelled")

    async def _end_held(
        self,
        handle: Handle,
        fields: HandleFields,
        commit: Commit[R],
        outcome: str,
        *,
        lost: TransportError | None = None,
        settle: bool = True,
    ) -> R:
        """Runs a fenced call that ends the lease."""
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


def _checked_reason(reason: FailureReason | str, failure_class: FailureClass) -> tuple[str, str]:
    """The message and the category of a failure."""
    given = FailureReason(reason) if isinstance(reason, str) else reason
    if not isinstance(given, FailureReason):
        raise invalid("reason", "text or a FailureReason", reason)
    message = validation.text(given.message, "reason.message", 65_536)
    return message, _category(given, failure_class)


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
