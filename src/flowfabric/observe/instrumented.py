"""A wrapper around an engine that records metrics of its calls."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from msgspec import Struct

from flowfabric.engine.engine import Engine
from flowfabric.engine.proxy import Operation, Proxy
from flowfabric.errors import ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass, FailureReason, RetryScheduled
from flowfabric.model.budget import HardBreach
from flowfabric.model.lease import (
    Claimed,
    ClaimPolicy,
    Handle,
    IssuedAndClaimed,
    MarkedExpired,
    NotReclaimable,
    ReclaimCapExceeded,
)
from flowfabric.model.quota import ConcurrencyExceeded, RateExceeded
from flowfabric.model.waitpoint import SignalAccepted
from flowfabric.observe.metrics import Metrics

log = logging.getLogger("flowfabric.observe")

MAX_REMEMBERED = 50_000
UNKNOWN = "unknown"


class Call(Struct, frozen=True):
    """A finished operation with its answer or its error."""

    args: tuple[Any, ...]
    named: dict[str, Any]
    seconds: float
    answer: Any = None
    error: BaseException | None = None

    def arg(self, at: int, name: str, default: Any = None) -> Any:
        return self.args[at] if at < len(self.args) else self.named.get(name, default)


def instrumented(engine: Engine, metrics: Metrics) -> Engine:
    """The engine with metrics of its calls and of events inside it and its loops."""
    engine.watched_by(metrics)
    metrics.running_on(engine.backend_label)
    return cast(Engine, Proxy(engine, _Counting(engine, metrics).wrap))


class _Counting:
    """Each public method records finished calls of the operations that `_TOLD` maps to it."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        self._engine, self._metrics = engine, metrics
        self._lanes: dict[ExecutionId, str] = {}
        """Lanes of claimed executions: calls that end one by its lease do not name the lane."""

    def wrap(self, name: str, operation: Operation) -> Operation | None:
        told = _TOLD.get(name)
        if told is None:
            return None

        @wraps(operation)
        async def counted(*args: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                answer = await operation(*args, **named)
            except BaseException as error:
                self._tell(told, Call(args, named, time.perf_counter() - began, error=error))
                raise
            self._tell(told, Call(args, named, time.perf_counter() - began, answer))
            return answer

        return counted

    def _tell(self, told: Callable[[_Counting, Call], None], call: Call) -> None:
        """Record a call; a failure to record does not affect its answer."""
        try:
            told(self, call)
        except Exception:
            log.exception("call not recorded in metrics")

    # ---- claims

    def claim(self, call: Call) -> None:
        """Claims that wait for work are not timed: their duration does not measure the store."""
        policy = call.arg(2, "policy")
        if not isinstance(policy, ClaimPolicy) or not policy.max_wait_ms:
            valid = not isinstance(call.error, ValidationError)
            self._metrics.claimed(call.arg(0, "lane") if valid else UNKNOWN, call.seconds)

    def claim_one(self, call: Call) -> None:
        args = call.arg(0, "args")
        lane = getattr(args, "lane_id", "") or UNKNOWN
        if isinstance(call.answer, Claimed | IssuedAndClaimed):
            fields = self._engine.fields(call.answer.handle)
            lane = fields.lane_id
            self._remember(fields.execution_id, lane)
        self._metrics.claimed(lane, call.seconds)

    def reclaim(self, call: Call) -> None:
        match call.answer:
            case Claimed():
                self._remember(
                    call.answer.execution_id, self._engine.fields(call.answer.handle).lane_id
                )
                self._metrics.reclaimed("claimed")
            case ReclaimCapExceeded():
                self._metrics.reclaimed("cap_exceeded")
            case NotReclaimable():
                self._metrics.reclaimed("not_reclaimable")

    def mark_expired(self, call: Call) -> None:
        if isinstance(call.answer, MarkedExpired):
            self._metrics.lease_expired(self._lanes.get(call.arg(0, "execution"), UNKNOWN))

    def _remember(self, ident: ExecutionId, lane: str) -> None:
        if len(self._lanes) >= MAX_REMEMBERED:
            del self._lanes[next(iter(self._lanes))]
        self._lanes[ident] = lane

    # ---- holding and ending

    def renew(self, call: Call) -> None:
        self._metrics.lease_renewed("ok" if call.error is None else "error")

    def complete(self, call: Call) -> None:
        if call.error is None:
            self._ended(call.arg(0, "handle"), "ok")

    def complete_many(self, call: Call) -> None:
        for (handle, _), refused in zip(call.arg(0, "many"), call.answer or (), strict=False):
            if refused is None:
                self._ended(handle, "ok")

    def complete_and_claim(self, call: Call) -> None:
        """The round trip is timed as a claim."""
        self.claim(
            Call(
                (call.arg(1, "lane"), (), call.arg(3, "policy")), {}, call.seconds, error=call.error
            )
        )
        self.complete_many(
            Call((call.arg(0, "many"),), {}, call.seconds, call.answer and call.answer[0])
        )

    def cancel(self, call: Call) -> None:
        if call.error is None:
            self._ended(call.arg(0, "handle"), "cancelled")

    def fail(self, call: Call) -> None:
        if call.error is None:
            kind = call.arg(2, "failure_class", FailureClass.TRANSIENT)
            category = _category(call.arg(1, "reason"), kind)
            late = FailureClass.TIMEOUT in (kind, category)
            self._failed(*self._whose(call.arg(0, "handle")), call.answer, category, late=late)

    def complete_execution(self, call: Call) -> None:
        if call.error is None:
            self._end(*self._named(call.arg(0, "args")), "ok")

    def fail_execution(self, call: Call) -> None:
        if call.error is None:
            category = call.arg(0, "args").failure_category
            self._failed(
                *self._named(call.arg(0, "args")),
                call.answer,
                category,
                late=category == FailureClass.TIMEOUT,
            )

    def _whose(self, handle: Handle) -> tuple[str, ExecutionId]:
        fields = self._engine.fields(handle)
        return fields.lane_id, fields.execution_id

    def _named(self, args: Any) -> tuple[str, ExecutionId]:
        ident = ExecutionId(args.execution_id)
        return self._lanes.pop(ident, UNKNOWN), ident

    def _ended(self, handle: Handle, outcome: str) -> None:
        self._end(*self._whose(handle), outcome)

    def _end(self, lane: str, ident: ExecutionId, outcome: str) -> None:
        self._metrics.attempt_ended(lane, outcome, _age_s(ident))

    def _failed(
        self, lane: str, ident: ExecutionId, answer: Any, category: str, *, late: bool
    ) -> None:
        self._metrics.attempt_failed(lane, category)
        if isinstance(answer, RetryScheduled):
            self._metrics.attempt_ended(lane, "retry")
        else:
            self._end(lane, ident, "timeout" if late else "error")

    # ---- signals, limits, flows

    def signal(self, call: Call) -> None:
        if call.error is None:
            self._metrics.signalled(
                call.answer.effect if isinstance(call.answer, SignalAccepted) else "duplicate"
            )

    def usage(self, call: Call) -> None:
        if isinstance(call.answer, HardBreach):
            self._metrics.budget_hit(call.answer.dimension)

    def admission(self, call: Call) -> None:
        if isinstance(call.answer, RateExceeded):
            self._metrics.quota_hit("rate")
        elif isinstance(call.answer, ConcurrencyExceeded):
            self._metrics.quota_hit("concurrency")

    def edge_policy(self, call: Call) -> None:
        if call.error is None:
            self._metrics.edge_policy_set(call.arg(2, "policy").kind)

    def flow(self, call: Call) -> None:
        if call.error is None:
            for policy in call.arg(0, "args").policies.values():
                self._metrics.edge_policy_set(policy.kind)


_TOLD: dict[str, Callable[[_Counting, Call], None]] = {
    "claim": _Counting.claim,
    "claim_many": _Counting.claim,
    "claim_for_worker": _Counting.claim,
    "claim_execution": _Counting.claim_one,
    "claim_resumed_execution": _Counting.claim_one,
    "reclaim_execution": _Counting.reclaim,
    "issue_reclaim_grant": _Counting.reclaim,
    "mark_lease_expired_if_due": _Counting.mark_expired,
    "renew": _Counting.renew,
    "renew_lease": _Counting.renew,
    "complete": _Counting.complete,
    "complete_many": _Counting.complete_many,
    "complete_and_claim": _Counting.complete_and_claim,
    "complete_execution": _Counting.complete_execution,
    "fail": _Counting.fail,
    "fail_execution": _Counting.fail_execution,
    "cancel": _Counting.cancel,
    "deliver_signal": _Counting.signal,
    "deliver_approval_signal": _Counting.signal,
    "report_usage": _Counting.usage,
    "report_usage_admin": _Counting.usage,
    "record_spend": _Counting.usage,
    "check_admission": _Counting.admission,
    "set_edge_group_policy": _Counting.edge_policy,
    "submit_flow": _Counting.flow,
}


def _category(reason: Any, kind: Any) -> str:
    if isinstance(reason, FailureReason) and reason.detail:
        return reason.detail.decode(errors="replace")
    return str(kind)


def _age_s(ident: ExecutionId) -> float | None:
    """Seconds since a time-ordered id was created."""
    if ident.uuid.version != 7:
        return None
    return max(time.time() - (ident.uuid.int >> 80) / 1_000, 0.0)
