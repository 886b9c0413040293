"""docs/streams.md: its program, commands, snippets, numbers and reasons."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from flowfabric.cli.tail import CLOSE_REASONS
from flowfabric.model import stream as limits
from tests.cli.commands import flowfabric
from tests.cli.test_suspension_docs import command, run

PAGE = (Path(__file__).parents[2] / "docs" / "streams.md").read_text(encoding="utf-8")
PLAIN = PAGE.replace("\n", " ")
PROGRAM, *SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^\$ (flowfabric .*)$", PAGE, re.MULTILINE)


def test_the_program_and_the_commands(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    said = run([sys.executable, "program.py"], tmp_path)
    assert said.splitlines()[-2:] == ["0 b'blue.'", "0 b'the model is slow today'"]
    told, listed = (command(line, tmp_path) for line in COMMANDS)
    shown = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None and told == shown[1]
    *frames, end = map(json.loads, listed.splitlines())
    assert frames[0]["fields"]["payload"] == "The " and end["closed_reason"] == "attempt_success"


def test_the_snippets(capsys: pytest.CaptureFixture[str]) -> None:
    async def all_of_them() -> None:
        names: dict[str, Any] = {}
        for snippet in SNIPPETS:
            code = compile(snippet, "streams.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            found = eval(code, names)
            if inspect.isawaitable(found):
                await found

    asyncio.run(all_of_them())
    assert len(SNIPPETS) == 10
    said = capsys.readouterr().out
    assert '[2, 3, 4]\n3 {"sources":{"a":1,"b":2},"step":"read"}\n1 b\'Good morning.\'\n' in said


def test_the_limits_are_the_ones_in_the_code() -> None:
    rows = re.findall(r"\| `([A-Z_]+)` \| ([\d,]+) \|", PAGE)
    assert len(rows) == 9
    assert all(getattr(limits, name) == int(number.replace(",", "")) for name, number in rows)
    assert (
        f"newest {limits.DURABLE_CAP:,} durable frames" in PLAIN
        and f"over by {limits.DURABLE_SLACK}," in PLAIN
    )
    assert (
        f"newest {limits.SUMMARY_CAP} to {limits.SUMMARY_CAP + limits.SUMMARY_SLACK} are" in PLAIN
    )
    assert (
        f"`maxlen_floor` ({limits.LIVE_FLOOR}) and at most `maxlen_ceiling` "
        f"({limits.LIVE_CEILING:,})"
    ) in PLAIN
    assert f"`{limits.NULL_SENTINEL}`" in PLAIN


def test_every_end_and_every_option_is_explained() -> None:
    cells = re.findall(
        r"^\| (`[a-z_`, ]+`) \|",
        PAGE.partition("| `closed_reason` |")[2].partition("\n\n")[0],
        re.MULTILINE,
    )
    assert sorted(code for cell in cells for code in re.findall(r"`([a-z_]+)`", cell)) == sorted(
        CLOSE_REASONS
    )
    options = set(re.findall(r"--[a-z-]+", flowfabric("tail", "--help").stdout)) - {
        "--help",
        "--follow",
        "--token",
        "--live",
    }
    assert options == set(re.findall(r"^\| `(--[a-z-]+)", PAGE, re.MULTILINE))
