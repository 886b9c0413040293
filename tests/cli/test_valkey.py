"""Commands on a cell of Valkey, each in a process of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from flowfabric import CreateExecutionArgs, ExecutionId, connect
from flowfabric.testing.postgres import free_port
from flowfabric.testing.valkey import ValkeyServer
from tests.cli.commands import flowfabric
from tests.valkey import new_url


async def filled(url: str) -> list[ExecutionId]:
    engine = await connect(url, loops=False)
    idents = [ExecutionId.solo("mail") for _ in range(4)]
    for number, ident in enumerate(idents):
        await engine.create_execution(
            CreateExecutionArgs(
                execution_id=ident,
                lane_id="mail",
                execution_kind="send",
                namespace="acme" if number else "other",
                tags={"app.n": str(number % 2)},
            )
        )
    await engine.close()
    return idents


def done(url: str, *args: str) -> str:
    ended = flowfabric(*args, FF_URL=url)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def listed(url: str, *args: str) -> set[str]:
    lines = done(url, "list", "--json", *args).splitlines()
    return {json.loads(line)["id"] for line in lines}


async def test_runs_are_listed_shown_and_cancelled_by_filters() -> None:
    url = new_url()
    ids = [str(ident.uuid) for ident in await filled(url)]
    assert listed(url) == set(ids)
    assert listed(url, "--namespace", "acme", "--tag", "app.n=1") == {ids[1], ids[3]}
    assert "send  on lane mail, namespace other: waiting" in done(url, "show", ids[0])
    cancelled = done(url, "cancel", "--tag", "app.n=1", "--yes", "--reason", "test")
    assert "cancelled 2 executions" in cancelled
    assert listed(url, "--state", "cancelled") == {ids[1], ids[3]}
    assert listed(url, "--state", "waiting") == {ids[0], ids[2]}
    (states,) = [line for line in done(url, "top", "--once").splitlines() if "states" in line]
    assert "cancelled 2" in states and "waiting 2" in states
    assert "4 executions checked" in done(url, "verify")


async def test_operators_commands_write_to_the_cell() -> None:
    url = new_url()
    await filled(url)
    made = done(url, "tokens", "create", "front", "--role", "submit")
    assert "fft_" in made
    assert "front" in done(url, "tokens", "list")
    assert "no schedules" in done(url, "schedules", "list")
    done(url, "lanes", "pause", "mail")
    assert re.search(r"mail +paused", done(url, "lanes", "list"))
    assert re.search(r"acme +3", done(url, "namespaces", "list"))
    assert "erased 3 executions" in done(url, "namespaces", "erase", "acme", "--yes")
    assert re.search(r"acme +0", done(url, "namespaces", "list")), "its cell stays registered"
    assert len(listed(url)) == 1


@pytest.fixture(scope="module")
def locked() -> Iterator[ValkeyServer]:
    with ValkeyServer("--requirepass", "s3cret") as server:
        yield server


@pytest.mark.parametrize("command", [("list",), ("verify",), ("tokens", "list")])
@pytest.mark.parametrize("password", [":wr0ng@", ""])
def test_a_wrong_password_is_told_apart_and_not_shown(
    locked: ValkeyServer, command: tuple[str, ...], password: str
) -> None:
    url = locked.url.replace("://", f"://{password}")
    ended = flowfabric(*command, FF_URL=url)
    assert ended.returncode == 5
    assert "refused this user or password" in ended.stderr
    assert "wr0ng" not in ended.stderr
    assert flowfabric("list", FF_URL=locked.url.replace("://", "://:s3cret@")).returncode == 0


def test_a_server_that_does_not_answer_is_unreachable() -> None:
    url = f"valkey://127.0.0.1:{free_port()}/jobs"
    ended = flowfabric("list", FF_URL=url)
    assert ended.returncode == 4
    assert "127.0.0.1" in ended.stderr
