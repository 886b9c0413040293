"""Metrics of engine calls, on every store."""

from __future__ import annotations

import copy
from uuid import uuid4

import pytest

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.attempt import FailureClass, FailureReason
from flowfabric.model.budget import CreateBudgetArgs, ReportUsageAdminArgs
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import EdgePolicy, GraphEdge, OnSatisfied, SubmitFlowArgs
from flowfabric.model.lease import (
    ClaimExecutionArgs,
    CompleteExecutionArgs,
    FailExecutionArgs,
    NoWork,
    ReclaimExecutionArgs,
)
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy
from flowfabric.model.quota import CheckAdmissionArgs, CreateQuotaPolicyArgs
from flowfabric.observe import Metrics, instrumented
from flowfabric.observe.metrics import age_of
from flowfabric.testing import ManualClock
from tests.engine.helpers import (
    GRACE_MS,
    LANE,
    TTL_MS,
    claim,
    create,
    fence,
    grant_args,
    lost,
    running,
    worker,
)
from tests.engine.suspend_helpers import park, seed, signal_args

from .helpers import values

TWICE = ExecutionPolicy(
    retry_policy=RetryPolicy(max_retries=1, backoff={"type": "fixed", "delay_ms": 0})
)


@pytest.fixture
def seen(engine: Engine, metrics: Metrics) -> Engine:
    return instrumented(engine, metrics)


async def test_claims_are_timed_with_work_and_without(seen: Engine, metrics: Metrics) -> None:
    await create(seen)
    await claim(seen)
    assert await seen.claim(LANE, (), worker()) is None
    assert await seen.claim_many("other", (), worker(), 3) == []
    assert await seen.claim(LANE, (), worker(max_wait_ms=1)) is None
    with pytest.raises(EngineError):
        await seen.claim("", (), worker())
    assert values(metrics, "ff_claim_from_grant_duration_seconds_count") == {
        (LANE,): 2,
        ("other",): 1,
    }, "a claim with a bad argument is none"


async def test_renewals_are_counted_by_their_answer(
    seen: Engine, metrics: Metrics, clock: ManualClock
) -> None:
    _, handle = await running(seen)
    await seen.renew(handle)
    clock.advance(TTL_MS + 1)
    with pytest.raises(EngineError):
        await seen.renew(handle)
    assert values(metrics, "ff_lease_renewal_total") == {("ok",): 1, ("error",): 1}


async def test_ends_are_counted_by_outcome(seen: Engine, metrics: Metrics) -> None:
    await seen.complete((await running(seen))[1], b"x")
    await seen.cancel((await running(seen))[1], "enough")
    await seen.fail((await running(seen))[1], "no", FailureClass.PERMANENT)
    await seen.fail(
        (await running(seen))[1], FailureReason("late", b"timeout"), FailureClass.PERMANENT
    )
    _, handle = await running(seen, policy=TWICE)
    await seen.fail(handle, FailureReason("again", b"custom"))
    assert values(metrics, "ff_attempt_outcome_total") == {
        (LANE, outcome): 1 for outcome in ("ok", "cancelled", "error", "timeout", "retry")
    }
    assert values(metrics, "ff_attempt_failures_total") == {
        (category, LANE): 1 for category in ("permanent", "timeout", "other")
    }


async def test_a_refused_end_is_not_counted(
    seen: Engine, metrics: Metrics, clock: ManualClock
) -> None:
    _, handle = await running(seen)
    clock.advance(TTL_MS + 1)
    for call in (seen.complete(handle), seen.fail(handle, "no"), seen.cancel(handle)):
        with pytest.raises(EngineError):
            await call
    (refused,) = await seen.complete_many([(handle, None)])
    assert refused is not None
    assert values(metrics, "ff_attempt_outcome_total") == {}


async def test_many_completions_are_counted_one_by_one(seen: Engine, metrics: Metrics) -> None:
    handles = [(await running(seen))[1] for _ in range(3)]
    await seen.complete_many([(handle, None) for handle in handles])
    assert values(metrics, "ff_attempt_outcome_total") == {(LANE, "ok"): 3}


