"""What the tests of limits share."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId, time_ordered_uuid
from flowfabric.model.lease import Handle
from flowfabric.model.quota import CreateQuotaPolicyArgs, QuotaPolicyCreated
from flowfabric.plan import Arg, Form, Insert
from flowfabric.store.schema import TABLES
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, world_of

from .helpers import create, fields, worker

LANE = "default"
WINDOW_MS = 60_000
_BUDGET = Form(
    "t_budget",
    Insert(
        "ff_budget_policy",
        {
            "budget_id": Arg("budget_id"),
            "policy_json": Arg("policy_json"),
            "created_at_ms": 0,
            "updated_at_ms": 0,
        },
    ),
)
_SPEND = Form(
    "t_spend",
    Insert(
        "ff_budget_usage", {c: Arg(c) for c in ("budget_id", "dimensions_key", "current_value")}
    ),
)


async def quota(
    engine: Engine,
    cap: int = 0,
    rate: int = 0,
    window_s: int = 60,
    ident: UUID | None = None,
    namespace: str | None = None,
) -> UUID:
    made = ident or uuid4()
    limits = {"window_seconds": window_s, "max_requests_per_window": rate, "max_concurrent": cap}
    args = CreateQuotaPolicyArgs(quota_policy_id=made, namespace=namespace, **limits)
    assert await engine.create_quota_policy(args) == QuotaPolicyCreated(made)
    return made


async def quota_lane(
    engine: Engine, cap: int = 0, rate: int = 0, lane: str = LANE, **more: Any
) -> UUID:
    """A lane under a quota of its own."""
    made = await quota(engine, cap, rate, **more)
    assert await engine.attach_limit("quota", made, "lane", lane)
    return made


async def budget(
    engine: Engine,
    used: int = 0,
    hard: int = 10,
    dimension: str = "tokens",
    ident: UUID | None = None,
) -> UUID:
    """A budget as its own operations leave it."""
    made = ident or uuid4()
    text = json.dumps({"hard_limits": {dimension: hard}, "soft_limits": {}})
    await engine.store.commit(_BUDGET(budget_id=made, policy_json=text))
    await engine.store.commit(_SPEND(budget_id=made, dimensions_key=dimension, current_value=used))
    return made


async def several(engine: Engine, n: int, **said: Any) -> list[ExecutionId]:
    """In the order in which they will be claimed."""
    return [
        await create(engine, execution_id=ExecutionId.of(0, time_ordered_uuid()), **said)
        for _ in range(n)
    ]


async def take(
    engine: Engine,
    n: int = 1,
    *,
    lane: str = LANE,
    number: int = 1,
    capabilities: tuple[str, ...] = (),
) -> list[Handle]:
    """Up to n handles, claimed at once."""
    return [work.handle for work in await engine.claim_many(lane, capabilities, worker(number), n)]


def ids(handles: list[Handle]) -> list[ExecutionId]:
    return [fields(handle).execution_id for handle in handles]


async def table(engine: Engine, name: str) -> list[dict[str, Any]]:
    rows = (await engine.store.dump([name]))[name]
    return [dict(zip(TABLES[name].names, row, strict=True)) for row in rows]


async def held(engine: Engine) -> int:
    return sum(row["ownership_state"] == "leased" for row in await table(engine, "ff_exec_core"))


async def window(engine: Engine) -> list[int]:
    return sorted(row["admitted_at_ms"] for row in await table(engine, "ff_quota_window"))


async def sound(engine: Engine) -> None:
    assert check(world_of(await engine.store.dump(TABLES_READ))) == []
