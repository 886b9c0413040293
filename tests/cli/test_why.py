"""`flowfabric why`: the answer, the next step, errors, and no writes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from flowfabric import ClaimPolicy, CreateExecutionArgs, Engine, ExecutionId, RegisterWorkerArgs
from flowfabric.cli.why import render
from flowfabric.connect import PostgresBackend, SqliteBackend
from tests.cli.commands import flowfabric, refused
from tests.cli.waits import Wait, suspended
from tests.postgres import database

GPU: dict[str, Any] = {"routing_requirements": {"required_capabilities": ["gpu"]}}
UNKNOWN = "{fp:0}:11111111-1111-4111-8111-111111111111"


async def made(engine: Engine, **said: Any) -> ExecutionId:
    ident = ExecutionId.solo("default")
    await engine.create_execution(
        CreateExecutionArgs(execution_id=ident, execution_kind="render", **said)
    )
    return ident


async def text(engine: Engine, ident: ExecutionId) -> str:
    return "\n".join(line.plain for line in render(await engine.explain_execution(ident)))


async def test_the_answer_names_the_cause_and_the_next_step(engine: Engine) -> None:
    await engine.register_worker(RegisterWorkerArgs(worker_id="w", worker_instance_id="w-1"))
    ident = await made(engine, policy=GPU)
    await engine.pause_lane("default")
    lines = (await text(engine, ident)).splitlines()
    assert lines[0] == "render  on lane default, namespace default: waiting"
    assert lines[1] == f"  {ident.uuid}"
    assert lines[3].startswith("lane_paused: lane `default` is paused")
    assert lines[5] == "  next: flowfabric lanes resume default"
    assert lines[7].startswith(
        "then waiting_for_capable_worker: no live worker of namespace `default` on lane "
        "`default` offers `gpu`"
    )


async def test_nothing_a_user_wrote_breaks_out(sqlite: SqliteBackend) -> None:
    nasty = "a\x1b[31m\nb"
    wait = await suspended(sqlite, kind=nasty, key=nasty)
    said = await text(sqlite, wait.execution)
    assert "\x1b" not in said and wait.token[19:] not in said
    assert len(said.splitlines()) == 6


async def test_a_running_and_an_ended_one(sqlite: SqliteBackend) -> None:
    ident = await made(sqlite)
    handle = await sqlite.claim("default", (), ClaimPolicy("w", "w-1", 60_000))
    assert handle is not None
    assert "running: worker `w` (`w-1`) runs attempt 1" in await text(sqlite, ident)
    await sqlite.complete(handle)
    assert "ended: it completed" in await text(sqlite, ident)


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"

    async def fill() -> Wait:
        async with await SqliteBackend.new(str(path), dev=True) as engine:
            return await suspended(engine)

    wait = asyncio.run(fill())
    before = path.read_bytes()
    done = flowfabric("why", str(wait.execution), "--db", f"sqlite:///{path}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("deploy  on lane releases, namespace default: suspended\n")
    assert "waiting_for_approval: it waits for an approval" in done.stdout
    assert (
        f"next: flowfabric signal {wait.execution.uuid} {wait.waitpoint} --name approved --db "
        in done.stdout
    )
    again = flowfabric("why", str(wait.execution), FF_URL=str(path)).stdout
    assert again.splitlines()[:2] == done.stdout.splitlines()[:2]
    told = json.loads(flowfabric("why", str(wait.execution), "--db", str(path), "--json").stdout)
    assert (told["code"], told["state"], told["execution_id"]) == (
        "waiting_for_approval",
        "SUSPENDED",
        str(wait.execution),
    )
    assert told["reasons"][0]["facts"]["waitpoints"][0]["waitpoint_id"] == str(wait.waitpoint)
    assert wait.token[19:] not in done.stdout + json.dumps(told)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ff.db"]


async def test_the_command_on_postgres() -> None:
    engine = await PostgresBackend.connect(database("why"), migrate=True)
    ident = await made(engine)
    done = await asyncio.to_thread(flowfabric, "why", str(ident), "--db", engine.store.options.url)
    assert "no_live_worker: it can be claimed" in done.stdout, done.stdout + done.stderr
    await engine.close()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("nonsense", "--db", "x.db"), "x.db: no such database file"),
        (("a\x1b[31mb", "--db", "x.db"), "x.db: no such database file"),
        ((UNKNOWN, "--db", "nowhere.db"), "nowhere.db: no such database file"),
        ((UNKNOWN, "--db", "memory://"), "memory:// is visible to its own process only"),
        ((UNKNOWN, "--db", "mysql://there"), "not supported"),
        ((UNKNOWN,), "or set FF_URL"),
    ],
)
def test_refusals(args: tuple[str, ...], says: str) -> None:
    done = flowfabric("why", *args)
    refused(done, says)
    assert "\x1b[31mb" not in done.stderr


def test_an_unknown_execution(tmp_path: Path) -> None:
    async def fill() -> None:
        async with await SqliteBackend.new(str(tmp_path / "ff.db"), dev=True):
            pass

    asyncio.run(fill())
    done = flowfabric("why", UNKNOWN, "--db", str(tmp_path / "ff.db"))
    refused(done, f"{UNKNOWN}: no such execution in this database", 3)
