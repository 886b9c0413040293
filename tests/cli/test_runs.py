"""`flowfabric list`, `show`, `result` and `status` on a store and on a server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from flowfabric.cli.filters import time_range
from flowfabric.errors import ConfigError
from tests.cli.commands import flowfabric, refused
from tests.cli.targets import POLICY, create, fill, ident, normal, on_every_target, target

LISTED = """\
id  task  lane  state  created  attempts  detail
00000006-0000-7000-8000-000000000000  mail  video  waiting  SPAN  0  waiting for worker
00000005-0000-7000-8000-000000000000  render  default  waiting  SPAN  0  waiting for worker
00000004-0000-7000-8000-000000000000  mail  default  delayed  SPAN  0  SPAN
00000003-0000-7000-8000-000000000000  mail  default  cancelled  SPAN  0  not needed
00000002-0000-7000-8000-000000000000  mail  default  failed  SPAN  1  ConnectionError: refused
00000001-0000-7000-8000-000000000000  mail  default  completed  SPAN  1
"""
COUNTED = """\
namespace  lane  task  waiting  delayed  completed  failed  cancelled
default  default  mail  0  1  1  1  1
default  default  render  1  0  0  0  0
shop  video  mail  1  0  0  0  0
  all  2  1  1  1  1
"""
SHOWN = """\
mail  on lane default, namespace default: failed
  id  00000002-0000-7000-8000-000000000000
  created  TIME
  started  TIME
  ended  TIME
  tags  app.shop=s2
  error  ConnectionError: refused
"""
FILTERS = [
    (("--state", "failed,cancelled"), [3, 2]),
    (("--state", "waiting", "--state", "delayed", "--lane", "default"), [5, 4]),
    (("--task", "render"), [5]),
    (("--namespace", "shop"), [6]),
    (("--tag", "app.shop=s2"), [2]),
    (("--tag", "app.shop", "--oldest"), [1, 2]),
    (("--error", "ConnectionError"), [2]),
    (("--limit", "2"), [6, 5]),
    (("--created", "2023-11-14T22:13:20.002..2023-11-14T22:13:20.004"), [3, 2]),
    (("--created", "1h"), []),
    (("--worker", "nobody"), []),
]


def numbers(lines: str) -> list[int]:
    return [int(json.loads(line)["id"][:8], 16) for line in lines.splitlines()]


@on_every_target
async def test_the_outputs(kind: str, tmp_path: Path) -> None:
    async with target(kind, tmp_path, "runs") as found:
        await fill(found.engine)

        async def said(*args: str, code: int = 0) -> str:
            done = await asyncio.to_thread(flowfabric, *args, **found.env)
            assert done.returncode == code, done
            return done.stdout if code == 0 else done.stderr

        assert normal(await said("list")) == LISTED
        assert normal(await said("list", "--limit", "1")).splitlines()[-1] == (
            "the first 1; --limit or --all shows more"
        )
        assert normal(await said("status")) == COUNTED
        assert normal(await said("show", "00000002")).startswith(SHOWN)
        assert await said("result", "00000001") == '{"sent": 3}\n'
        for args, expected in FILTERS if kind == "sqlite" else FILTERS[:3]:
            assert numbers(await said("list", "--json", *args)) == expected, args
        shown = json.loads(await said("show", str(ident(2)), "--json"))
        assert (shown["state"], shown["error"], len(shown["attempt_list"])) == (
            "failed",
            "ConnectionError: refused",
            1,
        )
        for name, text in (
            ("00000002", "the execution is failed: ConnectionError: refused"),
            (str(ident(4).uuid), "the execution is delayed; why: flowfabric why 00000004-"),
        ):
            assert text in await said("result", name, code=1)


async def test_pages_of_many_executions(tmp_path: Path) -> None:
    async with target("sqlite", tmp_path) as found:
        for n in range(1, 1_204):
            await create(found.engine, n)
        env = found.env
        done = await asyncio.to_thread(flowfabric, "list", "--all", "--json", **env)
        assert numbers(done.stdout) == list(range(1_203, 0, -1))
        table = await asyncio.to_thread(flowfabric, "list", "--limit", "1100", **env)
        assert len(table.stdout.splitlines()) == 1_102


async def test_an_execution_that_ends_while_its_result_is_awaited(tmp_path: Path) -> None:
    async with target("sqlite", tmp_path) as found:
        await create(found.engine, 1)
        waiting = asyncio.create_task(
            asyncio.to_thread(flowfabric, "result", "00000001", "--wait", "60s", **found.env)
        )
        handle = await found.engine.claim("default", (), POLICY)
        assert handle is not None
        await found.engine.complete(handle, b"7")
        done = await waiting
        assert (done.returncode, done.stdout) == (0, "7\n")


def test_nothing_matches_in_an_empty_store(tmp_path: Path) -> None:
    async def made() -> dict[str, str]:
        async with target("sqlite", tmp_path) as found:
            return found.env

    env = asyncio.run(made())
    before = (tmp_path / "ff.db").read_bytes()
    assert flowfabric("list", **env).stdout == "no executions match\n"
    assert flowfabric("list", "--json", **env).stdout == ""
    assert flowfabric("status", **env).stdout == "no executions\n"
    assert (tmp_path / "ff.db").read_bytes() == before
    for args, says in (
        (("--state", "done"), "--state: expected one of waiting, delayed"),
        (("--created", "yesterday"), "--created: expected a span such as 1h"),
        (("--ended", "1h..2h"), "--ended: the range ends before it begins"),
        (("--flow", "x"), "--flow: expected the uuid of a flow"),
        (("--lane", "\u00e9"), "lane: printable ASCII only"),
        (("--limit", "0"), "'--limit'"),
    ):
        refused(flowfabric("list", *args, **env), says, 2)
    refused(flowfabric("list", "--parent", "00000009", **env), "no such execution", 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1h", (6_400_000, None)),
        ("2h..1h", (2_800_000, 6_400_000)),
        ("..30m", (None, 8_200_000)),
        ("1970-01-01T00:00:01..", (1_000, None)),
        ("1970-01-01T01:00:01+01:00..1970-01-01T00:00:02", (1_000, 2_000)),
        (None, (None, None)),
    ],
)
def test_time_ranges(text: str | None, expected: tuple[int | None, int | None]) -> None:
    assert time_range(text, 10_000_000, "--created") == expected


@pytest.mark.parametrize("text", ["", "..", "soon", "1h..2h", "2024-13-01", "1x"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--created"):
        time_range(text, 10_000_000, "--created")
