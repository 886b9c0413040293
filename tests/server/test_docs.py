"""The shell commands of the documentation run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import PATIENCE_S, running
from tests.remote.servers import free_port

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "server.md", *sorted((ROOT / "docs" / "operating").glob("*.md"))]
_BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_OVER_HTTP = re.compile(r"^## Over HTTP\n.*?^```\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_STEP = "echo; echo '--- next'\n"


def script_of(page: Path, port: int) -> str:
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    address = f"127.0.0.1:{port}"
    text = _STEP.join(blocks).replace("127.0.0.1:9090", address)
    return (
        f"set -euo pipefail\nset -m\nexport FF_LISTEN_ADDR={address}\ntrap 'kill $(jobs -p) "
        f"2> /dev/null || true' EXIT\n{text}"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    bin_folder = Path(sys.executable).parent
    environ = {k: v for k, v in os.environ.items() if not k.startswith("FF_")} | {
        "PATH": f"{bin_folder}:{os.environ['PATH']}"
    }
    script = script_of(page, free_port())
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def test_the_curl_examples_of_the_readme_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As printed, but for the port, which is a free one, and for the id, which is that of the first
    answer.
    """
    block = _OVER_HTTP.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert block is not None
    address = f"127.0.0.1:{free_port()}"
    started, create, *asked = re.split(
        r"^(?=curl )", block[1].replace("127.0.0.1:9090", address), flags=re.MULTILINE
    )
    assert len(asked) == 2
    for name in [name for name in os.environ if name.startswith("FF_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FF_LISTEN_ADDR", address)
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "quickstart.py", tmp_path / "examples")
    program, *words = shlex.split(started)
    assert program == "flowfabric"
    with running(tmp_path, *words) as dev:
        dev.until(f"API on http://{address}")
        made = _said(create)
        assert made["task"] == "greet" and made["created"] is True
        for line in asked:
            command, _, answer = line.partition("  # ")
            assert _said(command.replace("{the id}", made["execution_id"])) == json.loads(answer)
        dev.process.terminate()
        assert dev.ended() == 0


def _said(command: str) -> Any:
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return json.loads(done.stdout)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
