"""`flowfabric top` as a command: snapshots, errors, exit codes, and a server."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowfabric.cli.database import Database
from flowfabric.cli.exits import CommandError
from flowfabric.cli.top import command
from flowfabric.connect import PostgresBackend, SqliteBackend, memory_engine
from flowfabric.engine.engine import Engine
from flowfabric.testing.postgres import free_port
from tests.cli.commands import flowfabric
from tests.engine.helpers import create, running
from tests.postgres import database
from tests.server.client import served, token_of, tokens_file


async def _fill(engine: Engine) -> None:
    async with engine:
        await create(engine, lane_id="exports", execution_kind="export\x1b[31m")
        await engine.pause_lane("exports")
        await running(engine, lane_id="mail", execution_kind="send")


async def _fill_postgres(url: str) -> None:
    await _fill(await PostgresBackend.connect(url, migrate=True))


async def _fill_sqlite(path: Path) -> None:
    await _fill(await SqliteBackend.new(str(path), dev=True))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        asyncio.run(_fill_sqlite(tmp_path / "ff.db"))
        yield f"sqlite:///{tmp_path}/ff.db"
        return
    made = database("cli_top")
    asyncio.run(_fill_postgres(made))
    yield made


def test_a_snapshot_is_printed_where_there_is_no_terminal(url: str) -> None:
    done = flowfabric("top", "--db", url)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines[0].startswith("all namespaces at 20")
    assert lines[1].startswith("rates   created ") and "completed 0.0/s" in lines[1]
    assert lines[2] == "states  waiting 1  active 1"
    (exports,) = (line.split() for line in lines if "exports" in line)
    assert exports[:3] == ["exports", "paused", "1"]
    (run,) = (line.split() for line in lines if "w1-i1" in line)
    assert run[:3] == ["send", "mail", "w1-i1"]
    assert "Workers: no worker is alive" in lines
    assert "\x1b" not in done.stdout
    assert flowfabric("top", "--once", "--db", url).stdout.count("\n") == len(lines)


def test_a_snapshot_as_json(url: str) -> None:
    done = flowfabric("top", "--json", FF_URL=url)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["states"] == {"waiting": 1, "active": 1}
    assert {lane["lane"]: lane["state"] for lane in found["lanes"]} == {
        "exports": "paused",
        "mail": "active",
    }
    assert [run["task"] for run in found["runs"]] == ["send"]


def test_a_namespace_is_chosen(tmp_path: Path) -> None:
    asyncio.run(_fill_sqlite(tmp_path / "ff.db"))
    done = flowfabric("top", "--json", "--namespace", "none", "--db", str(tmp_path / "ff.db"))
    found = json.loads(done.stdout)
    assert (found["namespace"], found["states"], found["lanes"]) == ("none", {}, [])


def test_a_snapshot_leaves_the_database_alone(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    asyncio.run(_fill_sqlite(path))
    before = path.read_bytes()
    assert flowfabric("top", "--db", str(path)).returncode == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        ((), 2, "--db: expected sqlite:///path"),
        (("--db", "missing.db"), 4, "missing.db"),
        (("--db", "postgresql://127.0.0.1:{port}/none"), 4, "127.0.0.1"),
        (("--db", "http://127.0.0.1:{port}"), 4, "127.0.0.1"),
        (("--db", "mysql://host/none"), 2, "mysql"),
        (("--db", "missing.db", "--interval", "0.1"), 2, "--interval"),
        (("--db", "missing.db", "--namespace", ""), 2, "--namespace"),
    ],
)
def test_bad_input_is_one_line(
    args: tuple[str, ...], code: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = flowfabric("top", *(arg.replace("{port}", str(free_port())) for arg in args))
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ") and text in line
    assert list(tmp_path.iterdir()) == []


async def test_a_server_shows_what_its_token_may_see(tmp_path: Path) -> None:
    engine = memory_engine()
    for space in ("ours", "theirs"):
        await create(engine, namespace=space, lane_id=f"lane-{space}", execution_kind=space)
    entries = [{"name": "ours", "roles": ["read"], "namespace": "ours"}]
    async with served(engine, api_tokens_file=tokens_file(tmp_path, *entries)) as client:

        async def top(*args: str, token: str) -> Any:
            said = ("top", "--json", "--db", client.url, *args)
            return await asyncio.to_thread(flowfabric, *said, FF_TOKEN=token)

        bound = json.loads((await top(token=token_of("ours"))).stdout)
        assert (bound["namespace"], bound["states"]) == ("ours", {"waiting": 1})
        assert [lane["lane"] for lane in bound["lanes"]] == ["lane-ours"]
        everything = json.loads((await top(token=client.token or "")).stdout)
        assert (everything["namespace"], everything["states"]) == (None, {"waiting": 2})
        foreign = await top("--namespace", "theirs", token=token_of("ours"))
        assert (foreign.returncode, foreign.stdout) == (3, "")
        wrong = await top(token="not-the-token-of-this-server")
        assert (wrong.returncode, wrong.stdout) == (5, "")
        assert "not-the-token" not in wrong.stderr
    await engine.close()


def test_without_textual_the_live_view_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(getattr(sys, stream), "isatty", lambda: True, raising=False)
    with pytest.raises(CommandError, match=r"pip install 'flowfabric\[top\]'"):
        command.run(Database("missing.db"))
