"""docs/suspension.md: its program, commands, snippets and numbers."""

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

from flowfabric.model import waitpoint as limits
from tests.patience import patience

PAGE = (Path(__file__).parents[2] / "docs" / "suspension.md").read_text(encoding="utf-8")
PROGRAM, *SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^\$ (flowfabric .*)$", PAGE, re.MULTILINE)


def run(args: list[str], folder: Path, given: str = "") -> str:
    env = {**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        args,
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=patience(60),
        check=False,
        env=env,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def command(line: str, folder: Path) -> str:
    said, _, file = line.partition(" < ")
    given = (folder / file).read_text(encoding="utf-8") if file else ""
    return run([sys.executable, "-m", "flowfabric.cli.main", *shlex.split(said)[1:]], folder, given)


def without_times_and_tokens(text: str) -> str:
    return re.sub(r"created .* ago|in \d+ min|k1:[0-9a-f]{16}", "", text)


def test_the_program_and_the_commands(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    assert run([sys.executable, "program.py"], tmp_path) == "suspended\n"
    listed, first, second = (command(line, tmp_path) for line in COMMANDS)
    shown = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    assert without_times_and_tokens(listed) == without_times_and_tokens(shown[1])
    assert "recorded; the execution still waits" in first
    assert "the execution resumes" in second


def test_the_snippets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def all_of_them() -> None:
        names: dict[str, Any] = {}
        for snippet in SNIPPETS:
            code = compile(snippet, "suspension.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            found = eval(code, names)
            if inspect.isawaitable(found):
                await found

    asyncio.run(all_of_them())
    assert len(SNIPPETS) == 10


def test_the_limits_are_the_ones_in_the_code() -> None:
    rows = re.findall(r"\| `([A-Z_]+)` \| ([\d,]+) \|", PAGE)
    assert len(rows) == 9
    assert all(getattr(limits, name) == int(number.replace(",", "")) for name, number in rows)


def test_every_condition_and_every_way_to_time_out_is_explained() -> None:
    assert all(
        f"`{name}(" in PAGE for name in ("Single", "Count", "AllOf", "OperatorOnly", "TimeoutOnly")
    )
    assert all(f"CountKind.{kind.name}" in PAGE for kind in limits.CountKind)
    assert all(
        re.search(rf"^\| `{behaviour.name}`", PAGE, re.MULTILINE)
        for behaviour in limits.TimeoutBehavior
    )
