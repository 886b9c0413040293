"""Routes of workers, lanes and schedules."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.testing import ManualClock
from tests.engine.helpers import lost, registration
from tests.server.client import memory, new_id, served, stores

CLAIM = {"lane_id": "default", "worker_instance_id": "w1-i1", "grant_ttl_ms": 1_000}
RECLAIM = {
    "worker_id": "w2",
    "worker_instance_id": "w2-i1",
    "lane_id": "default",
    "grant_ttl_ms": 1_000,
}


@stores
async def test_a_claim_reserves_the_best(engine: Engine, clock: ManualClock) -> None:
    async with served(engine) as client:
        none = await client.post("/v1/workers/w1/claim", CLAIM)
        assert (none.status, none.raw) == (204, b"")
        low = await client.create(priority=1)
        high = await client.create(priority=9)
        found = await client.post("/v1/workers/w1/claim", CLAIM)
        assert (found.status, set(found.json)) == (
            200,
            {"execution_id", "partition_key", "grant_key", "expires_at_ms"},
        )
        assert found.json["execution_id"] == high
        assert found.json["partition_key"] == f"{{fp:{ExecutionId(high).partition_index}}}"
        assert found.json["expires_at_ms"] == clock.now_ms + 1_000
        assert (await client.post("/v1/workers/w2/claim", CLAIM)).json["execution_id"] == low
        assert (await client.post("/v1/workers/w3/claim", CLAIM)).status == 204


@stores
async def test_claims_require_capabilities(engine: Engine) -> None:
    async with served(engine) as client:
        needs = {"routing_requirements": {"required_capabilities": ["gpu"]}}
        await client.create(policy=needs)
        assert (await client.post("/v1/workers/w1/claim", CLAIM)).status == 204
        ident = await client.create(policy=needs)
        found = await client.post("/v1/workers/w1/claim", {**CLAIM, "capabilities": ["gpu", "big"]})
        assert (found.status, found.json["execution_id"]) == (200, ident)


@memory
@pytest.mark.parametrize(
    ("sent", "meant"),
    [("pool%2Fw3", "pool/w3"), ("100%25", "100%"), ("%2e%2E", ".."), ("a%252Fb", "a%2Fb")],
)
async def test_a_path_is_split_before_it_is_decoded(engine: Engine, sent: str, meant: str) -> None:
    async with served(engine) as client:
        ident = await client.create(lane_id=meant)
        found = await client.post(f"/v1/workers/{sent}/claim", {**CLAIM, "lane_id": meant})
        assert (found.status, found.json["execution_id"]) == (200, ident)
        (grant,) = (await engine.store.dump(["ff_claim_grant"]))["ff_claim_grant"]
        assert meant in grant
        lane = await client.get(f"/v1/lanes/{sent}")
        assert (lane.status, lane.json["lane_id"]) == (200, meant)
        assert (await client.get(f"/v1%2Flanes/{sent}")).status == 404


@memory
@pytest.mark.parametrize(
    ("worker", "changes", "status", "said"),
    [
        ("w%201", {}, 400, "worker_id: must not contain whitespace or control characters"),
        ("w" * 257, {}, 400, "worker_id: exceeds 256 bytes (got 257)"),
        ("w1", {"worker_instance_id": ""}, 400, "worker_instance_id: must not be empty"),
        (
            "w1",
            {"worker_instance_id": "a\nb"},
            400,
            "worker_instance_id: must not contain whitespace or control characters",
        ),
        (
            "w1",
            {"worker_instance_id": "é" * 129},
            400,
            "worker_instance_id: exceeds 256 bytes (got 258)",
        ),
        ("w1", {"grant_ttl_ms": 0}, 400, "grant_ttl_ms must be in 1..=60000"),
        ("w1", {"grant_ttl_ms": -1}, 400, "grant_ttl_ms must be in 1..=60000"),
        ("w1", {"lane_id": ""}, 400, None),
        ("w1", {"lane_id": "x" * 65}, 400, None),
        ("w1", {"lane_id": "na\u00efve"}, 400, None),
        ("w1", {"lane_id": 1}, 422, "invalid JSON: Unprocessable Entity"),
        ("w1", {"capabilities": ["a,b"]}, 400, None),
        ("w1", {"capabilities": [""]}, 400, None),
        ("w1", {"capabilities": [f"c{n}" for n in range(257)]}, 400, None),
        ("w1", {"worker_instance_id": "x" * 256, "grant_ttl_ms": 60_000}, 204, None),
    ],
)
async def test_fields_of_a_claim(
    engine: Engine, worker: str, changes: dict[str, Any], status: int, said: str | None
) -> None:
    async with served(engine) as client:
        found = await client.post(f"/v1/workers/{worker}/claim", {**CLAIM, **changes})
        assert found.status == status, found
        if said is not None:
            assert found.error == said


@stores
async def test_lost_executions_are_reclaimed(engine: Engine, clock: ManualClock) -> None:
    async with served(engine) as client:
        ident, _ = await lost(
            engine, clock, policy={"routing_requirements": {"required_capabilities": []}}
        )
        path = f"/v1/executions/{ident}/reclaim"
        found = await client.post(path, RECLAIM)
        assert (found.status, found.json["status"], found.json["execution_id"]) == (
            200,
            "granted",
            str(ident),
        )
        assert set(found.json) == {
            "status",
            "execution_id",
            "partition_key",
            "grant_key",
            "expires_at_ms",
            "lane_id",
        }
        assert (await client.post(f"/v1/executions/{new_id()}/reclaim", RECLAIM)).status == 404
        for changes, status in (
            ({"worker_id": ""}, 400),
            ({"grant_ttl_ms": 60_001}, 400),
            ({"lane_id": "é"}, 422),
        ):
            assert (await client.post(path, {**RECLAIM, **changes})).status == status


@stores
async def test_handed_over_too_often(engine: Engine, clock: ManualClock) -> None:
    async with served(engine) as client:
        ident, _ = await lost(engine, clock, policy={"max_reclaim_count": 0})
        found = await client.post(f"/v1/executions/{ident}/reclaim", RECLAIM)
        assert (found.status, found.json["status"]) == (200, "reclaim_cap_exceeded")
        assert set(found.json) == {"status", "execution_id", "reclaim_count"}
        assert (await client.get(f"/v1/executions/{ident}/state")).json == "failed"


@stores
async def test_workers_are_listed(engine: Engine) -> None:
    async with served(engine) as client:
        assert (await client.get("/v1/workers")).json["items"] == []
        await engine.register_worker(registration())
        found = await client.get("/v1/workers?namespace=default")
        assert (found.status, [each["worker_id"] for each in found.json["items"]]) == (200, ["w1"])
        assert (await client.get("/v1/workers?limit=0")).status == 400


@stores
async def test_lanes_are_paused_resumed_and_drained(engine: Engine) -> None:
    async with served(engine) as client:
        missing = await client.get("/v1/lanes/unheard-of")
        assert (missing.status, missing.error) == (404, "not found: lane")
        await client.create(lane_id="a lane")
        for word, shown in (
            ("pause", "intake_paused"),
            ("resume", "active"),
            ("drain", "draining"),
        ):
            found = await client.post(f"/v1/lanes/a%20lane/{word}")
            assert found.status == 200, found
            assert shown in found.raw.decode() or word in found.raw.decode(), found
        assert (await client.get("/v1/lanes/a%20lane")).json["lane_id"] == "a lane"
        listed = await client.get("/v1/lanes?limit=1000")
        assert "a lane" in listed.raw.decode()
        refused = await client.post("/v1/executions", {"lane_id": "a lane"})
        assert (refused.status, refused.json["code"]) == (409, "lane_closed")
        for bad in ("/v1/lanes?limit=1001", "/v1/lanes/" + "x" * 65):
            assert (await client.get(bad)).status == 400


@stores
async def test_schedules(engine: Engine) -> None:
    async with served(engine) as client:
        found = await client.get("/v1/schedules")
        assert found.status == 200
        for word in ("pause", "resume"):
            told = await client.post(f"/v1/schedules/nightly/{word}")
            assert (told.status, isinstance(told.json["changed"], bool)) == (200, True), told
