"""docs/events.md: its snippets, numbers and commands run."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from flowfabric.cli.events import CHANNELS
from flowfabric.engine.events.subscriptions import FIRST_RETRY_S, LAST_RETRY_S, MAX_RETRIES
from flowfabric.model.history import MAX_HISTORY
from flowfabric.store.port import CATCH_UP_PAGE
from tests.cli.commands import flowfabric
from tests.patience import patience

PAGE = (Path(__file__).parents[2] / "docs" / "events.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_snippets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    async def all_of_them() -> None:
        names: dict[str, Any] = {}
        for snippet in SNIPPETS:
            code = compile(snippet, "events.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            found = eval(code, names)
            if inspect.isawaitable(found):
                await found
        await names["engine"].close()

    asyncio.run(asyncio.wait_for(all_of_them(), patience(30)))
    promised = re.findall(r"(?:\)  # |^# )(.*)", "\n".join(SNIPPETS), re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == promised and len(promised) == 9


def test_the_numbers_are_the_ones_in_the_code() -> None:
    assert (
        f"at most {CATCH_UP_PAGE:,} events" in PAGE and f"at most {MAX_HISTORY:,} entries" in PAGE
    )
    pauses = [min(FIRST_RETRY_S * 2**n, LAST_RETRY_S) for n in range(MAX_RETRIES)]
    assert "about eight seconds" in PAGE and round(sum(pauses)) == 8


def test_the_commands_and_their_options_are_there() -> None:
    for command in ("history", "events"):
        said = re.sub(
            r"\x1b\[[0-9;]*m", "", flowfabric(command, "--help", TERM="dumb", NO_COLOR="1").stdout
        )
        for line in re.findall(rf"^\$ flowfabric {command} .*$", PAGE, re.MULTILINE):
            assert all(option in said for option in re.findall(r"--[a-z]+", line)), line
    assert all(f"| {channel} |" in PAGE for channel in CHANNELS)
