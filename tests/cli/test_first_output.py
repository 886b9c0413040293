"""What the first program of a user prints, and what `why` says about its run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from flowfabric.errors import NotFound
from tests.cli.commands import flowfabric
from tests.patience import patience

PROGRAM = """
import asyncio

from flowfabric import App, Context, Retry, Worker

app = App("sqlite:///first.db")


@app.task(retry=Retry(max=1, base="1ms"))
async def greet(ctx: Context) -> str:
    if ctx.attempt == 0:
        raise ConnectionError("the line is busy")
    return "hello"


async def main() -> None:
    async with app, Worker(app):
        run = await greet.submit()
        print(run.id.uuid, await run.result())


asyncio.run(main())
"""


def test_a_planned_retry_is_one_line_and_no_part_of_the_outcome(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=True,
    )
    ident, greeting = done.stdout.split()
    assert greeting == "hello"
    assert done.stderr == ("a task failed and is retried: ConnectionError: the line is busy\n")
    env = {"FF_URL": str(tmp_path / "first.db")}
    said = flowfabric("why", ident, **env).stdout
    assert "ended: it completed" in said and "ConnectionError" not in said
    assert f"next: flowfabric result {ident}\n" in said
    assert flowfabric("result", ident, **env).stdout == '"hello"\n'
    shown = flowfabric("show", ident[:13], **env).stdout
    assert "error  " not in shown.partition("attempt")[0]


def test_codes_have_no_spaces() -> None:
    assert NotFound("execution result").code == "execution_result_not_found"
