"""Routes of bulk actions: every shape and status, and what a token of a namespace reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.model.bulk import BulkAction, BulkArgs, BulkState
from flowfabric.model.search import ExecutionFilter
from flowfabric.remote.engine import RemoteEngine
from tests.engine.bulk_helpers import operations
from tests.engine.helpers import completed, create, row, running, state
from tests.server.client import memory, served, stores, token_of, tokens_file, uuid

JOB = {
    "job_id",
    "args",
    "state",
    "matched",
    "changed",
    "skipped",
    "refused",
    "errors",
    "created_at",
    "updated_at",
    "ended_at",
}
OPERATOR = {"name": "ann", "roles": ["operate"], "namespace": "ann", "lanes": ["ann"]}
ADMIN = {"name": "root", "roles": ["admin"]}


@stores
async def test_a_job_is_started_followed_and_listed(engine: Engine) -> None:
    ident = await create(engine)
    async with served(engine) as client:
        made = await client.post("/v1/bulk", {"action": "cancel", "reason": "wrong"})
        assert (made.status, set(made.json)) == (201, JOB)
        job_id = made.json["job_id"]
        assert made.json["state"] in ("running", "completed")
        await engine.run_bulk(job_id, 10)
        found = await client.get(f"/v1/bulk/{job_id}")
        assert (found.status, found.json["state"], found.json["changed"]) == (200, "completed", 1)
        listed = await client.get("/v1/bulk?limit=1")
        assert [each["job_id"] for each in listed.json["items"]] == [job_id]
        stopped = await client.post(f"/v1/bulk/{job_id}/stop")
        assert (stopped.status, stopped.json) == (200, found.json)
    assert await state(engine, ident) == "ENDED(cancelled)"


@memory
async def test_a_dry_run_over_http_changes_nothing(engine: Engine) -> None:
    ident = await create(engine)
    async with served(engine) as client:
        body = {"action": "cancel", "dry_run": True, "where": {"lane": "default"}}
        made = await client.post("/v1/bulk", body)
        job = await engine.run_bulk(made.json["job_id"], 10)
    assert (job.matched, job.changed, job.state) == (1, 0, BulkState.COMPLETED)
    assert await state(engine, ident) == "READY"


@memory
@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 422, "action"),
        ({"action": "explode"}, 422, "action"),
        ({"action": "move"}, 400, "lane"),
        ({"action": "priority", "priority": 2**31}, 422, "priority"),
        ({"action": "cancel", "where": {"state": ["asleep"]}}, 422, "state"),
        ({"action": "cancel", "where": {"state": ["completed"]}}, 400, "where.state"),
        ({"action": "cancel", "where": []}, 422, "where"),
    ],
)
async def test_invalid_jobs_are_refused(
    engine: Engine, body: dict[str, Any], status: int, text: str
) -> None:
    async with served(engine) as client:
        answer = await client.post("/v1/bulk", body)
        assert answer.status == status, answer.raw
        assert text in answer.raw.decode()
        assert (await client.get("/v1/bulk")).json["items"] == []


@memory
async def test_unknown_jobs_are_not_found(engine: Engine) -> None:
    async with served(engine) as client:
        for path, call in (
            (f"/v1/bulk/{uuid()}", client.get),
            (f"/v1/bulk/{uuid()}/stop", client.post),
        ):
            answer = await call(path)
            assert (answer.status, "not found" in answer.error) == (404, True)
        assert (await client.get("/v1/bulk/none")).status == 400
        assert (await client.get("/v1/bulk?cursor=none")).status == 400


@memory
@pytest.mark.meets("second_tenant", "cancel")
async def test_a_token_of_a_namespace_acts_in_it_alone(engine: Engine, tmp_path: Path) -> None:
    mine = await create(engine, namespace="ann", lane_id="ann")
    other = await create(engine, namespace="bob", lane_id="bob")
    async with served(
        engine, api_token="", api_tokens_file=tokens_file(tmp_path, OPERATOR, ADMIN)
    ) as client:
        ann = client.with_token(token_of("ann"))
        root = client.with_token(token_of("root"))
        theirs = await root.post("/v1/bulk", {"action": "cancel", "where": {"namespace": "bob"}})
        everyones = await root.post("/v1/bulk", {"action": "cancel", "dry_run": True})
        for foreign in (theirs.json["job_id"], everyones.json["job_id"]):
            assert (await ann.get(f"/v1/bulk/{foreign}")).status == 404
            assert (await ann.post(f"/v1/bulk/{foreign}/stop")).status == 404
            body = {"job_id": foreign}
            assert (await ann.post("/v1/engine/read_bulk", body)).status == 404
            assert (await ann.post("/v1/engine/stop_bulk", body)).status == 404
        await engine.stop_bulk(theirs.json["job_id"])
        refused = await ann.post("/v1/bulk", {"action": "cancel", "where": {"namespace": "bob"}})
        assert refused.status == 404
        made = [
            await ann.post("/v1/bulk", {"action": "cancel"}),
            await ann.post(
                "/v1/engine/start_bulk",
                {"args": {"action": "cancel", "where": {}, "requested_by": "somebody else"}},
            ),
        ]
        for each in made:
            assert each.json["args"]["where"]["namespace"] == "ann"
            assert each.json["args"]["requested_by"] == "ann"
            await engine.run_bulk(each.json["job_id"], 10)
        own = [each.json["job_id"] for each in made]
        listed = (await ann.get("/v1/bulk")).json["items"]
        assert sorted(each["job_id"] for each in listed) == sorted(own)
        assert (await ann.get("/v1/bulk?namespace=bob")).status == 404
        assert len((await root.get("/v1/bulk")).json["items"]) == 4
    assert await state(engine, mine) == "ENDED(cancelled)"
    assert await state(engine, other) == "READY"


@memory
async def test_a_token_of_a_lane_moves_to_that_lane_alone(engine: Engine, tmp_path: Path) -> None:
    ident = await create(engine, namespace="ann")
    async with served(
        engine, api_token="", api_tokens_file=tokens_file(tmp_path, OPERATOR)
    ) as client:
        ann = client.with_token(token_of("ann"))
        assert (await ann.post("/v1/bulk", {"action": "move", "lane": "bob"})).status == 404
        body = {"execution": str(ident), "lane": "bob"}
        assert (await ann.post("/v1/engine/move_execution", body)).status == 404
        assert (await ann.post("/v1/bulk", {"action": "move", "lane": "ann"})).status == 201
        body = {"execution": str(ident), "lane": "ann"}
        assert (await ann.post("/v1/engine/move_execution", body)).status == 200
    assert (await row(engine, ident)).lane_id == "ann"
    ((_, details),) = await operations(engine, ident)
    assert details["by"] == "ann"


@memory
async def test_a_remote_engine_offers_the_same_operations(engine: Engine) -> None:
    waiting = await create(engine)
    ended, _ = await completed(engine, lane_id="other")
    again, handle = await running(engine, lane_id="third")
    await engine.record_step(handle, 0, "build")
    await engine.complete(handle, b"")
    async with served(engine) as client:
        remote = RemoteEngine(client.url, client.token)
        try:
            args = BulkArgs(action=BulkAction.CANCEL, where=ExecutionFilter(lane="default"))
            job = await remote.start_bulk(args)
            await engine.run_bulk(job.job_id, 10)
            found = await remote.read_bulk(job.job_id)
            assert found == await engine.read_bulk(job.job_id)
            assert (await remote.list_bulk()).items == [found]
            assert await remote.stop_bulk(job.job_id) == found
            assert (await remote.delete_execution(ended)).execution_id == ended
            assert (await remote.restart_from_step(again, "build")).dropped == 1
        finally:
            await remote.close()
    assert await state(engine, waiting) == "ENDED(cancelled)"
    assert await state(engine, again) == "READY"
