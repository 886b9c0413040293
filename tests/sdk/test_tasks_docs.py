"""The snippets of docs/tasks.md print what the comments beside them say."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import flowfabric

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def promised(snippet: str) -> list[str]:
    """The expected output beside each print, or below a loop of them."""
    beside = re.findall(r"print\(.*\)  # (.*)$", snippet, re.MULTILINE)
    below = re.findall(r"^    # (.*)$", snippet, re.MULTILINE)
    return beside + below


def test_the_snippets_run_and_print_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    async def all_of_them() -> None:
        names: dict[str, Any] = {}
        for snippet in SNIPPETS:
            code = compile(snippet, "tasks.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            found = eval(code, names)
            if inspect.isawaitable(found):
                await found
            assert capsys.readouterr().out.splitlines() == promised(snippet), snippet

    asyncio.run(all_of_them())
    assert sum(len(promised(snippet)) for snippet in SNIPPETS) >= 14


def test_documented_names_are_exported() -> None:
    for name in (
        "RunFailed",
        "RunCancelled",
        "RunExpired",
        "RunSkipped",
        "Fatal",
        "CancelRun",
        "ChildFailed",
        "quorum",
    ):
        assert name in PAGE and hasattr(flowfabric, name)
    for method in (
        "result",
        "state",
        "cancel",
        "replay",
        "stream",
        "signal",
        "waitpoints",
        "why",
        "history",
    ):
        assert f"`{method}(" in PAGE and hasattr(flowfabric.Run, method)
