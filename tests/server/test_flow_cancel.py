"""Cancelling a flow, with and without waiting, fully and partially."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId, execution_id
from tests.engine.helpers import worker
from tests.engine.sabotage import not_to_be_cancelled
from tests.patience import patient
from tests.server.client import SOON_S, Answer, Client, memory, served, stores, uuid
from tests.server.test_flows import Flow, a_flow


async def cancel(client: Client, flow: Flow, policy: str = "cancel_all", query: str = "") -> Answer:
    body = {"flow_id": flow.ident, "reason": "enough", "cancellation_policy": policy, "now": 1}
    return await client.post(f"{flow.path}/cancel{query}", body)


async def states(client: Client, *members: str) -> list[str]:
    return [(await client.get(f"/v1/executions/{member}/state")).json for member in members]


async def all_cancelled(client: Client, *members: str) -> None:
    async with patient(SOON_S):
        while await states(client, *members) != ["cancelled"] * len(members):  # noqa: ASYNC110
            await asyncio.sleep(0)


async def owed(engine: Engine) -> list[ExecutionId]:
    rows = (await engine.store.dump(["ff_cancel_backlog_member"]))["ff_cancel_backlog_member"]
    return list(rows)


@stores
async def test_behind_the_answer(engine: Engine) -> None:
    async with served(engine) as client:
        flow = await a_flow(client)
        members = sorted([await flow.member() for _ in range(3)])
        found = await cancel(client, flow)
        said = found.json["CancellationScheduled"]
        assert (found.status, said["cancellation_policy"], said["member_count"]) == (
            200,
            "cancel_all",
            3,
        )
        assert sorted(said["member_execution_ids"]) == members
        await all_cancelled(client, *members)
        assert (await client.get(flow.path)).json["public_flow_state"] == "cancelled"


@stores
@pytest.mark.parametrize("query", ["?wait=true", "?wait=1"])
async def test_before_the_answer(engine: Engine, query: str) -> None:
    async with served(engine) as client:
        flow = await a_flow(client)
        members = [await flow.member(), await flow.member()]
        found = await cancel(client, flow, query=query)
        assert (found.status, list(found.json)) == (200, ["Cancelled"])
        assert sorted(found.json["Cancelled"]["member_execution_ids"]) == sorted(members)
        assert await states(client, *members) == ["cancelled"] * 2
        again = await cancel(client, flow, policy="cancel_pending", query=query)
        assert (again.status, again.json["Cancelled"]["cancellation_policy"]) == (200, "cancel_all")
        assert sorted(again.json["Cancelled"]["member_execution_ids"]) == sorted(members)


@memory
async def test_anything_else_does_not_wait(engine: Engine) -> None:
    async with served(engine) as client:
        for query in ("", "?wait=yes", "?wait=TRUE", "?wait=0", "?wait="):
            flow = await a_flow(client)
            await flow.member()
            assert list((await cancel(client, flow, query=query)).json) == [
                "CancellationScheduled"
            ], query


@pytest.mark.parametrize("engine", ["sqlite-file", "postgres"], indirect=True)
async def test_a_member_that_cannot_be_cancelled_stays_in_the_backlog(
    engine: Engine,
) -> None:
    async with served(engine) as client:
        flow = await a_flow(client)
        members = [await flow.member() for _ in range(3)]
        async with not_to_be_cancelled(engine, execution_id(members[1])):
            found = await cancel(client, flow, query="?wait=true")
            said = found.json["PartiallyCancelled"]
            assert (found.status, said["failed_member_execution_ids"]) == (200, [members[1]])
            assert sorted(said["member_execution_ids"]) == sorted(members)
            assert len(await owed(engine)) == 1
            assert await states(client, *members) == ["cancelled", "waiting", "cancelled"]


@memory
async def test_ended_and_removed_members_count_as_cancelled(engine: Engine) -> None:
    async with served(engine) as client:
        flow = await a_flow(client)
        done, other = await flow.member(), await flow.member()
        handle = await engine.claim("default", (), worker())
        assert handle is not None
        await engine.complete(handle, b"")
        found = await cancel(client, flow, query="?wait=true")
        assert list(found.json) == ["Cancelled"]
        assert sorted(await states(client, done, other)) == ["cancelled", "completed"]
        assert await owed(engine) == []


@stores
@pytest.mark.parametrize("policy", ["cancel_pending", "flow_only", "cancel_flow_only"])
async def test_other_policies_list_all_members_and_are_kept_as_given(
    engine: Engine, policy: str
) -> None:
    async with served(engine) as client:
        for query in ("", "?wait=true"):
            flow = await a_flow(client)
            members = sorted([await flow.member(), await flow.member(lane_id="elsewhere")])
            held = await engine.claim("elsewhere", (), worker())
            assert held is not None
            for asked in (policy, "cancel_all"):
                found = await cancel(client, flow, policy=asked, query=query)
                said = found.json["Cancelled"]
                assert (found.status, said["cancellation_policy"]) == (200, policy)
                assert sorted(said["member_execution_ids"]) == members
            pending = "cancelled" if policy == "cancel_pending" else "waiting"
            assert sorted(await states(client, *members)) == ["active", pending]
            await engine.complete(held, b"")


@stores
async def test_a_missing_flow_is_not_found(engine: Engine) -> None:
    async with served(engine) as client:
        found = await cancel(client, Flow(client, uuid()))
        assert (found.status, found.error) == (404, "not found: flow")
        strange = await cancel(client, await a_flow(client), policy="as I please")
        assert (strange.status, strange.json["Cancelled"]["cancellation_policy"]) == (
            200,
            "as I please",
        )


@memory
async def test_shutdown_finishes_background_cancels(engine: Engine) -> None:
    async with served(engine) as client:
        flow = await a_flow(client)
        members = [await flow.member() for _ in range(40)]
        await cancel(client, flow)
    assert {(await engine.read_execution_state(ExecutionId(member))) for member in members} == {
        "cancelled"
    }
