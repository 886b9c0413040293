"""`flowfabric tasks` and `flowfabric submit`, in processes of their own, on stores and a server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from flowfabric import App, Engine, Retry, Worker
from flowfabric.cli.exits import Exit
from flowfabric.cli.tasks import type_text
from flowfabric.model.task import RegisterTasksArgs, TaskDeclaration
from tests.cli.commands import flowfabric, refused
from tests.postgres import database
from tests.server.client import ADMIN, memory, served

SHOWN = """\
mail(to: str, size: float = 1, copies: list[str] | None = None) -> str
  Sends a mail.

  namespace   default
  lane        mails
  version     3  FINGERPRINT
  priority    4
  retries     7, fixed backoff
  timeout     5 s
  requires    smtp
  quota       mails 60 per 60 s, 2 at once
  kept        2 d
  workers     0
  last seen   AGO
  changed     WHEN

arguments
name    type                     default
to      string                   required
size    number                   1
copies  array of string or null  null
"""


def serving(url: str, engine: Engine | None = None) -> App:
    app = App(url, engine=engine)
    app.quota("mails", requests=60, per="1m", concurrent=2)

    @app.task(
        lane="mails",
        version=3,
        retry=Retry(max=7, backoff="fixed"),
        timeout="5s",
        priority=4,
        requires=["smtp"],
        quota="mails",
        retention="2d",
    )
    async def mail(to: str, size: float = 1, copies: list[str] | None = None) -> str:
        """Sends a mail."""
        if to == "bad":
            raise ValueError("bad address")
        return f"{to} {size:g} {copies}"

    return app


async def ran(*args: str, url: str, **more: Any) -> CompletedProcess[str]:
    return await asyncio.to_thread(flowfabric, *args, "--db", url, **more)


async def registered(url: str) -> None:
    async with serving(url) as app, Worker(app, capabilities=["smtp"]):
        pass


async def worked(url: str) -> None:
    async with serving(url) as app:
        worker = Worker(app, capabilities=["smtp"])
        await worker.run_until_idle()
        await worker.stop()


def stable(shown: str) -> str:
    """The output without the parts that differ from run to run."""
    lines = []
    for line in shown.splitlines():
        label = line.strip().partition("  ")[0]
        made = {"version": "3  FINGERPRINT", "last seen": "AGO", "changed": "WHEN"}.get(label)
        lines.append(line if made is None else f"  {label:<10}  {made}")
    return "\n".join(lines) + "\n"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ff.db'}"
    made = database("cli_submit")

    assert flowfabric("migrate", "--db", made).returncode == 0
    return made


async def test_tasks_are_listed_and_shown(url: str) -> None:
    await registered(url)
    listed = await ran("tasks", url=url)
    assert listed.returncode == 0, listed
    head, line = listed.stdout.splitlines()
    assert head.split() == ["task", "lane", "version", "workers", "seen", "description"]
    assert line.split()[:4] == ["mail", "mails", "3", "0"] and line.endswith("Sends a mail.")
    assert stable((await ran("tasks", "show", "mail", url=url)).stdout) == SHOWN
    (found,) = (await ran("tasks", "--json", url=url)).stdout.splitlines()
    assert json.loads(found)["name"] == "mail"
    whole = json.loads((await ran("tasks", "show", "mail", "--json", url=url)).stdout)
    assert whole["declaration"]["arguments"]["required"] == ["to"]
    empty = await ran("tasks", "--namespace", "other", url=url)
    assert empty.stdout == "no task is registered in namespace other\n"


async def test_a_submission_is_run_with_its_arguments(url: str, tmp_path: Path) -> None:
    await registered(url)
    file = tmp_path / "mail.json"
    file.write_text('{"to": "ü", "size": 2}', encoding="utf-8")
    ways = {
        '"012 1 None"': ["--arg", "to=012"],
        "\"a 1.5 ['b']\"": ["--arg", 'to="a"', "--arg", "size=1.5", "--arg", 'copies=["b"]'],
        '"x 2 None"': ["--json-args", '{"to":"a","size":2}', "--arg", "to=x"],
        '"ü 2 None"': ["--file", str(file)],
    }
    made = [(await ran("submit", "mail", *args, url=url)) for args in ways.values()]
    assert [each.returncode for each in made] == [0] * len(ways), made
    piped = await ran("submit", "mail", "--file", "-", url=url, given='{"to": "pipe"}')
    await worked(url)
    for result, each in zip([*ways, '"pipe 1 None"'], [*made, piped], strict=True):
        found = await ran("result", each.stdout.strip(), url=url)
        assert found.stdout == f"{result}\n", found


async def test_a_key_returns_the_same_execution(url: str) -> None:
    await registered(url)
    args = ("submit", "mail", "--arg", "to=a", "--key", "k")
    first, again = await ran(*args, url=url), await ran(*args, "--json", url=url)
    assert json.loads(again.stdout) == {
        "id": first.stdout.strip(),
        "execution": json.loads(again.stdout)["execution"],
        "created": False,
    }
    other = await ran("submit", "mail", "--arg", "to=b", "--key", "k", url=url)
    refused(other, first.stdout.strip(), Exit.FAILED)


async def test_each_mistake_has_a_line_and_a_code(url: str) -> None:
    await registered(url)
    for args, says, code in (
        (["mial"], "registered: mail.", Exit.NOT_FOUND),
        (["mail"], "arguments.to: required", Exit.USAGE),
        (["mail", "--arg", "to=a", "--arg", "size=big"], "arguments.size: number", Exit.USAGE),
        (["mail", "--arg", "to=a", "--arg", "x=1"], "accepted: copies, size, to", Exit.USAGE),
        (["mail", "--arg", "to"], "--arg: NAME=VALUE is accepted", Exit.USAGE),
        (["mail", "--json-args", "[1]"], "a JSON object", Exit.USAGE),
        (["mail", "--json-args", "{}", "--file", "-"], "only one of them", Exit.USAGE),
        (["mail", "--file", "/nowhere/x"], "--file", Exit.USAGE),
        (["mail", "--arg", "to=a", "--delay", "soon"], "--delay", Exit.USAGE),
        (["mail", "--arg", "to=a", "--tag", "A=b"], "tags", Exit.USAGE),
        (["mail", "--arg", "to=a", "--timeout", "1s"], "--wait", Exit.USAGE),
    ):
        refused(await ran("submit", *args, url=url), says, code)
    refused(await ran("tasks", "show", "mial", url=url), "registered: mail.", Exit.NOT_FOUND)
    refused(await ran("tasks", "forget", "mial", url=url), "no such task", Exit.NOT_FOUND)
    gone = await ran("tasks", "forget", "mail", url=url)
    assert gone.stdout == "removed task mail from the registry\n"
    assert "no task is registered" in (await ran("tasks", url=url)).stdout


async def test_waiting_prints_the_result_or_says_why_there_is_none(url: str) -> None:
    async with serving(url) as app, Worker(app, capabilities=["smtp"]):
        good = await ran("submit", "mail", "--arg", "to=a", "--wait", url=url)
        assert (good.returncode, good.stdout) == (0, '"a 1 None"\n')
        stored = await app.tasks["mail"].submit("a", key="k", delay="1h")
        late = ("submit", "mail", "--arg", "to=a", "--key", "k", "--wait", "--timeout", "0.2s")
        refused(await ran(*late, url=url), f"flowfabric why {stored.id.uuid}", Exit.FAILED)


@memory
async def test_the_same_over_http(engine: Engine) -> None:
    async with served(engine, api_token=ADMIN) as client:
        app = serving("memory://", engine)
        async with Worker(app, capabilities=["smtp"]):
            wanted = ("submit", "mail", "--arg", "to=a", "--token", ADMIN, "--wait")
            made = await ran(*wanted, url=client.url)
            assert (made.returncode, made.stdout) == (0, '"a 1 None"\n'), made
            shown = await ran("tasks", "show", "mail", "--token", ADMIN, url=client.url)
            assert shown.returncode == 0 and "  workers     1\n" in shown.stdout
        denied = await ran("submit", "mail", "--arg", "to=a", "--token", "x" * 20, url=client.url)
        refused(denied, "", Exit.UNAUTHORIZED)


async def test_what_a_task_says_cannot_control_the_terminal(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ff.db'}"
    nasty = "a\x1b[31m"
    async with App(url) as app:
        declared = TaskDeclaration(
            name=nasty,
            description="\x1b[2J\nb",
            signature=nasty,
            arguments={"type": "object", "properties": {nasty: {"default": nasty}}},
        )
        args = RegisterTasksArgs(tasks=(declared,))
        await (await app.engine()).register_tasks(args)
    for shown in (await ran("tasks", url=url), await ran("tasks", "show", nasty, url=url)):
        assert shown.returncode == 0 and "\x1b" not in shown.stdout, shown
    refused(await ran("submit", "a\x1b[1m", url=url), "is not registered", Exit.NOT_FOUND)


def test_types_are_short() -> None:
    assert type_text({"anyOf": [{"$ref": "#/$defs/m.Box"}, {"type": "null"}]}) == "Box or null"
    assert type_text({"enum": ["a", 1]}) == '"a" or 1'
    assert type_text({"type": "string", "format": "uuid"}) == "string (uuid)"
    assert type_text(True) == "any"