async def test_calls_with_lease_arguments_are_counted_in_the_claimed_lane(
    seen: Engine, metrics: Metrics
) -> None:
    for end in ("complete", "fail"):
        ident = await create(seen, lane_id="mail")
        await seen.issue_claim_grant(grant_args(ident, lane_id="mail"))
        args = ClaimExecutionArgs(
            execution_id=ident, worker_id="w1", worker_instance_id="w1-i1", lease_ttl_ms=TTL_MS
        )
        held = (await seen.claim_execution(args)).handle
        said = {"execution_id": ident, "fence": fence(held), "attempt_index": 0}
        if end == "complete":
            await seen.complete_execution(CompleteExecutionArgs(**said))
        else:
            await seen.fail_execution(
                FailExecutionArgs(**said, failure_reason="x", failure_category="timeout")
            )
    assert values(metrics, "ff_claim_from_grant_duration_seconds_count") == {("mail",): 2}
    assert values(metrics, "ff_attempt_outcome_total") == {
        ("mail", "ok"): 1,
        ("mail", "timeout"): 1,
    }


async def test_latency_is_derived_from_the_id(seen: Engine, metrics: Metrics) -> None:
    ident = ExecutionId.solo(LANE)
    await create(seen, execution_id=ident)
    await seen.complete(await claim(seen))
    await seen.complete((await running(seen))[1])
    assert values(metrics, "ff_execution_latency_seconds_count") == {(LANE, "ok"): 1}, (
        "an id of another kind tells no time"
    )
    age = age_of(ident)
    assert age is not None and 0 <= age < 60


async def test_signals_are_counted_by_effect(seen: Engine, metrics: Metrics) -> None:
    await seed(seen)
    parked = await park(seen)
    args = signal_args(parked.ident, parked.waitpoint, idempotency_key="once")
    await seen.deliver_signal(args)
    await seen.deliver_signal(args)
    found = values(metrics, "ff_signals_total")
    assert found.pop(("duplicate",)) == 1
    assert list(found.values()) == [1]


async def test_budgets_and_quotas_that_refuse_are_counted(seen: Engine, metrics: Metrics) -> None:
    budget, quota = uuid4(), uuid4()
    await seen.create_budget(
        CreateBudgetArgs(budget_id=budget, dimensions=["tokens"], hard_limits=[5], soft_limits=[0])
    )
    await seen.report_usage_admin(budget, ReportUsageAdminArgs(dimensions=["tokens"], deltas=[9]))
    assert values(metrics, "ff_budget_hit_total") == {("tokens",): 1}
    await seen.create_quota_policy(CreateQuotaPolicyArgs(quota_policy_id=quota, max_concurrent=1))
    for ident in (await create(seen), await create(seen)):
        await seen.check_admission(
            CheckAdmissionArgs(quota_policy_id=quota, execution_id=ident, concurrency_cap=1)
        )
    assert values(metrics, "ff_quota_hit_total") == {("concurrency",): 1}


async def test_a_full_quota_is_counted_inside_a_claim_too(seen: Engine, metrics: Metrics) -> None:
    quota = uuid4()
    await seen.create_quota_policy(CreateQuotaPolicyArgs(quota_policy_id=quota, max_concurrent=1))
    await seen.attach_limit("quota", quota, "lane", LANE)
    for _ in range(2):
        await create(seen)
    await claim(seen)
    assert await seen.claim(LANE, (), worker()) is None
    assert values(metrics, "ff_quota_hit_total") == {("concurrency",): 1}


async def test_a_spent_budget_is_counted_inside_a_claim_too(seen: Engine, metrics: Metrics) -> None:
    budget = uuid4()
    await seen.create_budget(
        CreateBudgetArgs(budget_id=budget, dimensions=["tokens"], hard_limits=[5], soft_limits=[0])
    )
    await seen.report_usage_admin(budget, ReportUsageAdminArgs(dimensions=["tokens"], deltas=[5]))
    await seen.attach_limit("budget", budget, "lane", LANE)
    await create(seen)
    assert await seen.claim(LANE, (), worker()) is None
    assert values(metrics, "ff_budget_hit_total") == {("tokens",): 1}


async def test_limits_are_counted_where_a_worker_asks_for_a_grant(
    seen: Engine, metrics: Metrics
) -> None:
    quota, budget = uuid4(), uuid4()
    await seen.create_quota_policy(CreateQuotaPolicyArgs(quota_policy_id=quota, max_concurrent=1))
    await seen.attach_limit("quota", quota, "lane", LANE)
    for _ in range(2):
        await create(seen)
    await claim(seen)
    assert isinstance(await seen.claim_for_worker(LANE, "w2", "w2-i1", (), 1_000), NoWork)
    assert values(metrics, "ff_quota_hit_total") == {("concurrency",): 1}
    await seen.create_budget(
        CreateBudgetArgs(budget_id=budget, dimensions=["tokens"], hard_limits=[5], soft_limits=[0])
    )
    await seen.report_usage_admin(budget, ReportUsageAdminArgs(dimensions=["tokens"], deltas=[5]))
    await seen.attach_limit("budget", budget, "lane", "mail")
    ident = await create(seen, lane_id="mail")
    with pytest.raises(EngineError):
        await seen.issue_claim_grant(grant_args(ident, lane_id="mail"))
    assert isinstance(await seen.claim_for_worker("mail", "w2", "w2-i1", (), 1_000), NoWork)
    assert values(metrics, "ff_budget_hit_total") == {("tokens",): 2}


