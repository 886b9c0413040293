"""Tasks that are declared elsewhere: the registry by workers, and submissions by name."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from pydantic import BaseModel

from flowfabric import App, Engine, Retry, Worker, sync
from flowfabric.errors import ConfigError, TransportError, ValidationError
from flowfabric.model.search import ExecutionFilter
from flowfabric.model.task import TaskInfo
from flowfabric.sdk.exceptions import IdempotencyConflict, PayloadError, UnknownTask
from flowfabric.sdk.named_task import NamedTask
from flowfabric.sdk.task_registry import TaskRegistry
from flowfabric.store.schema import TABLES
from tests.engine.helpers import two_stores
from tests.sdk.helpers import worked_off


class Reversed:
    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    def decode(self, data: bytes) -> bytes:
        return data[::-1]


@dataclass
class Box:
    width: int
    height: int = 1


class Person(BaseModel):
    name: str
    friends: list[Person] = []


class Huge(BaseModel):
    __doc__ = "x" * 20_000
    a: int


def serving(engine: Engine, **said: Any) -> App:
    app = App("memory://", engine=engine, **said)
    app.quota("mails", concurrent=1)

    @app.task(lane="mails", retry=Retry(max=7), timeout="5s", priority=4, quota="mails")
    async def mail(to: str, size: float = 1, box: Box | None = None) -> dict[str, Any]:
        """Sends a mail.

        To one address.
        """
        return {"to": to, "size": size, "area": None if box is None else box.width * box.height}

    return app


async def info(app: App, name: str = "mail") -> TaskInfo:
    found = await (await app.engine()).read_task(app.namespace, name)
    assert found is not None
    return found


async def registered(app: App) -> None:
    await TaskRegistry(app).add(await app.engine())


@two_stores
async def test_a_worker_registers_what_it_serves(engine: Engine) -> None:
    app = serving(engine)
    async with Worker(app):
        found = await info(app)
        declared = found.declaration
        assert (declared.lane_id, declared.policy.priority, found.workers) == ("mails", 4, 1)
        assert declared.policy == app.tasks["mail"].defaults.policy
        assert (declared.quota, declared.sealed) == ("mails", False)
        assert declared.description.startswith("Sends a mail.")
        assert (
            declared.signature
            == "(to: str, size: float = 1, box: Box | None = None) -> dict[str, Any]"
        )
        assert declared.arguments is not None
        assert declared.arguments["required"] == ["to"]
        assert declared.arguments["properties"]["size"] == {"type": "number", "default": 1}
    assert (await info(app)).workers == 0


@two_stores
async def test_a_run_submitted_by_name_is_that_of_the_declaration(engine: Engine) -> None:
    app, client = serving(engine), App("memory://", engine=engine)
    await registered(app)
    mail = client.task_named("mail")
    assert isinstance(mail, NamedTask)
    run = await mail.submit(to="ü☃", box=Box(2, 3))
    local = await app.tasks["mail"].submit("b")
    rows = (await engine.store.dump(["ff_exec_core"]))["ff_exec_core"]
    policies = {row[TABLES["ff_exec_core"].names.index("policy")] for row in rows}
    assert len(rows) == 2 and len(policies) == 1
    assert await worked_off(app, concurrency=2) == 2
    assert await run.result() == {"to": "ü☃", "size": 1, "area": 6}
    assert (await local.result())["to"] == "b"


@two_stores
async def test_many_runs_submitted_by_name_are_those_of_the_declaration(engine: Engine) -> None:
    app, client = serving(engine), App("memory://", engine=engine)
    await registered(app)
    mail = client.task_named("mail")
    assert isinstance(mail, NamedTask)
    assert await mail.submit_many([]) == []
    items = [{"to": f"to-{n}", "size": n} for n in range(3)]
    runs = await mail.submit_many(items, priority=7, tags={"app.x": "1"}, lane="bulk")
    assert {run.id.uuid for run in runs} == {
        row.execution_uuid
        for row in (await engine.find_executions(ExecutionFilter(lane="bulk", tag="app.x=1"))).items
    }
    assert [await run.state() for run in runs] == ["waiting"] * 3
    late = await mail.submit_many(iter(items), delay="1h")
    assert [await run.state() for run in late] == ["delayed"] * 3
    here = await mail.submit_many(items)
    assert await worked_off(app) == 3
    assert [(await run.result())["to"] for run in here] == ["to-0", "to-1", "to-2"]


@two_stores
async def test_an_item_that_does_not_fit_is_named_and_none_is_submitted(engine: Engine) -> None:
    app, client = serving(engine), App("memory://", engine=engine)
    await registered(app)
    mail = NamedTask(client, "mail")
    with pytest.raises(ValidationError, match=r"item 1: .*arguments\.size: number is expected"):
        await mail.submit_many([{"to": "a"}, {"to": "b", "size": "big"}])
    with pytest.raises(PayloadError, match="task mail: item 1: a dict of arguments by name"):
        await mail.submit_many([{"to": "a"}, "b"])  # type: ignore[list-item]
    with pytest.raises(PayloadError, match=r"task mail: item 0: its arguments: .*object"):
        await mail.submit_many([{"to": object()}])
    with pytest.raises(ConfigError, match=r"key: .*one run"):
        await mail.submit_many([{"to": "a"}], key="k")
    with pytest.raises(ConfigError, match="task mail: when: unknown option"):
        await mail.submit_many([{"to": "a"}], when="now")
    with pytest.raises(UnknownTask, match="registered: mail"):
        await NamedTask(client, "mial").submit_many([{"to": "a"}])
    assert (await engine.find_executions(ExecutionFilter())).items == []


@two_stores
async def test_the_same_key_by_name_and_by_function_is_one_run(engine: Engine) -> None:
    app, client = serving(engine), App("memory://", engine=engine)
    await registered(app)
    named = NamedTask(client, "mail")
    first = await app.tasks["mail"].submit("a", key="k")
    assert (await named.submit(to="a", key="k")).id == first.id
    assert (await named.submit(to="a", size=1, key="k")).id == first.id
    with pytest.raises(IdempotencyConflict):
        await named.submit(to="b", key="k")


@two_stores
async def test_mistakes_name_the_argument_or_the_known_tasks(engine: Engine) -> None:
    app, client = serving(engine), App("memory://", engine=engine)
    await registered(app)
    mail = client.task_named("mail")
    with pytest.raises(ValidationError, match=r"arguments\.size: number is expected"):
        await mail.submit(to="a", size="big")
    with pytest.raises(ValidationError, match=r"arguments\.box\.width: required"):
        await mail.submit(to="a", box={})
    with pytest.raises(PayloadError, match="object cannot be stored"):
        await mail.submit(to=object())
    with pytest.raises(UnknownTask, match="registered: mail"):
        await client.task_named("mial").submit()
    assert app.task_named("mail") is app.tasks["mail"]
    assert await client.task_named("mail").submit(to="a", delay="1h", priority=1, lane="x")


async def test_codecs_must_agree(memory: Engine) -> None:
    sealed = serving(memory, codec=Reversed())
    await registered(sealed)
    with pytest.raises(ValidationError, match="same codec"):
        await App("memory://", engine=memory).task_named("mail").submit(to="a")
    with_codec = App("memory://", engine=memory, codec=Reversed())
    run = await with_codec.task_named("mail").submit(to="a")
    assert await worked_off(sealed) == 1
    assert (await run.result())["to"] == "a"
    await registered(serving(memory))
    with pytest.raises(ConfigError, match="workers have none"):
        await with_codec.task_named("mail").submit(to="a")


async def test_types_that_have_no_schema_are_left_to_the_worker(memory: Engine) -> None:
    app = App("memory://", engine=memory)

    @app.task
    async def greet(person: Person, other: Person | None = None) -> Person:
        return person

    @app.task
    async def many(value: Person, at: datetime = datetime(2026, 1, 2)) -> Any:  # noqa: DTZ001
        return value

    @app.task
    async def huge(value: Huge) -> None: ...

    await registered(app)
    client = App("memory://", engine=memory)
    with pytest.raises(ValidationError, match=r"person\.friends\[0\]\.name: required"):
        await client.task_named("greet").submit(person={"name": "a", "friends": [{}]})
    assert await client.task_named("greet").submit(person=Person(name="a"))
    declared = (await info(app, "many")).declaration
    assert declared.arguments is not None
    assert declared.arguments["properties"]["at"]["default"] == "2026-01-02T00:00:00"
    assert (await info(app, "huge")).declaration.arguments is None
    assert await client.task_named("huge").submit(anything=1)


async def test_a_restarted_worker_replaces_its_declaration(memory: Engine) -> None:
    old = App("memory://", engine=memory)

    @old.task(name="t")
    async def first(a: int) -> None: ...

    worker = Worker(old)
    await worker.__aenter__()
    await worker.crash()
    new = App("memory://", engine=memory)

    @new.task(name="t")
    async def second(a: int, b: int = 2) -> None: ...

    async with Worker(new):
        assert "b: int" in (await info(new, "t")).declaration.signature


async def test_a_server_without_the_registry_does_not_stop_a_worker(
    memory: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = serving(memory)

    async def missing(*_: object) -> None:
        raise TransportError("http", "the server answered 404", backend_kind="protocol")

    monkeypatch.setattr(memory, "register_tasks", missing)
    with caplog.at_level(logging.WARNING):
        async with Worker(app):
            run = await app.tasks["mail"].submit("a")
            assert (await run.result())["to"] == "a"
    assert "cannot be submitted by name" in caplog.text


@pytest.mark.parametrize("version", [-1, True, "1", 2**40])
def test_a_version_is_a_whole_number(version: Any) -> None:
    app = App("memory://")
    with pytest.raises(ConfigError, match="version"):
        app.task(name="t", version=version)(serving)


def test_blocking_code_submits_by_name_too(memory: Engine) -> None:
    app = sync.App("memory://", engine=memory)

    @app.task
    def double(n: int) -> int:
        return 2 * n

    client = sync.App("memory://", engine=memory)
    with app, sync.Worker(app, loops=False):
        assert client.task_named("double").submit(n=4).result(timeout="20s") == 8
        with pytest.raises(UnknownTask, match="registered: double"):
            client.task_named("triple").submit(n=4)
    assert app.task_named("double").name == "double"
