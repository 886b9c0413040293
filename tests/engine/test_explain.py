"""explain_execution: facts as stored, few loads, no secrets."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric.cli.why import to_json
from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.explanation import (
    MAX_AHEAD,
    MAX_LISTED,
    Explanation,
    Holder,
    Parents,
    Queue,
    Routing,
    SpentBudget,
    UsedQuota,
    Wait,
    Why,
)
from flowfabric.model.flow import EdgePolicy
from flowfabric.model.waitpoint import Count, CountKind
from flowfabric.plan import Applied, Arg, Form, Insert
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock

from .flow_helpers import submit
from .helpers import (
    LANE,
    TTL_MS,
    claim,
    create,
    fields,
    grant_args,
    lost,
    new_id,
    registration,
    running,
    worker,
)
from .suspend_helpers import park, seed, signal

GPU: dict[str, Any] = {"routing_requirements": {"required_capabilities": ["gpu"]}}


async def why(engine: Engine, ident: ExecutionId) -> list[str]:
    return [reason.code.value for reason in (await engine.explain_execution(ident)).reasons]


async def put(engine: Engine, table: str, **row: Any) -> None:
    """A row as another part of the engine would write it."""
    form = Form(
        f"put_{table}_{'_'.join(sorted(row))}", Insert(table, {name: Arg(name) for name in row})
    )
    assert set(row) <= set(TABLES[table].names)
    assert isinstance(await engine.store.commit(form(**row)), Applied)


async def test_an_unknown_execution_is_not_found(engine: Engine) -> None:
    with pytest.raises(NotFound):
        await engine.explain_execution(new_id())


async def test_waiting_for_a_worker(engine: Engine) -> None:
    first, second = await create(engine, priority=5), await create(engine)
    assert await why(engine, second) == ["no_live_worker"]
    await engine.register_worker(registration())
    await engine.register_worker(registration("elsewhere", lanes=frozenset({"other"})))
    await engine.register_worker(registration("abroad", namespace="abroad"))
    found = await engine.explain_execution(second)
    assert (found.code, found.reasons[0].facts) == (Why.WAITING_FOR_WORKER, Queue(1, 1, 1))
    assert (await engine.explain_execution(first)).reasons[0].facts == Queue(0, 1, 1)
    assert (found.execution_id, found.lane_id, found.namespace, found.state) == (
        second,
        LANE,
        "default",
        "READY",
    )


async def test_an_expired_worker_does_not_count(engine: Engine, clock: ManualClock) -> None:
    ident = await create(engine)
    await engine.register_worker(registration(liveness_ttl_ms=100))
    assert await why(engine, ident) == ["waiting_for_worker"]
    clock.advance(100)
    assert await why(engine, ident) == ["no_live_worker"]


async def test_the_position_in_a_long_lane_is_bounded(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.model.explanation.MAX_AHEAD", 3)
    made = [await create(engine, priority=9 - n) for n in range(5)]
    ahead = [(await engine.explain_execution(ident)).reasons[0].facts for ident in made]
    assert ahead == [
        Queue(0, 0, 0),
        Queue(1, 0, 0),
        Queue(2, 0, 0),
        Queue(3, 0, 0),
        Queue(None, 0, 0),
    ]
    assert MAX_AHEAD == 1_000


async def test_a_capability_that_no_worker_offers(engine: Engine) -> None:
    ident = await create(engine, policy=GPU)
    await engine.register_worker(registration("near", capabilities=frozenset({"eu"})))
    for _ in range(2):
        (reason,) = (await engine.explain_execution(ident)).reasons
        assert reason.code is Why.WAITING_FOR_CAPABLE_WORKER and isinstance(reason.facts, Routing)
        assert (reason.facts.missing_everywhere, reason.facts.live_workers) == (("gpu",), 1)
        assert (
            reason.facts.nearest is not None and reason.facts.nearest.worker_instance_id == "near"
        )
        await engine.block_route(ident, "waiting_for_capable_worker")


async def test_lane_reservation_delay_and_hold(engine: Engine, clock: ManualClock) -> None:
    await engine.register_worker(registration())
    ident = await create(engine)
    await engine.pause_lane(LANE)
    assert await why(engine, ident) == ["lane_paused"]
    await engine.resume_lane(LANE)
    await engine.issue_claim_grant(grant_args(ident))
    assert await why(engine, ident) == ["reserved"]
    later = await create(engine, delay_until=clock() + 5_000)
    found = await engine.explain_execution(later)
    assert (found.code, found.reasons[0].until_ms) == (Why.WAITING_FOR_DELAY, clock() + 5_000)
    held = await create(engine)
    await engine.block_route(held, "paused_by_operator", "audit")
    await engine.drain_lane(LANE)
    assert await why(engine, held) == ["paused_by_operator"]
    assert await why(engine, await _released(engine, held)) == [
        "waiting_for_worker",
        "lane_draining",
    ]


async def _released(engine: Engine, ident: ExecutionId) -> ExecutionId:
    await engine.unblock_execution(ident)
    return ident


async def test_a_retry_with_its_last_failure(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    await engine.fail(handle, "no disk")
    (reason,) = (await engine.explain_execution(ident)).reasons
    assert reason.code is Why.WAITING_FOR_RETRY_BACKOFF
    assert reason.until_ms is not None and reason.until_ms > clock()
    assert reason.says.endswith("The last failure: no disk")


async def test_running_lost_and_ended(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    await engine.progress(handle, 30, "a third")
    (reason,) = (await engine.explain_execution(ident)).reasons
    assert reason.facts == Holder(
        "w1", "w1-i1", clock(), clock() + TTL_MS, 0, 30, "a third", clock()
    )
    clock.advance(TTL_MS)
    assert await why(engine, ident) == ["lease_expired"]
    gone, _ = await lost(engine, clock, lane_id="b")
    assert await why(engine, gone) == ["lease_expired"]
    done, held = await running(engine, lane_id="c")
    await engine.fail(held, "wrong", FailureClass.PERMANENT)
    (ended,) = (await engine.explain_execution(done)).reasons
    assert ended.code is Why.ENDED and ended.says.startswith(
        "it failed less than a second ago: wrong"
    )
    other = await create(engine, lane_id="d")
    await engine.cancel_execution(CancelExecutionArgs(execution_id=other, reason="enough"))
    assert "enough" in (await engine.explain_execution(other)).reasons[0].says


@pytest.mark.parametrize("policy", [EdgePolicy.all_of(), EdgePolicy.any_of(), EdgePolicy.quorum(2)])
async def test_which_parents_are_unfinished(engine: Engine, policy: EdgePolicy) -> None:
    graph = await submit(engine, "a>d b>d c>d", policies={"d": policy})
    await claim(engine, lane="a")
    (reason,) = (await engine.explain_execution(graph["d"])).reasons
    assert isinstance(reason.facts, Parents) and reason.code is Why.WAITING_FOR_CHILDREN
    assert (reason.facts.policy, reason.facts.needed, reason.facts.total) == (
        policy.kind,
        policy.k or 3,
        3,
    )
    states = {p.execution_id: p.public_state for p in reason.facts.unfinished}
    assert states == {graph["a"]: "active", graph["b"]: "waiting", graph["c"]: "waiting"}


async def test_only_some_of_many_parents_are_listed(engine: Engine) -> None:
    graph = await submit(engine, " ".join(f"p{n}>d" for n in range(MAX_LISTED + 10)))
    await engine.complete(await claim(engine, lane="p0"))
    (reason,) = (await engine.explain_execution(graph["d"])).reasons
    assert isinstance(reason.facts, Parents)
    assert (len(reason.facts.unfinished), reason.facts.more, reason.facts.succeeded) == (
        MAX_LISTED,
        9,
        1,
    )
    assert graph["p0"] not in {p.execution_id for p in reason.facts.unfinished}


async def test_the_open_waitpoints_of_a_suspension_without_tokens(
    engine: Engine, clock: ManualClock
) -> None:
    await seed(engine)
    two = Count(2, CountKind.DISTINCT_SOURCES, ("wp",), "go")
    parked = await park(
        engine,
        "wp",
        resume_condition=two,
        reason_code="waiting_for_approval",
        timeout_at=clock() + 60_000,
    )
    await signal(engine, parked, source_identity="ann")
    found = await engine.explain_execution(parked.ident)
    (reason,) = found.reasons
    assert reason.code is Why.WAITING_FOR_APPROVAL and isinstance(reason.facts, Wait)
    assert reason.facts.needs == ("a signal `go` from 1 more source (of 2) on `wp`",)
    assert [w.waitpoint_id for w in reason.facts.waitpoints] == [parked.waitpoint.waitpoint_id]
    assert (reason.since_ms, reason.until_ms) == (clock(), clock() + 60_000)
    said = repr(found) + json.dumps(to_json(found))
    assert parked.waitpoint.waitpoint_token not in said
    assert parked.waitpoint.waitpoint_token.partition(":")[2] not in said
    await signal(engine, parked, source_identity="bob")
    assert await why(engine, parked.ident) == ["no_live_worker"]


async def test_no_lease_id_is_shown(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    for _ in range(2):
        found = await engine.explain_execution(ident)
        assert fields(handle).lease_id.hex not in repr(found).replace("-", "")
        clock.advance(TTL_MS)


# ---- limits


async def budget(
    engine: Engine, limits: dict[str, int], used: dict[str, int], resets: int | None = None
) -> UUID:
    ident = uuid4()
    policy = json.dumps({"hard_limits": limits, "soft_limits": {"usd": 1}})
    await put(
        engine,
        "ff_budget_policy",
        budget_id=ident,
        policy_json=policy,
        next_reset_at_ms=resets,
        created_at_ms=1,
        updated_at_ms=1,
    )
    for dimension, value in used.items():
        await put(
            engine,
            "ff_budget_usage",
            budget_id=ident,
            dimensions_key=dimension,
            current_value=value,
        )
    return ident


async def test_which_budget_is_at_its_limit(engine: Engine, clock: ManualClock) -> None:
    fine = await budget(engine, {"usd": 10}, {"usd": 9})
    spent = await budget(
        engine, {"usd": 10, "tokens": 0}, {"usd": 10, "tokens": 99}, clock() + 60_000
    )
    await engine.register_worker(registration())
    ident = await create(engine, policy={"budget_ids": [str(fine), str(spent)]})
    for _ in range(2):
        (reason,) = (await engine.explain_execution(ident)).reasons
        assert reason.facts == SpentBudget(str(spent), "usd", 10, 10, clock() + 60_000)
        await engine.block_route(ident, "waiting_for_budget")
    roomy = await create(engine, policy={"budget_ids": [str(fine)]})
    await engine.block_route(roomy, "waiting_for_budget", "usd 10/10")
    assert "has capacity again" in (await engine.explain_execution(roomy)).reasons[0].says


ATTACH = "UPDATE ff_exec_core SET quota_policy_id = {}"


async def attached(engine: Engine, quota: UUID) -> None:
    """Every execution there is, to this quota."""
    raw: Any = quota.bytes if engine.store.label == "sqlite" else quota
    await engine.store.execute_for_test(
        ATTACH.format("?" if engine.store.label == "sqlite" else "$1"), (raw,)
    )  # type: ignore[attr-defined]


@pytest.mark.parametrize("cause", ["rate", "concurrency", "closed", "free"])
async def test_which_quota_and_when_it_opens(
    in_sql: Engine, clock: ManualClock, cause: str
) -> None:
    quota, now = uuid4(), clock()
    await in_sql.register_worker(registration())
    for _ in range(2):
        await create(in_sql)
    await claim(in_sql)
    (ident,) = await in_sql.scan_eligible_executions(LANE)
    await put(
        in_sql,
        "ff_quota_policy",
        quota_policy_id=quota,
        requests_per_window_seconds=10,
        max_requests_per_window=1 if cause == "rate" else 9,
        active_concurrency_cap=1 if cause == "concurrency" else 0,
        closed_until_ms=now + 7_000 if cause == "closed" else None,
        created_at_ms=1,
        updated_at_ms=1,
    )
    window = {"quota_policy_id": quota, "dimension": "default", "execution_id": uuid4()}
    await put(in_sql, "ff_quota_window", **window, admitted_at_ms=now - 4_000)
    await put(in_sql, "ff_quota_window", **window, admitted_at_ms=now - 10_000)
    await attached(in_sql, quota)
    (reason,) = (await in_sql.explain_execution(ident)).reasons
    expected = {
        "rate": UsedQuota(quota, "rate", 1, 1, 10, now + 6_000),
        "concurrency": UsedQuota(quota, "concurrency", 1, 1, 10, None),
        "closed": UsedQuota(quota, "closed", 1, 9, 10, now + 7_000),
        "free": Queue(0, 1, 1),
    }
    assert reason.facts == expected[cause]


# ---- how it is read


async def test_at_most_two_loads_and_no_write(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await seed(engine)
    graph = await submit(engine, "a>b")
    waits = [graph["b"], (await park(engine)).ident, await create(engine, policy=GPU)]
    ended, handle = await running(engine, lane_id="e")
    loads: list[int] = []
    load = engine.store.load

    async def counted(reads: Any) -> Any:
        loads.append(len(reads))
        return await load(reads)

    async def unwritten(*_: Any) -> Any:
        raise AssertionError("explaining changes nothing")

    monkeypatch.setattr(engine.store, "load", counted)
    for name in ("commit", "commit_many", "commit_together", "sweep"):
        monkeypatch.setattr(engine.store, name, unwritten)
    for ident in waits:
        loads.clear()
        assert isinstance(await engine.explain_execution(ident), Explanation)
        assert len(loads) == 2
    loads.clear()
    await engine.explain_execution(ended)
    assert len(loads) == 1 and handle is not None


async def test_an_unknown_budget_id_is_no_limit(in_sql: Engine) -> None:
    ident = await create(in_sql)
    sql = "UPDATE ff_exec_core SET budget_ids = "
    await in_sql.store.execute_for_test(
        sql + ("'[\"x\"]'" if in_sql.store.label == "sqlite" else "'{x}'")
    )  # type: ignore[attr-defined]
    assert await why(in_sql, ident) == ["no_live_worker"]
    assert await in_sql.claim(LANE, (), worker()) is not None
