"""Commands about lanes, workers, limits, schedules, flows and signals, on stores and servers."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from uuid import UUID

import pytest

from flowfabric import RegisterWorkerArgs
from flowfabric.cli import demo, dev, server
from flowfabric.cli.exits import CommandError
from flowfabric.cli.server import store_variables
from flowfabric.errors import ConfigError
from flowfabric.model.budget import CreateBudgetArgs
from flowfabric.model.quota import CreateQuotaPolicyArgs
from flowfabric.model.search import ExecutionFilter
from flowfabric.sdk.limits import budget_id, quota_id
from tests.cli.commands import flowfabric, refused
from tests.cli.targets import Target, fill, normal, target
from tests.cli.waits import suspended
from tests.engine.flow_helpers import empty_flow
from tests.engine.helpers import create, running

APP = """
from flowfabric import App

app = App("memory://")


@app.schedule("0 3 * * *", name="nightly", arguments={"n": 7})
@app.task
async def tidy(n: int) -> int:
    return n
"""
both = pytest.mark.parametrize("kind", ["postgres", "server"])


async def said(found: Target, *args: str, code: int = 0) -> str:
    done = await asyncio.to_thread(flowfabric, *args, **found.env)
    assert done.returncode == code, done
    return normal(done.stdout if code == 0 else done.stderr)


@both
async def test_lanes_and_workers(kind: str, tmp_path: Path) -> None:
    async with target(kind, tmp_path, "resources") as found:
        await fill(found.engine)
        assert await said(found, "workers") == "no live workers in namespace default\n"
        worker = RegisterWorkerArgs(
            worker_id="w", worker_instance_id="w-1", capabilities=frozenset({"gpu"})
        )
        await found.engine.register_worker(worker)
        assert (await said(found, "workers")).splitlines()[1] == (
            "w-1  w  SPAN  SPAN  default  gpu"
        )
        assert await said(found, "lanes", "list") == (
            "lane  state  since  waiting  delayed  active  suspended  failed\n"
            "default  active  SPAN  1  1  0  0  1\n"
            "video  active  SPAN  1  0  0  0  0\n"
        )
        assert "is paused" in await said(found, "lanes", "pause", "video")
        assert "lane `video` is paused" in await said(found, "why", "00000006")
        assert "is draining" in await said(found, "lanes", "drain", "video")
        assert "is active" in await said(found, "lanes", "resume", "video")
        assert "nope: no such lane" in await said(found, "lanes", "pause", "nope", code=3)


@both
async def test_a_namespace_is_erased(kind: str, tmp_path: Path) -> None:
    async with target(kind, tmp_path, "resources") as found:
        await create(found.engine, namespace="acme")
        await create(found.engine, namespace="acme")
        await create(found.engine, namespace="other")
        told = await said(found, "namespaces", "list", "--json")
        sizes = [json.loads(line) for line in told.splitlines()]
        assert sizes == [
            {"namespace": "acme", "executions": 2},
            {"namespace": "other", "executions": 1},
        ]
        assert "--yes" in await said(found, "namespaces", "erase", "acme", code=2)
        assert await said(found, "namespaces", "erase", "acme", "--yes") == "erased 2 executions\n"
        left = await found.engine.find_executions(ExecutionFilter())
        assert [each.namespace for each in left.items] == ["other"]


@both
async def test_budgets_quotas_and_schedules(kind: str, tmp_path: Path) -> None:
    async with target(kind, tmp_path, "resources") as found:
        engine = found.engine
        budget, quota = budget_id("default", "daily"), quota_id("default", "api")
        assert await said(found, "budgets", "list") == "no budgets\n"
        assert await said(found, "quotas", "list") == "no quotas\n"
        await engine.create_budget(
            CreateBudgetArgs(
                budget_id=budget, dimensions=["tokens"], hard_limits=[1000], soft_limits=[0]
            )
        )
        await engine.create_quota_policy(
            CreateQuotaPolicyArgs(quota_policy_id=quota, max_requests_per_window=5)
        )
        await engine.begin_schedule("default", "nightly")
        assert "tokens 0 of 1,000" in await said(found, "budgets", "list")
        assert await said(found, "budgets", "list", "--namespace", "shop") == "no budgets\n"
        shown = json.loads(await said(found, "budgets", "show", "daily", "--json"))
        assert (shown["budget_id"], shown["hard_limits"]) == (str(budget), {"tokens": 1000})
        assert await said(found, "budgets", "reset", str(budget)) == f"budget {budget} is reset\n"
        assert "nope: no such budget" in await said(found, "budgets", "show", "nope", code=3)
        assert f"{quota}  5 SPAN  unlimited" in await said(found, "quotas", "list")
        closed = await said(found, "quotas", "close", "api", "--for", "1h")
        assert closed == "quota api is closed until TIME\n"
        assert await said(found, "quotas", "open", "api") == "quota api is open\n"
        assert "no such quota" in await said(found, "quotas", "open", "nope", code=3)
        assert "--for" in await said(found, "quotas", "close", "api", "--for", "soon", code=2)
        assert "nightly  running" in await said(found, "schedules", "list")
        assert await said(found, "schedules", "pause", "nightly") == "schedule nightly is paused\n"
        assert (await engine.read_schedules("default")).marks["nightly"].paused
        assert "running" in await said(found, "schedules", "resume", "nightly")
        assert "no such schedule" in await said(found, "schedules", "pause", "x", code=3)
        (tmp_path / "jobs.py").write_text(APP, encoding="utf-8")
        at = str(tmp_path / "jobs.py")
        submitted = (await said(found, "schedules", "run", "nightly", at)).split()[1]
        listed = json.loads(await said(found, "list", "--tag", "schedule.name=nightly", "--json"))
        assert (listed["id"], listed["task"]) == (submitted, "tidy")
        assert "it has nightly" in await said(found, "schedules", "run", "daily", at, code=3)


@both
async def test_flows_and_decisions(kind: str, tmp_path: Path) -> None:
    async with target(kind, tmp_path, "resources") as found:
        graph = await empty_flow(found.engine)
        await running(found.engine, execution_id=graph.mint("a"))
        assert str(graph.flow) in await said(found, "flow", "list")
        assert str(graph.flow)[:8] in await said(found, "flow", "show", str(graph.flow))
        assert "cancelled the flow" in await said(found, "flow", "cancel", str(graph.flow))
        assert "no such flow" in await said(found, "flow", "show", str(UUID(int=7)), code=3)
        wait = await suspended(found.engine)
        assert f"execution  {wait.execution.uuid}" in await said(found, "approvals")
        told = await said(
            found,
            "signal",
            str(wait.execution.uuid),
            str(wait.waitpoint),
            "--operator",
            "--source",
            "ann",
        )
        assert "the execution resumes" in told
        signals = await found.engine.read_resume_signals(wait.execution)
        assert [each.signal_name for each in signals] == ["approved"]


def test_the_server_takes_its_store_from_the_option_or_the_variables() -> None:
    postgres = "postgresql://localhost/jobs"
    on_postgres = {"FF_BACKEND": "postgres", "FF_POSTGRES_URL": postgres}
    on_sqlite = {"FF_BACKEND": "sqlite", "FF_SQLITE_PATH": "jobs.db"}
    assert store_variables(postgres, {"FF_BACKEND": "sqlite"}) == on_postgres
    assert store_variables("sqlite:///jobs.db", {}) == on_sqlite
    assert store_variables(None, {"FF_URL": postgres}) == on_postgres
    assert store_variables(None, {"FF_URL": postgres, "FF_BACKEND": "sqlite"}) == {}
    assert store_variables(None, {"FF_URL": "http://localhost:9090"}) == {}
    with pytest.raises(ConfigError, match="needs the store itself"):
        store_variables("http://localhost:9090", {})


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("dev", lambda: dev.run("app.py")),
        ("demo", lambda: demo.run()),
        ("server", lambda: server.run()),
    ],
)
def test_what_windows_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, command: str, run: object
) -> None:
    monkeypatch.setattr(os, "name", "nt")
    with pytest.raises(CommandError, match=f"`flowfabric {command}` does not work on Windows: it"):
        run()  # type: ignore[operator]


def test_the_old_option_of_workers(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(APP, encoding="utf-8")
    done = flowfabric("worker", str(tmp_path / "jobs.py"), "--url", "memory://")
    assert done.stderr.splitlines()[0] == "deprecated: --url; use --db"
    assert done.returncode == 2
    refused(flowfabric("worker", str(tmp_path / "jobs.py")), "visible to one process only", 2)
