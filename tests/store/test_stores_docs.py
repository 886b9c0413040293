"""docs/stores.md runs: its test module passes, and its table names every topic."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from flowfabric.testing import conformance

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "stores.md").read_text(encoding="utf-8")
MODULE, SNIPPET = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^pytest (.*)$", PAGE, re.MULTILINE)


@pytest.mark.nightly
@pytest.mark.parametrize("command", COMMANDS)
def test_the_module_passes_with_the_commands(pytester: pytest.Pytester, command: str) -> None:
    shutil.copy(ROOT / "examples" / "json_store.py", pytester.path)
    pytester.makepyfile(test_json_store=MODULE)
    run = pytester.runpytest_subprocess("-W", "error", *command.split())
    outcomes = run.parseoutcomes()
    outcomes.pop("deselected", None)
    assert set(outcomes) == {"passed"}


def test_the_snippet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")

    async def whole() -> None:
        code = compile(SNIPPET, "stores.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        found = eval(code, dict[str, Any]())
        if inspect.isawaitable(found):
            await found

    asyncio.run(whole())
    assert capsys.readouterr().out == "Hello, world!\n"


def test_the_table_names_every_module() -> None:
    cells = re.findall(r"^\| (`[a-z_`, ]+`) \|", PAGE, re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`([a-z_]+)`", cell)]
    folder = Path(str(conformance.__file__)).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "helpers"}
    assert sorted(named) == sorted(modules)


def test_the_limit_of_a_case_is_the_one_in_the_code() -> None:
    assert f"more than {conformance.CASE_TIMEOUT_S:.0f} seconds fails" in PAGE
