"""A budget and a quota belong to a namespace: for whatever is of another one they are not there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.budget import BudgetAlreadySatisfied, CreateBudgetArgs, UsageDimensions
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import CreateFlowArgs, SubmitFlowArgs
from flowfabric.model.quota import CreateQuotaPolicyArgs, QuotaPolicyAlreadySatisfied

from .budget_helpers import OK, budget, hard, sound, spend, usage
from .helpers import create, dump, new_id, row, running, state, two_stores, worker
from .limit_helpers import quota


async def theirs(engine: Engine) -> tuple[UUID, UUID]:
    """A budget and a quota of another namespace than the default one."""
    return await budget(engine, {"t": 10}, namespace="theirs"), await quota(
        engine, cap=1, namespace="theirs"
    )


def under(of_budget: UUID | None = None, of_quota: UUID | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {} if of_budget is None else {"budget_ids": [str(of_budget)]}
    return found if of_quota is None else {**found, "quota_policy_id": str(of_quota)}


@pytest.mark.meets("second_tenant", "quota", "flow")
async def test_nothing_is_created_under_a_foreign_or_unknown_limit(engine: Engine) -> None:
    foreign_budget, foreign_quota = await theirs(engine)
    mine = await budget(engine, {"t": 10})
    before = await dump(engine)
    flow = uuid4()
    for policy, entity in (
        (under(foreign_budget), "budget"),
        (under(uuid4()), "budget"),
        (under(mine, foreign_quota), "quota_policy"),
        (under(mine, uuid4()), "quota_policy"),
        (under(foreign_quota), "budget"),
    ):
        args = CreateExecutionArgs(execution_id=new_id(), policy=policy)
        node = CreateExecutionArgs(execution_id=ExecutionId.for_flow(flow), policy=policy)
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda args=args: engine.create_execution(args),  # type: ignore[misc]
            lambda args=args: engine.create_executions(
                [CreateExecutionArgs(execution_id=new_id()), args]
            ),  # type: ignore[misc]
            lambda node=node: engine.submit_flow(SubmitFlowArgs(flow_id=flow, nodes=[node])),  # type: ignore[misc]
        ]
        for call in calls:
            with pytest.raises(NotFound) as caught:
                await call()
            assert caught.value.entity == entity
    assert await dump(engine) == before
    made = await create(engine, namespace="theirs", policy=under(foreign_budget, foreign_quota))
    assert (await row(engine, made)).gate == str(foreign_quota)
    await sound(engine)


@pytest.mark.meets("second_tenant", "budget_action")
async def test_what_is_reported_by_another_namespace_is_not_counted_and_never_acts(
    engine: Engine,
) -> None:
    ident = await budget(engine, {"t": 10}, namespace="theirs", on_hard_limit="fail_execution")
    who, handle = await running(engine)
    own, other = [await create(engine, namespace="theirs") for _ in range(2)]
    before = await dump(engine)
    for known in (True, False):  # whether this engine remembers the lease
        if not known:
            engine.parts.leases.clear()
        for call in (
            lambda: engine.report_usage(handle, ident, UsageDimensions(custom={"t": 1})),
            lambda: engine.report_usage(handle, ident, UsageDimensions(custom={"t": 11})),
            lambda: spend(engine, ident, who, t=1),
            lambda: spend(engine, ident, who, t=11),
        ):
            with pytest.raises(NotFound, match=f"budget {ident} not found"):
                await call()
    assert await dump(engine) == before
    assert (await spend(engine, ident, own, t=3), await spend(engine, ident, new_id(), t=1)) == (
        OK,
        OK,
    )
    assert await usage(engine, ident) == {"t": 4}
    assert await spend(engine, ident, other, t=7) == hard("t", 4, 10, "fail_execution")
    assert [await state(engine, each) for each in (who, own, other)] == [
        "RUNNING",
        "READY",
        "ENDED(failed)",
    ]
    await sound(engine)


async def test_concurrent_reports_of_two_namespaces_are_counted_apart(engine: Engine) -> None:
    ident, _ = await theirs(engine)
    mine, own = await create(engine), await create(engine, namespace="theirs")
    told = await asyncio.gather(
        *(spend(engine, ident, who, t=1) for who in (own, mine, own)), return_exceptions=True
    )
    assert [type(each).__name__ for each in told] == ["UsageOk", "NotFound", "UsageOk"]
    assert await usage(engine, ident) == {"t": 2}


async def test_what_is_attached_reaches_its_own_namespace_only(engine: Engine) -> None:
    of_budget, of_quota = await theirs(engine)
    await engine.attach_limit("quota", of_quota, "lane", "jobs")
    await engine.attach_limit("budget", of_budget, "tag", "a.b=c")
    await engine.attach_limit("budget", of_budget, "namespace", "theirs")
    mine = [await create(engine, lane_id="jobs", tags={"a.b": "c"}) for _ in range(2)]
    own = [await create(engine, namespace="theirs", lane_id="jobs") for _ in range(2)]
    assert {(await row(engine, who)).gate for who in mine} == {""}
    assert {(await row(engine, who)).quota_policy_id for who in own} == {of_quota}
    assert (await row(engine, own[0])).budget_ids == (str(of_budget),)
    await sound(engine)


async def test_members_of_a_flow_are_under_the_limits_of_their_namespace(engine: Engine) -> None:
    """One attached before the flow is there reaches it only if the flow is of the same namespace
    then.
    """
    _, of_quota = await theirs(engine)
    for namespace, gate in (("theirs", str(of_quota)), ("default", "")):
        flow = uuid4()
        await engine.attach_limit("quota", of_quota, "flow", flow)
        node = CreateExecutionArgs(execution_id=ExecutionId.for_flow(flow), namespace=namespace)
        await engine.submit_flow(SubmitFlowArgs(flow_id=flow, nodes=[node], namespace=namespace))
        assert (await row(engine, node.execution_id)).gate == gate
    await sound(engine)


async def test_nothing_is_attached_to_what_is_of_another_namespace_or_unknown(
    engine: Engine,
) -> None:
    of_budget, of_quota = await theirs(engine)
    flow = uuid4()
    await engine.create_flow(CreateFlowArgs(flow_id=flow))
    before = await dump(engine)
    for kind, limit, scope, where, told in (
        ("quota", of_quota, "namespace", "default", "namespace default not found"),
        ("budget", of_budget, "flow", flow, f"flow {flow} not found"),
        ("budget", uuid4(), "lane", "jobs", "budget .* not found"),
        ("quota", of_budget, "lane", "jobs", "quota_policy .* not found"),
    ):
        with pytest.raises(NotFound, match=told):
            await engine.attach_limit(kind, limit, scope, where)
    assert await dump(engine) == before


@two_stores
async def test_an_id_is_taken_whatever_namespace_has_it(engine: Engine) -> None:
    of_budget, of_quota = await theirs(engine)
    before = await dump(engine)
    for namespace in (None, "default", "mine"):
        with pytest.raises(NotFound, match="budget"):
            await engine.create_budget(CreateBudgetArgs(budget_id=of_budget, namespace=namespace))
        with pytest.raises(NotFound, match="quota_policy"):
            await engine.create_quota_policy(
                CreateQuotaPolicyArgs(quota_policy_id=of_quota, namespace=namespace)
            )
    again = CreateBudgetArgs(budget_id=of_budget, namespace="theirs")
    assert await engine.create_budget(again) == BudgetAlreadySatisfied(of_budget)
    args = CreateQuotaPolicyArgs(quota_policy_id=of_quota, namespace="theirs")
    assert await engine.create_quota_policy(args) == QuotaPolicyAlreadySatisfied(of_quota)
    assert await dump(engine) == before
    for bad in ("", "a" * 5_000, 7):
        with pytest.raises(ValidationError, match="namespace"):
            await engine.create_budget(CreateBudgetArgs(budget_id=uuid4(), namespace=bad))  # type: ignore[arg-type]
        with pytest.raises(ValidationError, match="namespace"):
            await engine.create_quota_policy(
                CreateQuotaPolicyArgs(quota_policy_id=uuid4(), namespace=bad)
            )  # type: ignore[arg-type]


async def test_where_a_limit_belongs(engine: Engine) -> None:
    of_budget, of_quota = await theirs(engine)
    found = [
        await engine.read_limit_namespace(*asked)
        for asked in (("budget", of_budget), ("quota", of_quota))
    ]
    plain = await engine.read_limit_namespace("quota", await quota(engine, cap=1))
    assert (found, plain, await engine.read_limit_namespace("quota", of_budget)) == (
        ["theirs", "theirs"],
        "default",
        None,
    )
    with pytest.raises(ValidationError, match="kind"):
        await engine.read_limit_namespace("lane", of_budget)


async def test_what_is_attached_is_listed_by_namespace(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the cursor names what is of another."""
    monkeypatch.setattr("flowfabric.engine.limits.quotas.MAX_SCOPES_PAGE", 3)
    own = await quota(engine, cap=1)
    of_budget, of_quota = await theirs(engine)
    for lane in ("a", "b", "c", "d", "e"):
        await engine.attach_limit("quota", own, "lane", lane)
        await engine.attach_limit("budget", of_budget, "lane", lane)
    await engine.attach_limit("quota", of_quota, "lane", "z")
    first = await engine.list_limit_scopes(limit=3, namespace="theirs")
    assert [scope.scope_id for scope in first.items] == [
        "a",
        "b",
        "c",
    ] and first.next_cursor == first.items[-1]
    rest = await engine.list_limit_scopes(first.next_cursor, limit=3, namespace="theirs")
    assert [(scope.scope_id, scope.kind) for scope in rest.items] == [
        ("d", "budget"),
        ("e", "budget"),
        ("z", "quota"),
    ]
    assert {scope.namespace for scope in (*first.items, *rest.items)} == {
        "theirs"
    } and rest.next_cursor is None
    assert (await engine.list_limit_scopes(namespace="nobody")).items == []
    everything = [scope.namespace for scope in (await engine.list_limit_scopes(limit=3)).items]
    assert everything == ["theirs", "default", "theirs"]


async def test_claims_behind_two_namespaces_limits(engine: Engine) -> None:
    """Both wait in one lane, each under its own quota: a full one hides no execution of the
    other.
    """
    _, of_quota = await theirs(engine)
    mine = await quota(engine, cap=1)
    for limit in (of_quota, mine):
        await engine.attach_limit("quota", limit, "lane", "jobs")
    made = [
        await create(engine, lane_id="jobs", namespace=name)
        for name in ("theirs", "theirs", "default", "default")
    ]
    for name, own in (("default", made[2:]), ("theirs", made[:2])):
        (work,) = await engine.claim_many("jobs", (), worker(namespace=name), 9)
        assert work.execution_id in own
    await sound(engine)
