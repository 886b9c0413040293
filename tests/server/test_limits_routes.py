"""Routes of budgets and quotas."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from tests.server.client import memory, served, stores, uuid

BUDGET = {
    "scope_type": "team",
    "scope_id": "a",
    "enforcement_mode": "strict",
    "on_hard_limit": "reject",
    "on_soft_limit": "warn",
    "reset_interval_ms": 60_000,
    "dimensions": ["tokens", "calls"],
    "hard_limits": [10, 0],
    "soft_limits": [5, 0],
    "now": 1,
}


@stores
async def test_a_budget_is_made_and_spent(engine: Engine) -> None:
    async with served(engine) as client:
        ident = uuid()
        made = await client.post("/v1/budgets", {**BUDGET, "budget_id": ident})
        again = await client.post("/v1/budgets", {**BUDGET, "budget_id": ident})
        assert (made.status, made.json) == (201, {"Created": {"budget_id": ident}})
        assert (again.status, again.json) == (200, {"AlreadySatisfied": {"budget_id": ident}})
        path = f"/v1/budgets/{ident}"
        fresh = await client.get(path)
        assert fresh.status == 200
        assert set(fresh.json) == {
            "budget_id",
            "scope_type",
            "scope_id",
            "enforcement_mode",
            "usage",
            "hard_limits",
            "soft_limits",
            "breach_count",
            "soft_breach_count",
            "last_breach_at",
            "last_breach_dim",
            "next_reset_at",
            "created_at",
        }
        assert (fresh.json["usage"], fresh.json["last_breach_at"]) == ({}, None)
        assert fresh.json["created_at"].isdigit() and fresh.json["next_reset_at"].isdigit()

        async def spend(tokens: int, **said: Any) -> Any:
            found = await client.post(
                f"{path}/usage", {"dimensions": {"tokens": tokens}, "now": 1, **said}
            )
            assert found.status == 200
            return found.json

        assert await spend(4, dedup_key="once") == "Ok"
        assert await spend(4, dedup_key="once") == "AlreadyApplied"
        assert await spend(3) == {
            "SoftBreach": {"dimension": "tokens", "current_usage": 7, "soft_limit": 5}
        }
        hard = (await spend(4))["HardBreach"]
        assert (hard["dimension"], hard["current_usage"], hard["hard_limit"]) == ("tokens", 7, 10)
        status = (await client.get(path)).json
        assert (status["usage"], status["breach_count"], status["last_breach_dim"]) == (
            {"tokens": 7},
            1,
            "tokens",
        )
        reset = await client.post(f"{path}/reset")
        assert (
            reset.status,
            list(reset.json),
            isinstance(reset.json["Reset"]["next_reset_at"], int),
        ) == (200, ["Reset"], True)
        assert (await client.get(path)).json["usage"] == {"tokens": 0}


@memory
async def test_missing_and_invalid_budgets(engine: Engine) -> None:
    async with served(engine) as client:
        for path in ("", "/usage", "/reset"):
            for ident, status in ((uuid(), 404), ("x", 400)):
                body = {"dimensions": {"a": 1}, "now": 1} if path == "/usage" else None
                found = await client.send(
                    "GET" if not path else "POST",
                    f"/v1/budgets/{ident}{path}",
                    **({"json": body} if body else {}),
                )
                assert found.status == status, (path, ident)
                assert found.error.startswith(
                    "not found: budget" if status == 404 else "invalid budget_id: "
                )
        for changes, status in (
            ({"hard_limits": [1]}, 400),
            ({"hard_limits": [-1, 1]}, 422),
            ({"dimensions": "x"}, 422),
        ):
            assert (await client.post("/v1/budgets", {**BUDGET, **changes})).status == status
        minted = await client.post("/v1/budgets", {"dimensions": ["a"], "hard_limits": [1]})
        assert minted.status == 201
        ident = minted.json["Created"]["budget_id"]
        for usage, status in (({"a": -1}, 422), ({"a": 2**63}, 200), ({"a": "1"}, 422), ({}, 200)):
            found = await client.post(f"/v1/budgets/{ident}/usage", {"dimensions": usage})
            assert found.status == status, (usage, found)


@stores
async def test_a_quota_is_made_once(engine: Engine) -> None:
    async with served(engine) as client:
        ident = uuid()
        body = {
            "quota_policy_id": ident,
            "window_seconds": 60,
            "max_requests_per_window": 5,
            "max_concurrent": 0,
            "now": 1,
        }
        made, again = await client.post("/v1/quotas", body), await client.post("/v1/quotas", body)
    assert (made.status, made.json) == (201, {"Created": {"quota_policy_id": ident}})
    assert (again.status, again.json) == (200, {"AlreadySatisfied": {"quota_policy_id": ident}})


@memory
@pytest.mark.parametrize(
    "changes",
    [
        {"window_seconds": -1},
        {"max_concurrent": None},
        {"quota_policy_id": "x"},
        {"max_requests_per_window": 1.5},
    ],
)
async def test_quotas_that_make_no_sense(engine: Engine, changes: dict[str, Any]) -> None:
    async with served(engine) as client:
        body = {"window_seconds": 60, "max_requests_per_window": 5, "max_concurrent": 0, **changes}
        assert (await client.post("/v1/quotas", body)).status == 422
