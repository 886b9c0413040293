"""Two namespaces on one server are isolated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from msgspec import Struct

from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId, partition_of
from flowfabric.model.lease import ClaimPolicy, Handle
from flowfabric.model.waitpoint import BoundWaitpoint
from flowfabric.wire.errors import as_error
from flowfabric.wire.json_codec import encode
from tests.engine.suspend_helpers import park_held
from tests.patience import patient
from tests.server.client import (
    SOON_S,
    Answer,
    Client,
    memory,
    new_id,
    quoted,
    served,
    stores,
    token_of,
    tokens_file,
    uuid,
)

ROLES = ["submit", "work", "operate"]
JSON = {"Content-Type": "application/json"}


class Tenant(Struct, frozen=True):
    """A tenant with its namespace, its lane and its entities."""

    name: str
    client: Client
    running: ExecutionId
    handle: Handle
    parked: ExecutionId
    waitpoint: BoundWaitpoint
    flow: str
    member: str

    async def engine(self, name: str, **said: Any) -> Answer:
        return await self.client.send("POST", f"/v1/engine/{name}", data=encode(said), headers=JSON)


async def _tenant(engine: Engine, client: Client, name: str) -> Tenant:
    mine = client.with_token(token_of(name))
    made = {"lane_id": name, "namespace": name}
    held = []
    for _ in range(2):
        ident = ExecutionId(await mine.create(**made))
        handle = await engine.claim(name, (), ClaimPolicy("w", f"{name}-1", 30_000, namespace=name))
        assert handle is not None
        held.append((ident, handle))
    parked = await park_held(engine, *held[1])
    flow = uuid()
    assert (await mine.post("/v1/flows", {"flow_id": flow, "namespace": name})).status == 201
    member = await mine.create(**made, flow_id=flow, execution_kind=name)
    assert (
        await mine.post(f"/v1/flows/{flow}/members", {"flow_id": flow, "execution_id": member})
    ).status == 201
    return Tenant(name, mine, *held[0], parked.ident, parked.waitpoint, flow, member)


@asynccontextmanager
async def tenants(engine: Engine, folder: Path) -> AsyncIterator[tuple[Tenant, Tenant]]:
    entries = [
        {"name": name, "roles": ROLES, "namespace": name, "lanes": [name]}
        for name in ("ann", "bob")
    ]
    async with served(engine, api_tokens_file=tokens_file(folder, *entries)) as client:
        yield await _tenant(engine, client, "ann"), await _tenant(engine, client, "bob")


def _signal(about: Tenant, ident: ExecutionId | str) -> dict[str, Any]:
    return {
        "execution_id": str(ident),
        "waitpoint_id": str(about.waitpoint.waitpoint_id),
        "signal_id": uuid(),
        "signal_name": "go",
        "waitpoint_token": about.waitpoint.waitpoint_token,
    }


async def tries(
    by: Tenant, on: Tenant, *, running: str, parked: str, flow: str, member: str, handle: Handle
) -> dict[str, Answer]:
    """Every request on the entities of another tenant, or on missing ones."""
    at, client = f"/v1/executions/{running}", by.client
    claim = {"lane_id": on.name, "worker_instance_id": "i", "grant_ttl_ms": 1_000}
    turn: dict[str, Any] = {
        "capabilities": [],
        "policy": ClaimPolicy("w", "i", 30_000, namespace=by.name),
        "n": 1,
    }
    edge = {
        "flow_id": by.flow,
        "edge_id": str(UUID(int=7)),
        "upstream_execution_id": by.member,
        "downstream_execution_id": member,
    }
    found = {
        rest: await client.get(f"{at}{rest}")
        for rest in ("", "/state", "/result", "/history", "/explain", "/tags")
    }
    found |= {
        "follow": await client.get(f"{at}/attempts/0/stream/events"),
        "tail": await client.get(f"{at}/attempts/0/stream/tail"),
        "wait": await client.get(f"{at}/wait?timeout_ms=0"),
        "cancel": await client.post(f"{at}/cancel", {"execution_id": running, "reason": "r"}),
        "revoke": await client.post(f"{at}/revoke-lease"),
        "priority": await client.put(f"{at}/priority", {"new_priority": 1}),
        "tag": await client.put(f"{at}/tags", {"tags": {"a.b": "c"}}),
        "reclaim": await client.post(f"{at}/reclaim", {**claim, "worker_id": "w"}),
        "waitpoints": await client.get(f"/v1/executions/{parked}/pending-waitpoints"),
        "token": await client.get(
            f"/v1/executions/{parked}/waitpoints/{on.waitpoint.waitpoint_id}/token"
        ),
        "signal": await client.post(f"/v1/executions/{parked}/signal", _signal(on, parked)),
        "flow": await client.get(f"/v1/flows/{flow}"),
        "members": await client.get(f"/v1/flows/{flow}/members"),
        "cancel flow": await client.post(
            f"/v1/flows/{flow}/cancel",
            {"flow_id": flow, "reason": "r", "cancellation_policy": "cancel_all"},
        ),
        "join": await client.post(
            f"/v1/flows/{flow}/members", {"flow_id": flow, "execution_id": by.member}
        ),
        "adopt": await client.post(
            f"/v1/flows/{by.flow}/members", {"flow_id": by.flow, "execution_id": member}
        ),
        "depend": await client.post(
            f"/v1/flows/{by.flow}/edges", {**edge, "expected_graph_revision": 1}
        ),
        "group": await client.put(
            f"/v1/flows/{by.flow}/edge-groups/{member}", {"policy": {"kind": "any_of"}}
        ),
        "group of their flow": await client.put(
            f"/v1/flows/{flow}/edge-groups/{by.member}", {"policy": {"kind": "any_of"}}
        ),
        "claim": await client.post("/v1/workers/w/claim", claim),
        "complete": await by.engine("complete", handle=handle, result=b"mine now"),
        "renew": await by.engine("renew", handle=handle),
        "complete many": await by.engine("complete_many", many=[(handle, b"")]),
        "complete and claim": await by.engine(
            "complete_and_claim", many=[(handle, b"")], lane=by.name, **turn
        ),
        "claim from their lane": await by.engine(
            "complete_and_claim", many=[], lane=on.name, **turn
        ),
        "fail": await by.engine("fail", handle=handle, reason="r"),
        "describe": await by.engine("describe_execution", execution=running),
        "flow history": await by.engine("history", subject=flow),
        "cancel by name": await by.engine(
            "cancel_execution", args={"execution_id": running, "reason": "r"}
        ),
        "adopt by name": await by.engine(
            "add_execution_to_flow", args={"flow_id": by.flow, "execution_id": member}
        ),
    }
    return found


@stores
async def test_entities_of_another_namespace_are_not_found(engine: Engine, tmp_path: Path) -> None:
    async with tenants(engine, tmp_path) as pair:
        before = await engine.store.dump(
            ["ff_exec_core", "ff_flow_core", "ff_signal", "ff_attempt"]
        )
        for by, on in (pair, pair[::-1]):
            theirs = await tries(
                by,
                on,
                running=str(on.running),
                parked=str(on.parked),
                flow=on.flow,
                member=on.member,
                handle=on.handle,
            )
            nobodys = await tries(
                by,
                on,
                running=str(ExecutionId.of(on.running.partition_index, uuid4())),
                parked=str(ExecutionId.of(on.parked.partition_index, uuid4())),
                flow=uuid(),
                member=str(ExecutionId.of(ExecutionId(on.member).partition_index, uuid4())),
                handle=on.handle,
            )
            assert {name: answer.status for name, answer in theirs.items()} == dict.fromkeys(
                theirs, 404
            )
            assert {name: answer.raw for name, answer in theirs.items()} == {
                name: a.raw for name, a in nobodys.items()
            }
        assert (
            await engine.store.dump(["ff_exec_core", "ff_flow_core", "ff_signal", "ff_attempt"])
            == before
        )


@memory
async def test_members_of_another_namespace_cannot_join_a_flow(
    engine: Engine, tmp_path: Path
) -> None:
    async with tenants(engine, tmp_path) as (ann, bob):
        at = ann.running.partition_index
        flow = next(ident for ident in iter(uuid4, None) if partition_of(ident, 256) == at)
        assert (
            await bob.client.post("/v1/flows", {"flow_id": str(flow), "namespace": "bob"})
        ).status == 201
        body = {"flow_id": str(flow), "execution_id": str(ann.running)}
        assert (await bob.client.post(f"/v1/flows/{flow}/members", body)).status == 404
        assert (await bob.engine("add_execution_to_flow", args=body)).status == 404
        assert await engine.flow_members(flow) == []


@stores
@pytest.mark.meets("flow", "second_tenant")
async def test_a_policy_is_set_for_ones_own_members_only(engine: Engine, tmp_path: Path) -> None:
    """The execution is named by the path, not by the body."""
    async with tenants(engine, tmp_path) as (ann, bob):
        body = {"policy": {"kind": "any_of"}}
        before = await engine.store.dump(["ff_edge_group"])
        for downstream in (bob.member, quoted(bob.member), str(bob.running), new_id()):
            found = await ann.client.put(f"/v1/flows/{ann.flow}/edge-groups/{downstream}", body)
            assert (found.status, found.error) == (404, "not found: execution"), downstream
        assert await engine.store.dump(["ff_edge_group"]) == before
        assert (
            await ann.client.put(f"/v1/flows/{ann.flow}/edge-groups/nonsense", body)
        ).status == 400
        assert (
            await ann.client.put(f"/v1/flows/{ann.flow}/edge-groups/{quoted(ann.member)}", body)
        ).status == 200


@memory
async def test_nothing_is_made_in_anothers_name_or_lane(engine: Engine, tmp_path: Path) -> None:
    async with tenants(engine, tmp_path) as (ann, _):
        for said in (
            {"namespace": "bob", "lane_id": "ann"},
            {"namespace": "ann", "lane_id": "bob"},
            {"lane_id": "bob"},
            {"namespace": "default", "lane_id": "ann"},
        ):
            for path, body in (
                ("/v1/executions", said),
                (
                    "/v1/executions/batch",
                    {"executions": [{"namespace": "ann", "lane_id": "ann"}, said]},
                ),
                (
                    "/v1/flows/graph",
                    {
                        "flow_id": uuid(),
                        "namespace": "ann",
                        "nodes": [{"execution_id": ann.member, **said}],
                    },
                ),
            ):
                found = await ann.client.post(path, body)
                assert found.status == 404, (path, said, found)
        for name in (
            "/v1/executions?partition=0",
            "/v1/suspended?partition=0",
            "/v1/lanes",
            "/v1/workers?namespace=bob",
        ):
            assert (await ann.client.get(name)).status == 404
        assert (await ann.client.get("/v1/workers?namespace=ann")).json["items"] == []


@stores
async def test_an_id_of_another_namespace_is_refused_without_details(
    engine: Engine, tmp_path: Path
) -> None:
    """The answer does not depend on the kind or the state of the other tenant's entity."""
    async with tenants(engine, tmp_path) as (ann, bob):
        before = await engine.store.dump(["ff_exec_core", "ff_flow_core"])
        told = (await ann.client.get(f"/v1/executions/{new_id()}")).raw
        new = {"lane_id": "ann", "namespace": "ann"}
        for taken in (bob.running, bob.parked, bob.member):
            node = {**new, "execution_id": str(taken)}
            many, graph = (
                [{**new, "execution_id": new_id()}, node],
                {"flow_id": uuid(), "namespace": "ann", "nodes": [node]},
            )
            found = [
                await ann.client.post("/v1/executions", node),
                await ann.client.post("/v1/executions/batch", {"executions": many}),
                await ann.client.post("/v1/flows/graph", graph),
                await ann.engine("create_execution", args=node),
                await ann.engine("create_executions", many=many),
                await ann.engine("submit_flow", args=graph),
            ]
            assert [(each.status, each.raw) for each in found] == [(404, told)] * len(found)
        told = (await ann.client.get(f"/v1/flows/{uuid()}")).raw
        flow = {"flow_id": bob.flow, "namespace": "ann"}
        graph = {
            **flow,
            "nodes": [{**new, "execution_id": str(ExecutionId.for_flow(UUID(bob.flow)))}],
        }
        found = [
            await ann.client.post("/v1/flows", flow),
            await ann.client.post("/v1/flows/graph", graph),
            await ann.engine("create_flow", args=flow),
            await ann.engine("submit_flow", args=graph),
        ]
        assert [(each.status, each.raw) for each in found] == [(404, told)] * len(found)
        assert await engine.store.dump(["ff_exec_core", "ff_flow_core"]) == before