async def test_takeovers_are_counted(seen: Engine, metrics: Metrics, clock: ManualClock) -> None:
    ident, _ = await lost(seen, clock)
    await seen.issue_reclaim_grant(grant_args(ident))
    args = ReclaimExecutionArgs(
        execution_id=ident, worker_id="w1", worker_instance_id="w1-i1", lease_ttl_ms=TTL_MS
    )
    await seen.reclaim_execution(args)
    await seen.issue_reclaim_grant(grant_args(ident))
    assert values(metrics, "ff_reclaims_total") == {("claimed",): 1, ("not_reclaimable",): 1}


async def test_exceeded_reclaim_caps_are_counted(
    engine: Engine, metrics: Metrics, clock: ManualClock
) -> None:
    engine.watched_by(metrics)
    await lost(engine, clock, policy=ExecutionPolicy(max_reclaim_count=0))
    clock.advance(GRACE_MS)
    await Supervisor(engine).run_once()
    assert values(metrics, "ff_reclaims_total") == {("cap_exceeded",): 1}


async def test_siblings_that_are_cancelled_are_counted(seen: Engine, metrics: Metrics) -> None:
    flow = uuid4()
    idents = [ExecutionId.for_flow(flow) for _ in range(4)]
    last = idents[-1]
    await seen.submit_flow(
        SubmitFlowArgs(
            flow_id=flow,
            nodes=[CreateExecutionArgs(execution_id=ident) for ident in idents],
            edges=[GraphEdge(ident, last) for ident in idents[:-1]],
            policies={last: EdgePolicy.any_of(OnSatisfied.CANCEL_REMAINING)},
        )
    )
    await seen.complete(await claim(seen))
    assert values(metrics, "ff_edge_group_policy_total") == {("any_of",): 1}
    assert values(metrics, "ff_sibling_cancel_dispatched_total") == {
        ("sibling_quorum_satisfied",): 2
    }
    assert values(metrics, "ff_sibling_cancel_disposition_total") == {("cancelled",): 2}


@pytest.mark.parametrize(
    "wanted", [ScannerFilter(), ScannerFilter(namespace="default")], ids=["all", "some"]
)
async def test_loops_tell_of_their_cycles_and_of_leases_that_ran_out(
    engine: Engine, metrics: Metrics, clock: ManualClock, wanted: ScannerFilter
) -> None:
    engine.watched_by(metrics)
    await running(engine, lane_id="mail")
    clock.advance(TTL_MS + 1)
    supervisor = Supervisor(engine, LoopSettings(wanted=wanted))
    for loop in supervisor.loops:
        await supervisor.run_if_due(loop)
    assert values(metrics, "ff_lease_expired_total") == {("mail",): 1}
    cycles = values(metrics, "ff_scanner_cycle_total")
    assert (
        cycles
        == values(metrics, "ff_scanner_cycle_duration_seconds_count")
        == {(loop.name,): 1 for loop in supervisor.loops}
    )


async def test_failed_items_are_counted_as_scanner_errors(
    engine: Engine, metrics: Metrics, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.watched_by(metrics)
    await create(engine, execution_deadline_at=clock() + 10)
    clock.advance(11)

    async def broken(*_: object) -> None:
        raise RuntimeError("injected")

    monkeypatch.setattr(engine, "expire_execution", broken)
    await Supervisor(engine).run_once()
    assert values(metrics, "ff_scanner_errors_total") == {("execution_deadline",): 1}


async def test_the_wrapper_has_the_interface_of_the_engine(
    engine: Engine, metrics: Metrics
) -> None:
    seen = instrumented(engine, metrics)
    assert seen.backend_label == engine.backend_label and seen.store is engine.store
    assert copy.copy(seen).store is engine.store
    with pytest.raises(AttributeError):
        seen.no_such_operation  # type: ignore[attr-defined]  # noqa: B018
    build = values(metrics, "ff_build_info")
    assert [key[0] for key in build] == [engine.backend_label]
