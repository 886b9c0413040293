"""Two tenants and an operator of one server whose namespaces are cells."""

from __future__ import annotations

from pathlib import Path

from tests.cells.helpers import opened
from tests.server.client import served, token_of, tokens_file

ROLES = ["submit", "work", "operate"]


async def test_tenants_have_cells_and_an_operator_sees_all(tmp_path: Path) -> None:
    entries = [{"name": name, "roles": ROLES, "namespace": name} for name in ("ann", "bob")]
    async with (
        opened() as engine,
        served(engine, api_tokens_file=tokens_file(tmp_path, *entries)) as operator,
    ):
        ann, bob = (operator.with_token(token_of(name)) for name in ("ann", "bob"))
        mine, theirs = await ann.create(namespace="ann"), await bob.create(namespace="bob")
        assert await engine.cells.names() == ["ann", "bob", "default"]
        for client, seen in ((ann, {mine}), (bob, {theirs}), (operator, {mine, theirs})):
            for ident in (mine, theirs):
                status = (await client.get(f"/v1/executions/{ident}")).status
                assert status == (200 if ident in seen else 404)
            found = (await client.post("/v1/engine/find_executions", {"where": {}})).json
            assert {
                f"{{fp:{each['partition_key']}}}:{each['execution_uuid']}"
                for each in found["items"]
            } == seen
            counted = (await client.post("/v1/engine/count_executions", {})).json["counts"]
            assert sum(each["count"] for each in counted) == len(seen)
        asked = {"worker_id": "w", "worker_instance_id": "i"}
        claimed = await bob.post(
            "/v1/engine/claim_many",
            {"lane": "default", "capabilities": [], "policy": asked, "n": 9},
        )
        assert [each["execution_id"] for each in claimed.json] == [theirs]
        assert (await operator.get("/readyz")).json["checks"]["timers"] == "ok"
        paused = await operator.post("/v1/lanes/default/pause")
        assert paused.status in (200, 204), paused
        again = await ann.post(
            "/v1/engine/claim_many",
            {"lane": "default", "capabilities": [], "policy": asked, "n": 9},
        )
        assert again.json == []


async def test_a_tenant_finds_its_own_of_two_with_one_id(tmp_path: Path) -> None:
    """Ids of callers may be in two cells, if both were created at once."""
    entries = [{"name": name, "roles": ROLES, "namespace": name} for name in ("ann", "bob")]
    async with (
        opened() as engine,
        served(engine, api_tokens_file=tokens_file(tmp_path, *entries)) as operator,
    ):
        ident = await operator.with_token(token_of("ann")).create(namespace="ann")
        body = {"lane_id": "default", "namespace": "bob", "execution_id": ident}
        await operator.post("/v1/executions", body)
        for name in ("ann", "bob"):
            client = operator.with_token(token_of(name))
            told = (await client.get(f"/v1/executions/{ident}")).json
            assert told["namespace"] == name
            done = await client.post(
                f"/v1/executions/{ident}/cancel", {"execution_id": ident, "reason": name}
            )
            assert done.status == 200, done
