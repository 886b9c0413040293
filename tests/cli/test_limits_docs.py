"""docs/limits.md: its snippets and numbers."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from flowfabric.model import budget as limits

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_snippets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    async def all_of_them() -> None:
        names: dict[str, Any] = {}
        for snippet in SNIPPETS:
            code = compile(snippet, "limits.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            found = eval(code, names)
            if inspect.isawaitable(found):
                await found
        await names["engine"].close()

    asyncio.run(all_of_them())
    said = capsys.readouterr().out
    assert (
        "UsageOk()\nUsageAlreadyApplied()\nSoftBreach(dimension='tokens', current_usage=900, "
        "soft_limit=800)\n"
    ) in said
    assert "HardBreach(dimension='tokens', current_usage=900, hard_limit=1000, action=None)" in said
    assert "suspend_execution rate_limited\nwaiting\n" in said
    assert "Admitted()" in said
    assert "'cents': 2" in said and "'cents': 30" in said


def test_the_limits_are_the_ones_in_the_code() -> None:
    rows = re.findall(r"\| `([A-Z_]+)` \| ([\d,]+) \|", PAGE)
    assert len(rows) == 5
    assert all(getattr(limits, name) == int(number.replace(",", "")) for name, number in rows)
