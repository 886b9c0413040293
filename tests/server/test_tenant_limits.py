"""Budgets and quotas of two namespaces on one server are isolated."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from flowfabric.engine.engine import Engine
from flowfabric.model.budget import UsageDimensions
from flowfabric.wire.json_codec import encode
from tests.engine.budget_helpers import budget, rows, sound
from tests.engine.limit_helpers import quota
from tests.server.client import Answer, memory, stores, uuid
from tests.server.test_tenants import Tenant, tenants

LIMITS: dict[str, Any] = {"dimensions": ["t"], "hard_limits": [10], "soft_limits": [0]}


async def tries(by: Tenant, of_budget: str, of_quota: str) -> dict[str, Answer]:
    """Everything one can try on a budget and on a quota."""
    at, client = f"/v1/budgets/{of_budget}", by.client
    scope = {"scope_type": "lane", "scope_id": by.name}
    budgets, quotas = (
        {"kind": "budget", "limit_id": of_budget},
        {"kind": "quota", "limit_id": of_quota},
    )
    return {
        "status": await client.get(at),
        "usage": await client.post(f"{at}/usage", {"dimensions": {"t": 1}}),
        "reset": await client.post(f"{at}/reset"),
        "get_budget_status": await by.engine("get_budget_status", budget_id=of_budget),
        "read_budget_usage_and_limits": await by.engine(
            "read_budget_usage_and_limits", budget_id=of_budget
        ),
        "update_budget": await by.engine("update_budget", args={"budget_id": of_budget, **LIMITS}),
        "reset_budget": await by.engine("reset_budget", budget_id=of_budget),
        "read_quota_policy_limits": await by.engine(
            "read_quota_policy_limits", quota_policy_id=of_quota
        ),
        "update_quota_policy": await by.engine(
            "update_quota_policy", args={"quota_policy_id": of_quota, "max_concurrent": 1}
        ),
        "close_quota": await by.engine("close_quota", quota_policy_id=of_quota, until_ms=1),
        "open_quota": await by.engine("open_quota", quota_policy_id=of_quota),
        "attach budget": await by.engine("attach_limit", **budgets, **scope),
        "attach quota": await by.engine("attach_limit", **quotas, **scope),
        "detach budget": await by.engine("detach_limit", **budgets, **scope),
        "detach quota": await by.engine("detach_limit", **quotas, **scope),
    }


async def reports(by: Tenant, of_budget: str, of_quota: str) -> dict[str, Answer]:
    """What a worker reports, and what is created under it."""
    used = {"handle": by.handle, "budget_id": of_budget, "usage": UsageDimensions(custom={"t": 1})}
    made = {"lane_id": by.name, "namespace": by.name}
    json = {"Content-Type": "application/json"}
    return {
        "report": await by.client.send(
            "POST", "/v1/engine/report_usage", data=encode(used), headers=json
        ),
        "under budget": await by.client.post(
            "/v1/executions", {**made, "policy": {"budget_ids": [of_budget]}}
        ),
        "under quota": await by.client.post(
            "/v1/executions", {**made, "policy": {"quota_policy_id": of_quota}}
        ),
    }


def told(found: dict[str, Answer], *idents: str) -> dict[str, tuple[int, bytes]]:
    """What was answered, but for the ids that were asked for."""
    known = {}
    for name, answer in found.items():
        raw = answer.raw
        for ident in idents:
            raw = raw.replace(ident.encode(), b"ID")
        known[name] = (answer.status, raw)
    return known


@stores
@pytest.mark.meets("second_tenant", "quota")
async def test_limits_of_another_are_not_there(engine: Engine, tmp_path: Path) -> None:
    async with tenants(engine, tmp_path) as (ann, bob):
        theirs = (
            str(await budget(engine, {"t": 10}, namespace="bob")),
            str(await quota(engine, cap=1, namespace="bob")),
        )
        nobodys = uuid(), uuid()
        before = await engine.store.dump(
            ["ff_budget_policy", "ff_budget_usage", "ff_quota_policy", "ff_limit_scope"]
        )
        for ask in (tries, reports):
            there, not_there = await ask(ann, *theirs), await ask(ann, *nobodys)
            assert {answer.status for answer in there.values()} == {404}
            assert told(there, *theirs) == told(not_there, *nobodys)
        assert before == await engine.store.dump(
            ["ff_budget_policy", "ff_budget_usage", "ff_quota_policy", "ff_limit_scope"]
        )
        assert {
            name: answer.status
            for name, answer in (await tries(bob, *theirs)).items()
            if answer.status != 200
        } == {}
        assert {
            name: answer.status
            for name, answer in (await reports(bob, *theirs)).items()
            if answer.status > 201
        } == {}
        await sound(engine)


@memory
async def test_limits_created_by_a_tenant_are_in_its_namespace(
    engine: Engine, tmp_path: Path
) -> None:
    """Without a namespace it is of the token's; with another, or with an id that is taken
    elsewhere, it is refused.
    """
    async with tenants(engine, tmp_path) as (ann, bob):
        quotas = {"window_seconds": 1, "max_requests_per_window": 1, "max_concurrent": 1}
        for path, body, key in (
            ("/v1/budgets", LIMITS, "budget_id"),
            ("/v1/quotas", quotas, "quota_policy_id"),
        ):
            known = uuid()
            made = [
                await ann.client.post(path, {**body, key: known, **said})
                for said in ({}, {"namespace": "ann"})
            ]
            assert [answer.status for answer in made] == [201, 200]
            refused = [
                await ann.client.post(path, {**body, "namespace": "bob"}),
                await bob.client.post(path, {**body, key: known}),
                await bob.engine("create_budget", args={**LIMITS, "budget_id": known})
                if key == "budget_id"
                else made[0],
            ]
            assert [answer.status for answer in refused] == [
                404,
                404,
                404 if key == "budget_id" else 201,
            ]
        named = await ann.engine(
            "create_quota_policy", args={"quota_policy_id": uuid(), "max_concurrent": 1}
        )
        foreign = await ann.engine(
            "create_quota_policy", args={"quota_policy_id": uuid(), "namespace": "bob"}
        )
        assert (named.status, foreign.status) == (200, 404)
        tables = ("ff_budget_policy", "ff_quota_policy")
        assert {row["namespace"] for table in tables for row in await rows(engine, table)} == {
            "ann"
        }


@memory
async def test_a_limit_change_records_the_token_name(engine: Engine, tmp_path: Path) -> None:
    async with tenants(engine, tmp_path) as (ann, _):
        mine = await budget(engine, {"t": 1}, namespace="ann")
        changed = await ann.engine(
            "update_budget", args={"budget_id": str(mine), **LIMITS, "by": "somebody else"}
        )
        assert changed.status == 200
        (event,) = [
            row
            for row in await rows(engine, "ff_operator_event")
            if row["event_type"] == "budget_updated"
        ]
        assert (msgspec.json.decode(event["details"])["by"], event["namespace"]) == ("ann", "ann")


@memory
async def test_attached_limits_are_listed_within_their_namespace(
    engine: Engine, tmp_path: Path
) -> None:
    async with tenants(engine, tmp_path) as (ann, bob):
        mine, theirs = [await quota(engine, cap=1, namespace=name) for name in ("ann", "bob")]
        for limit in (mine, theirs):
            await engine.attach_limit("quota", limit, "tag", "a.b=c")
        for tenant, limit in ((ann, mine), (bob, theirs)):
            for said in ({}, {"namespace": tenant.name}):
                listed = await tenant.engine("list_limit_scopes", **said)
                assert [UUID(scope["limit_id"]) for scope in listed.json["items"]] == [limit]
        assert (await ann.engine("list_limit_scopes", namespace="bob")).status == 404


@memory
async def test_a_scope_of_another_is_refused(engine: Engine, tmp_path: Path) -> None:
    async with tenants(engine, tmp_path) as (ann, bob):
        mine = {"kind": "quota", "limit_id": str(await quota(engine, cap=1, namespace="ann"))}
        for scope in (("namespace", "bob"), ("flow", bob.flow)):
            found = await ann.engine("attach_limit", **mine, scope_type=scope[0], scope_id=scope[1])
            assert found.status == 404
        for scope in (("namespace", "ann"), ("flow", ann.flow)):
            found = await ann.engine("attach_limit", **mine, scope_type=scope[0], scope_id=scope[1])
            assert found.status == 200
