"""An app on SQLite opts in to development and logs one line about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowfabric import App
from flowfabric.errors import RequiresDevMode


@pytest.mark.parametrize("said", [{}, {"dev": True}])
async def test_sqlite_app_opts_in_and_logs_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    said: dict[str, bool],
) -> None:
    monkeypatch.delenv("FF_DEV_MODE", raising=False)
    caplog.set_level("INFO", "flowfabric.sqlite")
    for _ in range(2):
        async with App(f"sqlite:///{tmp_path / 'ff.db'}", **said) as app:
            await (await app.engine()).server_time_ms()
    assert sum("SQLite (development opt-in)" in line for line in caplog.messages) == 1


async def test_sqlite_without_dev_needs_the_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FF_DEV_MODE", raising=False)
    app = App(f"sqlite:///{tmp_path / 'ff.db'}", dev=False)
    with pytest.raises(RequiresDevMode, match="FF_DEV_MODE"):
        await app.engine()
