"""Searches and counts over HTTP."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import SubmitFlowArgs
from flowfabric.model.flow_links import Parent
from flowfabric.testing import ManualClock
from tests.engine.flow_helpers import empty_flow
from tests.engine.helpers import completed, create, running
from tests.server.client import Client, memory, served, stores, token_of, tokens_file


def iso(at_ms: int, hours: int = 0) -> str:
    """The time as it is written at an offset."""
    zone = timezone(timedelta(hours=hours))
    return datetime.fromtimestamp(at_ms / 1_000, zone).isoformat(timespec="milliseconds")


async def listed(client: Client, query: str = "") -> list[str]:
    """The ids on all pages."""
    found: list[str] = []
    cursor = ""
    while True:
        answer = await client.get(f"/v1/runs?{query}{cursor}")
        assert answer.status == 200, answer.raw
        found += [run["execution_id"] for run in answer.json["runs"]]
        if answer.json["next_cursor"] is None:
            return found
        cursor = f"&cursor={answer.json['next_cursor']}"


@stores
async def test_every_filter_is_a_query_parameter(engine: Engine, clock: ManualClock) -> None:
    at = clock()
    parent = await create(engine, lane_id="parents")
    graph = await empty_flow(engine, "m")
    clock.advance(10_000)
    sent = await create(
        engine,
        lane_id="mail",
        execution_kind="send",
        tags={"app.x": "a b"},
        idempotency_key="k/1",
    )
    held, _ = await running(engine, lane_id="busy")
    failed, dying = await running(engine, lane_id="bad", namespace="other")
    await engine.fail(dying, "ValueError: bad input", FailureClass.PERMANENT)
    async with served(engine) as client:
        for query, expected in {
            "state=failed": [failed],
            "state=failed,active&order=oldest": sorted([held, failed]),
            "state=failed&state=active": sorted([held, failed])[::-1],
            "task=send": [sent],
            "lane=mail": [sent],
            "tag=app.x": [sent],
            f"tag={quote('app.x=a b')}": [sent],
            "namespace=other": [failed],
            f"flow={graph.flow}": [graph["m"]],
            f"parent={quote(str(parent))}": [],
            f"parent={parent.uuid}": [],
            "worker=w1-i1": [held],
            "error=ValueError": [failed],
            f"error={quote('bad in')}": [failed],
            "error=Value": [],
            f"key={quote('k/1')}": [sent],
            f"created_from={at + 1}": sorted([sent, held, failed])[::-1],
            f"created_before={quote(iso(at + 1))}&lane=parents": [parent],
            f"created_before={quote(iso(at))}": [],
            f"created_from={iso(at, 2)}&lane=parents": [parent],
            f"created_from={iso(at + 1, 2)}&lane=parents": [],
            f"ended_from={iso(at)[:-6]}Z": [failed],
            f"ended_before={at}": [],
        }.items():
            assert await listed(client, f"limit=1&{query}") == expected, query
        assert len(await listed(client)) == 5


@memory
async def test_children_are_listed_by_the_uuid_of_their_parent(engine: Engine) -> None:
    parent = await create(engine, lane_id="parents")
    flow = UUID(int=77)
    child = ExecutionId.for_flow(flow)
    await engine.submit_flow(
        SubmitFlowArgs(
            flow_id=flow,
            nodes=[CreateExecutionArgs(execution_id=child, lane_id="children")],
            parent=Parent(execution_id=parent, waitpoint_key="children:1"),
        )
    )
    async with served(engine) as client:
        assert await listed(client, f"parent={parent.uuid}") == [child]
        assert await listed(client, f"parent={quote(str(parent))}") == [child]
        answer = await client.get(f"/v1/runs?parent={UUID(int=9)}")
    assert answer.status == 404
    assert "execution" in answer.error


@memory
async def test_a_run_has_a_plain_id_and_the_long_one(engine: Engine, clock: ManualClock) -> None:
    ident = await create(engine, tags={"app.x": "1"}, delay_until=clock() + 5)
    async with served(engine) as client:
        (run,) = (await client.get("/v1/runs")).json["runs"]
    assert (run["id"], run["execution_id"]) == (str(ident.uuid), str(ident))
    assert (run["state"], run["delayed_until"]) == ("delayed", clock() + 5)
    assert (run["tags"], run["error"], run["flow_id"]) == ({"app.x": "1"}, None, None)


BAD = {
    "state=done": "Invalid enum value 'done'",
    "limit=1001": "limit",
    "limit=x": "limit",
    "order=up": "order",
    "cursor=x": "cursor: the cursor of an earlier page",
    "created_from=yesterday": "created_from: milliseconds since the epoch, or ISO 8601",
    "ended_before=-5": "ended_before: milliseconds",
    f"ended_before={'9' * 16}": "ended_before: a whole number",
    f"created_before={'2' * 400}": "created_before: milliseconds",
    "parent=x": "invalid parent: a uuid or an id",
    "parent=00000009": "invalid parent: a uuid or an id",
    "parent={fp:1}:x": "invalid parent: a uuid or an id",
    "flow=x": "invalid flow: a uuid",
    "tag=": "tag: a key, or key=value",
    "error=": "error: the type",
    "task=": "task: ",
    f"key={'k' * 600}": "key: ",
    "lane=%C3%BC": "lane: ",
}


@memory
@pytest.mark.parametrize(("query", "text"), BAD.items(), ids=[query[:30] for query in BAD])
async def test_a_bad_parameter_is_named(engine: Engine, query: str, text: str) -> None:
    async with served(engine) as client:
        answer = await client.get(f"/v1/runs?{query}")
    assert answer.status == 400
    assert text in answer.error


@stores
async def test_counts_by_any_of_the_columns(engine: Engine) -> None:
    await completed(engine, lane_id="mail", execution_kind="send")
    await create(engine, lane_id="mail", execution_kind="send")
    await create(engine, lane_id="mail", execution_kind="fetch")
    await create(engine, lane_id="other", execution_kind="send", namespace="b")
    async with served(engine) as client:

        async def counts(query: str = "") -> list[dict[str, Any]]:
            answer = await client.get(f"/v1/runs/counts?{query}")
            assert answer.status == 200, answer.raw
            found: list[dict[str, Any]] = answer.json["counts"]
            return found

        assert await counts() == [
            {"count": 1, "state": "completed"},
            {"count": 3, "state": "waiting"},
        ]
        assert await counts("by=task,lane") == [
            {"count": 1, "task": "fetch", "lane": "mail"},
            {"count": 2, "task": "send", "lane": "mail"},
            {"count": 1, "task": "send", "lane": "other"},
        ]
        assert await counts("by=namespace&by=state&namespace=b") == [
            {"count": 1, "state": "waiting", "namespace": "b"}
        ]
        assert (await client.get("/v1/runs/counts?by=priority")).status == 400


@memory
async def test_a_bound_token_sees_its_own_namespace_and_lanes(
    engine: Engine, tmp_path: Path
) -> None:
    mine = await create(engine, lane_id="a", namespace="mine")
    other_lane = await create(engine, lane_id="b", namespace="mine")
    await create(engine, lane_id="a", namespace="yours")
    file = tokens_file(
        tmp_path,
        {"name": "namespace", "roles": ["read"], "namespace": "mine"},
        {"name": "lanes", "roles": ["read"], "namespace": "mine", "lanes": ["a"]},
        {"name": "nothing", "roles": ["read"], "lanes": []},
    )
    async with served(engine, api_token="", api_tokens_file=file) as client:
        namespace = client.with_token(token_of("namespace"))
        lanes = client.with_token(token_of("lanes"))
        nothing = client.with_token(token_of("nothing"))
        assert sorted(await listed(namespace)) == sorted([mine, other_lane])
        assert await listed(lanes) == [mine]
        assert await listed(lanes, "lane=a") == [mine]
        for query in ("namespace=yours", "lane=b"):
            refused = await lanes.get(f"/v1/runs?{query}")
            assert (refused.status, "not found" in refused.error) == (404, True)
        for caller, count in ((namespace, 2), (lanes, 1)):
            counted = await caller.get("/v1/runs/counts")
            assert counted.json["counts"] == [{"count": count, "state": "waiting"}]
        assert (await namespace.get("/v1/runs/counts?namespace=yours")).status == 404
        for path in ("/v1/runs", "/v1/runs/counts"):
            assert (await nothing.get(path)).status == 404
        await check_operations(lanes, nothing, mine)


async def check_operations(lanes: Client, nothing: Client, mine: ExecutionId) -> None:
    """The same of the operations that a remote engine calls."""
    find, count = "/v1/engine/find_executions", "/v1/engine/count_executions"
    found = await lanes.post(find, {"where": {}})
    assert [each["execution_uuid"] for each in found.json["items"]] == [str(mine.uuid)]
    assert (await lanes.post(find, {"where": {"lanes": ["a"]}})).status == 200
    for where in ({"lanes": ["a", "b"]}, {"lane": "b"}, {"namespace": "yours"}):
        assert (await lanes.post(find, {"where": where})).status == 404
    counted = await lanes.post(count, {})
    assert [each["count"] for each in counted.json["counts"]] == [1]
    assert (await lanes.post(count, {"lanes": ["b"]})).status == 404
    for path, body in ((find, {"where": {}}), (count, {})):
        assert (await nothing.post(path, body)).status == 404
