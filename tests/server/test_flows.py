"""Routes of flows."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from tests.server.client import Answer, Client, memory, new_id, served, stores, uuid


class Flow:
    """A flow that a client makes step by step."""

    def __init__(self, client: Client, ident: str) -> None:
        self.client, self.ident, self.path = client, ident, f"/v1/flows/{ident}"

    async def member(self, **said: Any) -> str:
        ident = await self.client.create(flow_id=self.ident, **said)
        added = await self.client.post(
            f"{self.path}/members", {"flow_id": self.ident, "execution_id": ident, "now": 1}
        )
        assert (added.status, list(added.json)) == (201, ["Added"]), added
        return ident

    async def stage(self, up: str, down: str, revision: int, **said: Any) -> Answer:
        known = {
            "flow_id": self.ident,
            "edge_id": uuid(),
            "expected_graph_revision": revision,
            "now": 1,
        }
        both = {"upstream_execution_id": up, "downstream_execution_id": down}
        return await self.client.post(f"{self.path}/edges", {**known, **both, **said})

    async def apply(self, up: str, down: str, edge: str, revision: int) -> Answer:
        known = {"flow_id": self.ident, "edge_id": edge, "graph_revision": revision, "now": 1}
        both = {"upstream_execution_id": up, "downstream_execution_id": down}
        return await self.client.post(f"{self.path}/edges/apply", {**known, **both})


async def a_flow(client: Client, **said: Any) -> Flow:
    ident = uuid()
    body = {"flow_id": ident, "flow_kind": "dag", "namespace": "default", "now": 1, **said}
    made = await client.post("/v1/flows", body)
    assert (made.status, made.json) == (201, {"Created": {"flow_id": ident}})
    again = await client.post("/v1/flows", body)
    assert (again.status, again.json) == (200, {"AlreadySatisfied": {"flow_id": ident}})
    return Flow(client, ident)


@stores
async def test_made_piece_by_piece(engine: Engine) -> None:
    async with served(engine) as client:
        flow = await a_flow(client)
        up, down = await flow.member(), await flow.member()
        again = await client.post(
            f"{flow.path}/members", {"flow_id": flow.ident, "execution_id": down, "now": 1}
        )
        assert (again.status, again.json) == (
            200,
            {"AlreadyMember": {"execution_id": down, "node_count": 2}},
        )
        edge = uuid()
        staged = await flow.stage(up, down, 2, edge_id=edge)
        assert (staged.status, staged.json) == (
            201,
            {"Staged": {"edge_id": edge, "new_graph_revision": 3}},
        )
        applied = await flow.apply(up, down, edge, 3)
        assert (applied.status, applied.json) == (200, {"Applied": {"unsatisfied_count": 1}})
        twice = await flow.apply(up, down, edge, 3)
        assert (twice.status, twice.json) == (200, "AlreadyApplied")
        assert (await client.get(f"/v1/executions/{down}/state")).json == "waiting_children"
        assert (await client.get(flow.path)).json["graph_revision"] == 3
        assert len((await client.get(f"{flow.path}/members")).json) == 2
        assert len((await client.get(f"{flow.path}/edges")).json) == 1


@stores
async def test_edges_that_cannot_be(engine: Engine) -> None:
    async with served(engine) as client:
        flow = await a_flow(client)
        up, down = await flow.member(), await flow.member()
        stale = await flow.stage(up, down, 1)
        assert (stale.status, stale.error) == (409, "contention: StaleGraphRevision")
        assert (stale.json["kind"], stale.json["retryable"]) == ("contention", True)
        assert (await flow.stage(up, down, 2)).status == 201
        cycle = await flow.stage(down, up, 3)
        assert (cycle.status, cycle.json["kind"], cycle.json["retryable"]) == (
            409,
            "cycle_detected",
            False,
        )
        itself = await flow.stage(up, up, 3)
        assert (itself.status, itself.json["kind"]) == (409, "self_referencing_edge")
        stranger = await flow.stage(up, await client.create(flow_id=flow.ident), 3)
        assert (stranger.status, stranger.json["kind"], stranger.json["retryable"]) == (
            409,
            "state_conflict",
            False,
        )
        unstaged = await flow.apply(up, down, uuid(), 3)
        assert (unstaged.status, unstaged.error) == (404, "not found: edge")


@stores
async def test_members_that_cannot_be(engine: Engine) -> None:
    async with served(engine) as client:
        flow = await a_flow(client)
        elsewhere = (ExecutionId.for_flow(UUID(flow.ident)).partition_index + 1) % 256
        stranger = f"{{fp:{elsewhere}}}:{uuid()}"
        body = {"flow_id": flow.ident, "execution_id": stranger, "now": 1}
        mismatch = await client.post(f"{flow.path}/members", body)
        assert (mismatch.status, mismatch.error.startswith("invalid_input")) == (400, True)
        ident = await client.create(flow_id=flow.ident)
        other = uuid()
        wrong = await client.post(f"/v1/flows/{other}/members", {**body, "execution_id": ident})
        assert (wrong.status, wrong.error) == (400, "path flow_id does not match body flow_id")
        member = str(ExecutionId.for_flow(UUID(other)))
        missing = await client.post(
            f"/v1/flows/{other}/members", {"flow_id": other, "execution_id": member}
        )
        assert (missing.status, missing.error) == (404, "not found: flow")
        await client.post(
            f"{flow.path}/cancel",
            {"flow_id": flow.ident, "reason": "r", "cancellation_policy": "cancel_all"},
        )
        late = await client.post(f"{flow.path}/members", {**body, "execution_id": ident})
        assert (late.status, late.json["kind"], late.json["retryable"]) == (
            409,
            "flow_already_terminal",
            False,
        )


@memory
async def test_paths_and_bodies_have_to_agree(engine: Engine) -> None:
    async with served(engine) as client:
        flow, other = await a_flow(client), uuid()
        both = {
            "upstream_execution_id": new_id(),
            "downstream_execution_id": new_id(),
            "edge_id": uuid(),
            "flow_id": other,
        }
        for path, body in (
            ("members", {"flow_id": other, "execution_id": new_id()}),
            ("edges", {**both, "expected_graph_revision": 0}),
            ("edges/apply", both),
            ("cancel", {"flow_id": other, "reason": "r", "cancellation_policy": "cancel_all"}),
        ):
            found = await client.post(f"{flow.path}/{path}", body)
            assert (found.status, found.error) == (
                400,
                "path flow_id does not match body flow_id",
            ), path
            bad = await client.post(f"/v1/flows/x/{path}", body)
            assert (bad.status, bad.error.startswith("invalid flow_id: ")) == (400, True), path
        for path in ("", "/members", "/edges"):
            assert (await client.get(f"/v1/flows/x{path}")).status == 400
            missing = await client.get(f"/v1/flows/{other}{path}")
            assert (missing.status, missing.error) == (404, "not found: flow")


@stores
async def test_a_whole_graph_or_nothing(engine: Engine) -> None:
    async with served(engine) as client:
        flow = uuid()
        up, down = (str(ExecutionId.for_flow(UUID(flow))) for _ in range(2))
        graph = {
            "flow_id": flow,
            "nodes": [
                {"lane_id": "default", "execution_id": up},
                {"lane_id": "default", "execution_id": down},
            ],
            "edges": [{"upstream": up, "downstream": down}],
            "policies": {down: {"kind": "quorum", "k": 1, "on_satisfied": "let_run"}},
        }
        anonymous = await client.post(
            "/v1/flows/graph", {**graph, "nodes": [{"lane_id": "default"}]}
        )
        assert anonymous.status == 400
        cyclic = await client.post(
            "/v1/flows/graph",
            {**graph, "edges": [*graph["edges"], {"upstream": down, "downstream": up}]},
        )
        assert (cyclic.status, cyclic.json["kind"]) == (409, "cycle_detected")
        assert (await client.get(f"/v1/flows/{flow}")).status == 404
        assert (await client.get(f"/v1/executions/{up}")).status == 404
        made = await client.post("/v1/flows/graph", graph)
        assert (made.status, made.json["Submitted"]["flow_id"]) == (201, flow)
        again = await client.post("/v1/flows/graph", graph)
        assert (again.status, list(again.json)) == (200, ["AlreadySatisfied"])
        assert (await client.get(f"/v1/executions/{down}/state")).json == "waiting_children"


@stores
async def test_the_policy_of_a_group_is_set_before_its_first_edge(engine: Engine) -> None:
    async with served(engine) as client:
        flow = await a_flow(client)
        up, down = await flow.member(), await flow.member()
        path = f"{flow.path}/edge-groups/{down}"
        told = await client.put(path, {"policy": {"kind": "any_of"}})
        assert (told.status, list(told.json)) == (200, ["status"])
        for bad, status in (
            ({"kind": "some"}, 422),
            ({"kind": "quorum", "k": 0}, 400),
            ({"kind": "quorum", "k": -1}, 422),
        ):
            assert (await client.put(path, {"policy": bad})).status == status
        assert (await flow.stage(up, down, 2)).status == 201
        late = await client.put(path, {"policy": {"kind": "all_of"}})
        assert (late.status, late.error.partition(":")[0]) == (400, "invalid_input")
