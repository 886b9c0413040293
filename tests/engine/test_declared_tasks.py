"""The registry of declared tasks on every store."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec import structs

from flowfabric import Engine, EngineError
from flowfabric.errors import NotFound, ResourceExhausted, ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model import task as model
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import SubmitFlowArgs
from flowfabric.model.policy import ExecutionPolicy
from flowfabric.model.quota import CreateQuotaPolicyArgs
from flowfabric.model.task import (
    MAX_TASKS_PER_CALL,
    SEEN_EVERY_MS,
    RegisterTasksArgs,
    TaskDeclaration,
    TasksRegistered,
)
from flowfabric.model.worker import RegisterWorkerArgs
from flowfabric.testing import ManualClock
from tests.engine.helpers import claim, create, two_stores, worker

MAIL = TaskDeclaration(
    name="mail",
    lane_id="mails",
    policy=ExecutionPolicy(priority=3),
    arguments={"type": "object", "properties": {"to": {"type": "string"}}},
    result={"type": "integer"},
    description="Sends a mail.\n\nTo one address.",
    signature="(to: str) -> int",
)


async def register(
    engine: Engine, *tasks: TaskDeclaration, namespace: str = "default", at: int | None = None
) -> TasksRegistered:
    return await engine.register_tasks(
        RegisterTasksArgs(tasks=tasks, namespace=namespace, declared_at_ms=at)
    )


async def new_quota(engine: Engine, namespace: str = "default", **said: int) -> UUID:
    ident = uuid4()
    await engine.create_quota_policy(
        CreateQuotaPolicyArgs(quota_policy_id=ident, namespace=namespace, **said)
    )
    return ident


def limited(quota: UUID | None, name: str = "mail") -> TaskDeclaration:
    policy = ExecutionPolicy(quota_policy_id=None if quota is None else str(quota))
    return TaskDeclaration(name=name, policy=policy)


async def attached(engine: Engine) -> list[tuple[str, str, UUID]]:
    page = await engine.list_limit_scopes()
    return [(each.scope_type, each.scope_id, each.limit_id) for each in page.items]


async def test_a_declaration_is_read_as_it_was_registered(
    engine: Engine, clock: ManualClock
) -> None:
    assert (await register(engine, MAIL)).written == ("mail",)
    found = await engine.read_task("default", "mail")
    assert found is not None
    assert (found.declaration, found.workers, found.registered_at_ms) == (MAIL, 0, clock())
    (line,) = (await engine.list_tasks()).items
    assert (line.name, line.lane_id, line.description) == ("mail", "mails", "Sends a mail.")
    assert (line.signature, line.fingerprint, line.workers) == (
        "(to: str) -> int",
        found.fingerprint,
        0,
    )
    assert await engine.read_task("default", "other") is None


async def test_live_workers_are_counted_and_a_task_outlives_them(
    engine: Engine, clock: ManualClock
) -> None:
    await register(engine, MAIL)
    for number in range(2):
        await engine.register_worker(
            RegisterWorkerArgs(
                worker_id="w",
                worker_instance_id=f"w-{number}",
                capabilities=frozenset({"task:mail"}),
                liveness_ttl_ms=1_000 * (number + 1),
            )
        )
    found = [await engine.read_task("default", "mail")]
    clock.advance(1_500)
    found.append(await engine.read_task("default", "mail"))
    clock.advance(1_500)
    found.append(await engine.read_task("default", "mail"))
    assert [each and each.workers for each in found] == [2, 1, 0]
    assert [line.workers for line in (await engine.list_tasks()).items] == [0]


async def test_an_unchanged_declaration_writes_nothing_until_a_sign_of_life_is_due(
    engine: Engine, clock: ManualClock
) -> None:
    first = await register(engine, MAIL)
    before = await engine.store.dump(["ff_task"])
    clock.advance(SEEN_EVERY_MS - 1)
    assert (await register(engine, MAIL, at=first.declared_at_ms)).written == ()
    assert await engine.store.dump(["ff_task"]) == before
    clock.advance(1)
    await register(engine, MAIL, at=first.declared_at_ms)
    found = await engine.read_task("default", "mail")
    assert found is not None
    assert (found.last_seen_ms, found.changed_at_ms) == (clock(), first.declared_at_ms)


async def test_two_versions_at_once_do_not_fight(engine: Engine, clock: ManualClock) -> None:
    """The worker that started last decides, whatever the other one repeats."""
    new = structs.replace(MAIL, lane_id="fast")
    old_start = (await register(engine, MAIL)).declared_at_ms
    other = await register(engine, MAIL, namespace="other")
    clock.advance(1_000)
    new_start = (await register(engine, new)).declared_at_ms
    for _ in range(3):
        clock.advance(SEEN_EVERY_MS)
        assert (await register(engine, MAIL, at=old_start)).newer == ("mail",)
        assert (await register(engine, new, at=new_start)).newer == ()
    found = await engine.read_task("default", "mail")
    assert found is not None and found.declaration == new
    elsewhere = await engine.read_task("other", "mail")
    assert elsewhere is not None and elsewhere.declaration == MAIL
    assert other.written == ("mail",)


async def test_a_restart_with_a_changed_declaration_replaces_it(
    engine: Engine, clock: ManualClock
) -> None:
    versions = [structs.replace(MAIL, version=number) for number in (1, 3, 2)]
    for each in versions:
        clock.advance(1_000)
        await register(engine, each)
    found = await engine.read_task("default", "mail")
    assert found is not None and found.declaration.version == 3


async def test_many_workers_start_at_once(engine: Engine) -> None:
    tasks = [structs.replace(MAIL, name=f"t{number}") for number in range(20)]
    answers = await asyncio.gather(*(register(engine, *tasks) for _ in range(6)))
    assert len((await engine.list_tasks()).items) == 20
    assert sum(len(each.written) for each in answers) >= 20
    assert not any(each.newer for each in answers)


async def test_a_listing_has_pages_and_one_namespace(engine: Engine) -> None:
    names = ["a", "b/c", "ü ☃", "z"]
    await register(engine, *(structs.replace(MAIL, name=name) for name in names))
    await register(engine, structs.replace(MAIL, name="hidden"), namespace="other")
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await engine.list_tasks("default", 2, cursor)
        found += [each.name for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(found) == sorted(names) and len(found) == 4
    assert await engine.read_task("default", "hidden") is None
    assert (await engine.list_tasks("default", 0)).items == []


# ---- limits


@pytest.mark.meets("quota", "deploy")
async def test_a_raw_create_of_a_limited_task_is_limited(engine: Engine) -> None:
    quota = await new_quota(engine, max_concurrent=1)
    await register(engine, limited(quota))
    for kind in ("mail", "mail", "free"):
        await create(engine, execution_kind=kind)
    works = await engine.claim_many("default", (), worker(), 3)
    kinds = sorted(work.execution_kind for work in works)
    assert kinds == ["free", "mail"]
    await register(engine, limited(None))  # the next release has no quota
    await create(engine, execution_kind="mail")
    await claim(engine, worker(2))
    assert await attached(engine) == []


@pytest.mark.meets("quota", "flow")
async def test_members_of_flows_and_bulk_creates_are_limited_too(engine: Engine) -> None:
    quota = await new_quota(engine, max_concurrent=1)
    await register(engine, limited(quota))
    flow = uuid4()
    nodes = [
        CreateExecutionArgs(execution_id=ExecutionId.for_flow(flow), execution_kind=kind)
        for kind in ("mail", "free")
    ]
    await engine.submit_flow(SubmitFlowArgs(flow_id=flow, nodes=nodes, edges=[]))
    solo = [
        CreateExecutionArgs(execution_id=ExecutionId.solo("default"), execution_kind=kind)
        for kind in ("mail", "free", "mail")
    ]
    await engine.create_executions(solo)
    works = await engine.claim_many("default", (), worker(), 9)
    assert sorted(work.execution_kind for work in works) == ["free", "free", "mail"]


@pytest.mark.meets("quota", "second_tenant")
async def test_the_limit_of_a_task_is_of_its_namespace(engine: Engine) -> None:
    quota = await new_quota(engine, max_concurrent=1)
    await register(engine, limited(quota))
    for _ in range(2):
        await create(engine, execution_kind="mail", namespace="other")
    works = await engine.claim_many("default", (), worker(namespace="other"), 2)
    assert len(works) == 2
    with pytest.raises(NotFound):
        await register(engine, limited(quota), namespace="other")
    assert await engine.read_task("other", "mail") is None


async def test_the_attached_limit_follows_the_declaration(
    engine: Engine, clock: ManualClock
) -> None:
    first, second = [await new_quota(engine, max_concurrent=1) for _ in range(2)]
    seen = []
    for quota in (first, first, second, None, first):
        clock.advance(1)
        await register(engine, limited(quota))
        seen.append(await attached(engine))
    assert await engine.forget_task("default", "mail") is True
    assert await engine.forget_task("default", "mail") is False
    assert seen == [
        [("task", "mail", first)],
        [("task", "mail", first)],
        [("task", "mail", second)],
        [],
        [("task", "mail", first)],
    ]
    assert await attached(engine) == []
    assert await engine.read_task("default", "mail") is None


async def test_an_operator_attaches_limits_to_a_task_too(engine: Engine) -> None:
    quota = await new_quota(engine, max_concurrent=1)
    assert await engine.attach_limit("quota", quota, "task", "mail")
    for _ in range(2):
        await create(engine, execution_kind="mail")
    assert len(await engine.claim_many("default", (), worker(), 2)) == 1


# ---- bad input

HUGE = {"type": "object", "description": "x" * 20_000}
BAD: dict[str, Any] = {
    "name": "",
    "lane_id": "",
    "version": -1,
    "arguments": HUGE,
    "result": {"type": "text"},
    "description": "x" * 5_000,
    "signature": "x" * 5_000,
    "sealed": "yes",
    "policy": ExecutionPolicy(quota_policy_id="nothing"),
}


@two_stores
@pytest.mark.parametrize("field", BAD)
async def test_a_bad_declaration_is_refused_whole(engine: Engine, field: str) -> None:
    bad = structs.replace(MAIL, **{"name": "bad", field: BAD[field]})
    with pytest.raises(ValidationError):
        await register(engine, MAIL, bad)
    assert (await engine.list_tasks()).items == []


@two_stores
async def test_the_number_of_tasks_is_bounded(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [structs.replace(MAIL, name=f"t{at}") for at in range(MAX_TASKS_PER_CALL + 1)]
    with pytest.raises(ValidationError, match="at most 256"):
        await register(engine, *many)
    with pytest.raises(ValidationError, match="declared twice"):
        await register(engine, MAIL, MAIL)
    monkeypatch.setattr("flowfabric.engine.workers.tasks.MAX_TASKS", 2)
    await register(engine, *many[:2])
    with pytest.raises(ResourceExhausted):
        await register(engine, many[2])
    assert (await register(engine, *many[:2])).written == ()
    await register(engine, many[2], namespace="other")


@two_stores
async def test_names_and_times_are_checked(engine: Engine) -> None:
    with pytest.raises(EngineError, match="namespace"):
        await register(engine, MAIL, namespace="")
    with pytest.raises(EngineError, match="declared_at_ms"):
        await register(engine, MAIL, at=-1)
    with pytest.raises(EngineError, match="name"):
        await engine.read_task("default", "")
    with pytest.raises(EngineError, match="cursor"):
        await engine.list_tasks(cursor="\0")
    assert model.MAX_TASKS_PAGE == 1_000
