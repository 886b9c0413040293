"""Routes of declared tasks: the registry, and submissions by the name of a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from msgspec import structs

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, RoutingRequirements
from flowfabric.model.quota import CreateQuotaPolicyArgs
from flowfabric.model.task import RegisterTasksArgs, TaskDeclaration
from flowfabric.store.port import Get
from flowfabric.testing import ManualClock
from tests.engine.helpers import worker
from tests.server.client import Client, memory, served, stores, token_of, tokens_file

MAIL = TaskDeclaration(
    name="mail",
    lane_id="mails",
    policy=ExecutionPolicy(
        priority=5,
        retry_policy=RetryPolicy(max_retries=9),
        routing_requirements=RoutingRequirements(required_capabilities=("task:mail",)),
    ),
    arguments={
        "type": "object",
        "properties": {"to": {"type": "string"}, "size": {"type": "integer", "default": 1}},
        "required": ["to"],
        "additionalProperties": False,
    },
    signature="(to: str, size: int = 1)",
)


async def declare(engine: Engine, *tasks: TaskDeclaration, namespace: str = "default") -> None:
    await engine.register_tasks(RegisterTasksArgs(tasks=tasks or (MAIL,), namespace=namespace))


async def send(client: Client, name: str = "mail", **body: Any) -> Any:
    return await client.post(f"/v1/tasks/{quote(name, safe='')}", body)


async def columns(engine: Engine, ident: str, *names: str) -> tuple[Any, ...]:
    loaded = await engine.store.load((Get("ff_exec_core", ExecutionId(ident).key, names),))
    return loaded.rows[0][0]


@stores
async def test_a_submission_applies_the_declaration(engine: Engine, clock: ManualClock) -> None:
    quota_id = uuid4()
    await engine.create_quota_policy(
        CreateQuotaPolicyArgs(quota_policy_id=quota_id, max_concurrent=1)
    )
    policy = structs.replace(MAIL.policy, quota_policy_id=str(quota_id))
    await declare(engine, structs.replace(MAIL, policy=policy))
    async with served(engine) as client:
        made = await send(client, arguments={"to": "a"})
        assert made.status == 201
        said = made.json
        ident = ExecutionId(said["execution_id"])
        assert (UUID(said["run"]), said["task"], said["created"]) == (ident.uuid, "mail", True)
        names = ("lane_id", "execution_kind", "priority", "quota_policy_id", "payload")
        assert await columns(engine, ident, *names) == (
            "mails",
            "mail",
            5,
            quota_id,
            b'{"to": "a"}',
        )
        wanted = {"lane": "x", "priority": 7, "tags": {"app.a": "b"}, "delay": "1m"}
        other = (await send(client, arguments={"to": "a"}, **wanted)).json["execution_id"]
        names = ("lane_id", "priority", "public_state", "delay_until_ms")
        assert await columns(engine, other, *names) == ("x", 7, "delayed", clock() + 60_000)


@stores
async def test_the_arguments_are_checked_by_name(engine: Engine) -> None:
    await declare(engine)
    async with served(engine) as client:
        for arguments, said in (
            ({}, "arguments.to: required"),
            ({"to": 1}, "arguments.to: string is expected"),
            ({"to": "a", "sise": 1}, "arguments.sise: unknown name; accepted: size, to"),
            ([], "arguments: an object by name"),
            ({"$results": {}}, "arguments.$results"),
        ):
            answer = await send(client, arguments=arguments)
            assert (answer.status, said in answer.error) == (400, True), answer
        assert (await send(client, arguments={"to": "ü☃\x00"})).status == 201
        assert (await send(client)).status == 400
        wrong = await send(client, arguments={"to": "a"}, lanes="x")
        assert wrong.status == 422 and "lanes" in wrong.json["detail"]
        for more in ({"delay": "soon"}, {"key_ttl": "1h"}, {"requires": ["a b"]}):
            assert (await send(client, arguments={"to": "a"}, **more)).status == 400


@stores
async def test_a_key_belongs_to_its_arguments(engine: Engine) -> None:
    await declare(engine)
    async with served(engine) as client:
        first = await send(client, arguments={"to": "a"}, key="k")
        again = await send(client, arguments={"size": 1, "to": "a"}, key="k")
        assert (first.status, again.status, again.json["created"]) == (201, 200, False)
        assert first.json["run"] == again.json["run"]
        other = await send(client, arguments={"to": "b"}, key="k")
        assert other.status == 409 and first.json["run"] in other.json["detail"]


@memory
async def test_an_unknown_task_is_answered_with_the_known_ones(engine: Engine) -> None:
    await declare(engine, MAIL, structs.replace(MAIL, name="other"))
    async with served(engine) as client:
        for answer in (await send(client, "mial"), await client.get("/v1/tasks/mial")):
            assert answer.status == 404
            assert "'mial' is not registered" in answer.error
            assert "registered: mail, other." in answer.error
        assert (await send(client, "ü", arguments={})).status == 404
        assert (await send(client, "x" * 2_000, arguments={})).status == 400


@memory
async def test_arguments_behind_a_codec_are_refused(engine: Engine) -> None:
    await declare(engine, structs.replace(MAIL, sealed=True))
    async with served(engine) as client:
        answer = await send(client, arguments={"to": "a"})
        assert answer.status == 400 and "same codec" in answer.error


@memory
async def test_the_registry_is_listed_read_and_cleared(engine: Engine) -> None:
    await declare(engine, MAIL, structs.replace(MAIL, name="a/b ü"))
    async with served(engine) as client:
        page = (await client.get("/v1/tasks?limit=1")).json
        assert [each["name"] for each in page["items"]] == ["a/b ü"]
        rest = (await client.get(f"/v1/tasks?cursor={quote(page['next_cursor'], safe='')}")).json
        assert [(each["name"], each["workers"]) for each in rest["items"]] == [("mail", 0)]
        found = (await client.get("/v1/tasks/a%2Fb%20%C3%BC")).json
        assert found["declaration"]["arguments"] == MAIL.arguments
        gone = [await client.post("/v1/tasks/mail/forget") for _ in range(2)]
        assert [each.json for each in gone] == [{"forgotten": True}, {"forgotten": False}]
        assert (await client.get("/v1/tasks/mail")).status == 404


@memory
@pytest.mark.meets("quota", "second_tenant")
async def test_a_tenant_sees_and_submits_its_own_tasks(engine: Engine, tmp_path: Path) -> None:
    """A token with lanes submits only to these lanes, whatever the declaration says."""
    entries = [
        {"name": "ann", "roles": ["submit"], "namespace": "ann"},
        {"name": "bob", "roles": ["submit"], "namespace": "bob", "lanes": ["low"]},
    ]
    await declare(engine, MAIL, namespace="ann")
    quota_id = uuid4()
    await engine.create_quota_policy(
        CreateQuotaPolicyArgs(quota_policy_id=quota_id, max_concurrent=1, namespace="bob")
    )
    bobs = TaskDeclaration(name="own", policy=ExecutionPolicy(quota_policy_id=str(quota_id)))
    await declare(engine, bobs, namespace="bob")
    async with served(engine, api_tokens_file=tokens_file(tmp_path, *entries)) as client:
        ann, bob = client.with_token(token_of("ann")), client.with_token(token_of("bob"))
        for mine, name in ((ann, "mail"), (bob, "own")):
            listed = (await mine.get("/v1/tasks")).json["items"]
            assert [each["name"] for each in listed] == [name]
        hidden = await send(bob, "mail", arguments={"to": "a"})
        assert hidden.status == 404 and "registered: own." in hidden.error
        named = await send(bob, "mail", arguments={"to": "a"}, namespace="ann")
        assert named.status == 404 and "registered" not in named.error
        assert (await send(ann, arguments={"to": "a"})).status == 201
        assert (await send(bob, "own")).status == 404  # its lane is `default`
        raw = {"lane_id": "low", "execution_kind": "own", "namespace": "bob"}
        for _ in range(2):
            assert (await bob.post("/v1/executions", raw)).status == 201
        assert (await send(bob, "own", lane="low")).status == 201
        works = await engine.claim_many("low", (), worker(namespace="bob"), 5)
        assert len(works) == 1
