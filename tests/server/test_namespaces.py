"""Two namespaces in one lane: workers claim in their own, and it is the default."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import msgspec
import pytest

from flowfabric import App, Worker
from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.execution import CancelExecutionArgs, CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.remote.engine import RemoteEngine
from flowfabric.wire.operations import OPERATIONS
from tests.patience import patient
from tests.server.client import (
    SOON_S,
    Answer,
    Client,
    memory,
    new_id,
    served,
    stores,
    token_of,
    tokens_file,
    uuid,
)

LANE = "default"
NOT_THERE = (404, "not found: namespace")
ROLES = ["submit", "work", "operate"]


@asynccontextmanager
async def shared(engine: Engine, folder: Path) -> AsyncIterator[tuple[Client, Client, Client]]:
    """Two tenants without lanes of their own, and a token without a namespace."""
    entries = [{"name": name, "roles": ROLES, "namespace": name} for name in ("ann", "bob")]
    async with served(engine, api_tokens_file=tokens_file(folder, *entries)) as client:
        yield client.with_token(token_of("ann")), client.with_token(token_of("bob")), client


async def call(by: Client, name: str, /, **said: Any) -> Answer:
    return await by.post(f"/v1/engine/{name}", said)


def asking(**policy: Any) -> dict[str, Any]:
    """What a worker sends that was written before namespaces, unless it says more."""
    return {
        "lane": LANE,
        "capabilities": [],
        "policy": {"worker_id": "w", "worker_instance_id": "i", **policy},
        "n": 9,
    }


def idents(found: Answer) -> list[str]:
    assert found.status == 200, found
    return [work["execution_id"] for work in found.json]


async def one_each(engine: Engine, *names: str) -> list[str]:
    made = [
        CreateExecutionArgs(execution_id=ExecutionId.solo(LANE), namespace=name) for name in names
    ]
    for args in made:
        await engine.create_execution(args)
    return [str(args.execution_id) for args in made]


# ---- claims


@stores
async def test_a_bound_worker_claims_in_its_namespace_by_default(
    engine: Engine, tmp_path: Path
) -> None:
    async with shared(engine, tmp_path) as (ann, bob, _):
        mine, theirs, plain = await one_each(engine, "ann", "bob", "default")
        assert idents(await call(ann, "claim_many", **asking())) == [mine]
        turned = await call(ann, "complete_and_claim", many=[], **asking())
        assert (turned.status, turned.json) == (200, [[], []])
        granted = await ann.post(
            "/v1/workers/w/claim",
            {"lane_id": LANE, "worker_instance_id": "i", "grant_ttl_ms": 1_000},
        )
        assert granted.status == 204
        turned = await call(bob, "complete_and_claim", many=[], **asking(namespace="bob"))
        assert [work["execution_id"] for work in turned.json[1]] == [theirs]
        assert await engine.read_execution_state(ExecutionId(plain)) is not None


@memory
@pytest.mark.parametrize("named", ["bob", "default", None])
async def test_a_bound_worker_asks_for_no_other(
    engine: Engine, tmp_path: Path, named: str | None
) -> None:
    async with shared(engine, tmp_path) as (ann, _, _):
        made = await one_each(engine, "ann", "bob", "default")
        grant = {
            "lane_id": LANE,
            "worker_instance_id": "i",
            "grant_ttl_ms": 1_000,
            "namespace": named,
        }
        for found in (
            await call(ann, "claim_many", **asking(namespace=named)),
            await call(ann, "complete_and_claim", many=[], **asking(namespace=named)),
            await call(ann, "wait_for_work", lanes=[LANE], namespace=named),
            await ann.post("/v1/workers/w/claim", grant),
        ):
            assert (found.status, found.error) == NOT_THERE
        assert {
            (await engine.read_execution_info(ExecutionId(each))).state_vector.public_state
            for each in made
        } == {"waiting"}


@memory
async def test_an_unbound_worker_claims_in_the_named_or_all_namespaces(
    engine: Engine, tmp_path: Path
) -> None:
    async with shared(engine, tmp_path) as (_, _, admin):
        mine, theirs, plain = await one_each(engine, "ann", "bob", "default")
        assert idents(await call(admin, "claim_many", **asking())) == [plain]
        assert idents(await call(admin, "claim_many", **asking(namespace="bob"))) == [theirs]
        assert idents(await call(admin, "claim_many", **asking(namespace=None))) == [mine]
        made = dict(zip(("ann", "default"), await one_each(engine, "ann", "default"), strict=True))
        grant = {"lane_id": LANE, "worker_instance_id": "i", "grant_ttl_ms": 1_000}
        found = [
            await admin.post("/v1/workers/w/claim", body)
            for body in (grant, grant, {**grant, "namespace": None})
        ]
        assert [each.status for each in found] == [200, 204, 200]
        assert [each.json["execution_id"] for each in (found[0], found[2])] == [
            made["default"],
            made["ann"],
        ]


@memory
async def test_a_worker_over_http_takes_the_work_of_its_app(engine: Engine, tmp_path: Path) -> None:
    async with shared(engine, tmp_path) as (ann, _, admin):
        done: dict[str, list[int]] = {"ann": [], "bob": []}

        def app_of(by: Client, namespace: str) -> App:
            app = App(by.url, token=by.token, namespace=namespace)

            @app.task(name="note")
            async def note(n: int) -> None:
                done[namespace].append(n)

            return app

        apps = {"ann": app_of(ann, "ann"), "bob": app_of(admin, "bob")}
        for n, app in enumerate(apps.values()):
            await app.tasks["note"].submit(n)
        for app in apps.values():
            await Worker(app, loops=False).run_until_idle()
            await app.close()
        assert done == {"ann": [0], "bob": [1]}


@memory
async def test_a_worker_that_waits_is_not_sent_back_by_the_backlog_of_another(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, real = list[str](), RemoteEngine.call

    async def counted(self: RemoteEngine, name: str, arguments: Any) -> Any:
        asked.append(name)
        return await real(self, name, arguments)

    monkeypatch.setattr(RemoteEngine, "call", counted)
    async with shared(engine, tmp_path) as (ann, _, _):
        await one_each(engine, "bob", "bob")
        remote = cast(Engine, RemoteEngine(ann.url, ann.token))
        try:
            with await remote.work_bell(LANE, "other", namespace="ann") as bell:
                assert await bell.wait(1), "the first time one does not know"
                bell.arm()
                await one_each(engine, "bob", "bob")
                assert not await bell.wait(0.2)
                assert asked == ["wait_for_work"] * 2
                (mine,) = await one_each(engine, "ann")
                assert await bell.wait(SOON_S)
            works = await remote.claim_many(LANE, [], ClaimPolicy("w", "i", namespace="ann"), 9)
            assert [str(work.execution_id) for work in works] == [mine]
        finally:
            await remote.close()


@memory
async def test_a_waiting_claim_gets_work_of_its_namespace(engine: Engine, tmp_path: Path) -> None:
    async with shared(engine, tmp_path) as (ann, _, _):
        waiting = asyncio.ensure_future(call(ann, "claim_many", **asking(max_wait_ms=30_000)))
        async with patient(SOON_S):
            while ("ready", LANE) not in engine.store.hub.waiters:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        await one_each(engine, "bob")
        (mine,) = await one_each(engine, "ann")
        async with patient(SOON_S):
            assert idents(await waiting) == [mine]


# ---- an id that was removed


@stores
@pytest.mark.meets("retention", "second_tenant")
async def test_an_id_that_was_removed_and_made_anew_by_another_is_the_others(
    engine: Engine, tmp_path: Path
) -> None:
    async with shared(engine, tmp_path) as (ann, bob, _):
        ident = await ann.create()
        (work,) = (await call(ann, "claim_many", **asking())).json
        assert (await ann.get(f"/v1/executions/{ident}")).status == 200
        assert (await call(ann, "complete", handle=work["handle"])).status == 200
        assert await engine.trim_retention(LANE, 0) == 1
        assert await bob.create(execution_id=ident) == ident
        before = await engine.store.dump(["ff_exec_core", "ff_attempt"])
        path = f"/v1/executions/{ident}"
        found = [
            await ann.get(path),
            await ann.get(f"{path}/result"),
            await ann.post(f"{path}/cancel", {"execution_id": ident, "reason": "r"}),
            await call(ann, "describe_execution", execution=ident),
            await call(ann, "cancel_execution", args={"execution_id": ident, "reason": "r"}),
            await call(ann, "renew", handle=work["handle"]),
            await call(ann, "complete_many", many=[[work["handle"], None]]),
        ]
        assert [each.status for each in found] == [404] * len(found)
        assert await engine.store.dump(["ff_exec_core", "ff_attempt"]) == before
        assert (await bob.get(path)).status == 200


@memory
@pytest.mark.meets("flow", "retention", "second_tenant")
async def test_a_flow_that_was_removed_and_made_anew_by_another_is_the_others(
    engine: Engine, tmp_path: Path
) -> None:
    async with shared(engine, tmp_path) as (ann, bob, _):
        flow = uuid4()
        member = ExecutionId.for_flow(flow)
        graph = {"flow_id": str(flow), "nodes": [{"lane_id": LANE, "execution_id": str(member)}]}
        assert (await ann.post("/v1/flows/graph", graph)).status == 201
        assert (await ann.get(f"/v1/flows/{flow}")).json["namespace"] == "ann"
        await engine.cancel_execution(CancelExecutionArgs(execution_id=member, reason="r"))
        await Supervisor(engine).run_once()
        assert await engine.trim_retention(LANE, 0) == 1
        assert await engine.describe_flow(flow) is None
        assert (await bob.post("/v1/flows", {"flow_id": str(flow)})).status == 201
        assert (await ann.get(f"/v1/flows/{flow}")).status == 404
        cancel = {"flow_id": str(flow), "reason": "r", "cancellation_policy": "cancel_all"}
        assert (await ann.post(f"/v1/flows/{flow}/cancel", cancel)).status == 404
        assert (await bob.get(f"/v1/flows/{flow}")).json["namespace"] == "bob"


# ---- what is not said


@memory
async def test_entities_without_a_namespace_are_created_in_the_tokens_namespace(
    engine: Engine, tmp_path: Path
) -> None:
    async with shared(engine, tmp_path) as (ann, _, admin):
        for by, own in ((ann, "ann"), (admin, "default")):
            flow, hand = uuid4(), uuid()
            node = {"lane_id": LANE, "execution_id": str(ExecutionId.for_flow(flow))}
            other = uuid4()
            args = {"lane_id": LANE, "execution_id": new_id()}
            inner = {"lane_id": LANE, "execution_id": str(ExecutionId.for_flow(other))}
            made = [
                await by.create(),
                *[new_id() for _ in range(2)],
            ]
            batch = {"executions": [{"lane_id": LANE, "execution_id": each} for each in made[1:]]}
            found = [
                await by.post("/v1/executions/batch", batch),
                await by.post("/v1/flows", {"flow_id": hand}),
                await by.post("/v1/flows/graph", {"flow_id": str(flow), "nodes": [node]}),
                await call(by, "create_execution", args=args),
                await call(
                    by, "create_executions", many=[{**args, "execution_id": (more := new_id())}]
                ),
                await call(by, "submit_flow", args={"flow_id": str(other), "nodes": [inner]}),
            ]
            assert {each.status for each in found} <= {200, 201}, found
            made += [node["execution_id"], args["execution_id"], inner["execution_id"], more]
            spaces = await engine.get_execution_namespaces([ExecutionId(each) for each in made])
            assert (len(spaces), set(spaces.values())) == (len(made), {own})
            flows = [await engine.describe_flow(each) for each in (flow, other)]
            assert {None if each is None else each.namespace for each in flows} == {own}
            assert (await by.get(f"/v1/flows/{hand}")).json["namespace"] == own


@memory
async def test_nodes_are_made_in_the_namespace_of_their_graph(
    engine: Engine, tmp_path: Path
) -> None:
    async with shared(engine, tmp_path) as (_, _, admin):
        flow = uuid4()
        node = {"lane_id": LANE, "execution_id": str(ExecutionId.for_flow(flow))}
        graph = {"flow_id": str(flow), "namespace": "ann"}
        found = await admin.post(
            "/v1/flows/graph", {**graph, "nodes": [{**node, "namespace": "bob"}]}
        )
        assert (found.status, found.error) == (
            400,
            "invalid_input: nodes: executions of the flow's namespace, 'ann', got 'bob'",
        )
        assert (await admin.post("/v1/flows/graph", {**graph, "nodes": [node]})).status == 201
        assert await engine.get_execution_namespace(ExecutionId(node["execution_id"])) == "ann"


@memory
async def test_a_key_is_ones_own(engine: Engine, tmp_path: Path) -> None:
    async with shared(engine, tmp_path) as (ann, bob, admin):
        said = {"lane_id": LANE, "idempotency_key": "k"}
        first = [await by.post("/v1/executions", said) for by in (ann, bob, admin)]
        again = [await by.post("/v1/executions", said) for by in (ann, bob, admin)]
        assert [each.status for each in (*first, *again)] == [201] * 3 + [200] * 3
        made = [each.json["Created"]["execution_id"] for each in first]
        assert [each.json["Duplicate"]["execution_id"] for each in again] == made and len(
            set(made)
        ) == 3


@memory
async def test_a_worker_is_registered_in_its_namespace(engine: Engine, tmp_path: Path) -> None:
    worker = {
        "worker_id": "w",
        "worker_instance_id": "i",
        "lanes": [LANE],
        "capabilities": [],
        "liveness_ttl_ms": 30_000,
    }
    async with shared(engine, tmp_path) as (ann, bob, admin):
        for by, own in ((ann, "ann"), (admin, "default")):
            assert (await call(by, "register_worker", args=worker)).status == 200
            assert [each.namespace for each in (await engine.list_workers(own)).items] == [own]
            assert (await call(by, "heartbeat_worker", worker_instance_id="i")).json[
                "type"
            ] == "Refreshed"
        assert [each["namespace"] for each in (await ann.get("/v1/workers")).json["items"]] == [
            "ann"
        ]
        assert [each["namespace"] for each in (await call(ann, "list_workers")).json["items"]] == [
            "ann"
        ]
        assert (await bob.get("/v1/workers")).json["items"] == []
        assert len((await call(admin, "list_workers")).json["items"]) == 2
        for named in ("ann", "default"):
            for name in ("heartbeat_worker", "mark_worker_dead"):
                found = await call(bob, name, worker_instance_id="i", namespace=named)
                assert (found.status, found.error) == NOT_THERE
            assert (
                await call(bob, "register_worker", args={**worker, "namespace": named})
            ).status == 404
        assert (await call(bob, "mark_worker_dead", worker_instance_id="i")).json[
            "type"
        ] == "NotRegistered"
        assert (await call(ann, "mark_worker_dead", worker_instance_id="i")).json[
            "type"
        ] == "Marked"
        assert [each.namespace for each in (await engine.list_workers()).items] == ["default"]


@memory
async def test_a_schedule_is_stored_in_its_namespace(engine: Engine, tmp_path: Path) -> None:
    async with shared(engine, tmp_path) as (ann, bob, _):
        assert (await call(ann, "begin_schedule", name="nightly")).status == 200
        mark = (await call(ann, "read_schedules")).json["marks"]["nightly"]
        assert mark["namespace"] == "ann"
        assert (await call(bob, "read_schedules")).json["marks"] == {}
        assert (await bob.get("/v1/schedules")).json["marks"] == {}
        for found in (
            await call(bob, "move_schedule", mark=mark, cursor_ms=mark["cursor_ms"] + 1),
            await call(bob, "pause_schedule", name="nightly", namespace="ann"),
            await bob.post("/v1/schedules/nightly/pause?namespace=ann"),
        ):
            assert (found.status, found.error) == NOT_THERE
        assert (await bob.post("/v1/schedules/nightly/pause")).status == 200
        assert not (await ann.get("/v1/schedules")).json["marks"]["nightly"]["paused"]
        assert (
            await call(ann, "move_schedule", mark=mark, cursor_ms=mark["cursor_ms"] + 1)
        ).status == 200


@memory
async def test_filling_in_changes_nothing_else(engine: Engine, tmp_path: Path) -> None:
    text = (
        '{"lane_id": "default", "input": {"n": 123456789012345678901234567890, "x": 1.50, '
        '"namespace": "theirs", "é": [ ]}}'
    )
    async with shared(engine, tmp_path) as (ann, _, _):
        made = await ann.send(
            "POST",
            "/v1/executions",
            data=text.encode(),
            headers={"Content-Type": "application/json"},
        )
        assert made.status == 201
        (work,) = (await call(ann, "claim_many", **asking())).json
        payload = msgspec.convert(work["input_payload"], bytes, strict=False)
        assert payload.decode() == text[text.index('{"n"') : -1]


@memory
@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        '"x"',
        '{"lane_id": 7}',
        '{"lane_id": "a", "namespace": null}',
        "\xff",
    ],
)
async def test_invalid_bodies_are_refused_for_bound_tokens_too(
    engine: Engine, tmp_path: Path, body: str
) -> None:
    async with shared(engine, tmp_path) as (ann, _, admin):
        said = {"data": body.encode("latin-1"), "headers": {"Content-Type": "application/json"}}
        found = [await by.send("POST", "/v1/executions", **said) for by in (ann, admin)]
        assert found[0].status in (400, 422)
        assert (found[0].status, found[0].raw) == (found[1].status, found[1].raw)


def test_every_operation_that_takes_a_namespace_is_held_to_it() -> None:
    from flowfabric.server.default_namespace import FIELD, NAMED, namespace_fields
    from flowfabric.wire.operations import Bound, request_type

    free = {"read_events", "list_expired_leases", "create_token"}
    for name, operation in OPERATIONS.items():
        if namespace_fields(request_type(name)) is not None and name not in free:
            assert operation.bound in {*NAMED, Bound.OWN}, name
    for name in ("list_expired_leases", "create_token"):
        assert OPERATIONS[name].bound is Bound.NEVER
    assert FIELD == "namespace"


@memory
async def test_a_client_raises_not_found_for_other_namespaces(
    engine: Engine, tmp_path: Path
) -> None:
    async with shared(engine, tmp_path) as (ann, _, _):
        remote = RemoteEngine(ann.url, ann.token)
        try:
            with pytest.raises(NotFound, match="namespace"):
                await remote.claim(LANE, [], ClaimPolicy("w", "i"))
        finally:
            await remote.close()
