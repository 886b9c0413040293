"""Limits reach the executions created where they are attached."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ResourceExhausted, ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import GraphEdge, SubmitFlowArgs
from flowfabric.model.policy import MAX_BUDGETS

from .budget_helpers import budget
from .helpers import create, dump, new_id, row, two_stores
from .limit_helpers import ids, quota, several, sound, take

A, B, C, D, E = (UUID(int=n) for n in range(1, 6))


async def limits(engine: Engine, ident: ExecutionId) -> tuple[Any, ...]:
    found = await row(engine, ident)
    return found.quota_policy_id, found.budget_ids, found.gate


async def define(engine: Engine, namespace: str = "default") -> None:
    """A budget and a quota under each of the ids."""
    for ident in (A, B, C, D, E):
        await quota(engine, cap=1, ident=ident, namespace=namespace)
        await budget(engine, {"t": 9}, budget_id=ident, namespace=namespace)


async def test_the_nearest_quota_counts_and_all_budgets_do(engine: Engine) -> None:
    await define(engine, "tenant")
    for kind, limit, scope, where in (
        ("quota", A, "namespace", "tenant"),
        ("quota", B, "lane", "jobs"),
        ("quota", C, "tag", "app.customer=acme"),
        ("budget", E, "namespace", "tenant"),
        ("budget", D, "lane", "jobs"),
        ("budget", D, "tag", "app.customer=acme"),
    ):
        assert await engine.attach_limit(kind, limit, scope, where)
    acme = {"app.customer": "acme"}
    tenant = await create(engine, namespace="tenant")
    assert await limits(engine, tenant) == (A, (str(E),), str(A))
    lane = await create(engine, namespace="tenant", lane_id="jobs", tags={"app.customer": "other"})
    assert await limits(engine, lane) == (B, (str(D), str(E)), str(B))
    tagged = await create(engine, namespace="tenant", lane_id="jobs", tags=acme)
    assert await limits(engine, tagged) == (C, (str(D), str(E)), str(C))
    own = {"quota_policy_id": str(E), "budget_ids": [str(A).upper()]}
    direct = await create(engine, namespace="tenant", lane_id="jobs", tags=acme, policy=own)
    assert await limits(engine, direct) == (E, (str(A), str(D), str(E)), str(E))
    assert await limits(engine, await create(engine, lane_id="jobs", tags=acme)) == (None, (), "")
    alone = await create(
        engine,
        namespace="other",
        policy={"budget_ids": [str(await budget(engine, namespace="other"))]},
    )
    assert (await limits(engine, alone))[2] == "budget"
    await sound(engine)


async def test_members_of_a_flow_are_under_its_limits(engine: Engine) -> None:
    await define(engine)
    flow = uuid4()
    await engine.attach_limit("quota", A, "flow", flow)
    await engine.attach_limit("budget", B, "flow", str(flow))
    nodes = [CreateExecutionArgs(execution_id=ExecutionId.for_flow(flow)) for _ in range(2)]
    edge = GraphEdge(nodes[0].execution_id, nodes[1].execution_id)
    await engine.submit_flow(SubmitFlowArgs(flow_id=flow, nodes=nodes, edges=[edge]))
    for node in nodes:
        assert await limits(engine, node.execution_id) == (A, (str(B),), str(A))
    assert ids(await take(engine, 5)) == [nodes[0].execution_id]
    await sound(engine)


async def test_many_created_at_once_have_their_limits_each(engine: Engine) -> None:
    await define(engine)
    await engine.attach_limit("quota", A, "lane", "jobs")
    made = [
        CreateExecutionArgs(execution_id=new_id(), lane_id=lane, idempotency_key=key)
        for lane, key in (("jobs", None), ("default", None), ("jobs", "k"))
    ]
    await engine.create_executions(made)
    assert [(await limits(engine, args.execution_id))[0] for args in made] == [A, None, A]
    await sound(engine)


async def test_of_two_quotas_in_one_place_the_later_counts(engine: Engine, clock: Any) -> None:
    await define(engine)
    await engine.attach_limit("quota", B, "lane", "default")
    clock.advance(1)
    await engine.attach_limit("quota", A, "lane", "default")
    assert (await limits(engine, await create(engine)))[0] == A


async def test_detached_is_for_what_comes_after(engine: Engine) -> None:
    limit = await quota(engine, cap=1)
    assert await engine.attach_limit("quota", limit, "lane", "default")
    assert not await engine.attach_limit("quota", limit, "lane", "default")
    before = (await several(engine, 2))[0]
    assert await engine.detach_limit("quota", limit, "lane", "default")
    assert not await engine.detach_limit("quota", limit, "lane", "default")
    assert (await limits(engine, await create(engine)))[0] is None
    assert (await limits(engine, before))[0] == limit
    assert len(await take(engine, 5)) == 2


async def test_what_is_attached_is_listed_page_by_page(engine: Engine) -> None:
    await define(engine)
    for lane in ("c", "a", "b"):
        await engine.attach_limit("budget", A, "lane", lane)
    first = await engine.list_limit_scopes(limit=2)
    assert [scope.scope_id for scope in first.items] == ["a", "b"]
    rest = await engine.list_limit_scopes(first.next_cursor)
    assert [scope.scope_id for scope in rest.items] == ["c"] and rest.next_cursor is None
    assert (await engine.list_limit_scopes(limit=0)).items == []


@two_stores
async def test_too_many_of_anything_is_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(MAX_BUDGETS + 1):
        await engine.attach_limit(
            "budget", await budget(engine, budget_id=UUID(int=n + 1)), "lane", "default"
        )
    await quota(engine, ident=A)
    before = await dump(engine)
    with pytest.raises(ValidationError, match="budget_ids"):
        await create(engine)
    assert await dump(engine) == before
    monkeypatch.setattr("flowfabric.model.quota.MAX_LIMIT_SCOPES", MAX_BUDGETS + 1)
    with pytest.raises(ResourceExhausted):
        await engine.attach_limit("quota", A, "lane", "default")


@pytest.mark.parametrize(
    "policy",
    [
        {"budget_ids": ["b"]},
        {"budget_ids": [""]},
        {"quota_policy_id": "q"},
        {"quota_policy_id": ""},
    ],
)
@two_stores
async def test_a_malformed_id_is_refused_at_creation(
    engine: Engine, policy: dict[str, Any]
) -> None:
    before = await dump(engine)
    with pytest.raises(ValidationError, match=r"invalid (budget_id|quota_policy_id)"):
        await create(engine, policy=policy)
    assert await dump(engine) == before
