"""Capabilities, configuration, health and readiness over HTTP."""

from __future__ import annotations

from flowfabric.engine.engine import Engine
from tests.server.client import memory, served, stores


@stores
async def test_capabilities_are_reported(engine: Engine) -> None:
    async with served(engine) as client:
        found = (await client.get("/v1/capabilities")).json
    known = engine.capabilities()
    identity = {
        "family": engine.backend_label,
        "version": known.identity["version"],
        "stage": "unknown",
    }
    assert found == {"identity": identity, "supports": known.supports}


@memory
async def test_config_reports_partitions_and_limits(engine: Engine) -> None:
    async with served(engine, lanes=["default", "mail"], max_concurrent_stream_ops=7) as client:
        found = (await client.get("/v1/config")).json
    limits = found.pop("limits")
    partitions = {
        "num_flow_partitions": 256,
        "num_budget_partitions": 32,
        "num_quota_partitions": 32,
    }
    assert found == {**partitions, "lanes": ["default", "mail"]}
    assert (limits["concurrent_stream_ops"], limits["executions_per_batch"]) == (7, 10_000)