@memory
async def test_ones_own_ids_are_found_again(engine: Engine, tmp_path: Path) -> None:
    async with tenants(engine, tmp_path) as (ann, _):
        node = {"lane_id": "ann", "namespace": "ann", "execution_id": ann.member}
        again = await ann.client.post("/v1/executions", node)
        assert (again.status, again.json) == (200, {"Duplicate": {"execution_id": ann.member}})
        flow = await ann.client.post("/v1/flows", {"flow_id": ann.flow, "namespace": "ann"})
        assert (flow.status, flow.json) == (200, {"AlreadySatisfied": {"flow_id": ann.flow}})


@memory
async def test_a_client_raises_not_found_for_another_namespace(
    engine: Engine, tmp_path: Path
) -> None:
    async with tenants(engine, tmp_path) as (ann, bob):
        told = as_error((await ann.engine("describe_execution", execution=bob.running)).json)
        assert (type(told), told.code) == (NotFound, "execution_not_found")


@stores
async def test_events_are_ones_own_whatever_is_asked_for(engine: Engine, tmp_path: Path) -> None:
    async with tenants(engine, tmp_path) as (ann, bob):
        page = await ann.engine("read_events", channel="completions")
        cursor = page.json["cursor"]
        mine = await ann.client.session.get(
            f"{ann.client.url}/v1/completions?namespace=bob", headers=ann.client.headers()
        )
        async with mine:
            assert mine.status == 200
            for tenant in (bob, ann):
                assert (
                    await tenant.engine("complete", handle=tenant.handle, result=b"")
                ).status == 200
            told = await _first_event(mine.content)
            assert told["execution_id"] == str(ann.running)
            mine.close()
        for wanted in (None, {"namespace": "bob"}, {}):
            found = await ann.engine(
                "read_events",
                channel="completions",
                cursor=msgspec.Raw(encode(cursor)),
                wanted=wanted,
            )
            assert [each["execution_id"] for each in found.json["completions"]] == [
                str(ann.running)
            ]


async def _first_event(content: Any) -> dict[str, Any]:
    async with patient(SOON_S):
        async for line in content:
            if line.startswith(b"data: "):
                found: dict[str, Any] = msgspec.json.decode(line[6:])
                return found
    raise AssertionError("no event came")


@memory
@pytest.mark.parametrize("word", ["pause", "resume"])
async def test_schedules_are_ones_own(engine: Engine, tmp_path: Path, word: str) -> None:
    async with tenants(engine, tmp_path) as (ann, _):
        assert (await ann.client.post(f"/v1/schedules/nightly/{word}?namespace=ann")).status == 200
        assert (await ann.client.post(f"/v1/schedules/nightly/{word}?namespace=bob")).status == 404
        assert (
            await ann.client.post(f"/v1/schedules/nightly/{word}?namespace=default")
        ).status == 404
        assert (await ann.client.post(f"/v1/schedules/nightly/{word}")).status == 200
        assert set((await engine.read_schedules("ann")).marks) == {"nightly"}
        assert [(await engine.read_schedules(other)).marks for other in ("bob", "default")] == [
            {},
            {},
        ]
