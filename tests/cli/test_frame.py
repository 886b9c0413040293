"""How commands name a store or a server, their exit codes, and their errors."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from flowfabric import CreateExecutionArgs, ExecutionId
from flowfabric.cli.exits import masked
from flowfabric.connect import SqliteBackend
from flowfabric.server.lifecycle import serve
from tests.cli.commands import flowfabric, refused
from tests.cli.targets import create, fill, ident, target
from tests.postgres import database
from tests.remote.served import settings
from tests.server.client import token_of, tokens_file

SECRET = "s3cret-of-the-tests"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    async def made() -> None:
        async with await SqliteBackend.new(str(tmp_path / "ff.db"), dev=True) as engine:
            await fill(engine)
            await create(engine, 0x10)
            await create(engine, 0x11)

    asyncio.run(made())
    return tmp_path / "ff.db"


def test_every_way_to_name_a_store(path: Path) -> None:
    url = f"sqlite:///{path}"
    expected = flowfabric("list", "--json", "--db", url).stdout
    assert len(expected.splitlines()) == 8
    for args, env in (
        (("--db", str(path)), {}),
        ((), {"FF_URL": url}),
        (("--db", url), {"FF_URL": "elsewhere.db"}),
    ):
        done = flowfabric("list", "--json", *args, **env)
        assert (done.stdout, done.stderr) == (expected, "")
    old = flowfabric("list", "--json", FLOWFABRIC_DB=url)
    assert (old.stdout, old.stderr) == (expected, "deprecated: FLOWFABRIC_DB; use FF_URL\n")
    for args in (("verify",), ("flow", "list"), ("approvals",), ("migrate",)):
        done = flowfabric(*args, url)
        assert done.returncode == 0, done
        assert done.stderr == "deprecated: the URL as an argument; use --db or FF_URL\n"
        assert flowfabric(*args, "--db", url).stderr == ""
    refused(flowfabric("verify", url, "--db", url), "only one of them is accepted", 2)


def test_each_kind_of_failure_has_its_code(path: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    env = {"FF_URL": str(path)}
    for args, code, says in (
        (("list", "--db", str(tmp_path / "nowhere.db")), 4, "no such database file"),
        (("cancel", "00000005", "--db", str(tmp_path / "nowhere.db")), 4, "no such database file"),
        (("lanes", "pause", "x", "--db", str(tmp_path / "empty.db")), 4, "not a FlowFabric"),
        (("list", "--db", "http://127.0.0.1:1"), 4, "cannot be reached"),
        (("list", "--db", f"postgresql://me:{SECRET}@127.0.0.1:1/x"), 4, "cannot reach"),
        (("list", "--db", "mysql://there"), 2, "not supported"),
        (("verify", "--db", "http://127.0.0.1:1"), 2, "verify needs the store itself"),
        (("why", "0000000"), 2, "its first 8 or more hexadecimal digits"),
        (("why", "00000099"), 3, "00000099: no such execution"),
        (("cancel", "00000001"), 1, ""),
        (("lane",), 2, "No such command 'lane'"),
        (("list", "--lime"), 2, "--lime"),
        (("show",), 2, "Missing argument 'ID'; see `flowfabric show --help`"),
    ):
        done = flowfabric(*args, **env)
        assert done.returncode == code, done
        assert says in done.stderr and len(done.stderr.splitlines()) == 1, done
        assert SECRET not in done.stderr + done.stdout
    assert (tmp_path / "empty.db").read_bytes() == b"" and not (tmp_path / "nowhere.db").exists()


def test_an_ambiguous_prefix_lists_its_candidates(path: Path) -> None:
    async def near() -> None:
        async with await SqliteBackend.new(str(path), dev=True) as engine:
            for n in (1, 2):
                other = ExecutionId.of(n, UUID(f"abcdef01-0000-7000-8000-{n:012x}"))
                await engine.create_execution(CreateExecutionArgs(execution_id=other))

    asyncio.run(near())
    done = flowfabric("cancel", "abcdef01", FF_URL=str(path))
    assert done.returncode == 3 and "is the beginning of several executions" in done.stderr
    done = flowfabric("show", "abcdef01", FF_URL=str(path))
    refused(done, "abcdef01-0000-7000-8000-000000000001, abcdef01-", 3)


async def test_tokens_decide_what_is_seen(tmp_path: Path) -> None:
    file = tokens_file(
        tmp_path,
        {"name": "shop", "roles": ["operate"], "namespace": "shop"},
        {"name": "reader", "roles": ["read"]},
    )
    async with target("sqlite", tmp_path) as found:
        await fill(found.engine)
        found.engine.with_scanners()
        async with serve(found.engine, settings(FF_API_TOKEN="", FF_API_TOKENS_FILE=file)) as url:

            async def said(*args: str, token: str) -> subprocess.CompletedProcess[str]:
                return await asyncio.to_thread(flowfabric, *args, "--db", url, "--token", token)

            wrong = await said("list", token="not-the-token-" * 3)
            refused(wrong, "the server answered 401", 5)
            assert "not-the-token" not in wrong.stderr
            reader = token_of("reader")
            refused(
                await said("cancel", "--lane", "default", "--yes", token=reader), "answered 403", 5
            )
            shop = token_of("shop")
            listed = await said("list", "--json", token=shop)
            assert len(listed.stdout.splitlines()) == 1
            for name in ("00000005", str(ident(5).uuid), str(ident(5))):
                refused(await said("show", name, token=shop), "no such execution", 3)
                assert (await said("cancel", name, token=shop)).returncode == 3
            done = await said("cancel", "--state", "waiting", "--yes", token=shop)
            assert done.stdout == "cancelled 1 execution\n"
            five = await found.engine.read_execution_summary(ident(5))
            assert five is not None and five.public_state == "waiting"


def test_a_database_without_tables_says_what_to_do() -> None:
    refused(flowfabric("list", "--db", database("bare")), "run `flowfabric migrate --db URL`", 1)


def test_a_reader_that_goes_away_is_no_error(path: Path) -> None:
    command = f"{sys.executable} -m flowfabric.cli.main list --json | head -1"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env={**os.environ, "FF_URL": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert len(done.stdout.splitlines()) == 1 and done.stderr == ""


def test_the_name_of_the_program_and_its_options() -> None:
    for option in ("-h", "--help"):
        assert flowfabric(option).stdout.startswith("Usage: flowfabric [OPTIONS] COMMAND")
        assert flowfabric("flow", "list", option).returncode == 0
    assert flowfabric("--version").stdout == flowfabric("version").stdout == "0.1.0\n"
    # without a shell around it, as in a build, the command cannot see which one it is
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = flowfabric("--show-completion", "bash", **named).stdout
    assert "_FLOWFABRIC_COMPLETE" in shown
    bare = flowfabric()
    assert bare.returncode == 2 and "Commands:" in bare.stdout and bare.stderr == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:pw@host/db", "postgresql://me:***@host/db"),
        ("http://:pw@host", "http://:***@host"),
        ("host=x password=pw dbname=y", "host=x password=*** dbname=y"),
        ("postgresql:///db?password=pw&user=me", "postgresql:///db?password=***&user=me"),
        ("sqlite:///a/b.db: no such file", "sqlite:///a/b.db: no such file"),
    ],
)
def test_secrets_are_masked(text: str, shown: str) -> None:
    assert masked(text) == shown
