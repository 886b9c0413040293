"""Policies and limits over HTTP: wrong shapes are refused, numbers are clamped."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.policy import MAX_COUNT, MAX_DURATION_MS
from flowfabric.testing import ManualClock
from tests.engine.helpers import TTL_MS, claim, row
from tests.engine.suspend_helpers import park
from tests.server.client import full, memory, new_id, served, stores, uuid
from tests.server.test_waitpoints import signal

U64_MAX = 2**64 - 1
EXPONENTIAL = {"type": "exponential", "initial_delay_ms": 1, "max_delay_ms": 2, "multiplier": 1.5}


def without(name: str) -> dict[str, Any]:
    return {key: held for key, held in EXPONENTIAL.items() if key != name}


@memory
@pytest.mark.parametrize(
    "policy",
    [
        {"retry_policy": {"max_retries": "many"}},
        {"retry_policy": {"max_retries": -1}},
        {"retry_policy": {"max_retries": 2**32}},
        {"retry_policy": {"retryable_categories": "timeout"}},
        {"retry_policy": []},
        {"retry_policy": {"backoff": {"type": "weird"}}},
        {"retry_policy": {"backoff": {}}},
        {"retry_policy": {"backoff": "fixed"}},
        {"retry_policy": {"backoff": {"type": "fixed"}}},
        {"retry_policy": {"backoff": {"type": "fixed", "delay_ms": -1}}},
        {"retry_policy": {"backoff": {"type": "fixed", "delay_ms": 1.5}}},
        {"retry_policy": {"backoff": {"type": "exponential"}}},
        *(
            {"retry_policy": {"backoff": without(name)}}
            for name in ("type", "initial_delay_ms", "max_delay_ms", "multiplier")
        ),
        {"retry_policy": {"backoff": {**EXPONENTIAL, "multiplier": "2"}}},
        {"retry_policy": {"backoff": {**EXPONENTIAL, "jitter": 1}}},
        {"timeout_policy": {"attempt_timeout_ms": "1s"}},
        {"timeout_policy": {"execution_deadline_ms": -1}},
        {"suspension_policy": {"timeout_behavior": 1}},
        {"fallback_policy": {"tiers": [{"provider": "p"}]}},
        {"routing_requirements": {"required_capabilities": "gpu"}},
        {"routing_requirements": []},
        {"stream_policy": {"retention_maxlen": -1}},
        {"stream_policy": {"durability_mode": None}},
        {"budget_ids": ["x"]},
        {"quota_policy_id": "x"},
        {"priority": 2**31},
        {"max_replay_count": 1.0},
        "{}",
        [],
    ],
    ids=str,
)
async def test_a_policy_of_another_shape_is_refused(engine: Engine, policy: Any) -> None:
    async with served(engine) as client:
        node = {"lane_id": "default", "policy": policy}
        ident = new_id()
        refused = [
            await client.post("/v1/executions", {**full(policy=policy), "execution_id": ident}),
            await client.post(
                "/v1/executions/batch", {"executions": [{"lane_id": "default"}, node]}
            ),
            await client.post(
                "/v1/flows/graph", {"flow_id": uuid(), "nodes": [{**node, "execution_id": ident}]}
            ),
        ]
        assert [each.status for each in refused] == [422] * 3
        assert "$" in refused[0].json["detail"]  # where it is wrong
    assert (await engine.store.dump(["ff_exec_core"]))["ff_exec_core"] == []


@stores
async def test_numbers_outside_the_range_are_clamped(engine: Engine) -> None:
    async with served(engine) as client:
        ident = await client.create(
            policy={
                "delay_until": -5,
                "retry_policy": {
                    "backoff": {**EXPONENTIAL, "max_delay_ms": U64_MAX, "multiplier": 0.5}
                },
                "timeout_policy": {
                    "attempt_timeout_ms": U64_MAX,
                    "execution_deadline_ms": 20 * 365 * 86_400_000,
                },
                "suspension_policy": {"default_timeout_ms": U64_MAX},
                "fallback_policy": {
                    "tiers": [{"provider": "p", "model": "m", "timeout_ms": U64_MAX}]
                },
                "dedup_window_ms": U64_MAX,
                "stream_policy": {"retention_maxlen": 10**12, "retention_ttl_ms": U64_MAX},
            },
            execution_deadline_at=2**63 - 1,
            idempotency_key="k",
        )
        held = await row(engine, ExecutionId(ident))
        kept = msgspec.json.decode(held.policy or "")
        assert kept == {
            "delay_until": 0,
            "retry_policy": {
                "backoff": {
                    **EXPONENTIAL,
                    "max_delay_ms": MAX_DURATION_MS,
                    "multiplier": 1,
                    "jitter": False,
                }
            },
            "timeout_policy": {
                "attempt_timeout_ms": MAX_DURATION_MS,
                "execution_deadline_ms": MAX_DURATION_MS,
            },
            "suspension_policy": {"default_timeout_ms": MAX_DURATION_MS},
            "fallback_policy": {
                "tiers": [{"provider": "p", "model": "m", "timeout_ms": MAX_DURATION_MS}]
            },
            "dedup_window_ms": MAX_DURATION_MS,
            "stream_policy": {"retention_maxlen": MAX_COUNT, "retention_ttl_ms": MAX_DURATION_MS},
        }
        handle = await claim(engine)
        await engine.renew(handle)
        await engine.complete(handle, b"done")
        assert (await client.get(f"/v1/executions/{ident}/result")).raw == b"done"


@stores
async def test_now_and_partition_id_are_ignored(engine: Engine, clock: ManualClock) -> None:
    async with served(engine) as client:
        for now, partition in ((-(2**63), 0), (2**63 - 1, 300)):
            body = full(now=now, partition_id=partition)
            assert (await client.post("/v1/executions", body)).status == 201
            info = await client.get(f"/v1/executions/{body['execution_id']}")
            assert info.json["created_at"] == str(clock.now_ms)


@memory
async def test_a_uuid_in_a_body_has_hyphens_or_none(engine: Engine) -> None:
    async with served(engine) as client:
        for spelled, status in (("{}", 201), ("{{{}}}", 422), ("urn:uuid:{}", 422)):
            assert (
                await client.post(
                    "/v1/flows", {"flow_id": spelled.format(uuid()), "flow_kind": "k"}
                )
            ).status == status
        assert (
            await client.post("/v1/flows", {"flow_id": uuid().replace("-", ""), "flow_kind": "k"})
        ).status == 201
        assert (
            await client.post("/v1/flows", {"flow_id": uuid().replace("-", "_"), "flow_kind": "k"})
        ).status == 422


@stores
async def test_a_budget_without_an_end(engine: Engine) -> None:
    async with served(engine) as client:
        limits = {
            "dimensions": ["a", "b"],
            "hard_limits": [U64_MAX, 10],
            "soft_limits": [U64_MAX, U64_MAX],
        }
        made = await client.post("/v1/budgets", {**limits, "reset_interval_ms": U64_MAX})
        path = f"/v1/budgets/{made.json['Created']['budget_id']}"
        assert (await client.post(f"{path}/usage", {"dimensions": {"a": 5}})).json == "Ok"
        over = await client.post(f"{path}/usage", {"dimensions": {"b": U64_MAX}})
        assert (over.status, over.json) == (
            200,
            {"HardBreach": {"dimension": "b", "current_usage": 0, "hard_limit": 10}},
        )
        assert (await client.get(path)).json["usage"] == {"a": 5}
        assert (await client.post(f"{path}/reset")).status == 200


@stores
async def test_a_quota_without_an_end(engine: Engine, clock: ManualClock) -> None:
    async with served(engine) as client:
        most = {
            "window_seconds": U64_MAX,
            "max_requests_per_window": U64_MAX,
            "max_concurrent": U64_MAX,
        }
        made = await client.post("/v1/quotas", most)
        quota = made.json["Created"]["quota_policy_id"]
        for _ in range(2):
            ident = await client.create(policy={"quota_policy_id": quota})
            handle = await claim(engine)
            await engine.complete(handle, b"")
            assert (await client.get(f"/v1/executions/{ident}/state")).json == "completed"
            clock.advance(TTL_MS)


@stores
async def test_a_signal_with_the_largest_numbers(engine: Engine) -> None:
    async with served(engine) as client:
        parked = await park(engine)
        names = ("dedup_ttl_ms", "max_signals_per_execution", "signal_maxlen")
        told = await signal(
            client, parked, idempotency_key="k", created_at=-1, **dict.fromkeys(names, U64_MAX)
        )
        assert (told.status, list(told.json)) == (200, ["Accepted"])
        again = await signal(client, parked, idempotency_key="k", **dict.fromkeys(names, U64_MAX))
        assert (again.status, list(again.json)) == (200, ["Duplicate"])
