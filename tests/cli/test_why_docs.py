"""docs/why.md: its program, commands, snippet and table of reasons."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

from flowfabric.model import explanation
from flowfabric.model.explanation import Why
from tests.cli.test_suspension_docs import command, run

PAGE = (Path(__file__).parents[2] / "docs" / "why.md").read_text(encoding="utf-8")
PROGRAM, SNIPPET = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^\$ (flowfabric .*)$", PAGE, re.MULTILINE)


def without_times(text: str) -> str:
    return re.sub(r"since .* ago|since \d{4}-.* UTC", "", text)


def test_the_program_and_the_commands(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    assert (
        run([sys.executable, "program.py"], tmp_path)
        == "['lane_paused', 'waiting_for_capable_worker']\n"
    )
    said, told = (command(line, tmp_path) for line in COMMANDS)
    shown = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    assert without_times(said) == without_times(shown[1])
    assert json.loads(told)["code"] == "lane_paused"


def test_the_snippet() -> None:
    async def whole() -> None:
        names: dict[str, Any] = {}
        found = eval(
            compile(SNIPPET, "why.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names
        )
        if inspect.isawaitable(found):
            await found

    asyncio.run(whole())


def test_the_table_names_every_reason_and_no_other() -> None:
    cells = re.findall(r"^\| (`[a-z_`, ]+`) \|", PAGE, re.MULTILINE)
    assert sorted(code for cell in cells for code in re.findall(r"`([a-z_]+)`", cell)) == sorted(
        why.value for why in Why
    )


def test_the_bounds_are_the_ones_in_the_code() -> None:
    assert (
        f"cut after {explanation.MAX_TEXT} characters, lists after {explanation.MAX_LISTED} entries"
        in PAGE
    )
    assert f"counted up to {explanation.MAX_AHEAD:,}" in PAGE
