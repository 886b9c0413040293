"""`flowfabric dev` runs a job that was submitted before its start."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowfabric.cli.app_loader import load_app
from tests.cli.processes import PATIENCE_S, running

pytestmark = pytest.mark.xdist_group("processes")

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.py"


async def test_dev_runs_a_waiting_job(tmp_path: Path) -> None:
    app = load_app(str(QUICKSTART))
    app.url = f"sqlite:///{tmp_path}/quickstart.db"
    async with app:
        run = await app.tasks["greet"].submit("world")
        with running(tmp_path, "dev", str(QUICKSTART)) as dev:
            assert "tasks greet, release; lanes default;" in dev.until("quickstart.py: ")
            assert await run.result(timeout=PATIENCE_S) == "Hello, world!"
            dev.until(f"  greet {run.id.uuid}: done, ")
            dev.process.terminate()
            assert dev.ended() == 0
    told = [
        line.partition(f"{run.id.uuid}: ")[2].partition(",")[0]
        for line in dev.lines
        if line.startswith("  greet")
    ]
    assert told == ["failed", "done"]
    assert dev.lines[-1] == "stopped; this worker has run 2 tasks"
