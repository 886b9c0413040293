"""Golden exchanges of the original API, on each store."""

from __future__ import annotations

import asyncio

from flowfabric.engine.engine import Engine
from flowfabric.model.lease import ClaimPolicy
from tests.server.client import full, memory, new_id, quoted, served, stores, uuid


@stores
async def test_the_same_idempotency_key_finds_the_first(engine: Engine) -> None:
    async with served(engine) as client:
        first = await client.post("/v1/executions", one := full(idempotency_key="k"))
        again = await client.post("/v1/executions", full(idempotency_key="k"))
    assert (first.status, first.json) == (
        201,
        {"Created": {"execution_id": one["execution_id"], "public_state": "waiting"}},
    )
    assert (again.status, again.json) == (200, {"Duplicate": {"execution_id": one["execution_id"]}})


@stores
async def test_missing_entities_are_not_found(engine: Engine) -> None:
    async with served(engine) as client:
        found = await client.get(f"/v1/executions/{{fp:0}}:{uuid()}")
        encoded = await client.get(f"/v1/executions/{quoted(new_id())}")
    assert (found.status, "not found" in found.error) == (404, True)
    assert (encoded.status, "not found" in encoded.error) == (404, True)


@stores
async def test_a_new_priority_is_shown(engine: Engine) -> None:
    async with served(engine) as client:
        ident = await client.create()
        changed = await client.put(f"/v1/executions/{ident}/priority", {"new_priority": 500})
        info = await client.get(f"/v1/executions/{ident}")
    assert (changed.status, changed.json) == (200, {"Changed": {"execution_id": ident}})
    assert info.json["priority"] == 500


@stores
async def test_cancelled_and_replayed(engine: Engine) -> None:
    async with served(engine) as client:
        ident = await client.create()
        path = f"/v1/executions/{ident}"
        cancelled = await client.post(
            f"{path}/cancel", {"execution_id": ident, "reason": "enough", "now": 1}
        )
        assert (cancelled.status, cancelled.json) == (
            200,
            {"Cancelled": {"execution_id": ident, "public_state": "cancelled"}},
        )
        assert (await client.get(f"{path}/state")).raw == b'"cancelled"'
        replayed = await client.post(f"{path}/replay")
        assert (replayed.status, replayed.json) == (200, {"Replayed": {"public_state": "waiting"}})
        assert (await client.get(f"{path}/state")).raw == b'"waiting"'


@stores
async def test_an_empty_flow_is_cancelled_at_once(engine: Engine) -> None:
    async with served(engine) as client:
        flow = uuid()
        await client.post(
            "/v1/flows", {"flow_id": flow, "flow_kind": "dag", "namespace": "default", "now": 1}
        )
        body = {"flow_id": flow, "reason": "enough", "cancellation_policy": "cancel_all", "now": 1}
        found = await client.post(f"/v1/flows/{flow}/cancel", body)
    assert (found.status, found.json) == (
        200,
        {"Cancelled": {"cancellation_policy": "cancel_all", "member_execution_ids": []}},
    )


@memory
async def test_five_tails_with_room_for_two(engine: Engine) -> None:
    async with served(engine, max_concurrent_stream_ops=2) as client:
        ident = await client.create()
        tail = f"/v1/executions/{ident}/attempts/0/stream/tail"
        found = await asyncio.gather(*(client.get(f"{tail}?block_ms=500") for _ in range(5)))
        after = await client.get(f"{tail}?block_ms=0")
    assert sorted(each.status for each in found) == [200, 200, 429, 429, 429]
    refused = next(each for each in found if each.status == 429)
    assert (
        refused.error == "too many concurrent stream_ops calls (server max: 2); retry with backoff"
    )
    assert (refused.json["kind"], refused.json["retryable"]) == ("resource_exhausted", True)
    assert after.status == 200


@memory
async def test_bodies_at_the_limit_and_over_it(engine: Engine) -> None:
    async with served(engine) as client:
        path = f"/v1/executions/{new_id()}/cancel"
        for size, status in ((65_535, 422), (65_536, 422), (65_537, 413)):
            body = b'{"x":"' + b"y" * (size - 8) + b'"}'
            found = await client.send(
                "POST", path, data=body, headers={"Content-Type": "application/json"}
            )
            assert (len(body), found.status) == (size, status)
        assert found.json["limit_bytes"] == 65_536
        assert found.json["route"] == "/v1/executions/{id}/cancel"
        assert found.error == "payload_too_large"


@stores
async def test_the_token_of_an_unknown_waitpoint(engine: Engine) -> None:
    async with served(engine) as client:
        ident = await client.create()
        found = await client.get(f"/v1/executions/{ident}/waitpoints/{uuid()}/token")
    assert (found.status, found.headers["cache-control"]) == (404, "no-store")
    assert found.json["error"] == "waitpoint token not found (consumed, expired, or unknown id)"


@memory
async def test_a_preflight_that_asks_for_the_token(engine: Engine) -> None:
    async with served(engine, cors_origins=["https://app.example"]) as client:
        asked = {
            "Origin": "https://app.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization",
        }
        found = await client.with_token(None).send("OPTIONS", "/v1/executions", headers=asked)
    assert found.status == 200
    assert "authorization" in found.headers["access-control-allow-headers"]


@memory
async def test_a_grant_that_would_last_too_long(engine: Engine) -> None:
    async with served(engine) as client:
        body = {"lane_id": "default", "worker_instance_id": "i1", "grant_ttl_ms": 60_001}
        found = await client.post("/v1/workers/w1/claim", body)
    assert (found.status, found.error) == (400, "grant_ttl_ms must be in 1..=60000")


@stores
async def test_a_healthy_lease_is_not_handed_over(engine: Engine) -> None:
    async with served(engine) as client:
        ident = await client.create()
        assert await engine.claim("default", (), ClaimPolicy("w1", "w1-i1", 30_000)) is not None
        body = {
            "worker_id": "w2",
            "worker_instance_id": "i2",
            "lane_id": "default",
            "grant_ttl_ms": 1_000,
        }
        found = await client.post(f"/v1/executions/{ident}/reclaim", body)
    assert found.status == 200
    assert (found.json["status"], found.json["execution_id"]) == ("not_reclaimable", ident)
