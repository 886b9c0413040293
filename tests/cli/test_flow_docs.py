"""docs/flows.md: its program, commands, snippets, picture and numbers."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flowfabric.model import flow as limits
from tests.patience import patience

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "flows.md").read_text(encoding="utf-8")
PROGRAM, *SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^\$ (flowfabric .*)$", PAGE, re.MULTILINE)


def run(args: list[str], folder: Path) -> str:
    env = {**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        args,
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=patience(60),
        check=False,
        env=env,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def without_ids(svg: str) -> str:
    """The ids of the members are new each time."""
    return re.sub(r"<g><title>[0-9a-f-]{36}<", "<g><title><", svg)


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    said = run([sys.executable, "program.py"], tmp_path)
    assert said == "first fetch\nthen small with b'an image'\nthen large with b'an image'\n"
    return tmp_path


def test_the_program_and_the_commands(ran: Path) -> None:
    said = [
        run([sys.executable, "-m", "flowfabric.cli.main", *shlex.split(line)[1:]], ran)
        for line in COMMANDS
    ]
    assert len(said) == 4
    shown = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    drawn = [line for line in said[1].splitlines() if "created" not in line]
    assert drawn == [line for line in shown[1].splitlines() if "created" not in line]
    assert said[2].startswith("digraph")
    assert without_ids((ran / "flow.svg").read_text(encoding="utf-8")) == without_ids(
        (DOCS / "flow.svg").read_text(encoding="utf-8")
    )


def test_the_snippets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def all_of_them() -> None:
        names: dict[str, Any] = {}
        for snippet in SNIPPETS:
            code = compile(snippet, "flows.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            found = eval(code, names)
            if inspect.isawaitable(found):
                await found

    asyncio.run(all_of_them())
    assert len(SNIPPETS) == 8


def test_the_limits_are_the_ones_in_the_code() -> None:
    rows = re.findall(r"\| `((?:MAX|LONGEST)_\w+)` \| ([\d,]+) \|", PAGE)
    assert len(rows) == 5
    assert all(getattr(limits, name) == int(number.replace(",", "")) for name, number in rows)
